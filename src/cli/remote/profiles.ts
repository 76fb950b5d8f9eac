/** The profiles of `cdp login`: address and token by name, in a file that only its owner can read. */
import { chmod, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { configFolder, makePrivate, writePrivately } from './folders.js';
import { UsageError } from './outcome.js';

export interface Profile {
  url: string;
  token: string;
}

export type Profiles = Record<string, Profile>;

/** The one that is meant where none is named. */
export const DEFAULT_PROFILE = 'default';

export const profilesFile = (): string => join(configFolder(), 'profiles.json');

/** @throws UsageError where the file is not one of ours */
export async function readProfiles(): Promise<Profiles> {
  const file = profilesFile();
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw error;
  }
  try {
    const profiles = new Map(Object.entries(JSON.parse(text) as Profiles));
    const areWhole = [...profiles.values()].every(
      ({ url, token }) => typeof url === 'string' && typeof token === 'string',
    );
    if (areWhole) return Object.fromEntries(profiles);
  } catch {
    // Said below.
  }
  throw new UsageError(`${file} does not hold profiles`, 'Remove it and log in again: cdp login');
}

export async function writeProfiles(profiles: Profiles): Promise<void> {
  await makePrivate(configFolder());
  // It may have been there before us, open to others.
  await chmod(configFolder(), 0o700);
  await writePrivately(profilesFile(), `${JSON.stringify(profiles, null, 2)}\n`);
}
