/** Logical restore of one project: pg_restore loads a dump into an empty project, as the project's writer. */
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { TableRows } from '../../contract/wire/admin-socket.js';
import { withPrivateFolder } from '../../files.js';
import { ident, PostgresError, type Session, sql, withSession } from '../../pg/index.js';
import { EXTENSIONS_SCHEMA } from '../../tenancy/extensions.js';
import type { Placement } from '../../tenancy/placement.js';
import { revokeReaderDefaults } from '../../tenancy/project-rights.js';
import { roleLogin } from '../../tenancy/role-login.js';
import type { Tenancy } from '../../tenancy/tenancy.js';
import { TRANSACTION_TIMEOUT } from '../../tenancy/postgres-server.js';
import type { BackupSource } from '../backup-source.js';
import { distributeAgain } from '../distributed-tables.js';
import { dumpAccessMember, dumpMember, type LogicalProject } from '../manifest.js';
import { type ProjectAccess, parseAccess } from './access.js';
import { type DumpToc, type TocEntry, readToc } from './dump-toc.js';
import { chooseEntries, setSearchPath } from './toc-entries.js';
import {
  type ClientPrograms,
  findPrograms,
  libpqEnvironment,
  ProgramFailed,
  type ProgramSearch,
  run,
} from './client-programs.js';
import { countRows } from './dump.js';
import { entriesOf, type DumpEntry } from './dump-entries.js';
import { createPolicies, differentPolicies, policiesOf } from './policies.js';
import { differentRights, rightsOf, setRights } from './rights.js';
import { madeRoleOf, renameRoles } from './roles.js';
import { setRoleSettings } from './role-settings.js';

/**
 * @param majors versions of the servers on which projects may be restored
 * @throws Error if a dump is from a newer server, or that says what to install
 */
export function programsFor(
  dumps: readonly LogicalProject[],
  majors: readonly number[],
  places: ProgramSearch,
): Promise<ClientPrograms> {
  const newest = Math.max(...dumps.map(({ postgres }) => postgres));
  const [oldest, major] = [Math.min(...majors), Math.max(...majors)];
  if (newest > oldest) {
    throw new Error(
      `The backup was made on Postgres ${newest}, and this is ${oldest}: it needs the same or a later one`,
    );
  }
  // From there on, pg_restore sets it, too.
  const max = oldest < TRANSACTION_TIMEOUT ? TRANSACTION_TIMEOUT - 1 : undefined;
  return findPrograms(places, Math.max(major, ...dumps.map(({ pg_dump: version }) => version)), max);
}

interface LoadOptions {
  readonly tenancy: Tenancy;
  /** Placement of an empty project. */
  readonly placement: Placement;
  readonly dumped: LogicalProject;
  /** Contains the dump. */
  readonly file: BackupSource;
  readonly programs: ClientPrograms;
  /** Creates roles of the project that do not exist yet, by the names that it knows. */
  readonly createRoles: (names: readonly string[]) => Promise<void>;
  readonly signal: AbortSignal;
}

/**
 * Policies and rights name roles, which have other names here, so they do not come from pg_restore: they are created
 * from the catalogs of the source, or in a backup of an earlier version, from the dump, with other names of roles.
 * @returns messages about what is left out: settings of roles, and the distribution of tables
 * @throws ProgramFailed, PostgresError; Error if something refers to a role that does not exist here, or if the restored
 * project differs from the saved one
 */
