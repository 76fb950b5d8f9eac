/**
 * Copies a project from one Postgres server to another, which may have a later major version: the schema by pg_dump,
 * the rows by COPY, both from the same snapshot. Needs no client programs of Postgres
 * (docs/decisions/0046-copying-between-servers.md).
 */
import type { Verification } from '../contract/moves.js';
import { ident, type Session, sql, withSession } from '../pg/index.js';
import { EXTENSIONS_SCHEMA } from '../tenancy/extensions.js';
import type { Placement } from '../tenancy/placement.js';
import { ownSchemasOf } from '../tenancy/project-rights.js';
import { roleLogin } from '../tenancy/role-login.js';
import type { ProjectDatabase } from '../tenancy/tenancy.js';
import { distributeAgain, distributedTables } from '../backup/distributed-tables.js';
import { LOCK_WAIT_MS, withDumpRole } from '../backup/logical/dump-role.js';
import { isAccessEntry, isFilledLast } from '../backup/logical/toc-entries.js';
import { entriesOf, type DumpEntry, ownEntries } from '../backup/logical/dump-entries.js';
import { createPolicies, differentPolicies, policiesOf } from '../backup/logical/policies.js';
import { differentRights, rightsOf, setRights } from '../backup/logical/rights.js';
import { roleSettingsOf, setRoleSettings } from '../backup/logical/role-settings.js';
import { withSnapshot } from '../backup/logical/snapshot.js';
import { copyLargeObjects, copySequences, copyTable, tablesOf } from './contents.js';
import { pgDump } from './pg-dump.js';
import { differentContents, differentEntries, type Summary, summaryOf } from './verify.js';

export interface CopyOptions {
  /** The tables of the source are locked against ALTER and DROP. Later writes are not copied. */
  readonly source: ProjectDatabase;
  /**
   * As `Tenancy.create` creates it, with the schema version of the source. After a failure it is partly filled.
   */
  readonly target: ProjectDatabase;
  readonly verify: Verification;
  /** If aborted, all sessions end at once, and their transactions are rolled back. */
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: CopyProgress) => void;
  /**
   * The source is written to during the copy and has no large objects, so sequences are not compared. The caller calls
   * {@link copyAccess} at the end, because the owner may have revoked its own rights.
   */
  readonly isWritten?: boolean;
}

/** The progress of one table. Reported about once per MiB, and at the end of the table. */
export interface CopyProgress {
  readonly table: string;
  readonly rows: number;
  /** Bytes in COPY's text format. */
  readonly bytes: number;
}

export interface CopyResult {
  /** Messages about settings of its roles that the target refuses. */
  readonly leftOut: string[];
  /** The schema of the source. */
  readonly schema: DumpEntry[];
  /** The snapshot that was copied, in the format of pg_current_snapshot(). */
  readonly snapshot: string;
}

/** The copy differs from the source. */
export class CopyDiffers extends Error {
  /** @param differences messages, each of which begins with the name of a table or another object */
  constructor(readonly differences: readonly string[]) {
    super(`The copy differs: ${differences.slice(0, 10).join('; ')}`);
  }
}

/**
 * The target already has the objects of the service, but not their rows. Policies and rights are created from the
 * catalogs, for the roles of the target.
 * @throws CopyDiffers, ProgramFailed, PostgresError, ConnectionLost; Error that says what to do, for instance about a
 * role that the target lacks; the signal's reason
 */
