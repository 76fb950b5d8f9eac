/** `cdp restore FILE`: makes projects anew out of a backup. */
import { createWriteStream } from 'node:fs';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Command } from 'commander';
import { described } from '../engine/backup/backup.js';
import { withPrivateFolder } from '../engine/backup/private-folder.js';
import { restore, type Restored } from '../engine/backup/restore.js';
import { commandLine, managementOptions, print, withEngine } from './management.js';
import { PROGRAM_SETTINGS, readConfig } from './settings.js';
import { abortedBySignals, programPlaces, progress } from './transfer.js';

/** Standard input in the place of a file. */
const STDIN = '-';

export function restoreCommand(): Command {
  const command = new Command('restore')
    .description('Make projects anew out of a backup; those that exist are never touched')
    .argument('<FILE>', 'Of `cdp backup`; - reads standard input')
    .option('--project <NAME>', 'Only this project (default: all)')
    .option('--as <NEWNAME>', 'Another name for it; without its tokens');
  return managementOptions(command, PROGRAM_SETTINGS).action(async (source: string) => {
    const { project = null, as = null } = command.opts<{ project?: string; as?: string }>();
    const places = programPlaces(readConfig(command));
    const options = { project, as, at: null, places, ownServers: null, by: commandLine(), progress };
    const load = (file: string) =>
      abortedBySignals((signal) =>
        withEngine(command, ({ installation }) => restore(installation, { ...options, file, signal }), { make: true }),
      );
    const restored =
      source === STDIN
        ? // Into a file first: it is checked as a whole before anything is changed.
          await withPrivateFolder(async (folder) => {
            const file = join(folder, 'backup');
            await pipeline(process.stdin, createWriteStream(file, { mode: 0o600 }));
            return load(file);
          })
        : await load(resolve(source));
    show(command, restored);
  });
}

function show(command: Command, { projects, failed }: Restored): void {
  const lines = projects.map(
    ({ name, tables }) => `Project ${name} restored${tables === null ? '' : `: ${described(tables)}`}`,
  );
  const shown = projects.map(({ leftOut, ...project }) => ({ ...project, left_out: leftOut }));
  print(command, { projects: shown, failed }, lines);
  if (failed.length > 0) throw new Error(`Not restored: ${failed.map(({ name }) => name).join(', ')}`);
}