export async function loadDump(options: LoadOptions): Promise<{ tables: TableRows[]; left_out: string[] }> {
  const { tenancy, placement, dumped, file, programs, signal } = options;
  const path = `${placement.schema}, ${EXTENSIONS_SCHEMA}`;
  const login = (searchPath: string) =>
    roleLogin(tenancy, placement, placement.writer, { ...SETTINGS, search_path: searchPath }, 'cdp restore');
  const asWriter = async <T>(work: (session: Session) => Promise<T>, searchPath = 'pg_catalog'): Promise<T> =>
    withSession(await login(searchPath), work, signal);
  const access = await savedAccess(options);
  await options.createRoles(access === null ? [] : rolesIn(access));
  const archive = await readToc(file.read(dumpMember(dumped.name)));
  const entries = chooseEntries(archive.entries, placement.schema, dumped.writer);
  if (entries.ownSchemas.length > 0 && !placement.ownSchemas) {
    const names = entries.ownSchemas.join(', ');
    throw new Error(`The project has schemas of its own (${names}), which no project on this server may have`);
  }
  const here = await asWriter(versionOf);
  const { distributed = [] } = dumped;
  const isDistributed = distributed.length > 0 && tenancy.distributesTables;
  const leftOut = await withPrivateFolder(async (folder) => {
    const environment = await libpqEnvironment(await login(path), folder);
    const pgRestore = async (chosen: readonly TocEntry[], ...how: string[]): Promise<string> => {
      if (chosen.length === 0) return '';
      const list = join(folder, randomBytes(8).toString('hex'));
      await writeFile(list, chosen.map(({ id }) => `${id}\n`).join(''), { mode: 0o600 });
      const args = ['--no-owner', '--no-tablespaces', '--exit-on-error', `--use-list=${list}`, ...how];
      const dump = file.read(dumpMember(dumped.name));
      // Only what writes rows runs code of the project, which may name tables without their schema.
      const input = how.includes(PRE_DATA) ? dump : Readable.from(replaceSearchPath(dump, path));
      return run(join(programs.folder, 'pg_restore'), args, { environment, signal, input });
    };
    const statementsOf = async (chosen: readonly TocEntry[]): Promise<DumpEntry[]> =>
      entriesOf(await pgRestore(chosen, '--file=-'));
    await asWriter(async (session) => {
      if (access === null) await revokeReaderDefaults(session, placement);
      for (const name of entries.ownSchemas) await session.query(sql`CREATE SCHEMA ${ident(name)}`);
    });
    const database = `--dbname=${placement.database}`;
    await pgRestore(entries.contents, database, PRE_DATA);
    if (isDistributed) await asWriter((session) => distributeAgain(session, placement, distributed));
    await pgRestore(entries.contents, database, '--section=data', '--section=post-data');
    await asWriter(async (session) => {
      if (access !== null) await createPolicies(session, placement, access.policies);
      else for (const entry of await statementsOf(entries.access)) await executeRenamed(session, entry, options);
    });
    await asWriter(async (session) => {
      for (const { text } of await statementsOf(entries.last)) await execute(session, text);
    }, path);
    if (access === null) return [...entries.leftOut];
    await asWriter((session) => setRights(session, placement, access.rights));
    await asWriter((session) => requireSame(session, access, options));
    return [...entries.leftOut, ...(await setRoleSettings(tenancy, placement, access.settings, signal))];
  }).catch((error: unknown) => {
    throw error instanceof ProgramFailed ? explained(error, archive, here) : error;
  });
  const tables = await countRows(tenancy, placement, signal);
  if (JSON.stringify(tables) !== JSON.stringify(dumped.tables)) {
    const rows = (list: readonly TableRows[]) => list.map(({ name, rows }) => `${name} ${rows}`).join(', ');
    throw new Error(
      `The tables do not have the same number of rows as in the backup: ${rows(tables)} instead of ${rows(dumped.tables)}`,
    );
  }
  if (distributed.length > 0 && !isDistributed) {
    leftOut.push(
      `how tables are distributed, because this server is not a Citus cluster: ${distributed.map(({ table }) => table).join(', ')}`,
    );
  }
  return { tables, left_out: leftOut };
}

const versionOf = async (session: Session): Promise<string> =>
  (await session.row(sql`SELECT current_setting('server_version')`))[0] ?? '';

/** A minor release may add what earlier ones of the same major version reject. */
function explained(error: ProgramFailed, { server, program }: DumpToc, here: string): ProgramFailed {
  const [major = 0, minor = 0] = numbersOf(here);
  const isNewer = [server, program].map(numbersOf).some(([of, release = 0]) => of === major && release > minor);
  if (!isNewer) return error;
  return new ProgramFailed(
    `${error.message}. The dump was made by pg_dump ${shortened(program)} on Postgres ${shortened(server)}. This server ` +
      `is Postgres ${shortened(here)}, which may not know everything in it: update it to the same minor release`,
  );
}

/** Of `15.18 (Debian 15.18-1)`. */
const shortened = (version: string): string => version.split(' ')[0] ?? '';
const numbersOf = (version: string): number[] => shortened(version).split('.').map(Number);

const SETTINGS = { jit: 'off', client_connection_check_interval: '1s' };

const PRE_DATA = '--section=pre-data';

/** @returns null for a backup of an earlier version */
async function savedAccess({ file, dumped }: LoadOptions): Promise<ProjectAccess | null> {
  const member = dumpAccessMember(dumped.name);
  return file.has(member) ? parseAccess(await file.content(member), member) : null;
}

/** The roles that policies, rights and settings name, and that the project has made. */
function rolesIn({ policies, rights, settings }: ProjectAccess): string[] {
  const identities = [
    ...policies.flatMap(({ roles }) => roles),
    ...rights.map(({ role }) => role),
    ...settings.map(({ role }) => `@${role}`),
  ];
  return [...new Set(identities)].flatMap((identity) => madeRoleOf(identity) ?? []);
}

async function executeRenamed(
  session: Session,
  { text }: DumpEntry,
  { dumped, placement }: LoadOptions,
): Promise<void> {
  for (const statement of await renameRoles(text, dumped, placement)) await execute(session, statement);
}

/** @throws Error that says what differs from the backup */
async function requireSame(
  session: Session,
  { policies, rights }: ProjectAccess,
  { tenancy, placement, dumped }: LoadOptions,
): Promise<void> {
  const isSameMajor = dumped.postgres === (await tenancy.major());
  const differences = [
    ...differentPolicies(policies, await policiesOf(session, placement), isSameMajor),
    ...differentRights(rights, await rightsOf(session, placement)),
  ];
  if (differences.length === 0) return;
  throw new Error(`The restored project differs from the backup: ${differences.slice(0, 10).join('; ')}`);
}

async function* replaceSearchPath(dump: Readable, path: string): AsyncGenerator<Buffer> {
  let isFirst = true;
  for await (const part of dump as AsyncIterable<Buffer>) {
    yield isFirst ? setSearchPath(part, path) : part;
    isFirst = false;
  }
}

/** @throws ProgramFailed with the statement */
async function execute(session: Session, statement: string): Promise<void> {
  try {
    await session.script(statement);
  } catch (error) {
    if (!(error instanceof PostgresError)) throw error;
    throw new ProgramFailed(`${error.message}: ${statement.replaceAll(/\s+/g, ' ')}`);
  }
}
