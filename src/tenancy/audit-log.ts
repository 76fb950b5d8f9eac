/** The table `cdp.audit` of the control database: writing, reading and ageing. What is recorded is decided in `engine/`. */
import pg from 'pg';
import type { AuditActor } from '../contract/audit.js';
import { EngineError } from '../contract/errors.js';
import { type AuditEntry, auditRows } from './audit-rows.js';
import { copyIn } from './copy-in.js';
import { serviceWork } from './service-work.js';
import { QUERY_CANCELED, UNIQUE_VIOLATION } from '../postgres/sqlstate.js';

/** What to read; what is left out matches everything. */
export interface AuditFilter {
  project?: string;
  operation?: string;
  /** `failed`: anything but `ok`. */
  outcome?: string;
  /** Id of a token, or subject of a JWT. */
  token?: string;
  since?: Date;
  until?: Date;
  /** Only what is older than that entry. */
  before?: { at: number; id: number };
  limit: number;
}

/** Columns of the table with the type and the value of a parameter, in the order of all statements here. */
const COLUMNS: readonly [name: string, type: string, value: (entry: AuditEntry) => unknown][] = [
  ['at', 'float8', ({ at }) => at],
  ['id', 'int8', ({ id }) => id],
  ['request_id', 'text', ({ requestId }) => requestId],
  ['project_id', 'uuid', ({ projectId }) => projectId],
  ['project', 'text', ({ project }) => project],
  ['actor', 'text', ({ actor }) => actor],
  ['actor_id', 'text', ({ actorId }) => actorId],
  ['actor_name', 'text', ({ actorName }) => actorName],
  ['address', 'text', ({ address }) => address],
  ['operation', 'text', ({ operation }) => operation],
  ['object', 'text', ({ object }) => object],
  ['statement_sha256', 'text', ({ statementSha256 }) => statementSha256],
  ['statement', 'text', ({ statement }) => statement],
  ['rows', 'int8', ({ rows }) => rows],
  ['outcome', 'text', ({ outcome }) => outcome],
  ['status', 'int2', ({ status }) => status],
  ['duration_ms', 'float8', ({ durationMs }) => durationMs],
  ['count', 'int8', ({ count }) => count],
];

const NAMES = COLUMNS.map(([name]) => name).join(', ');

/**
 * INSERT … SELECT from one array a column.
 * @param first number of the parameter that is the first array
 * @param instead what goes into a column in place of what is given for it
 */
function insertFrom(first: number, instead: Readonly<Record<string, string>> = {}): string {
  const values = COLUMNS.map(([name]) => instead[name] ?? `given.${name}`).join(', ');
  const arrays = COLUMNS.map(([, type], i) => `$${first + i}::${type}[]`).join(', ');
  return `INSERT INTO cdp.audit (${NAMES}) SELECT ${values} FROM unnest(${arrays}) AS given (${NAMES})`;
}

const TIME = { at: 'to_timestamp(given.at / 1000)' };

const arraysOf = (entries: readonly AuditEntry[]): unknown[][] => COLUMNS.map(([, , value]) => entries.map(value));

const COPY = `COPY cdp.audit (${NAMES}) FROM STDIN (FORMAT binary)`;

/** What COPY cannot do: leave out what is there already. */
const INSERT_MISSING = `${insertFrom(1, TIME)} ON CONFLICT DO NOTHING`;

/** A write or a removal that takes longer is given up; a read is cancelled. */
const WRITE_MS = 10_000;
const READ_MS = 30_000;

/** Rows that are removed in one transaction. */
const REMOVED_AT_ONCE = 5_000;

/**
 * A statement that changes something, and the entry that says so, as one statement: neither is there without the other.
 * Where nothing was changed there is no entry.
 * @param change of one row; must return its `project_id`, which the entry takes with the project's name
 * @returns text and parameters; the rows are those of the change
 */
export function withEntry(change: string, values: readonly unknown[], entry: AuditEntry): [string, unknown[]] {
  const insert = insertFrom(values.length + 1, {
    ...TIME,
    project_id: 'changed.project_id',
    project: '(SELECT name FROM cdp.projects WHERE projects.id = changed.project_id)',
  });
  const text = `WITH changed AS (${change}), noted AS (${insert} CROSS JOIN changed) SELECT * FROM changed`;
  return [text, [...values, ...arraysOf([entry])]];
}

/** Whether Postgres refused the entries themselves, which no repetition can change. */
export const isRefusedEntry = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && /^2[23]/.test(error.code ?? '');

export class AuditLog {
  constructor(private readonly pool: pg.Pool) {}

