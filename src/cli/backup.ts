/** `cdp backup` and `cdp restore`: save projects to a file or everything into a folder, and restore it. */
import { createReadStream, createWriteStream } from 'node:fs';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Command, Option } from 'commander';
import { counted } from '../contract/message-text.js';
import {
  type BackupBody,
  type BackupDone,
  type FolderBackupBody,
  type FolderBackupDone,
  contentOf,
  tablesInWords,
  MAX_JOBS,
  type RestoreBody,
  type RestoreDone,
} from '../contract/wire/admin-socket.js';
import { exists, withPrivateFolder } from '../files.js';
import type { Settings } from '../settings.js';
import { abortOnSignals } from './signals.js';
import { printable } from './terminal/text.js';
import type { AdminSocketClient } from './admin-socket-client.js';
import { operatorOptions, withAdminSocket, type Labels, labelOption } from './operator-commands.js';
import { UsageError } from './exit.js';
import { lacksInstallation } from '../postgres.js';
import { requireFolderOf } from './remote/user-files.js';
import { print, warn } from './terminal/output.js';
import { addSettings, readConfig } from './setting-flags.js';

/** Standard input or output instead of a file. */
const STDIO = '-';

interface BackupFlags {
  to?: string;
  new?: boolean;
  project?: string;
  format?: 'physical' | 'logical';
  jobs: number;
}

interface RestoreFlags {
  from?: string;
  project?: string;
  as?: string;
  at?: string;
  missing?: boolean;
  replace?: boolean;
  check?: boolean;
  server?: string;
  label?: Labels;
}

function parseJobs(text: string): number {
  const jobs = Number(text);
  if (/^\d+$/.test(text) && jobs >= 1 && jobs <= MAX_JOBS) return jobs;
  throw new UsageError(`--jobs must be a whole number from 1 to ${MAX_JOBS}`);
}

export function backupCommand(): Command {
  const command = new Command('backup')
    .description('Save projects with their tables, rows, code and tokens to one file, or everything into a folder')
    .argument('[FILE]', 'File to create; - for stdout')
    .option('--to <DIR>', 'Save everything into this folder, which has one copy: only what has changed is written')
    .option('--new', 'With --to: begin anew in an empty folder that had a backup')
    .option('--project <NAME>', 'Only this project (default: all)')
    .addOption(
      new Option(
        '--format <FORMAT>',
        'physical: files, for the same Postgres version and platform; logical: pg_dump dumps, for any version and platform (default: physical; with DATABASE_URL logical)',
      ).choices(['physical', 'logical']),
    )
    .addOption(new Option('--jobs <N>', 'Save this many projects at once').default(1).argParser(parseJobs));
  command.addCommand(verifyCommand());
  return operatorOptions(command).action((target: string | undefined) => {
    const config = readConfig(command);
    const { to, new: isNew = false, project = null, format = null, jobs } = command.opts<BackupFlags>();
    if (to !== undefined) {
      if (target !== undefined || project !== null || format !== null)
        throw new UsageError('--to saves everything, so it goes with neither FILE, --project nor --format');
      return saveFolder(command, config, { folder: resolve(to), is_new: isNew, jobs });
    }
    if (target === undefined) throw new UsageError('Give a FILE, or a folder with --to');
    return withAdminSocket(command, async (admin) => {
      const save = (file: string) =>
        watch<BackupDone>(admin, 'local/backup', { file, project, format, jobs, ...programFolders(config) });
      if (target === STDIO) {
        // To a file first: the format needs sizes before contents, and a pipe must not receive half a backup.
        return withTransferFolder(config, async (folder) => {
          await admin.handOver(folder);
          const file = join(folder, 'backup');
          const result = await save(file);
          await pipeline(createReadStream(file), process.stdout, { end: false });
          requireComplete(result);
        });
      }
      await requireFolderOf(resolve(target));
      const done = await save(resolve(target));
      const { projects } = done;
      print(command, done, [
        `${counted(projects.length, 'project')} saved in ${printable(target)}`,
        ...projects.map((saved) => `- ${printable(saved.name)}: ${contentOf(saved)}`),
      ]);
      requireComplete(done);
    });
  });
}

