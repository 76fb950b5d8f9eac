/** `cdp backup FILE` and `cdp restore FILE`: save projects to a file, and create them again from it. */
import { createReadStream, createWriteStream } from 'node:fs';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Command, Option } from 'commander';
import { counted } from '../contract/message-text.js';
import {
  type BackupBody,
  type BackupDone,
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
import { requireFolderOf } from './remote/user-files.js';
import { print } from './terminal/output.js';
import { readConfig } from './setting-flags.js';

/** Standard input or output instead of a file. */
const STDIO = '-';

interface BackupFlags {
  project?: string;
  format?: 'physical' | 'logical';
  jobs: number;
}

interface RestoreFlags {
  project?: string;
  as?: string;
  at?: string;
  missing?: boolean;
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
    .description('Save projects with their tables, rows, code and tokens to one file')
    .argument('<FILE>', 'File to create; - for stdout')
    .option('--project <NAME>', 'Only this project (default: all)')
    .addOption(
      new Option(
        '--format <FORMAT>',
        'physical: files, for the same Postgres version and platform; logical: pg_dump dumps, for any version and platform (default: physical; with DATABASE_URL logical)',
      ).choices(['physical', 'logical']),
    )
    .addOption(new Option('--jobs <N>', 'Save this many projects at once').default(1).argParser(parseJobs));
  return operatorOptions(command).action((target: string) =>
    withAdminSocket(command, async (admin) => {
      const config = readConfig(command);
      const { project = null, format = null, jobs } = command.opts<BackupFlags>();
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
    }),
  );
}

function requireComplete({ left_out: leftOut }: BackupDone): void {
  if (leftOut.length === 0) return;
  throw new Error(`The backup is incomplete. Skipped: ${leftOut.map(({ name }) => name).join(', ')}`);
}

export function restoreCommand(): Command {
  const command = new Command('restore')
    .description('Create projects from a backup; never touches existing projects')
    .argument('<FILE>', 'File of cdp backup; - for stdin')
    .option('--project <NAME>', 'Only this project (default: all)')
    .option('--as <NEWNAME>', 'Restore under this name (without tokens)')
    .option('--missing', 'Only projects that do not exist')
    .option(
      '--at <TIME>',
      'Restore the state at this time, such as 2026-01-31T09:30:00Z; requires the WAL archived since the backup',
    )
    .option('--server <SERVER>', 'Restore on this Postgres server (default: the server "default")')
    .addOption(labelOption('Restore on the least loaded server with this label (repeatable)'));
  return operatorOptions(command).action(async (source: string) => {
    const config = readConfig(command);
    const { project = null, as = null, at = null, missing = false, server, label } = command.opts<RestoreFlags>();
    const place = { ...(server !== undefined && { server }), ...(label !== undefined && { labels: label }) };
    const load = (file: string, ...handedOver: string[]) =>
      withAdminSocket(command, async (admin) => {
        if (!(await exists(file))) throw new UsageError(`There is no file ${source}`);
        for (const path of handedOver) await admin.handOver(path);
        const request = { file, project, as, at, missing, ...place, ...programFolders(config) };
        const result = await watch<RestoreDone>(admin, 'local/restore', request);
        const lines = result.projects.map(
          ({ name, tables }) =>
            `Project ${printable(name)} restored${tables === null ? '' : `: ${tablesInWords(tables)}`}`,
        );
        const isNothing = result.projects.length + result.failed.length === 0;
        print(command, result, isNothing ? ['Nothing to restore: all projects exist'] : lines);
        if (result.failed.length > 0)
          throw new Error(`Not restored: ${result.failed.map(({ name }) => name).join(', ')}`);
        const damaged = result.projects.filter(({ damage }) => damage !== null).map(({ name }) => name);
        const unarchived = result.projects.filter((one) => one.not_archived !== null).map(({ name }) => name);
        const incomplete = [
          ...(damaged.length > 0 ? [`with damaged data: ${damaged.join(', ')}`] : []),
          ...(unarchived.length > 0 ? [`without archiving of the write-ahead log: ${unarchived.join(', ')}`] : []),
        ];
        if (incomplete.length > 0) throw new Error(`Restored ${incomplete.join('; ')}`);
      });
    if (source !== STDIO) return load(resolve(source));
    // To a file first: the whole backup is checked before anything changes.
    await withTransferFolder(config, async (folder) => {
      const file = join(folder, 'backup');
      await pipeline(process.stdin, createWriteStream(file, { mode: 0o600 }));
      await load(file, folder, file);
    });
  });
}

const watch = <T>(admin: AdminSocketClient, path: string, body: BackupBody | RestoreBody): Promise<T> =>
  abortOnSignals((signal) => admin.callWithProgress<T>(path, body, { signal, progress }));

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
