/** `cdp backup FILE`: saves projects into one file. */
import { createReadStream } from 'node:fs';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Command, Option } from 'commander';
import { type BackupBody, type BackupDone, contentOf } from '../contract/wire/operator.js';
import type { AdminClient } from './admin-client.js';
import { managementOptions, print, withAdmin } from './management.js';
import { printable } from './remote/terminal-text.js';
import { PROGRAM_SETTINGS, readConfig } from './settings.js';
import { abortedBySignals, programPlaces, progress, withTransferFolder } from './transfer.js';

/** Standard output in the place of a file. */
const STDOUT = '-';

export function backupCommand(): Command {
  const command = new Command('backup')
    .description('Save projects with their tables, rows, code and tokens into one file')
    .argument('<FILE>', 'Must not exist; - writes to standard output')
    .option('--project <NAME>', 'Only this project (default: all)')
    .addOption(
      new Option(
        '--format <FORM>',
        'physical: the files, for the same Postgres and platform; logical: dumps by pg_dump, for any (default: physical, with DATABASE_URL logical)',
      ).choices(['physical', 'logical']),
    );
  return managementOptions(command, PROGRAM_SETTINGS).action((target: string) =>
    withAdmin(command, async (admin) => {
      const config = readConfig(command);
      const { project = null, format = null } = command.opts<{ project?: string; format?: 'physical' | 'logical' }>();
      const save = (file: string) => saved(admin, { file, project, format, ...programPlaces(config) });
      if (target === STDOUT) {
        // Into a file first: sizes stand before contents, and half a backup should not get into a pipe.
        return withTransferFolder(config, async (folder) => {
          await admin.handOver(folder);
          const file = join(folder, 'backup');
          const { left_out: leftOut } = await save(file);
          await pipeline(createReadStream(file), process.stdout, { end: false });
          requireAll(leftOut);
        });
      }
      const manifest = await save(resolve(target));
      const { projects, left_out: leftOut } = manifest;
      print(command, manifest, [
        `${projects.length} ${projects.length === 1 ? 'project' : 'projects'} saved in ${printable(target)}`,
        ...projects.map((project) => `- ${printable(project.name)}: ${contentOf(project)}`),
      ]);
      requireAll(leftOut);
    }),
  );
}

const saved = (admin: AdminClient, body: BackupBody): Promise<BackupDone> =>
  abortedBySignals((signal) => admin.watch('local/backup', body, { signal, progress }));

function requireAll(leftOut: readonly { name: string }[]): void {
  if (leftOut.length === 0) return;
  throw new Error(`The backup is not complete. Left out: ${leftOut.map(({ name }) => name).join(', ')}`);
}
