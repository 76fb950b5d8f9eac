/** Logical restore of one project: pg_restore loads a dump into an empty project, as the project's writer. */
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { TableRows } from '../../contract/wire/operator.js';
import { withPrivateFolder } from '../../files.js';
import { ident, PostgresError, sql, withSession } from '../../pg/index.js';
import { EXTENSIONS_SCHEMA } from '../../tenancy/extensions.js';
import { isOnCitus, type Placement } from '../../tenancy/placement.js';
import { roleLogin } from '../../tenancy/role-login.js';
import type { Tenancy } from '../../tenancy/tenancy.js';
import type { BackupFile } from '../backup-file.js';
import { distributeAgain } from '../distributed-tables.js';
import { dumpOf, listOfDump, type LogicalProject } from '../manifest.js';
import { chooseEntries, setSearchPath } from './archive-entries.js';
import {
  type ClientPrograms,
  findPrograms,
  libpqEnvironment,
  ProgramFailed,
  type ProgramPlaces,
  run,
} from './client-programs.js';
import { countRows } from './dump.js';
import { entriesOf } from './dump-entries.js';
import { executeEach, statementsOf } from './dump-statements.js';

/** From this version on, pg_restore sets `transaction_timeout`, which earlier servers do not have. */
const TRANSACTION_TIMEOUT = 17;

/**
 * @param majors versions of the servers on which projects may be restored
 * @throws Error if a dump is from a newer server, or that says what to install
 */
export function programsFor(
  dumps: readonly LogicalProject[],
  majors: readonly number[],
  places: ProgramPlaces,
): Promise<ClientPrograms> {
  const newest = Math.max(...dumps.map(({ postgres }) => postgres));
  const [oldest, major] = [Math.min(...majors), Math.max(...majors)];
  if (newest > oldest) {
    throw new Error(
      `The backup was made on Postgres ${newest}, and this is ${oldest}: it needs the same or a later one`,
    );
  }
  const max = oldest < TRANSACTION_TIMEOUT ? TRANSACTION_TIMEOUT - 1 : undefined;
  return findPrograms(places, Math.max(major, ...dumps.map(({ pg_dump: version }) => version)), max);
}

interface LoadOptions {
  readonly tenancy: Tenancy;
  /** Placement of an empty project. */
  readonly placement: Placement;
  readonly dumped: LogicalProject;
  /** Contains the dump. */
  readonly file: BackupFile;
  readonly programs: ClientPrograms;
  readonly signal: AbortSignal;
}

/**
 * Loads rights, policies and the contents of materialized views as separate statements, because they name roles, which
 * have other names here, and because pg_restore would not fill a view to which a policy applies.
 * @returns messages about what is left out: rights of roles that do not exist here, and the distribution of tables
 * @throws ProgramFailed, PostgresError; Error if the numbers of rows differ from those in the dump
 */
export async function loadDump(options: LoadOptions): Promise<{ tables: TableRows[]; left_out: string[] }> {
  const { tenancy, placement, dumped, file, programs, signal } = options;
  const searchPath = `${placement.schema}, ${EXTENSIONS_SCHEMA}`;
  const settings = { search_path: searchPath, jit: 'off', client_connection_check_interval: '1s' };
  const login = roleLogin(tenancy, placement, placement.writer, settings, 'cdp restore');
  const entries = chooseEntries(
    (await file.content(listOfDump(dumped.name))).toString(),
    placement.schema,
    dumped.writer,
  );
  if (entries.ownSchemas.length > 0 && !placement.ownSchemas) {
    const names = entries.ownSchemas.join(', ');
    throw new Error(`The project has schemas of its own (${names}), which no project on this server may have`);
  }
  const { distributed = [] } = dumped;
  const isDistributed = distributed.length > 0 && isOnCitus(placement);
  const leftOut = await withPrivateFolder(async (folder) => {
    const environment = await libpqEnvironment(login, folder);
    const pgRestore = async (lines: readonly string[], ...how: string[]): Promise<string> => {
      if (lines.length === 0) return '';
      const list = join(folder, randomBytes(8).toString('hex'));
      await writeFile(list, `${lines.join('\n')}\n`, { mode: 0o600 });
      const args = ['--no-owner', '--no-tablespaces', '--exit-on-error', `--use-list=${list}`, ...how];
      const input = Readable.from(withSearchPath(file.read(dumpOf(dumped.name)), searchPath));
      return run(join(programs.folder, 'pg_restore'), args, { environment, signal, input });
    };
    await withSession(login, async (session) => {
      for (const name of entries.ownSchemas) await session.query(sql`CREATE SCHEMA ${ident(name)}`);
    });
    const database = `--dbname=${placement.database}`;
    await pgRestore(entries.contents, database, '--section=pre-data');
    if (isDistributed) await withSession(login, (session) => distributeAgain(session, placement, distributed), signal);
    await pgRestore(entries.contents, database, '--section=data', '--section=post-data');
    const rest = entriesOf(await pgRestore(entries.statements, '--file=-'));
    const statements = rest.flatMap((entry) => statementsOf(entry, dumped, placement));
    return withSession(login, (session) => executeEach(session, statements, asProgramFailed), signal);
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

async function* withSearchPath(dump: Readable, path: string): AsyncGenerator<Buffer> {
  let isFirst = true;
  for await (const part of dump as AsyncIterable<Buffer>) {
    yield isFirst ? setSearchPath(part, path) : part;
    isFirst = false;
  }
}

const asProgramFailed = (error: unknown, statement: string): unknown =>
  error instanceof PostgresError ? new ProgramFailed(`${error.message}: ${statement}`) : error;
