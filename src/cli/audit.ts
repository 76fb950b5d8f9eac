/** `cdp audit`: reads the audit log, the oldest of what was asked for first, like any log. */
import { Command } from 'commander';
import { AUDIT_OPERATIONS } from '../contract/audit.js';
import { EngineError } from '../contract/errors.js';
import type { Engine } from '../engine/engine.js';
import { shownEntry } from '../http/api/admin-views.js';
import type { AuditFilter } from '../postgres/audit-log.js';
import type { AuditEntry } from '../postgres/audit-rows.js';
import { addSettings, DATABASE_SETTINGS } from './settings.js';
import { aligned, withEngine } from './management.js';
import { printableJson } from './remote/terminal-text.js';

interface Options {
  project?: string;
  since?: string;
  until?: string;
  operation?: string;
  outcome?: string;
  failed?: boolean;
  token?: string;
  limit: string;
  json?: boolean;
}

/** Entries that are read at once, and the most that one command shows. */
const PAGE = 1_000;
const MOST = 100_000;

export function auditCommand(): Command {
  const command = new Command('audit')
    .description('Show the audit log: who did what, when, with what outcome')
    .option('--project <NAME>', 'Only of this project, by its name at the time')
    .option('--since <TIME>', 'Ago, as 2h, 30m or 7d, or a time as 2026-01-31T09:30:00Z')
    .option('--until <TIME>', 'The same')
    .option('--operation <WORD>', `One of ${AUDIT_OPERATIONS.join(', ')}`)
    .option('--outcome <WORD>', '"ok", a code of an error, or client_gone')
    .option('--failed', 'Whatever did not succeed')
    .option('--token <ID>', 'Of a token, or "jwt:" and the subject of a JWT')
    .option('--limit <N>', `The latest N, at most ${MOST}`, '100')
    .option('--json', 'Print JSON, an entry a line');
  return addSettings(command, DATABASE_SETTINGS).action(async () => {
    const options = command.opts<Options>();
    const filter = filterOf(options, Date.now());
    const entries = await withEngine(command, (engine) => latest(engine, filter));
    process.stdout.write((options.json ? entries.map(jsonLine) : table(entries)).map((line) => `${line}\n`).join(''));
  });
}

/** @throws EngineError invalid_request naming the option */
function filterOf(options: Options, now: number): AuditFilter {
  const { project, since, until, operation, outcome, failed, token, limit } = options;
  if (operation !== undefined && !AUDIT_OPERATIONS.some((known) => known === operation)) {
    throw new EngineError('invalid_request', `--operation takes one of ${AUDIT_OPERATIONS.join(', ')}`);
  }
  if (failed && outcome !== undefined) throw new EngineError('invalid_request', 'Give either --outcome or --failed');
  if (!/^\d{1,6}$/.test(limit) || Number(limit) < 1 || Number(limit) > MOST) {
    throw new EngineError('invalid_request', `--limit takes a number from 1 to ${MOST}`);
  }
  return {
    ...(project === undefined ? {} : { project }),
    ...(operation === undefined ? {} : { operation }),
    ...(failed ? { outcome: 'failed' } : outcome === undefined ? {} : { outcome }),
    ...(token === undefined ? {} : { token }),
    ...(since === undefined ? {} : { since: timeIn('--since', since, now) }),
    ...(until === undefined ? {} : { until: timeIn('--until', until, now) }),
    limit: Number(limit),
  };
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A date alone is midnight UTC, and a time without an offset is UTC, as everywhere in the service. */
const ISO = /^\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|z|[+-]\d\d:\d\d)?)?$/;

function timeIn(option: string, text: string, now: number): Date {
  const [, amount, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (amount !== undefined) return new Date(now - Number(amount) * (UNITS[unit ?? ''] ?? NaN));
  const iso = ISO.exec(text);
  const time = new Date(text.length > 10 && iso?.[1] === undefined ? `${text}Z` : text);
  if (iso === null || Number.isNaN(time.getTime())) {
    throw new EngineError('invalid_request', `${option} takes 2h, 30m or 7d, or a time such as 2026-01-31T09:30:00Z`);
  }
  return time;
}

/** Page by page; the oldest first. */
async function latest({ audit }: Engine, filter: AuditFilter): Promise<AuditEntry[]> {
  const found: AuditEntry[] = [];
  while (found.length < filter.limit) {
    const limit = Math.min(PAGE, filter.limit - found.length);
    const last = found.at(-1);
    const page = await audit.read({ ...filter, ...(last === undefined ? {} : { before: last }), limit });
    found.push(...page);
    if (page.length < limit) break;
  }
  return found.reverse();
}

function table(entries: readonly AuditEntry[]): string[] {
  const lines = entries.map((entry) => [
    new Date(entry.at).toISOString(),
    entry.project ?? '-',
    actorIn(entry),
    entry.operation + (entry.count > 1 ? ` (${entry.count})` : ''),
    entry.object ?? (entry.statementSha256 === null ? '-' : `sha256:${entry.statementSha256.slice(0, 12)}`),
    String(entry.rows ?? '-'),
    entry.outcome,
    entry.address ?? '-',
  ]);
  return aligned([['TIME', 'PROJECT', 'WHO', 'OPERATION', 'OBJECT', 'ROWS', 'OUTCOME', 'FROM'], ...lines]);
}

/** `importer (5f3f2b8e)`: the name says what a token is for, the beginning of its id which one it is. */
function actorIn({ actor, actorId, actorName }: AuditEntry): string {
  if (actorId === null) return actor;
  return actorName === null ? `${actor} ${actorId}` : `${actorName} (${actorId.slice(0, 8)})`;
}

const jsonLine = (entry: AuditEntry): string => printableJson(shownEntry(entry));