export async function copyDatabase(options: CopyOptions): Promise<CopyResult> {
  const { source, target, signal, isWritten = false } = options;
  const [from, to] = [source.placement, target.placement];
  const { schema, snapshot, leftOut, sourceSummary, targetSummary, policies } = await withDumpSession(
    source,
    signal,
    async (reader, dump) => {
      const parts = await schemaOf(reader, from, dump);
      const copied = await withWriter(target, signal, async (writer) => {
        const targetSummary = await copyInto(writer, reader, parts, options);
        return { targetSummary, leftOut: isWritten ? [] : await copyAccess(writer, reader, options) };
      });
      const [snapshot] = await reader.row(sql`SELECT pg_current_snapshot()`);
      return {
        ...copied,
        schema: entriesIn(parts),
        snapshot: snapshot ?? '',
        sourceSummary: await summaryOf(reader, from, options),
        policies: await policiesOf(reader, from),
      };
    },
  );
  const isSameMajor = (await source.tenancy.major()) === (await target.tenancy.major());
  const created = await withDumpSession(target, signal, async (session, dump) => ({
    schema: entriesIn(await schemaOf(session, to, dump)),
    policies: await policiesOf(session, to),
  }));
  const differences = [
    ...differentEntries(schema.filter(isNotAccess), created.schema.filter(isNotAccess), isSameMajor),
    ...differentPolicies(policies, created.policies, isSameMajor),
    ...differentContents(sourceSummary, targetSummary),
  ];
  if (differences.length > 0) throw new CopyDiffers(differences);
  return { leftOut, schema, snapshot };
}

const isNotAccess = (entry: DumpEntry): boolean => !isAccessEntry(entry);

/** @returns what the target contains then */
async function copyInto(
  writer: Session,
  reader: Session,
  { own, beforeData, afterData }: DumpedSchema,
  options: CopyOptions,
): Promise<Summary> {
  const [from, to] = [options.source.placement, options.target.placement];
  for (const name of own) await writer.query(sql`CREATE SCHEMA ${ident(name)}`);
  await execute(writer, beforeData);
  if (options.target.tenancy.distributesTables)
    await distributeAgain(writer, to, await distributedTables(reader, options.source));
  await withSearchPath(writer, to, async () => {
    for (const table of await tablesOf(reader, from)) {
      const report = (rows: number, bytes: number) => options.onProgress?.({ table: table.displayName, rows, bytes });
      await copyTable(reader, writer, table, report);
    }
  });
  await copySequences(reader, writer, from);
  await copyLargeObjects(reader, writer, from);
  // Read before the policies are created, which may hide rows from a role that is not a superuser.
  const summary = await summaryOf(writer, to, options);
  await withSearchPath(writer, to, () =>
    execute(
      writer,
      afterData.filter((entry) => !isFilledLast(entry)),
    ),
  );
  await createPolicies(writer, to, await policiesOf(reader, from));
  await withSearchPath(writer, to, () => execute(writer, afterData.filter(isFilledLast)));
  return summary;
}

/**
 * Sets the rights of the source and the settings of its roles, and compares the rights of both sides. Nothing can be
 * written to the target afterward.
 * @param writer a session of the target's writer
 * @param reader a session that sees the source
 * @returns messages about settings that the target refuses
 * @throws CopyDiffers; Error that names an object, for instance because the target lacks a role
 */
export async function copyAccess(
  writer: Session,
  reader: Session,
  { source, target, signal }: Pick<CopyOptions, 'source' | 'target' | 'signal'>,
): Promise<string[]> {
  const rights = await rightsOf(reader, source.placement);
  await setRights(writer, target.placement, rights);
  const differences = differentRights(rights, await rightsOf(writer, target.placement));
  if (differences.length > 0) throw new CopyDiffers(differences);
  const settings = await roleSettingsOf(reader, source.placement);
  return setRoleSettings(target.tenancy, target.placement, settings, signal);
}

/**
 * The project's part of the schema, as pg_dump writes it now.
 * @throws as {@link copyDatabase}
 */
export const schemaEntries = (database: ProjectDatabase, signal: AbortSignal): Promise<DumpEntry[]> =>
  withDumpSession(database, signal, async (session, dump) =>
    entriesIn(await schemaOf(session, database.placement, dump)),
  );

const OPTIONS = [
  ...['--no-owner', '--no-tablespaces', '--no-table-access-method', '--no-security-labels'],
  ...['--no-publications', '--no-subscriptions', `--lock-wait-timeout=${LOCK_WAIT_MS}`],
];

/** Writes a section of the schema in pg_dump's format. */
type Dump = (section: 'pre-data' | 'post-data') => Promise<string>;

/**
 * Runs `work` as a role that can read the whole project, in one snapshot, with all tables locked against changes of
 * their schema.
 */
