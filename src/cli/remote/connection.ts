/** Which service a command speaks to, and as whom: a profile that is named, else the environment, else the default profile. */
import type { Command } from 'commander';
import { CdpClient } from '../../client/client.js';
import { UsageError } from './outcome.js';
import { DEFAULT_PROFILE, type Profile, readProfiles } from './profiles.js';

export const ENVIRONMENT = { url: 'CDP_URL', token: 'CDP_TOKEN' } as const;

export const remoteOptions = (command: Command): Command =>
  command.option(
    '--profile <NAME>',
    `Of cdp login (default: ${ENVIRONMENT.url} and ${ENVIRONMENT.token}, else "default")`,
  );

/** @throws UsageError where there is none */
export const findConnection = (command: Command): Promise<Profile> =>
  findProfile(command.opts<{ profile?: string }>().profile);

/**
 * @param name of a profile, where one is asked for
 * @throws UsageError where there is none
 */
export async function findProfile(name: string | undefined): Promise<Profile> {
  const [url, token] = [process.env[ENVIRONMENT.url] || undefined, process.env[ENVIRONMENT.token] || undefined];
  if (name === undefined && (url !== undefined || token !== undefined)) {
    // A profile's token must not go to an address that it was not given for.
    if (url === undefined) throw new UsageError(`${ENVIRONMENT.token} is set and ${ENVIRONMENT.url} is not`);
    if (token === undefined) throw new UsageError(`${ENVIRONMENT.url} is set and ${ENVIRONMENT.token} is not`);
    return { url, token };
  }
  const profile = (await readProfiles())[name ?? DEFAULT_PROFILE];
  if (profile !== undefined) return profile;
  if (name !== undefined) throw new UsageError(`There is no profile "${name}"`, `Make it: cdp login --profile ${name}`);
  throw new UsageError(
    'Which service? No profile is there, and the environment names none',
    `Log in with cdp login, or set ${ENVIRONMENT.url} and ${ENVIRONMENT.token}`,
  );
}

/** Some seconds at most: somebody waits, and would rather know that nothing is there. */
const FEW_RETRIES = 3;

export const connect = async (command: Command): Promise<CdpClient> => clientFor(await findConnection(command));

const LIKE_AN_ADDRESS = 'An address looks like https://cdp.example';

/**
 * @param maxRetries of one request
 * @throws UsageError where the address is none
 */
export function clientFor({ url, token }: Profile, maxRetries = FEW_RETRIES): CdpClient {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    const hint = /^[\w.-]+(?::\d+)?(?:\/|$)/.test(url) ? `Say http://${url}, or https://${url}` : LIKE_AN_ADDRESS;
    throw new UsageError(`"${url}" is no address`, hint);
  }
  return new CdpClient({ url, token, maxRetries });
}
