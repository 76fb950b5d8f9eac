/** One snapshot of a project's database, shared by several sessions. */
import { ident, join, type LoginOptions, type Session, sql, withSession } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';
import { belongsToProject } from '../../tenancy/project-rights.js';
import type { ProjectDatabase } from '../../tenancy/tenancy.js';
import { distributedTables } from '../distributed-tables.js';
import { LOCK_TIMEOUT } from './dump-role.js';

/** A table in one of the project's schemas. */
export interface ProjectTable {
  readonly schema: string;
  readonly name: string;
}

/** The name that people are shown. */
export const shownName = ({ schema, name }: ProjectTable, placement: Placement): string =>
  schema === placement.schema ? name : `${schema}.${name}`;

/**
 * The workers of a Citus cluster share no snapshot, so distributed tables are locked against writes until the end. The
 * lock is not propagated to the workers: their transactions, and so their snapshots, would begin before it is granted.
 */
const ON_COORDINATOR = sql`SET LOCAL citus.enable_ddl_propagation = off`;

/**
 * Holds a snapshot open, with every table locked against ALTER and DROP, and tables distributed by Citus also against
 * writes.
 * @param work receives the session that holds the snapshot, the snapshot's name for others, and the tables
 */
export async function withSnapshot<T>(
  login: LoginOptions,
  from: ProjectDatabase,
  signal: AbortSignal,
  work: (session: Session, snapshot: string, tables: ProjectTable[]) => Promise<T>,
): Promise<T> {
  const inTransaction = async (session: Session): Promise<T> => {
    const { placement } = from;
    const distributed = (await distributedTables(session, from)).map(
      ({ table }) => sql`${ident(placement.schema, table)}`,
    );
    const results = await session.run([
      LOCK_TIMEOUT,
      sql`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`,
      ...(distributed.length > 0 ? [ON_COORDINATOR, sql`LOCK TABLE ${join(distributed, ', ')} IN SHARE MODE`] : []),
      sql`SELECT pg_export_snapshot()`,
    ]);
    return work(session, results.at(-1)?.rows[0]?.[0] ?? '', await lockTables(session, placement));
  };
  return withSession(login, inTransaction, signal);
}

/** If a table has been replaced by a view of the same name, counting its rows would run the project's code. */
async function lockTables(session: Session, placement: Placement): Promise<ProjectTable[]> {
  const tables = await session.query(
    sql`SELECT c.oid, nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
        WHERE ${belongsToProject(placement)} AND relkind = 'r' AND relpersistence <> 't'
        ORDER BY nspname <> ${placement.schema}, nspname COLLATE "C", relname COLLATE "C"`,
  );
  for (const [oid, schema, name] of tables) {
    const table = ident(schema ?? '', name ?? '');
    await session.query(sql`LOCK TABLE ONLY ${table} IN ACCESS SHARE MODE`);
    const [now] = await session.query(sql`SELECT ${table.text}::regclass::oid`);
    if (now?.[0] !== oid) throw new Error(`The table "${name}" was replaced meanwhile; try again`);
  }
  return tables.map(([, schema, name]) => ({ schema: schema ?? '', name: name ?? '' }));
}

/**
 * Counts the rows of a table by COPY, which needs no planning: for `SELECT count(*)` the planner evaluates predicates
 * of indexes and expressions of statistics, which are the project's code. One narrow column is enough; its type is
 * built in, so its output function is not the project's.
 */
export async function countIn(session: Session, { schema, name }: ProjectTable): Promise<number> {
  const table = ident(schema, name);
  const [narrow] = await session.row(
    sql`SELECT attname FROM pg_attribute
        WHERE attrelid = ${table.text}::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attlen > 0
        ORDER BY attlen, attnum LIMIT 1`,
  );
  return session.rowCount(sql`COPY ${table} ${narrow == null ? sql`` : sql`(${ident(narrow)})`} TO STDOUT`);
}
