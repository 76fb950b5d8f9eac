/** Writes, reads and prunes the table `cdp.audit` of the control database. The engine decides what is recorded. */
import type { AuditActor } from '../../contract/audit.js';
import { EngineError } from '../../contract/errors.js';
import {
  BEGIN,
  COMMIT,
  type Fragment,
  ident,
  join,
  type Pool,
  PostgresError,
  readCommandTag,
  sql,
  SQLSTATE,
  type Statement,
  trusted,
} from '../../pg/index.js';
import { serviceWork } from '../postgres-errors.js';

/** Selects entries; a missing field matches everything. */
export interface AuditFilter {
  project?: string;
  operation?: string;
  /** Operations that count only if they failed. */
  onlyFailed?: readonly string[];
  /** `failed`: anything but `ok`. */
  outcome?: string;
  /** Id of a token, or subject of a JWT. */
  token?: string;
  since?: Date;
  until?: Date;
  /** Only entries older than this one. */
  before?: { at: number; id: number };
  limit: number;
}

/** A row of the table. Texts must be storable: no U+0000, no lone surrogates. */
export interface AuditRow {
  at: Date;
  /** The primary key, together with `at`; a safe integer. */
  id: number;
  request_id: string | null;
  project_id: string | null;
  project: string | null;
  actor: AuditActor;
  actor_id: string | null;
  actor_name: string | null;
  address: string | null;
  operation: string;
  object: string | null;
  statement_sha256: string | null;
  statement: string | null;
  rows: number | null;
  outcome: string;
  status: number | null;
  duration_ms: number | null;
  count: number;
}

/** Time limits: a late write or removal fails, a late read is canceled. */
const WRITE_MS = 10_000;
const READ_MS = 30_000;

/** The number of rows removed in one transaction. */
const REMOVED_AT_ONCE = 5_000;

/**
 * Combines a change and its entry in one statement, so that neither exists without the other. If nothing changes, there
 * is no entry.
 * @param change of one row; must return its `project_id`, from which the entry gets the project's id and name
 * @param entry null: none
 * @returns a statement whose rows are those of the change
 */
export function withEntry(change: Fragment, entry: AuditRow | null): Statement {
  if (entry === null) return change;
  const columns = columnsOf(entry);
  return sql`WITH changed AS (${change}), noted AS (
      INSERT INTO cdp.audit (${columns}) SELECT ${columns} FROM (
        SELECT entry.* FROM changed, jsonb_populate_record(NULL::cdp.audit, ${JSON.stringify(entry)}::jsonb
          || jsonb_build_object('project_id', changed.project_id, 'project',
            (SELECT name FROM cdp.projects WHERE projects.id = changed.project_id))) AS entry) AS entries)
    SELECT * FROM changed`;
}

const columnsOf = (entry: AuditRow): Fragment => join(Object.keys(entry).map((name) => ident(name)));

/** Whether Postgres refused the entries themselves, so that a retry is useless. */
export const isRefusedEntry = (error: unknown): boolean =>
  error instanceof PostgresError && /^2[23]/.test(error.sqlstate);

export class AuditRows {
  constructor(private readonly pool: Pool) {}

  /**
   * Writes entries in one statement. Existing ones are skipped: a group whose commit was lost may have been stored.
   * @throws PostgresError, ConnectionLost
   */
  async write(entries: readonly AuditRow[]): Promise<void> {
    const [first] = entries;
    if (first === undefined) return;
    const columns = columnsOf(first);
    const insert = sql`INSERT INTO cdp.audit (${columns})
      SELECT ${columns} FROM json_populate_recordset(NULL::cdp.audit, ${JSON.stringify(entries)})
      ON CONFLICT DO NOTHING`;
    await this.pool.query(insert, { timeoutMs: WRITE_MS });
  }

  /**
   * The newest first.
   * @throws EngineError database_unavailable; query_timeout if too much has to be read
   */
  async read(filter: AuditFilter): Promise<AuditRow[]> {
    const steps = [BEGIN, sql`SET LOCAL statement_timeout = ${trusted(String(READ_MS))}`, selection(filter), COMMIT];
    return serviceWork(async () => {
      try {
        const [, , selected] = await this.pool.run(steps, { timeoutMs: READ_MS + WRITE_MS });
        return (selected?.rows ?? []).map(([json]) => auditRow(json ?? ''));
      } catch (error) {
        if (!(error instanceof PostgresError && error.sqlstate === SQLSTATE.QUERY_CANCELED)) throw error;
        throw new EngineError('query_timeout', `Reading the audit log took longer than ${READ_MS} ms`, {
          hint: 'Give a shorter period with "since" and "until".',
        });
      }
    });
  }

  /**
   * Removes older entries in batches; several instances may do so at once. Their age is by the server's clock, since an
   * instance's may be fast.
   * @returns the number of entries
   */
  async removeOlderThan(days: number): Promise<number> {
    const steps = [
      BEGIN,
      sql`SELECT set_config('cdp.audit_remove_before', (now() - make_interval(days => ${days}))::text, true)`,
      sql`DELETE FROM cdp.audit WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM cdp.audit
            WHERE at < current_setting('cdp.audit_remove_before')::timestamptz ORDER BY at, id
            LIMIT ${REMOVED_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
      COMMIT,
    ];
    for (let removed = 0; ;) {
      const results = await this.pool.run(steps, { timeoutMs: READ_MS });
      const { count = 0 } = readCommandTag(results[2]?.tag ?? '');
      removed += count;
      if (count < REMOVED_AT_ONCE) return removed;
    }
  }
}

function selection(filter: AuditFilter): Fragment {
  const { project, operation, onlyFailed, outcome, token, since, until, before, limit } = filter;
  const conditions: Fragment[] = [];
  if (project !== undefined) conditions.push(sql`project = ${project}`);
  if (operation !== undefined) conditions.push(sql`operation = ${operation}`);
  if (onlyFailed !== undefined) conditions.push(sql`(outcome <> 'ok' OR operation <> ALL (${onlyFailed}::text[]))`);
  if (outcome === 'failed') conditions.push(sql`outcome <> 'ok'`);
  else if (outcome !== undefined) conditions.push(sql`outcome = ${outcome}`);
  if (token !== undefined) conditions.push(sql`actor_id = ${token}`);
  if (since !== undefined) conditions.push(sql`at >= ${since}`);
  if (until !== undefined) conditions.push(sql`at < ${until}`);
  if (before !== undefined) {
    conditions.push(sql`(at, id) < (to_timestamp(${before.at}::float8 / 1000), ${before.id}::int8)`);
  }
  const where = conditions.length > 0 ? sql`WHERE ${join(conditions, ' AND ')}` : sql``;
  return sql`SELECT to_jsonb(audit) FROM cdp.audit ${where} ORDER BY at DESC, id DESC LIMIT ${limit}`;
}

/** @param json `to_jsonb` of a row */
function auditRow(json: string): AuditRow {
  const stored = JSON.parse(json) as Omit<AuditRow, 'at'> & { at: string };
  return { ...stored, at: new Date(stored.at) };
}
