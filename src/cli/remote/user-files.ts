/** A person's own files of this program, which only that person can read, and other files that commands read. */
import { readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { hasCode, isMissing, makeFolder } from '../../files.js';
import { UsageError } from '../exit.js';

const home = (variable: string | undefined, ...otherwise: string[]): string =>
  // Relative paths are ignored, as the XDG Base Directory Specification wants.
  join(variable?.startsWith('/') || variable?.includes(':') ? variable : join(homedir(), ...otherwise), 'cdp');

/** `$XDG_CONFIG_HOME/cdp`, `%APPDATA%\cdp` on Windows, else `~/.config/cdp`. */
export const configFolder = (): string =>
  home(process.env.XDG_CONFIG_HOME ?? (process.platform === 'win32' ? process.env.APPDATA : undefined), '.config');

/** `$XDG_STATE_HOME/cdp`, `%LOCALAPPDATA%\cdp` on Windows, else `~/.local/state/cdp`. */
export const stateFolder = (): string =>
  home(
    process.env.XDG_STATE_HOME ?? (process.platform === 'win32' ? process.env.LOCALAPPDATA : undefined),
    '.local',
    'state',
  );

/** Creates the folder, open to its owner alone. @throws Error naming it */
export const makePrivate = (folder: string): Promise<void> => makeFolder(folder, 0o700);

/** @throws UsageError if the file cannot be made because its folder is missing */
export async function requireFolderOf(file: string): Promise<void> {
  const folder = dirname(file);
  const found = await stat(folder).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
  if (!found?.isDirectory()) throw new UsageError(`There is no folder ${folder}`);
}

/** @throws UsageError if there is no such file */
export async function readTextFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (isMissing(error)) throw new UsageError(`There is no file ${file}`);
    if (hasCode(error, 'EISDIR')) throw new UsageError(`${file} is a folder`);
    throw error;
  }
}
