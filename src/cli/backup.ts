/** `cdp backup FILE`: saves projects into one file. */
import { createReadStream } from 'node:fs';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Command } from 'commander';
import { backup, contentOf } from '../engine/backup/backup.js';
import { withPrivateFolder } from '../engine/backup/private-folder.js';
import { VERSION } from '../version.js';
import { commandLine, managementOptions, print, withEngine } from './management.js';
import { PROGRAM_SETTINGS, readConfig } from './settings.js';
import { abortedBySignals, programPlaces, progress } from './transfer.js';

/** Standard output in the place of a file. */
const STDOUT = '-';

export function backupCommand(): Command {
  const command = new Command('backup')
    .description('Save projects with their tables, rows, code and tokens into one file')
    .argument('<FILE>', 'Must not exist; - writes to standard output')
    .option('--project <NAME>', 'Only this project (default: all)');
  return managementOptions(command, PROGRAM_SETTINGS).action(async (target: string) => {
    const { project = null } = command.opts<{ project?: string }>();
    const options = {
      project,
      places: programPlaces(readConfig(command)),
      ownServers: null,
      version: VERSION,
      by: commandLine(),
      progress,
    };
    const save = (file: string) =>
      abortedBySignals((signal) =>
        withEngine(command, ({ installation }) => backup(installation, { ...options, file, signal })),
      );
    if (target === STDOUT) {
      // Into a file first: sizes stand before contents, and half a backup should not get into a pipe.
      return withPrivateFolder(async (folder) => {
        const file = join(folder, 'backup');
        const { left_out: leftOut } = await save(file);
        await pipeline(createReadStream(file), process.stdout, { end: false });
        requireAll(leftOut);
      });
    }
    const manifest = await save(resolve(target));
    const { projects, left_out: leftOut } = manifest;
    print(command, manifest, [
      `${projects.length} ${projects.length === 1 ? 'project' : 'projects'} saved in ${target}`,
      ...projects.map((project) => `- ${project.name}: ${contentOf(project)}`),
    ]);
    requireAll(leftOut);
  });
}

function requireAll(leftOut: readonly { name: string }[]): void {
  if (leftOut.length === 0) return;
  throw new Error(`The backup is not complete. Left out: ${leftOut.map(({ name }) => name).join(', ')}`);
}
