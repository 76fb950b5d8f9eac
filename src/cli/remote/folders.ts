/** Where a person's own files of this program are, and writing them so that nobody else can read them, and no half of one. */
import { randomBytes } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { makeFolder } from '../../files.js';

const home = (variable: string | undefined, ...otherwise: string[]): string =>
  // Relative ones are to be ignored (XDG Base Directory Specification).
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

/** Makes the folder, open to its owner alone. @throws Error naming it */
export const makePrivate = (folder: string): Promise<void> => makeFolder(folder, 0o700);

/** Replaces a file as a whole; whoever reads it sees the old one or the new one. */
export async function writePrivately(file: string, content: string): Promise<void> {
  await makePrivate(dirname(file));
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    const handle = await open(draft, 'wx', 0o600);
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
