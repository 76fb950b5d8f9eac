/** `cdp backup verify`: reads a whole backup, and on request restores it beside everything else to count its rows. */
import { chmod, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { BackupSource } from './backup/backup-source.js';
import { BackupFolder } from './backup/folder/backup-folder.js';
import type { ProgramSearch } from './backup/logical/client-programs.js';
import { countRows } from './backup/logical/dump.js';
import { openBackup } from './backup/open-backup.js';
import { restoreFiles } from './backup/physical/physical.js';
import { restore } from './backup/restore.js';
import { Closing } from './closing.js';
import { openConfiguredEngine } from './configured-engine.js';
import { BY_ITSELF } from './contract/audit.js';
import { messageOf } from './contract/errors.js';
import type { BackupVerified } from './contract/wire/admin-socket.js';
import { folderMode } from './embedded/embedded-folder.js';
import { exists, removeFolder } from './files.js';
import { sql } from './pg/index.js';
import { openPostgres } from './postgres.js';
import type { Settings } from './settings.js';
import { withServiceSession } from './tenancy/service-pool.js';

interface Verification {
  /** A file or a folder. */
  readonly path: string;
  /** Whether to restore it, too, into a temporary data folder. */
  readonly start: boolean;
  readonly programSearch: ProgramSearch;
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
}

/** @throws Error if it is not a backup, or its manifests are damaged */
export async function verifyBackup(config: Settings, options: Verification): Promise<BackupVerified> {
  const { path, start, signal, progress } = options;
  const backup = await openBackup(path);
  progress(`Reading ${path}`);
  const faults: string[] = [];
  for await (const fault of backup.faults(signal)) faults.push(fault);
  const names = backup.manifest.projects.map(({ name }) => name);
  if (!start || faults.length > 0) return { projects: names.map((name) => ({ name, tables: null })), faults };
  if (backup instanceof BackupFolder) await startControl(config, backup, options);
  return { projects: await restoreAside(config, backup, options, faults), faults };
}

async function startControl(config: Settings, backup: BackupFolder, { signal, progress }: Verification): Promise<void> {
  const { control } = backup.folderManifest;
  if (control === null) return;
  await withTemporaryDataFolder(config, async (temporary) => {
    const files = backup.controlFiles();
    const postgres = await openPostgres(temporary, 'cdp backup verify', SILENT, {
      makeControl: (data, account) =>
        restoreFiles(data, { folders: control.folders, files, recovery: null, account, signal }),
    });
    try {
      const { address } = postgres;
      const [projects, tokens, entries] = await withServiceSession(address, address.database, (session) =>
        session.row(sql`SELECT (SELECT count(*) FROM cdp.projects), (SELECT count(*) FROM cdp.tokens),
          (SELECT count(*) FROM cdp.audit)`),
      );
      progress(`control database: ${projects} projects, ${tokens} tokens, ${entries} audit entries`);
    } finally {
      await postgres.close();
    }
  });
}

/** One project after the other, so that the largest has to fit on the disk, and not all of them. */
async function restoreAside(
  config: Settings,
  { path, manifest }: BackupSource,
  { programSearch, signal, progress }: Verification,
  faults: string[],
): Promise<BackupVerified['projects']> {
  return withTemporaryDataFolder(config, async (temporary) => {
    const closing = new Closing();
    try {
      const postgres = await openPostgres(temporary, 'cdp backup verify', SILENT);
      closing.add(() => postgres.close());
      const engine = await openConfiguredEngine(temporary, postgres, SILENT, { waiting: progress });
      closing.add(() => engine.close());
      const services = engine.backupServices(BY_ITSELF);
      const verified: BackupVerified['projects'][number][] = [];
      for (const { name } of manifest.projects) {
        progress(`${name}: restoring into a temporary folder`);
        try {
          // A copy has no tokens, and its log is not archived.
          const copy = { projectName: name, as: name, at: null, missing: false, placementRequest: {} };
          const done = await restore(services, { file: path, ...copy, programSearch, signal, progress: () => {} });
          for (const { damage } of done.projects) if (damage !== null) faults.push(`${name}: ${damage}`);
          const { placement } = await services.projects.get(name);
          const tables = await countRows(services.servers.tenancyOf(placement), placement, signal);
          verified.push({ name, tables });
          await services.projects.delete(name);
        } catch (error) {
          if (signal.aborted) throw error;
          faults.push(`${name}: ${messageOf(error)}`);
        }
      }
      return verified;
    } finally {
      await closing.run();
    }
  });
}

const SILENT = pino({ level: 'silent' });

async function withTemporaryDataFolder<T>(config: Settings, work: (config: Settings) => Promise<T>): Promise<T> {
  const dataDir = await mkdtemp(join(tmpdir(), 'cdp-verify-'));
  // The accounts of servers pass through it.
  await chmod(dataDir, folderMode());
  try {
    return await work({ ...config, databaseUrl: null, dataDir, backupTo: null, diskReserveMib: 0 });
  } finally {
    const servers = join(dataDir, 'postgres');
    if (await exists(servers)) await removeFolder(await realpath(servers));
    await rm(dataDir, { recursive: true, force: true });
  }
}