function saveFolder(
  command: Command,
  config: Settings,
  request: Pick<FolderBackupBody, 'folder' | 'is_new' | 'jobs'>,
): Promise<void> {
  return withAdminSocket(command, async (admin) => {
    const body = { ...request, archive_days: config.archiveDays, ...programFolders(config) };
    const done = await watch<FolderBackupDone>(admin, 'local/backup-folder', body);
    const unchanged = done.projects.filter((one) => one.unchanged).length;
    print(command, done, [
      `${counted(done.projects.length, 'project')} saved in ${printable(request.folder)}, ${unchanged} of them unchanged`,
    ]);
    requireComplete(done);
  });
}

/** `cdp backup verify`. It needs no service, and no data folder. */
function verifyCommand(): Command {
  const command = new Command('verify')
    .description('Read a whole backup, and exit with 1 if anything of it is missing or damaged')
    .argument('<PATH>', 'File or folder of cdp backup')
    .option('--start', 'Also restore it into a temporary data folder, and count the rows');
  return addSettings(command, ['postgresBin', 'extensions'])
    .option('--json', 'Print JSON')
    .action(async (path: string) => {
      const config = readConfig(command);
      const { start = false } = command.opts<{ start?: boolean }>();
      const { verifyBackup } = await import('../verify-backup.js');
      if (!(await exists(resolve(path)))) throw new UsageError(`There is no file or folder ${path}`);
      const programSearch = { folder: config.postgresBin, path: process.env.PATH ?? '' };
      const result = await abortOnSignals((signal) =>
        verifyBackup(config, { path: resolve(path), start, programSearch, signal, progress }),
      );
      const lines = result.projects.map(
        ({ name, tables }) => `${name}: ${tables === null ? 'intact' : `intact, ${tablesInWords(tables)}`}`,
      );
      print(command, result, [...lines, ...result.faults.map((fault) => `FAULT: ${printable(fault)}`)]);
      if (result.faults.length > 0) throw new Error(`${counted(result.faults.length, 'fault')} in ${path}`);
    });
}

function requireComplete({ left_out: leftOut }: Pick<BackupDone, 'left_out'>): void {
  if (leftOut.length === 0) return;
  throw new Error(`The backup is incomplete. Skipped: ${leftOut.map(({ name }) => name).join(', ')}`);
}

export function restoreCommand(): Command {
  const command = new Command('restore')
    .description('Create projects from a backup; never touches existing projects, unless --replace says so')
    .argument('[FILE]', 'File of cdp backup; - for stdin')
    .option('--from <DIR>', 'Folder of cdp backup --to. Without a data folder: restore the whole installation')
    .option('--project <NAME>', 'Only this project (default: all)')
    .option('--as <NEWNAME>', 'Restore under this name (without tokens)')
    .option('--missing', 'Only projects that do not exist')
    .option('--replace', 'Put the project in the place of the existing one, which is kept under another name')
    .option('--check', 'Check everything, say what would be restored, and change nothing')
    .option(
      '--at <TIME>',
      'Restore the state at this time, such as 2026-01-31T09:30:00Z; requires the WAL archived since the backup',
    )
    .option('--server <SERVER>', 'Restore on this Postgres server (default: the server "default")')
    .addOption(labelOption('Restore on the least loaded server with this label (repeatable)'));
  return operatorOptions(command).action(async (argument: string | undefined) => {
    const config = readConfig(command);
    const { from, project = null, as = null, at = null, server, label, ...flags } = command.opts<RestoreFlags>();
    const { missing = false, replace = false, check = false } = flags;
    const source = from ?? argument;
    if (source === undefined || (from !== undefined && argument !== undefined))
      throw new UsageError('Give either a FILE or a folder with --from');
    if (from !== undefined && project === null && (await lacksInstallation(config))) {
      requireExisting(from, await exists(resolve(from)));
      return restoreAll(command, config, { from: resolve(from), at, check });
    }
    const place = { ...(server !== undefined && { server }), ...(label !== undefined && { labels: label }) };
    const load = (file: string, ...handedOver: string[]) =>
      withAdminSocket(command, async (admin) => {
        requireExisting(source, await exists(file));
        for (const path of handedOver) await admin.handOver(path);
        const request = { file, project, as, at, missing, replace, check, ...place, ...programFolders(config) };
        const result = await watch<RestoreDone>(admin, 'local/restore', request);
        showRestored(command, result, check ? 'Nothing was changed' : 'Nothing to restore: all projects exist');
      });
    if (from !== undefined || source !== STDIO) return load(resolve(source));
    // To a file first: the whole backup is checked before anything changes.
    await withTransferFolder(config, async (folder) => {
      const file = join(folder, 'backup');
      await pipeline(process.stdin, createWriteStream(file, { mode: 0o600 }));
      await load(file, folder, file);
    });
  });
}

