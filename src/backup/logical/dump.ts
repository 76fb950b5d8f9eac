/**
 * Logical backup of one project: a dump by pg_dump and the number of rows in each table, both from the same snapshot.
 * Neither runs code of the project.
 */
import type { Readable } from 'node:stream';
import type { TableRows } from '../../contract/wire/admin-socket.js';
import type { Session } from '../../pg/index.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { Placement } from '../../tenancy/placement.js';
import type { Tenancy } from '../../tenancy/tenancy.js';
import { withServer } from '../../tenancy/postgres-server.js';
import { distributedTables } from '../distributed-tables.js';
import type { BackupServices } from '../backup-services.js';
import { dumpAccessMember, dumpMember, dumpListMember, type LogicalProject } from '../manifest.js';
import type { Saving } from '../tar.js';
import { accessOf } from './access.js';
import { type ClientPrograms, libpqEnvironment, run, stream } from './client-programs.js';
import { LOCK_WAIT_MS, withDumpRole } from './dump-role.js';
import { countIn, type ProjectTable, shownName, withSnapshot } from './snapshot.js';

interface Dumping extends Saving {
  readonly programs: ClientPrograms;
  /** For temporary files, mode 700. */
  readonly folder: string;
}

const OPTIONS = ['--format=custom', '--no-security-labels', '--no-publications', '--no-subscriptions'];

/**
 * Dumps the whole database; a restore takes only the project's part. Reads and inserts continue; altering or dropping a
 * table waits.
 * @throws ProgramFailed, PostgresError, what `add` throws
 */
export async function saveDump(
  { databaseSetup, projects, servers }: BackupServices,
  row: ProjectRow,
  { add, read, programs, folder, signal }: Dumping,
): Promise<LogicalProject> {
  const { name, placement } = row;
  const { database, writer, reader } = placement;
  const tenancy = servers.tenancyOf(placement);
  const postgres = await tenancy.major();
  return withServer(tenancy.serverOf(placement), async () => {
    await projects.upgradeIfNeeded(row);
    // The project may have changed its roles and rights; that must not prevent its backup.
    await databaseSetup.restoreRights(tenancy, placement);
    const extensions = await databaseSetup.extensionsOf(tenancy, placement);
    const { dump, access, ...noted } = await withDumpRole(tenancy, placement, signal, (login) =>
      withSnapshot(login, { tenancy, placement }, signal, async (session, snapshot, locked) => {
        const tables = await rowsOf(session, locked, placement);
        const distributed = await distributedTables(session, { tenancy, placement });
        const access = await accessOf(session, placement);
        const environment = await libpqEnvironment(login, folder);
        const args = [...OPTIONS, `--snapshot=${snapshot}`, `--lock-wait-timeout=${LOCK_WAIT_MS}`];
        const dump = await stream(`${programs.folder}/pg_dump`, args, { environment, signal }, (output) =>
          add(dumpMember(name), output as AsyncIterable<Buffer>),
        );
        return { dump, access, tables, distributed };
      }),
    );
    await add(dumpListMember(name), [Buffer.from(await listOf(read(dump), programs, signal))]);
    await add(dumpAccessMember(name), [Buffer.from(JSON.stringify(access))]);
    const versions = { postgres, pg_dump: programs.major };
    return { kind: 'logical', name, bytes: dump.size, database, writer, reader, extensions, ...noted, ...versions };
  });
}

/**
 * Reads the list from the file, which proves that pg_restore can read it.
 * @throws ProgramFailed
 */
function listOf(input: Readable, programs: ClientPrograms, signal: AbortSignal): Promise<string> {
  return run(`${programs.folder}/pg_restore`, ['--list'], { environment: { LC_ALL: 'C' }, input, signal });
}

/** Counts the rows of the tables in the project's schemas. */
export const countRows = (tenancy: Tenancy, placement: Placement, signal: AbortSignal): Promise<TableRows[]> =>
  withDumpRole(tenancy, placement, signal, (login) =>
    withSnapshot(login, { tenancy, placement }, signal, (session, _snapshot, tables) =>
      rowsOf(session, tables, placement),
    ),
  );

async function rowsOf(session: Session, tables: readonly ProjectTable[], placement: Placement): Promise<TableRows[]> {
  const rowCounts: TableRows[] = [];
  for (const table of tables)
    rowCounts.push({ name: shownName(table, placement), rows: await countIn(session, table) });
  return rowCounts;
}
