/**
 * Logical backup of one project: a dump by pg_dump, and the number of rows in each table, both of one snapshot. Neither runs code of
 * the project.
 */
import type { Readable } from 'node:stream';
import type { TableRows } from '../../contract/wire/operator.js';
import { ident, type LoginOptions, type Session, sql, withSession } from '../../pg/index.js';
import type { ProjectRow } from '../../tenancy/control-rows.js';
import type { Placement } from '../../tenancy/placement.js';
import { isOfProject } from '../../tenancy/project-rights.js';
import { type Tenancy, withServer } from '../../tenancy/tenancy.js';
import type { Installation } from '../installation.js';
import { dumpOf, listOfDump, type LogicalProject } from '../manifest.js';
import { type Add, type Member, readMember } from '../tar.js';
import { type ClientPrograms, libpqEnvironment, run, stream } from './client-programs.js';
import { LOCK_WAIT_MS, lockTimeout, withDumpRole } from './dump-role.js';

interface Dumping {
  /** That members are added to. */
  readonly file: string;
  readonly programs: ClientPrograms;
  /** For temporary files, mode 700. */
  readonly folder: string;
  readonly signal: AbortSignal;
}

/** What pg_dump leaves out by itself. */
const OPTIONS = ['--format=custom', '--no-security-labels', '--no-publications', '--no-subscriptions'];

/**
 * Dumps the whole database, of which a restore takes the project's part. Reads and inserts go on; altering or dropping a table waits.
 * @throws ProgramFailed, PostgresError, what `add` throws
 */
export async function saveDump(
  { databases, projects, servers }: Installation,
  project: ProjectRow,
  add: Add,
  { file, programs, folder, signal }: Dumping,
): Promise<LogicalProject> {
  const { name, placement } = project;
  const { database, writer, reader } = placement;
  const tenancy = servers.tenancyOf(placement);
  const postgres = await tenancy.major();
  return withServer(tenancy.serverOf(placement), async () => {
    await projects.upgraded(project);
    // What the project did to its roles and rights must not keep it from being saved.
    await databases.restoreRights(tenancy, placement);
    const extensions = await databases.extensionsOf(tenancy, placement);
    const { dump, tables } = await withDumpRole(tenancy, placement, signal, (login) =>
      withSnapshot(login, placement, signal, async (snapshot, tables) => {
        const environment = await libpqEnvironment(login, folder);
        const args = [...OPTIONS, `--snapshot=${snapshot}`, `--lock-wait-timeout=${LOCK_WAIT_MS}`];
        const dump = await stream(`${programs.folder}/pg_dump`, args, { environment, signal }, (output) =>
          add(dumpOf(name), output as AsyncIterable<Buffer>),
        );
        return { dump, tables };
      }),
    );
    await add(listOfDump(name), [Buffer.from(await listOf(file, dump, programs, signal))]);
    const versions = { postgres, pg_dump: programs.major };
    return { kind: 'logical', name, bytes: dump.size, database, writer, reader, extensions, tables, ...versions };
  });
}

/** Read back from the file, which shows that pg_restore can read it. @throws ProgramFailed */
function listOf(file: string, dump: Member, programs: ClientPrograms, signal: AbortSignal): Promise<string> {
  const input: Readable = readMember(file, dump);
  return run(`${programs.folder}/pg_restore`, ['--list'], { environment: { LC_ALL: 'C' }, input, signal });
}

/** The tables of the project's schemas with their rows. */
export const countRows = (tenancy: Tenancy, placement: Placement, signal: AbortSignal): Promise<TableRows[]> =>
  withDumpRole(tenancy, placement, signal, (login) =>
    withSnapshot(login, placement, signal, (_snapshot, tables) => Promise.resolve(tables)),
  );

/** Holds a snapshot open, with every table locked against ALTER and DROP. */
async function withSnapshot<T>(
  login: LoginOptions,
  placement: Placement,
  signal: AbortSignal,
  work: (snapshot: string, tables: TableRows[]) => Promise<T>,
): Promise<T> {
  const inTransaction = async (session: Session): Promise<T> => {
    const [, , exported] = await session.run([
      lockTimeout(LOCK_WAIT_MS),
      sql`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`,
      sql`SELECT pg_export_snapshot()`,
    ]);
    const tables: TableRows[] = [];
    for (const { schema, name } of await lockTables(session, placement)) {
      const shown = schema === placement.schema ? name : `${schema}.${name}`;
      tables.push({ name: shown, rows: await countIn(session, schema, name) });
    }
    return work(exported?.rows[0]?.[0] ?? '', tables);
  };
  return withSession(login, inTransaction, signal);
}

/** A name that has become a view since would run the project's code when it is counted. */
async function lockTables(session: Session, placement: Placement): Promise<{ schema: string; name: string }[]> {
  const tables = await session.query(
    sql`SELECT c.oid, nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
        WHERE ${isOfProject(placement)} AND relkind = 'r' AND relpersistence <> 't'
        ORDER BY nspname <> ${placement.schema}, nspname COLLATE "C", relname COLLATE "C"`,
  );
  for (const [oid, schema, name] of tables) {
    const table = ident(schema ?? '', name ?? '');
    await session.query(sql`LOCK TABLE ONLY ${table} IN ACCESS SHARE MODE`);
    const [now] = await session.query(sql`SELECT ${table.text}::regclass::oid`);
    if (now?.[0] !== oid) throw new Error(`The table "${name}" was replaced during the backup; try again`);
  }
  return tables.map(([, schema, name]) => ({ schema: schema ?? '', name: name ?? '' }));
}

/**
 * By COPY, which does not plan: for `SELECT count(*)` the planner evaluates predicates of indexes and expressions of statistics, which
 * are the project's code. One narrow column is enough; its type is built in, so its output function is not the project's.
 */
async function countIn(session: Session, schema: string, name: string): Promise<number> {
  const table = ident(schema, name);
  const [[narrow] = []] = await session.query(
    sql`SELECT attname FROM pg_attribute
        WHERE attrelid = ${table.text}::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attlen > 0
        ORDER BY attlen, attnum LIMIT 1`,
  );
  return session.change(sql`COPY ${table} ${narrow == null ? sql`` : sql`(${ident(narrow)})`} TO STDOUT`);
}
