/**
 * `cdp restore --from` on a machine without a data folder: restores the whole installation from a backup folder, with its
 * control database, and takes the old service's place.
 */
import { realpath, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import { setArchiving } from './backup/archiving.js';
import type { BackupServices } from './backup/backup-services.js';
import { ARCHIVE_FOLDER, BackupFolder } from './backup/folder/backup-folder.js';
import { ownEpoch, readEpoch, writeEpoch } from './backup/folder/epoch.js';
import { readLedger } from './backup/folder/ledger-files.js';
import { filesOf, restoreFiles } from './backup/physical/physical.js';
import { copyNewSegments, prepareArchive } from './backup/physical/wal-archive.js';
import { fillProject, verifyProject } from './backup/restore.js';
import { Closing } from './closing.js';
import { openConfiguredEngine } from './configured-engine.js';
import { BY_ITSELF } from './contract/audit.js';
import { messageOf } from './contract/errors.js';
import { isReady } from './contract/projects.js';
import type { RestoreDone } from './contract/wire/admin-socket.js';
import type { Account } from './embedded/accounts.js';
import { giveTo } from './embedded/cluster.js';
import { folderMode } from './embedded/embedded-folder.js';
import { findPostmasters, stopPostmaster } from './embedded/processes.js';
import { exists, makeFolder, namesIn, removeFolder } from './files.js';
import { type ServerAddress, sql } from './pg/index.js';
import { openPostgres, unfinishedRestore } from './postgres.js';
import { forEachAtOnce } from './promises.js';
import type { Settings } from './settings.js';
import type { ProjectRow } from './tenancy/control/control-rows.js';
import { withServiceSession } from './tenancy/service-pool.js';

interface InstallationRestore {
  /** The backup folder. */
  readonly from: string;
  /** Restores projects to this time at most, from archived WAL; null: as far as it reaches. */
  readonly at: Date | null;
  /** Ends when all checks are done. */
  readonly check: boolean;
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
  readonly waiting: (what: string) => void;
}

/**
 * After a failure, no data folder remains. A project that cannot be restored keeps its tokens: another backup of it can be
 * restored in its place.
 * @throws Error that says what to do
 */
export async function restoreInstallation(config: Settings, options: InstallationRestore): Promise<RestoreDone> {
  const { from, progress, signal, waiting } = options;
  const backup = await BackupFolder.open(from);
  const { control } = backup.folderManifest;
  if (control === null) throw new Error(`${from} has no control database: start a service, then restore its projects`);
  progress('Checking the control database');
  await backup.verifyControl(signal);
  if (options.check) return checkProjects(backup, options);
  await removeUnfinished(config);
  await makeFolder(config.dataDir, folderMode());
  await writeFile(unfinishedRestore(config), '');
  const closing = new Closing();
  try {
    const files = backup.controlFiles();
    const makeControl = (data: string, account: Account) =>
      restoreFiles(data, { folders: control.folders, files, recovery: null, account, signal });
    const postgres = await openPostgres(config, 'cdp restore', SILENT, { makeControl });
    closing.add(() => postgres.close());
    await forgetWorkUnderWay(postgres.address);
    const engine = await openConfiguredEngine(config, postgres, SILENT, { waiting });
    closing.add(() => engine.close());
    const services = engine.backupServices(BY_ITSELF);
    const { entries, keys } = await readLedger(from);
    await services.control.subjects.importLedger(entries, keys);
    const done = await restoreProjects(services, backup, options);
    await takeOver(services, from, progress);
    await closing.run();
    await rm(unfinishedRestore(config));
    return done;
  } catch (error) {
    // The first failure tells more than those of the cleanup.
    await closing.run().catch(() => {});
    // The next attempt repeats it.
    await removeUnfinished(config).catch(() => {});
    throw error;
  }
}

/** Removes what an earlier attempt has left, and no more: its marker tells that nobody has used it. */
async function removeUnfinished(config: Settings): Promise<void> {
  if (!(await exists(unfinishedRestore(config)))) return;
  const place = join(config.dataDir, 'postgres');
  if (await exists(place)) {
    const folder = await realpath(place);
    for (const { pid, data } of await findPostmasters(folder)) await stopPostmaster(pid, data);
    for (const name of await namesIn(folder)) await removeFolder(join(folder, name));
    await rm(place, { recursive: true });
  }
  await rm(unfinishedRestore(config));
}

/**
 * What was under way when the backup was made has ended since, one way or the other. To continue it could drop the database
 * of a project that lives on an added server.
 */
const forgetWorkUnderWay = (address: ServerAddress): Promise<void> =>
  withServiceSession(address, address.database, async (session) => {
    await session.run([
      sql`UPDATE cdp.moves SET state = CASE state WHEN 'switched' THEN 'done' ELSE 'undone' END, ended_at = now(),
            reason = 'the installation was restored from a backup' WHERE ended_at IS NULL`,
      sql`UPDATE cdp.projects SET is_fenced = false WHERE is_fenced`,
      sql`DELETE FROM cdp.projects WHERE status = 'creating'`,
    ]);
  });

/** How many projects are restored at once. */
const AT_ONCE = 4;

async function restoreProjects(
  services: BackupServices,
  backup: BackupFolder,
  { from, at, signal, progress }: InstallationRestore,
): Promise<RestoreDone> {
  const { control, servers } = services;
  const restored: RestoreDone['projects'][number][] = [];
  const failed: { name: string; reason: string }[] = [];
  const restoreOne = async ({ id, name, placement }: ProjectRow) => {
    const saved = backup.manifest.projects.find((one) => one.kind === 'physical' && one.server_id === placement.server);
    if (saved?.kind !== 'physical') throw new Error('the backup does not have its files');
    await verifyProject(backup, saved, signal);
    const contents = await filesOf(saved, backup, services, at, signal);
    const stored = backup.control.projects.find(({ server_id: id }) => id === placement.server);
    const tenancy = servers.tenancyOf(placement);
    try {
      await contents.make?.(placement);
      const filled = await fillProject(services, placement, contents, stored?.roles ?? [], signal);
      const origin = { lineage: await control.subjects.lineageOf(id), name, server: placement.server };
      const { declaration = null } = (await control.subjects.declaration(id)) ?? {};
      for (const line of await services.erasures.eraseAgain(placement, origin, declaration))
        progress(`${name}: ${line}`);
      return { ...filled, reaches: contents.reaches, isArchived: stored?.archive === true };
    } catch (error) {
      // The first failure tells more.
      await tenancy.drop(placement).catch(() => {});
      throw error;
    }
  };
  const rows = (await control.projects.list()).filter(isReady);
  await forEachAtOnce(rows, AT_ONCE, signal, async (row) => {
    const { name, placement } = row;
    if (placement.added !== null) return progress(`${name}: left on the server ${placement.server}`);
    progress(`${name}: restoring`);
    try {
      const { isArchived, reaches, ...filled } = await restoreOne(row);
      progress(`${name}: restored${reaches == null ? '' : `, with its archived log until ${reaches.toISOString()}`}`);
      if (filled.damage !== null) progress(`${name}: DAMAGED, as it was saved: ${filled.damage}`);
      const notArchived = isArchived ? await archiveAgain(services, row, from, signal) : null;
      if (notArchived !== null) progress(`${name}: NOT ARCHIVED, as it was before: ${notArchived}`);
      restored.push({ name, ...filled, not_archived: notArchived });
    } catch (error) {
      if (signal.aborted) throw error;
      failed.push({ name, reason: messageOf(error) });
      progress(`${name}: NOT RESTORED: ${messageOf(error)}`);
    }
  });
  return { projects: restored, failed };
}

/** With the segments of the folder, so that earlier moments stay in reach. @returns why it failed; null: it did not */
async function archiveAgain(
  services: BackupServices,
  { name, placement }: ProjectRow,
  from: string,
  signal: AbortSignal,
): Promise<string | null> {
  try {
    const { files } = services.servers.defaultTenancy;
    if (files !== null) {
      const { server } = placement;
      const { account } = await files.folderOf(server);
      const archive = join(files.archives, server);
      await prepareArchive(archive, account);
      await copyNewSegments(join(from, ARCHIVE_FOLDER), server, files.archives, signal);
      // The server compares a segment that it archives again with the one that is there.
      await giveTo(account, archive);
    }
    await setArchiving(services, name, true);
    return null;
  } catch (error) {
    return messageOf(error);
  }
}

/** From now on, the old service must not write to the folder. */
async function takeOver(services: BackupServices, from: string, progress: (line: string) => void): Promise<void> {
  const own = await ownEpoch(services);
  const found = await readEpoch(from);
  const epoch = Math.max(own.epoch, found?.epoch ?? 0) + 1;
  await writeEpoch(from, { ...own, epoch }).catch((error: unknown) =>
    progress(`${from} cannot be written, so an old service that comes back is not stopped by it: ${messageOf(error)}`),
  );
  await services.control.backups.setEpoch(epoch);
}

async function checkProjects(backup: BackupFolder, { signal, progress }: InstallationRestore): Promise<RestoreDone> {
  const failed: { name: string; reason: string }[] = [];
  for (const { name } of backup.control.projects) {
    const saved = backup.manifest.projects.find((one) => one.name === name);
    const reason =
      saved === undefined ? 'the backup does not have its files' : await faultOf(verifyProject(backup, saved, signal));
    progress(`${name}: ${reason === null ? 'can be restored' : `CANNOT BE RESTORED: ${reason}`}`);
    if (reason !== null) failed.push({ name, reason });
  }
  return { projects: [], failed };
}

const faultOf = (check: Promise<void>): Promise<string | null> => check.then(() => null, messageOf);

const SILENT = pino({ level: 'silent' });
