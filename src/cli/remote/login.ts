/** `cdp login` and `cdp logout`: keep a token for later commands, and forget it. */
import { Command } from 'commander';
import { clientFor, ENVIRONMENT } from './connection.js';
import { askSecret } from './hidden-prompt.js';
import { ending, UsageError } from './outcome.js';
import { DEFAULT_PROFILE, profilesFile, readProfiles, writeProfiles } from './profiles.js';

interface Options {
  profile: string;
  url?: string;
}

const PROFILE_NAME = /^[\w.-]{1,63}$/;

export function loginCommand(): Command {
  const command = new Command('login')
    .description('Keep a token for later commands; it is asked for, or read from standard input')
    .option('--profile <NAME>', 'Under this name', DEFAULT_PROFILE)
    .option('--url <URL>', `Address of the service (default: that of the profile, else ${ENVIRONMENT.url})`);
  return command.action(() => ending(() => login(command.opts<Options>())));
}

async function login({ profile, url: given }: Options): Promise<void> {
  if (!PROFILE_NAME.test(profile)) throw new UsageError(`"${profile}" is no name for a profile`);
  const before = (await readProfiles())[profile];
  const url = given ?? before?.url ?? process.env[ENVIRONMENT.url];
  if (url === undefined) throw new UsageError('Which service?', 'Say --url https://cdp.example');
  clientFor({ url, token: '' });
  if (isExposed(new URL(url)))
    process.stderr.write(`Warning: without TLS, everybody on the way to ${url} sees the token\n`);

  const token = await askSecret(`Token for ${url} (it is not shown): `);
  if (!/^[\x21-\x7e]+$/.test(token)) throw new UsageError('That is no token');
  const { project, token: own } = await clientFor({ url, token }).token();
  await writeProfiles({ ...(await readProfiles()), [profile]: { url, token } });
  process.stdout.write(`Logged in to the project ${project.name} at ${url}\n`);
  process.stdout.write(`Scopes: ${own.scopes.join(', ')}\n`);
  process.stdout.write(`Kept as the profile ${profile} in ${profilesFile()}\n`);
}

const isExposed = ({ protocol, hostname }: URL): boolean =>
  protocol === 'http:' && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname);

export function logoutCommand(): Command {
  const command = new Command('logout')
    .description('Forget a token; it stays valid until it is revoked')
    .option('--profile <NAME>', 'Of cdp login', DEFAULT_PROFILE);
  return command.action(() =>
    ending(async () => {
      const { profile } = command.opts<Options>();
      const { [profile]: forgotten, ...others } = await readProfiles();
      if (forgotten === undefined) throw new UsageError(`There is no profile "${profile}"`);
      await writeProfiles(others);
      process.stdout.write(`The profile ${profile} is forgotten; its token stays valid until it is revoked\n`);
    }),
  );
}
