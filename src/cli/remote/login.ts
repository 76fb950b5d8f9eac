/** `cdp login`, `cdp logout`, `cdp profiles` and `cdp use`: tokens kept for later commands. */
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { Command } from 'commander';
import {
  chooseProfile,
  chosenProfile,
  clientFor,
  overridingVariable,
  DEFAULT_PROFILE,
  ENVIRONMENT,
  noProfile,
  ownProject,
  type Profile,
  profilesFile,
  readProfiles,
  requireUrl,
  writeProfiles,
  withoutSlash,
} from './profiles.js';
import { tableLines } from '../terminal/grid.js';
import { EXIT, ExitError, UsageError } from '../exit.js';
import { print, warn } from '../terminal/output.js';

interface Options {
  profile: string;
  url?: string;
  force?: boolean;
}

const PROFILE_NAME = /^[\w.-]{1,63}$/;

export function loginCommand(): Command {
  const command = new Command('login')
    .description('Store a token for later commands; prompts for it, or reads standard input')
    .option('--profile <NAME>', 'Profile name to store it under', DEFAULT_PROFILE)
    .option('--url <URL>', `Address of the service (default: from the profile, otherwise ${ENVIRONMENT.url})`)
    .option('--force', 'Replace a profile of another service or project');
  return command.action(() => login(command.opts<Options>()));
}

async function login({ profile, url: urlOption, force = false }: Options): Promise<void> {
  if (!PROFILE_NAME.test(profile)) throw new UsageError(`"${profile}" is not a valid profile name`);
  const earlier = (await readProfiles())[profile];
  const address = urlOption ?? earlier?.url ?? process.env[ENVIRONMENT.url];
  if (address === undefined) throw new UsageError('Which service?', 'Add --url https://cdp.example');
  const url = withoutSlash(address);
  requireUrl(url);
  if (isExposed(new URL(url))) warn(`Warning: without TLS, anyone on the network path to ${url} can read the token`);

  const token = await askSecret(`Token for ${url} (not shown): `);
  if (!/^[\x21-\x7e]+$/.test(token)) throw new UsageError('This is not a token');
  const { project, scopes } = await ownProject(clientFor({ url, token }));
  const profileEntry = { url, token, project: project.name };
  if (!force) requireSamePlace(profile, earlier, profileEntry);
  await writeProfiles({ ...(await readProfiles()), [profile]: profileEntry });
  process.stdout.write(`Logged in to the project ${project.name} at ${url}\n`);
  process.stdout.write(`Scopes: ${scopes.join(', ')}\n`);
  process.stdout.write(`Stored as the profile ${profile} in ${profilesFile()}\n`);
  if (process.env[ENVIRONMENT.profile] !== profile) warnIfOverridden();
}

/** @throws UsageError if this would replace the only copy of another project's token */
function requireSamePlace(name: string, earlier: Profile | undefined, { url, project }: Profile): void {
  if (earlier === undefined) return;
  const { project: before = project } = earlier;
  if (withoutSlash(earlier.url) === url && before === project) return;
  throw new UsageError(
    `The profile ${name} is for ${earlier.project === undefined ? '' : `the project ${before} at `}${earlier.url}`,
    `Choose another name with --profile NAME, or replace it with --force`,
  );
}

const isExposed = ({ protocol, hostname }: URL): boolean =>
  protocol === 'http:' && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname);

/** Reads a secret without echo on a terminal, otherwise from standard input. */
async function askSecret(question: string): Promise<string> {
  if (!process.stdin.isTTY) return (await text(process.stdin)).trim();
  process.stderr.write(question);
  // The line editor echoes its input; here, into nothing.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const editor = createInterface({ input: process.stdin, output: nowhere, terminal: true });
  try {
    return await new Promise<string>((resolve, reject) => {
      editor.once('line', (line) => resolve(line.trim()));
      editor.once('SIGINT', () => reject(new ExitError(EXIT.interrupted, 'Not logged in')));
      editor.once('close', () => reject(new ExitError(EXIT.refused, 'Not logged in: no token was entered')));
    });
  } finally {
    editor.close();
    process.stderr.write('\n');
  }
}

export function logoutCommand(): Command {
  const command = new Command('logout')
    .description('Forget a token; it stays valid until it is revoked')
    .option('--profile <NAME>', `Profile of cdp login (default: ${ENVIRONMENT.profile}, otherwise that of cdp use)`);
  return command.action(async () => {
    const chosen = await chosenProfile();
    const { profile = process.env[ENVIRONMENT.profile] || chosen } = command.opts<{ profile?: string }>();
    const { [profile]: forgotten, ...others } = await readProfiles();
    if (forgotten === undefined) throw noProfile(profile);
    await writeProfiles(others);
    if (profile === chosen) await chooseProfile(DEFAULT_PROFILE);
    process.stdout.write(`Forgot the profile ${profile}; its token stays valid until it is revoked\n`);
  });
}

export function profilesCommand(): Command {
  const command = new Command('profiles').description('List the profiles of cdp login').option('--json', 'Print JSON');
  return command.action(async () => {
    const chosen = overridingVariable() === undefined ? await chosenProfile() : process.env[ENVIRONMENT.profile];
    const profiles = Object.entries(await readProfiles()).map(([name, { url, project = null }]) => {
      return { name, project, url, in_use: name === chosen };
    });
    const rows = profiles.map(({ name, project, url, in_use: isUsed }) => [
      name,
      project ?? '',
      url,
      isUsed ? '*' : '',
    ]);
    print(command, profiles, tableLines(['PROFILE', 'PROJECT', 'URL', 'IN USE'], rows));
  });
}

export function useCommand(): Command {
  return new Command('use')
    .description(`Use this profile from now on, unless --profile or ${ENVIRONMENT.profile} names another`)
    .argument('<PROFILE>')
    .action(async (name: string) => {
      const profile = (await readProfiles())[name];
      if (profile === undefined) throw noProfile(name);
      await chooseProfile(name);
      process.stdout.write(`Commands use the profile ${name} (${profile.url})\n`);
      warnIfOverridden();
    });
}

function warnIfOverridden(): void {
  const variable = overridingVariable();
  if (variable !== undefined) warn(`Warning: this takes effect when ${variable} is unset`);
}
