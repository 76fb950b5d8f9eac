/**
 * Finds the service and the token for a command: the named profile comes first, then the environment, then the default
 * profile.
 */
import { chmod, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { CdpClient } from '../../client/client.js';
import type { Scope } from '../../contract/names.js';
import { isMissing, replaceFile } from '../../files.js';
import { UsageError, useTokenOf, PROGRAM } from '../exit.js';
import { configFolder, makePrivate } from './user-files.js';

export const ENVIRONMENT = { url: 'CDP_URL', token: 'CDP_TOKEN', profile: 'CDP_PROFILE' } as const;

export const DEFAULT_PROFILE = 'default';

export interface Profile {
  url: string;
  token: string;
  /** Name of the token's project, unless an older version stored the profile. */
  project?: string;
}

type Profiles = Record<string, Profile>;

/** The file with the name that `cdp use` chose. */
const chosenFile = (): string => join(configFolder(), 'profile');

export const profilesFile = (): string => join(configFolder(), 'profiles.json');

/** @throws UsageError if the file does not contain profiles */
export async function readProfiles(): Promise<Profiles> {
  const file = profilesFile();
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (isMissing(error)) return '{}';
    throw error;
  });
  try {
    const profiles = JSON.parse(text) as Profiles;
    const areComplete = Object.values(profiles).every(
      ({ url, token }) => typeof url === 'string' && typeof token === 'string',
    );
    // Without a prototype: a profile may be called "constructor".
    if (areComplete) return Object.assign(Object.create(null) as Profiles, profiles);
  } catch {
    // Reported below.
  }
  throw new UsageError(`${file} does not contain profiles`, `Remove it and log in again: ${PROGRAM} login`);
}

export async function writeProfiles(profiles: Profiles): Promise<void> {
  await makePrivate(configFolder());
  // The folder may already have existed, with access for others.
  await chmod(configFolder(), 0o700);
  await replaceFile(profilesFile(), `${JSON.stringify(profiles, null, 2)}\n`, 0o600);
}

/** The profile that commands use if neither an option nor the environment names one. */
export async function chosenProfile(): Promise<string> {
  const text = await readFile(chosenFile(), 'utf8').catch((error: unknown) => {
    if (isMissing(error)) return '';
    throw error;
  });
  return text.trim() || DEFAULT_PROFILE;
}

export const chooseProfile = (name: string): Promise<void> => replaceFile(chosenFile(), `${name}\n`, 0o600);

/** @throws UsageError if there is no profile */
export const profileFromOptions = (command: Command): Promise<Profile> =>
  findProfile(command.opts<{ profile?: string }>().profile);

/**
 * @param name of a profile, if given
 * @throws UsageError if there is none
 */
export async function findProfile(name: string | undefined): Promise<Profile> {
  const [url, token, profile] = [ENVIRONMENT.url, ENVIRONMENT.token, ENVIRONMENT.profile].map(
    (variable) => process.env[variable] || undefined,
  );
  if (name === undefined && (url !== undefined || token !== undefined)) {
    if (profile !== undefined)
      throw new UsageError(`Both ${ENVIRONMENT.profile} and ${ENVIRONMENT.url} are set`, 'Unset one of them');
    // A profile's token must not be sent to another address.
    if (url === undefined) throw new UsageError(`${ENVIRONMENT.token} is set and ${ENVIRONMENT.url} is not`);
    if (token === undefined) throw new UsageError(`${ENVIRONMENT.url} is set and ${ENVIRONMENT.token} is not`);
    useTokenOf(ENVIRONMENT.token);
    return { url, token };
  }
  const profileName = name ?? profile ?? (await chosenProfile());
  const profiles = await readProfiles();
  const saved = profiles[profileName];
  if (saved !== undefined) return saved;
  if (profileName !== DEFAULT_PROFILE) throw noProfile(profileName);
  const names = Object.keys(profiles);
  if (names.length > 0) {
    throw new UsageError(`Which profile? You have ${names.join(', ')}`, `Choose one: ${PROGRAM} use ${names[0]}`);
  }
  throw new UsageError(
    'No service to connect to: there is no profile, and no environment variable names one',
    `Log in with ${PROGRAM} login, or set ${ENVIRONMENT.url} and ${ENVIRONMENT.token}`,
  );
}

export const noProfile = (name: string): UsageError =>
  new UsageError(`There is no profile "${name}"`, `Create it: ${PROGRAM} login --profile ${name}`);

/** The variable that overrides the profile of `cdp use`. */
export const overridingVariable = (): string | undefined =>
  Object.values(ENVIRONMENT).find((variable) => process.env[variable]);

/** A few seconds at most, because a person is waiting. */
const MAX_RETRIES = 3;

export const clientFromOptions = async (command: Command): Promise<CdpClient> =>
  clientFor(await profileFromOptions(command));

/**
 * @param maxRetries of one request
 * @throws UsageError if the address is not a URL
 */
export function clientFor({ url, token }: Profile, maxRetries = MAX_RETRIES): CdpClient {
  requireUrl(url);
  return new CdpClient({ url, token, maxRetries });
}

/**
 * The project and scopes of a token.
 * @throws UsageError if it is an admin token
 */
export async function ownProject(
  client: CdpClient,
): Promise<{ project: { id: string; name: string }; scopes: Scope[] }> {
  const { project, token } = await client.token();
  if (project !== null) return { project, scopes: token.scopes };
  throw new UsageError(
    'This is an admin token, which does not give access to project data',
    'Use a token of a project',
  );
}

/** So that paths can be appended, and equal addresses compared. */
export const withoutSlash = (url: string): string => url.replace(/\/+$/, '');

/** @throws UsageError if the address is not a URL, or that of a page of the service */
export function requireUrl(url: string): void {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    const isHost = /^[\w.-]+(?::\d+)?(?:\/|$)/.test(url);
    throw new UsageError(`"${url}" is not a URL`, isHost ? `Use http://${url} or https://${url}` : EXAMPLE);
  }
  const { origin, pathname, search, hash } = new URL(url);
  const path = pathname.replace(/\/(?:console|api|mcp)(?:\/.*)?$/, '');
  if (path !== pathname || search !== '' || hash !== '')
    throw new UsageError(`"${url}" has more than the address of the service`, `Use ${withoutSlash(origin + path)}`);
}

const EXAMPLE = 'Use a URL such as https://cdp.example';