const withDumpSession = <T>(
  { tenancy, placement }: ProjectDatabase,
  signal: AbortSignal,
  work: (session: Session, dump: Dump) => Promise<T>,
): Promise<T> =>
  withDumpRole(tenancy, placement, signal, (login) =>
    withSnapshot(login, { tenancy, placement }, signal, async (session, snapshot) => {
      await configureSession(session, 'reading');
      return work(session, (section) =>
        pgDump(login, [...OPTIONS, `--section=${section}`, `--snapshot=${snapshot}`], signal),
      );
    }),
  );

/**
 * Runs `work` as the writer, so that the writer owns everything. Names are resolved in pg_catalog only, so that no
 * function or operator of the project takes the place of one that a statement means.
 */
export async function withWriter<T>(
  { tenancy, placement }: ProjectDatabase,
  signal: AbortSignal,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const login = await roleLogin(tenancy, placement, placement.writer, { search_path: 'pg_catalog' }, 'cdp copy');
  const inSession = async (session: Session): Promise<T> => {
    await configureSession(session, 'writing');
    return work(session);
  };
  return withSession(login, inSession, signal);
}

/**
 * Settings of the sessions on both sides. They give each value one text format, and remove the operator's limits, which
 * could end a long COPY.
 */
const SETTINGS = {
  DateStyle: 'ISO',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  bytea_output: 'hex',
  extra_float_digits: '3',
  lc_monetary: 'C',
  xmloption: 'content',
  // Keeps the order of rows.
  synchronize_seqscans: 'off',
  statement_timeout: '0',
  idle_session_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  transaction_timeout: '0',
};

/**
 * If a sequence is replaced by a view before it is read, the view must not run the project's code with the reader's
 * rights.
 */
const READING = { restrict_nonsystem_relation_kind: 'view, foreign-table' };

/** The body of a function may refer to objects that are created later. */
const WRITING = { check_function_bodies: 'off' };

/** Sets those settings that this version of Postgres has. */
export async function configureSession(session: Session, kind: 'reading' | 'writing'): Promise<void> {
  const wanted = Object.entries({ ...SETTINGS, ...(kind === 'reading' ? READING : WRITING) });
  await session.query(
    sql`SELECT pg_catalog.set_config(s.name, wanted.value, false)
        FROM ROWS FROM (pg_catalog.unnest(${wanted.map(([name]) => name)}::text[]),
          pg_catalog.unnest(${wanted.map(([, value]) => value)}::text[])) AS wanted (name, value)
        JOIN pg_catalog.pg_settings s ON s.name = wanted.name`,
  );
}

/**
 * Runs `work`, which writes rows, with the search path of requests: the project's functions in a CHECK, an index or a
 * view may name tables without their schema.
 */
export async function withSearchPath<T>(writer: Session, { schema }: Placement, work: () => Promise<T>): Promise<T> {
  await writer.query(sql`SET search_path = ${ident(schema)}, ${ident(EXTENSIONS_SCHEMA)}`);
  const result = await work();
  await writer.query(sql`SET search_path = pg_catalog`);
  return result;
}

/** A schema in two parts: indexes and constraints are created after the rows. */
interface DumpedSchema {
  /** Schemas that the writer has created. */
  readonly own: readonly string[];
  readonly beforeData: readonly DumpEntry[];
  readonly afterData: readonly DumpEntry[];
}

const entriesIn = ({ beforeData, afterData }: DumpedSchema): DumpEntry[] => [...beforeData, ...afterData];

async function schemaOf(session: Session, placement: Placement, dump: Dump): Promise<DumpedSchema> {
  const own = await ownSchemasOf(session, placement);
  const entries = (text: string): DumpEntry[] => ownEntries(entriesOf(text, own), placement, own);
  return { own, beforeData: entries(await dump('pre-data')), afterData: entries(await dump('post-data')) };
}

/** @throws Error that names the entry */
async function execute(session: Session, entries: readonly DumpEntry[]): Promise<void> {
  for (const entry of entries) {
    // The policies, whose comments come later, and the rights are not created from the text of a dump.
    if (isAccessEntry(entry)) continue;
    try {
      await session.script(entry.text);
    } catch (error) {
      const message = `${entry.schema}.${entry.name} (${entry.kind}) cannot be made: ${(error as Error).message}`;
      throw new Error(message, { cause: error });
    }
  }
}
