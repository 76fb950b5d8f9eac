/** `cdp restore FILE`: makes projects anew out of a backup. */
import { createWriteStream } from 'node:fs';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Command } from 'commander';
import { described, type RestoreBody, type RestoreDone } from '../contract/wire/operator.js';
import type { AdminClient } from './admin-client.js';
import { managementOptions, print, withAdmin } from './management.js';
import { printable } from './remote/terminal-text.js';
import { PROGRAM_SETTINGS, readConfig } from './settings.js';
import { abortedBySignals, programPlaces, progress, withTransferFolder } from './transfer.js';

/** Standard input in the place of a file. */
const STDIN = '-';

export function restoreCommand(): Command {
  const command = new Command('restore')
    .description('Make projects anew out of a backup; those that exist are never touched')
    .argument('<FILE>', 'Of `cdp backup`; - reads standard input')
    .option('--project <NAME>', 'Only this project (default: all)')
    .option('--as <NEWNAME>', 'Another name for it; without its tokens')
    .option(
      '--at <TIME>',
      'Its state at this time, as 2026-01-31T09:30:00Z; its log must have been archived since the backup',
    );
  return managementOptions(command, PROGRAM_SETTINGS).action(async (source: string) => {
    const config = readConfig(command);
    const { project = null, as = null, at = null } = command.opts<{ project?: string; as?: string; at?: string }>();
    const wanted = { project, as, at, ...programPlaces(config) };
    const load = (file: string, ...ours: string[]) =>
      withAdmin(command, async (admin) => {
        for (const path of ours) await admin.handOver(path);
        show(command, await loaded(admin, { file, ...wanted }));
      });
    if (source !== STDIN) return load(resolve(source));
    // Into a file first: it is checked as a whole before anything is changed.
    await withTransferFolder(config, async (folder) => {
      const file = join(folder, 'backup');
      await pipeline(process.stdin, createWriteStream(file, { mode: 0o600 }));
      await load(file, folder, file);
    });
  });
}

const loaded = (admin: AdminClient, body: RestoreBody): Promise<RestoreDone> =>
  abortedBySignals((signal) => admin.watch('local/restore', body, { signal, progress }));

function show(command: Command, done: RestoreDone): void {
  const { projects, failed } = done;
  const lines = projects.map(
    ({ name, tables }) => `Project ${printable(name)} restored${tables === null ? '' : `: ${described(tables)}`}`,
  );
  print(command, done, lines);
  if (failed.length > 0) throw new Error(`Not restored: ${failed.map(({ name }) => name).join(', ')}`);
}