  /** In one transaction. A repeat after a failure writes only what is not there yet. @throws what the driver throws */
  async write(entries: readonly AuditEntry[]): Promise<void> {
    try {
      const rows = auditRows(entries);
      await this.withClient((client) => copyIn(client, COPY, rows.view(), WRITE_MS));
      rows.free();
    } catch (error) {
      if (!(error instanceof pg.DatabaseError && error.code === UNIQUE_VIOLATION)) throw error;
      const query = { text: INSERT_MISSING, values: arraysOf(entries), query_timeout: WRITE_MS };
      await this.pool.query(query as pg.QueryConfig);
    }
  }

  /**
   * The newest first.
   * @throws EngineError database_unavailable; query_timeout where too much has to be looked at
   */
  async read(filter: AuditFilter): Promise<AuditEntry[]> {
    const { text, values } = selection(filter);
    return serviceWork(() =>
      this.inTransaction(async (client) => {
        await client.query(`SET LOCAL statement_timeout = ${READ_MS}`);
        try {
          const query = { text, values, query_timeout: READ_MS + WRITE_MS };
          const { rows } = await client.query<AuditRecord>(query as pg.QueryConfig);
          return rows.map(entryOf);
        } catch (error) {
          if (!(error instanceof pg.DatabaseError && error.code === QUERY_CANCELED)) throw error;
          throw new EngineError('query_timeout', `Reading the audit log took longer than ${READ_MS} ms`, {
            hint: 'Give a shorter time with "since" and "until".',
          });
        }
      }),
    );
  }

  /** Removes what is older, a piece at a time, also while other instances do the same. @returns the number of entries */
  async removeBefore(time: Date): Promise<number> {
    for (let removed = 0; ;) {
      const { rowCount } = await this.inTransaction(async (client) => {
        await client.query(`SELECT set_config('cdp.audit_remove_before', $1, true)`, [time.toISOString()]);
        const query = {
          text: `DELETE FROM cdp.audit WHERE ctid = ANY (ARRAY(
             SELECT ctid FROM cdp.audit WHERE at < $1 ORDER BY at, id LIMIT ${REMOVED_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
          values: [time],
          query_timeout: READ_MS,
        };
        return client.query(query as pg.QueryConfig);
      });
      removed += rowCount ?? 0;
      if ((rowCount ?? 0) < REMOVED_AT_ONCE) return removed;
    }
  }

  private inTransaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    return this.withClient(async (client) => {
      await client.query('BEGIN');
      const result = await work(client);
      await client.query('COMMIT');
      return result;
    });
  }

  private async withClient<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await this.pool.connect();
    try {
      const result = await work(client);
      client.release();
      return result;
    } catch (error) {
      // Closing the connection rolls back, whatever state it is in.
      client.release(true);
      throw error;
    }
  }
}

function selection(filter: AuditFilter): { text: string; values: unknown[] } {
  const values: unknown[] = [];
  const conditions: string[] = [];
  const where = (condition: (parameter: string) => string, value: unknown) => {
    if (value === undefined) return;
    values.push(value);
    conditions.push(condition(`$${values.length}`));
  };
  where((p) => `project = ${p}`, filter.project);
  where((p) => `operation = ${p}`, filter.operation);
  if (filter.outcome === 'failed') where((p) => `outcome <> ${p}`, 'ok');
  else where((p) => `outcome = ${p}`, filter.outcome);
  where((p) => `actor_id = ${p}`, filter.token);
  where((p) => `at >= ${p}`, filter.since);
  where((p) => `at < ${p}`, filter.until);
  if (filter.before !== undefined) {
    values.push(filter.before.at, filter.before.id);
    conditions.push(`(at, id) < (to_timestamp($${values.length - 1}::float8 / 1000), $${values.length}::int8)`);
  }
  values.push(filter.limit);
  const text = `SELECT ${NAMES} FROM cdp.audit ${conditions.length > 0 ? `WHERE ${conditions.join(' AND ')}` : ''}
    ORDER BY at DESC, id DESC LIMIT $${values.length}`;
  return { text, values };
}

interface AuditRecord {
  at: Date;
  id: string;
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
  rows: string | null;
  outcome: string;
  status: number | null;
  duration_ms: number | null;
  count: string;
}

const entryOf = (record: AuditRecord): AuditEntry => ({
  at: record.at.getTime(),
  id: Number(record.id),
  requestId: record.request_id,
  projectId: record.project_id,
  project: record.project,
  actor: record.actor,
  actorId: record.actor_id,
  actorName: record.actor_name,
  address: record.address,
  operation: record.operation,
  object: record.object,
  statementSha256: record.statement_sha256,
  statement: record.statement,
  rows: record.rows === null ? null : Number(record.rows),
  outcome: record.outcome,
  status: record.status,
  durationMs: record.duration_ms,
  count: Number(record.count),
});
