/** Files of this program that only their owner can read, and other files that commands read. */
import { readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { hasCode, isMissing, makeFolder } from '../../files.js';
import { UsageError } from '../exit.js';

const home = (variable: string | undefined, ...otherwise: string[]): string =>
  // Relative paths are ignored, as the XDG Base Directory Specification requires.
  join(variable?.startsWith('/') || variable?.includes(':') ? variable : join(homedir(), ...otherwise), 'cdp');

/** `$XDG_CONFIG_HOME/cdp`, `%APPDATA%\cdp` on Windows, otherwise `~/.config/cdp`. */
export const configFolder = (): string =>
  home(process.env.XDG_CONFIG_HOME ?? (process.platform === 'win32' ? process.env.APPDATA : undefined), '.config');

/** `$XDG_STATE_HOME/cdp`, `%LOCALAPPDATA%\cdp` on Windows, otherwise `~/.local/state/cdp`. */
export const stateFolder = (): string =>
  home(
    process.env.XDG_STATE_HOME ?? (process.platform === 'win32' ? process.env.LOCALAPPDATA : undefined),
    '.local',
    'state',
  );

/** Creates the folder with access only for its owner. @throws Error naming it */
export const makePrivate = (folder: string): Promise<void> => makeFolder(folder, 0o700);

/** @throws UsageError if the folder of the file does not exist */
export async function requireFolderOf(file: string): Promise<void> {
  const folder = dirname(file);
  const stats = await stat(folder).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
  if (!stats?.isDirectory()) throw new UsageError(`There is no folder ${folder}`);
}

/** Without a byte order mark, which editors on Windows write. @throws UsageError if there is no such file */
export async function readTextFile(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).replace(/^\ufeff/, '');
  } catch (error) {
    if (isMissing(error)) throw new UsageError(`There is no file ${file}`);
    if (hasCode(error, 'EISDIR')) throw new UsageError(`${file} is a folder`);
    throw error;
  }
}

/** Splits input into its non-empty lines. Splits only at LF: readline also splits at characters that JSON may contain. */
export async function* linesOf(input: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of input) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line.trim() !== '') yield line;
  }
  if (rest.trim() !== '') yield rest;
}