function requireExisting(source: string, isThere: boolean): void {
  if (!isThere) throw new UsageError(`There is no file or folder ${source}`);
}

/** @throws Error, so that the exit code is 1, unless everything was restored as it was */
function showRestored(command: Command, result: RestoreDone, nothing: string): void {
  const { projects, failed } = result;
  const lines = projects.map(
    ({ name, tables }) => `Project ${printable(name)} restored${tables === null ? '' : `: ${tablesInWords(tables)}`}`,
  );
  print(command, result, projects.length + failed.length === 0 ? [nothing] : lines);
  if (failed.length > 0) throw new Error(`Not restored: ${failed.map(({ name }) => name).join(', ')}`);
  const damaged = projects.filter(({ damage }) => damage !== null).map(({ name }) => name);
  const unarchived = projects.filter((one) => one.not_archived !== null).map(({ name }) => name);
  const incomplete = [
    ...(damaged.length > 0 ? [`with damaged data: ${damaged.join(', ')}`] : []),
    ...(unarchived.length > 0 ? [`without archiving of the write-ahead log: ${unarchived.join(', ')}`] : []),
  ];
  if (incomplete.length > 0) throw new Error(`Restored ${incomplete.join('; ')}`);
}

async function restoreAll(
  command: Command,
  config: Settings,
  { from, at, check }: { from: string; at: string | null; check: boolean },
): Promise<void> {
  const { restoreInstallation } = await import('../restore-installation.js');
  const time = at === null ? null : parseTime(at);
  const result = await abortOnSignals((signal) =>
    restoreInstallation(config, { from, at: time, check, signal, progress, waiting: warn }),
  );
  if (!check) progress(`The installation is restored in ${config.dataDir}: start the service, then make a backup`);
  showRestored(command, result, 'Nothing was changed');
}

function parseTime(text: string): Date {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) throw new UsageError(`--at must be a time such as 2026-01-31T09:30:00Z`);
  return time;
}

const watch = <T>(
  admin: AdminSocketClient,
  path: string,
  body: BackupBody | FolderBackupBody | RestoreBody,
): Promise<T> => abortOnSignals((signal) => admin.callWithProgress<T>(path, body, { signal, progress }));

/** On standard error: standard output is for the result. */
const progress = (line: string): void => void process.stderr.write(`${printable(line)}\n`);

/** The folders in which to look for pg_dump and pg_restore. */
const programFolders = ({ postgresBin }: Settings) => ({ postgres_bin: postgresBin, path: process.env.PATH ?? '' });

/** A folder that the process with the database can open: a service may have a private /tmp. */
async function withTransferFolder<T>(
  { databaseUrl, dataDir }: Settings,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const isEmbedded = databaseUrl === null && (await exists(dataDir));
  return withPrivateFolder(work, isEmbedded ? dataDir : undefined);
}
