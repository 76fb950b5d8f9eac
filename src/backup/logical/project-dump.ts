/** Dumping a project's database: pg_dump and a count of the rows, both of one snapshot. Neither runs code of the project. */
import type { Readable } from 'node:stream';
import type pg from 'pg';
import type { TableRows } from '../../contract/wire/operator.js';
import { type ClientPrograms, run, stream } from './client-programs.js';
import { LOCK_WAIT_MS, withDumpRole } from './dump-role.js';
import { libpqEnvironment } from './libpq.js';
import type { Placement } from '../../tenancy/placement.js';
import type { Tenancy } from '../../tenancy/tenancy.js';
import { type LoginOptions, withClient } from '../../postgres/server.js';
import { ident } from '../../postgres/sql.js';

export interface DumpOptions {
  readonly tenancy: Tenancy;
  readonly placement: Placement;
  readonly programs: ClientPrograms;
  /** Of mode 700, for the length of the call. */
  readonly folder: string;
  readonly signal: AbortSignal;
}

/**
 * Hands an archive of pg_dump's custom format to `take`: the whole database, of which a restore takes the project's part.
 * Readers and writers of the project go on; who wants to alter or drop a table waits, or is refused, until the end.
 * @returns the tables of the project's schema with their rows, as they are in the archive
 * @throws ProgramFailed, pg.DatabaseError, what `take` throws
 */
export async function dumpProject(
  options: DumpOptions,
  take: (archive: Readable) => Promise<void>,
): Promise<TableRows[]> {
  const { tenancy, placement, programs, folder, signal } = options;
  return withDumpRole(tenancy, placement, signal, (login) =>
    inSnapshot(login, placement.schema, signal, async (snapshot, tables) => {
      const environment = await libpqEnvironment(login, folder);
      const args = ['--format=custom', '--no-security-labels', '--no-publications', '--no-subscriptions'];
      const rest = [`--snapshot=${snapshot}`, `--lock-wait-timeout=${LOCK_WAIT_MS}`];
      await stream(`${programs.folder}/pg_dump`, [...args, ...rest], { environment, signal }, take);
      return tables;
    }),
  );
}

/** What the archive holds, in pg_restore's words, an entry a line. @throws ProgramFailed where it is none, or not whole */
export const listOf = (archive: Readable, programs: ClientPrograms, signal: AbortSignal): Promise<string> =>
  run(`${programs.folder}/pg_restore`, ['--list'], { environment: { LC_ALL: 'C' }, input: archive, signal });

/** The tables of the project's schema with their rows, now. */
export const countRows = (tenancy: Tenancy, placement: Placement, signal: AbortSignal): Promise<TableRows[]> =>
  withDumpRole(tenancy, placement, signal, (login) =>
    inSnapshot(login, placement.schema, signal, (_snapshot, tables) => Promise.resolve(tables)),
  );

/** Holds a snapshot open, with every table locked against changes of its shape, while `work` goes on. */
async function inSnapshot<T>(
  login: LoginOptions,
  schema: string,
  signal: AbortSignal,
  work: (snapshot: string, tables: TableRows[]) => Promise<T>,
): Promise<T> {
  const held = async (client: pg.Client): Promise<T> => {
    await client.query(`SET lock_timeout = ${LOCK_WAIT_MS}`);
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const exported = await client.query<{ snapshot: string }>('SELECT pg_export_snapshot() AS snapshot');
    const tables = await lockedTables(client, schema);
    const counted: TableRows[] = [];
    for (const name of tables) counted.push({ name, rows: await rowsOf(client, schema, name) });
    return work(exported.rows[0]?.snapshot ?? '', counted);
  };
  return withClient(login, held, signal);
}

/** Locked first: a name that turned into a view in the meantime would run the project's code when it is counted. */
async function lockedTables(client: pg.Client, schema: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string; oid: number }>(
    `SELECT relname AS name, oid FROM pg_class
     WHERE relnamespace = $1::regnamespace AND relkind = 'r' AND relpersistence <> 't' ORDER BY relname COLLATE "C"`,
    [schema],
  );
  for (const { name, oid } of rows) {
    const table = ident(schema, name).text;
    await client.query(`LOCK TABLE ONLY ${table} IN ACCESS SHARE MODE`);
    const now = await client.query<{ oid: number }>('SELECT $1::regclass::oid AS oid', [table]);
    if (now.rows[0]?.oid !== oid) throw new Error(`The table "${name}" was made anew meanwhile; try again`);
  }
  return rows.map(({ name }) => name);
}

/**
 * By COPY, which reads a table without planning: for `SELECT count(*)` the planner evaluates the predicates of indexes and the
 * expressions of statistics, which are the project's code, as this role and for as long as that code likes. One column is enough, and a
 * narrow one; how it is written as text is up to its type, which no project can make.
 */
async function rowsOf(client: pg.Client, schema: string, name: string): Promise<number> {
  const table = ident(schema, name).text;
  const { rows } = await client.query<{ column: string }>(
    `SELECT attname AS column FROM pg_attribute
     WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attlen > 0
     ORDER BY attlen, attnum LIMIT 1`,
    [table],
  );
  const [narrow] = rows;
  const { rowCount } = await client.query(`COPY ${table} ${narrow ? `(${ident(narrow.column).text})` : ''} TO STDOUT`);
  if (rowCount === null) throw new Error(`The rows of "${name}" were not counted`);
  return rowCount;
}
