/** `cdp audit`: prints the audit log, the oldest entry first. */
import { Command } from 'commander';
import type { AuditResponse, AuditEntry, AuditQuery } from '../contract/wire/audit.js';
import type { AdminSocketClient } from './admin-socket-client.js';
import { tableLines } from './terminal/grid.js';
import { printableJson } from './terminal/text.js';
import { UsageError } from './exit.js';
import { parseDuration, withAdminSocket } from './operator-commands.js';
import { addSettings, DATABASE_SETTINGS } from './setting-flags.js';

interface Options {
  project?: string;
  since?: string;
  until?: string;
  operation?: string;
  outcome?: string;
  failed?: boolean;
  changes?: boolean;
  token?: string;
  limit: string;
  json?: boolean;
}

/** Entries per request, and the maximum that a command shows. */
const PAGE = 1_000;
const MAX_ENTRIES = 100_000;

export function auditCommand(): Command {
  const command = new Command('audit')
    .description('Show the audit log: who did what, when, and with what outcome')
    .option('--project <NAME>', 'Only entries of this project, by its name at the time')
    .option('--since <TIME>', 'Only entries since this time: 2h, 30m or 7d ago, or a time such as 2026-01-31T09:30:00Z')
    .option('--until <TIME>', 'Only entries until this time, like --since')
    .option('--operation <WORD>', 'Only entries of this operation, such as token.create')
    .option('--outcome <WORD>', 'Only entries with this outcome: ok, an error code, or client_gone')
    .option('--failed', 'Only entries of operations that failed')
    .option('--changes', 'Only entries of changes, and of what failed: no inserts and no reads')
    .option('--token <ID>', 'Only entries of this token id, or jwt:SUBJECT')
    .option('--limit <N>', `Show the latest N, at most ${MAX_ENTRIES}`, '100')
    .option('--json', 'Print JSON, one entry per line');
  return addSettings(command, DATABASE_SETTINGS).action(async () => {
    const options = command.opts<Options>();
    const filter = filterOf(options, Date.now());
    const entries = await withAdminSocket(command, (admin) => latestEntries(admin, filter, Number(options.limit)));
    process.stdout.write(
      (options.json ? entries.map(printableJson) : table(entries)).map((line) => `${line}\n`).join(''),
    );
  });
}

/** @throws UsageError naming the option */
function filterOf(options: Options, now: number): AuditQuery {
  const { project, since, until, operation, outcome, failed, changes, token, limit } = options;
  if (failed && outcome !== undefined) throw new UsageError('Give either --outcome or --failed');
  if (!/^\d{1,6}$/.test(limit) || Number(limit) < 1 || Number(limit) > MAX_ENTRIES) {
    throw new UsageError(`--limit takes a number from 1 to ${MAX_ENTRIES}`);
  }
  return {
    ...(project === undefined ? {} : { project }),
    ...(operation === undefined ? {} : { operation }),
    ...(failed ? { outcome: 'failed' } : outcome === undefined ? {} : { outcome }),
    ...(changes ? { changes: 'true' as const } : {}),
    ...(token === undefined ? {} : { token }),
    ...(since === undefined ? {} : { since: timeIn('--since', since, now) }),
    ...(until === undefined ? {} : { until: timeIn('--until', until, now) }),
  };
}

/** A date alone means midnight UTC, and a time without an offset is UTC, as everywhere in the service. */
const ISO = /^\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|z|[+-]\d\d:\d\d)?)?$/;

function timeIn(option: string, text: string, now: number): string {
  const ago = parseDuration(text);
  if (ago !== null) return new Date(Math.max(0, now - ago)).toISOString();
  const iso = ISO.exec(text);
  const time = new Date(text.length > 10 && iso?.[1] === undefined ? `${text}Z` : text);
  if (iso === null || Number.isNaN(time.getTime())) {
    throw new UsageError(`${option} takes 2h, 30m or 7d, or a time such as 2026-01-31T09:30:00Z`);
  }
  return time.toISOString();
}

/** Reads page by page. */
async function latestEntries(admin: AdminSocketClient, filter: AuditQuery, max: number): Promise<AuditEntry[]> {
  const entries: AuditEntry[] = [];
  let next: string | null = null;
  do {
    const limit = String(Math.min(PAGE, max - entries.length));
    const query = new URLSearchParams({ ...filter, limit, ...(next === null ? {} : { before: next }) });
    const page: AuditResponse = await admin.call('GET', `admin/audit?${query.toString()}`);
    entries.push(...page.entries);
    next = page.next;
  } while (next !== null && entries.length < max);
  return entries.reverse();
}

function table(entries: readonly AuditEntry[]): string[] {
  const lines = entries.map((entry) => [
    entry.time,
    entry.project ?? '-',
    actorIn(entry),
    entry.operation + (entry.count > 1 ? ` (${entry.count})` : ''),
    entry.object ?? shownHash(entry.statement_sha256),
    String(entry.rows ?? '-'),
    entry.outcome,
    entry.address ?? '-',
  ]);
  return tableLines(['TIME', 'PROJECT', 'WHO', 'OPERATION', 'OBJECT', 'ROWS', 'OUTCOME', 'FROM'], lines);
}

/** `hmac:5f3f2b8e91c0`: its kind, and its beginning. */
function shownHash(hash: string | null): string {
  if (hash === null) return '-';
  return (hash.startsWith('hmac:') ? hash : `sha256:${hash}`).replace(/(?<=:.{12}).*/, '');
}

/** `importer (5f3f2b8e)`: the name of the token, and the beginning of its id. */
function actorIn({ actor, actor_id: actorId, actor_name: actorName }: AuditEntry): string {
  if (actorId === null) return actor;
  return actorName === null ? `${actor} ${actorId}` : `${actorName} (${actorId.slice(0, 8)})`;
}
