/**
 * Settings recommended for a Postgres that the operator runs, for `cdp doctor` and docs/operations.md. Settings that
 * the service makes for its own connections (`jit`, `client_connection_check_interval`, …) are not included.
 */
import { warning, ok, type Finding } from '../../contract/wire/findings.js';
import type { ServerSetting } from '../../tenancy/server-facts.js';

interface Recommended {
  readonly name: string;
  /** As in ALTER SYSTEM. */
  readonly value: string;
  /** What happens otherwise, as the end of a sentence. */
  readonly otherwise: string;
  /** Whether the value in `pg_settings` will do. */
  readonly isMet: (setting: string) => boolean;
  /** The extension's setting that needs a different value. */
  readonly isNeededBy?: string;
}

const is =
  (...values: string[]) =>
  (setting: string): boolean =>
    values.includes(setting);
const atLeast = (least: number) => (setting: string) => Number(setting) >= least;

export const RECOMMENDED_SETTINGS: readonly Recommended[] = [
  {
    name: 'log_min_error_statement',
    value: 'panic',
    otherwise: "Postgres's log contains the SQL of callers' failed statements",
    isMet: is('panic', 'fatal'),
  },
  {
    name: 'log_error_verbosity',
    value: 'terse',
    otherwise: "Postgres's log contains values of keys, in the details of errors",
    isMet: is('terse'),
  },
  {
    name: 'log_parameter_max_length',
    value: '0',
    otherwise: 'statements that are logged because they are slow are logged with the values of their parameters',
    isMet: is('0'),
  },
  {
    name: 'log_parameter_max_length_on_error',
    value: '0',
    otherwise: "Postgres's log contains values of parameters of statements that fail",
    isMet: is('0'),
  },
  {
    name: 'recovery_init_sync_method',
    value: 'syncfs',
    otherwise: 'recovery after a crash opens every file (20 s instead of 3 s with 216 databases)',
    isMet: is('syncfs'),
  },
  {
    name: 'temp_file_limit',
    value: '2GB',
    otherwise: 'temporary files of one statement can fill the disk; quotas do not count them',
    isMet: (setting) => setting !== '-1',
  },
  {
    name: 'max_locks_per_transaction',
    value: '256',
    otherwise: 'the backup of a project with many tables fails: a dump locks all of them',
    isMet: atLeast(256),
  },
  {
    name: 'max_notify_queue_pages',
    value: '4096',
    otherwise: "one project's unread notifications can fill 8 GB of disk",
    isMet: (setting) => Number(setting) <= 4096,
  },
  {
    name: 'max_prepared_transactions',
    value: '0',
    otherwise: 'a transaction that a project has prepared keeps its locks until the service rolls it back',
    isMet: is('0'),
    isNeededBy: 'citus.shard_count',
  },
  {
    name: 'autovacuum_max_workers',
    value: '6',
    otherwise: 'a few large projects can keep autovacuum away from all others',
    isMet: atLeast(6),
  },
];

/** Settings that this server does not have, or not with that value, are left out. */
export function examineSettings(settings: ReadonlyMap<string, ServerSetting>): Finding[] {
  const findings = RECOMMENDED_SETTINGS.flatMap(({ name, value, otherwise, isMet, isNeededBy }) => {
    const setting = settings.get(name);
    if (setting === undefined || isMet(setting.value) || settings.has(isNeededBy ?? '')) return [];
    if (setting.allowed !== null && !setting.allowed.includes(value)) return [];
    const then = setting.needsRestart ? 'then restart Postgres' : 'then SELECT pg_reload_conf();';
    return [
      warning(
        'settings',
        `${name} is ${setting.value}: ${otherwise}`,
        `ALTER SYSTEM SET ${name} = '${value}'; ${then}`,
      ),
    ];
  });
  return findings.length === 0 ? [ok('settings', 'as recommended in docs/operations.md')] : findings;
}
