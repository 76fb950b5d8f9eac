/**
 * Copies a project from one Postgres server to another, which may have a later major version: the schema by pg_dump,
 * the rows by COPY, both from the same snapshot. Needs no client programs of Postgres
 * (docs/decisions/0046-copying-between-servers.md).
 */
import type { Verification } from '../../contract/moves.js';
import { ident, type Session, sql, withSession } from '../../pg/index.js';
import { EXTENSIONS_SCHEMA } from '../../tenancy/extensions.js';
import { isOnCitus, type Placement } from '../../tenancy/placement.js';
import { ownSchemasOf } from '../../tenancy/project-rights.js';
import { roleLogin } from '../../tenancy/role-login.js';
import type { Tenancy } from '../../tenancy/tenancy.js';
import { distributeAgain, distributedTables } from '../distributed-tables.js';
import { LOCK_WAIT_MS, withDumpRole } from '../logical/dump-role.js';
import { entriesOf, type Entry, ownEntries } from '../logical/dump-entries.js';
import { executeEach, statementsOf } from '../logical/dump-statements.js';
import { withSnapshot } from '../logical/snapshot.js';
import { copyLargeObjects } from './large-objects.js';
import { pgDump } from './pg-dump.js';
import { set } from './session-settings.js';
import { copySequences } from './others.js';
import { copyTable, tablesOf } from './tables.js';
import { type Summary, summaryOf, differentContents, differentEntries } from './verify.js';

/** A project's database, on a running server. */
export interface ProjectDatabase {
  readonly tenancy: Tenancy;
  readonly placement: Placement;
}

export interface CopyOptions {
  /** The tables of the source are locked against ALTER and DROP. Later writes are not copied. */
  readonly source: ProjectDatabase;
  /**
   * As {@link Tenancy.create} creates it, with the schema version of the source. After a failure it is partly filled.
   */
  readonly target: ProjectDatabase;
  readonly verify: Verification;
  /** If aborted, all sessions end at once, and their transactions are rolled back. */
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: CopyProgress) => void;
  /** The source is written to during the copy and has no large objects, so sequences are not compared. */
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
  /** Messages about rights of roles that the target does not have. */
  readonly leftOut: string[];
  /** The schema of the source. */
  readonly schema: Entry[];
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
 * Replaces the source's roles by the target's. The target already has the objects of the service, but not their rows.
 * @throws CopyDiffers, ProgramFailed, PostgresError, ConnectionLost; Error that says what to do; the signal's reason
 */
export async function copyDatabase(options: CopyOptions): Promise<CopyResult> {
  const { source, target, signal } = options;
  const [from, to] = [source.placement, target.placement];
  const { schema, snapshot, leftOut, before, after } = await reading(source, signal, async (reader, dump) => {
    const parts = await schemaOf(reader, from, dump);
    const copied = await writing(target, signal, (writer) => copyInto(writer, reader, parts, options));
    const [snapshot] = await reader.row(sql`SELECT pg_current_snapshot()`);
    return {
      ...copied,
      schema: entriesIn(parts),
      snapshot: snapshot ?? '',
      before: await summaryOf(reader, from, options),
    };
  });
  const isSameMajor = (await source.tenancy.major()) === (await target.tenancy.major());
  const differences = [
    ...differentEntries(schema, await readSchema(target, signal), from, to, isSameMajor && leftOut.length === 0),
    ...differentContents(before, after),
  ];
  if (differences.length > 0) throw new CopyDiffers(differences);
  return { leftOut, schema, snapshot };
}

/** @returns what the target contains then */
async function copyInto(
  writer: Session,
  reader: Session,
  { own, beforeData, afterData }: Schema,
  options: CopyOptions,
): Promise<{ leftOut: string[]; after: Summary }> {
  const [from, to] = [options.source.placement, options.target.placement];
  for (const name of own) await writer.query(sql`CREATE SCHEMA ${ident(name)}`);
  const leftOut = await execute(writer, beforeData, from, to);
  if (isOnCitus(to)) await distributeAgain(writer, to, await distributedTables(reader, from));
  for (const table of await tablesOf(reader, from)) {
    const report = (rows: number, bytes: number) => options.onProgress?.({ table: table.shown, rows, bytes });
    await copyTable(reader, writer, table, report);
  }
  await copySequences(reader, writer, from);
  await copyLargeObjects(reader, writer, from, to);
  // Read before the policies are created, which may hide rows from a role that is not a superuser.
  const after = await summaryOf(writer, to, options);
  leftOut.push(...(await execute(writer, afterData, from, to)));
  return { leftOut, after };
}

/**
 * The project's part of the schema, as pg_dump writes it now.
 * @throws as {@link copyDatabase}
 */
export const readSchema = (place: ProjectDatabase, signal: AbortSignal): Promise<Entry[]> =>
  reading(place, signal, async (session, dump) => entriesIn(await schemaOf(session, place.placement, dump)));

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
const reading = <T>(
  { tenancy, placement }: ProjectDatabase,
  signal: AbortSignal,
  work: (session: Session, dump: Dump) => Promise<T>,
): Promise<T> =>
  withDumpRole(tenancy, placement, signal, (login) =>
    withSnapshot(login, placement, signal, async (session, snapshot) => {
      await set(session, 'reading');
      return work(session, (section) =>
        pgDump(login, [...OPTIONS, `--section=${section}`, `--snapshot=${snapshot}`], signal),
      );
    }),
  );

/**
 * Runs `work` as the writer, so that the writer owns everything. The search path lets the project's code find its
 * tables, as in its requests.
 */
export function writing<T>(
  { tenancy, placement }: ProjectDatabase,
  signal: AbortSignal,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const settings = { search_path: `${placement.schema}, ${EXTENSIONS_SCHEMA}` };
  const login = roleLogin(tenancy, placement, placement.writer, settings, 'cdp copy');
  const inSession = async (session: Session): Promise<T> => {
    await set(session, 'writing');
    return work(session);
  };
  return withSession(login, inSession, signal);
}

/** A schema in two parts: indexes and constraints are created after the rows. */
interface Schema {
  /** Schemas that the writer has created. */
  readonly own: readonly string[];
  readonly beforeData: readonly Entry[];
  readonly afterData: readonly Entry[];
}

const entriesIn = ({ beforeData, afterData }: Schema): Entry[] => [...beforeData, ...afterData];

async function schemaOf(session: Session, placement: Placement, dump: Dump): Promise<Schema> {
  const own = await ownSchemasOf(session, placement);
  const entries = (text: string): Entry[] => ownEntries(entriesOf(text), placement.schema, own);
  return { own, beforeData: entries(await dump('pre-data')), afterData: entries(await dump('post-data')) };
}

/** @returns messages about rights of roles that do not exist here */
async function execute(session: Session, entries: readonly Entry[], from: Placement, to: Placement): Promise<string[]> {
  const leftOut: string[] = [];
  for (const entry of entries) {
    const failed = (error: unknown) =>
      new Error(`${entry.schema}.${entry.name} (${entry.kind}) cannot be made: ${(error as Error).message}`, {
        cause: error,
      });
    leftOut.push(...(await executeEach(session, statementsOf(entry, from, to), failed)));
  }
  return leftOut;
}
