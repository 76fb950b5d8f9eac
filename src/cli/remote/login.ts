/** `cdp login` and `cdp logout`: keep a token for later commands, and forget it. */
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { Command } from 'commander';
import { clientFor, DEFAULT_PROFILE, ENVIRONMENT, profilesFile, readProfiles, writeProfiles } from './connection.js';
import { EXIT, ExitError, UsageError } from '../exit.js';
import { warn } from '../terminal/output.js';

interface Options {
  profile: string;
  url?: string;
}

const PROFILE_NAME = /^[\w.-]{1,63}$/;

export function loginCommand(): Command {
  const command = new Command('login')
    .description('Store a token for later commands; prompts for it, or reads standard input')
    .option('--profile <NAME>', 'Profile name to store it under', DEFAULT_PROFILE)
    .option('--url <URL>', `Address of the service (default: from the profile, else ${ENVIRONMENT.url})`);
  return command.action(() => login(command.opts<Options>()));
}

async function login({ profile, url: given }: Options): Promise<void> {
  if (!PROFILE_NAME.test(profile)) throw new UsageError(`"${profile}" is not a valid profile name`);
  const url = given ?? (await readProfiles())[profile]?.url ?? process.env[ENVIRONMENT.url];
  if (url === undefined) throw new UsageError('Which service?', 'Add --url https://cdp.example');
  clientFor({ url, token: '' });
  if (isExposed(new URL(url))) warn(`Warning: without TLS, anyone on the network path to ${url} can read the token`);

  const token = await askSecret(`Token for ${url} (not shown): `);
  if (!/^[\x21-\x7e]+$/.test(token)) throw new UsageError('This is not a token');
  const { project, token: own } = await clientFor({ url, token }).token();
  await writeProfiles({ ...(await readProfiles()), [profile]: { url, token } });
  process.stdout.write(`Logged in to the project ${project.name} at ${url}\n`);
  process.stdout.write(`Scopes: ${own.scopes.join(', ')}\n`);
  process.stdout.write(`Stored as the profile ${profile} in ${profilesFile()}\n`);
}

const isExposed = ({ protocol, hostname }: URL): boolean =>
  protocol === 'http:' && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname);

/** On a terminal without showing it, else from standard input. */
async function askSecret(question: string): Promise<string> {
  if (!process.stdin.isTTY) return (await text(process.stdin)).trim();
  process.stderr.write(question);
  // The line editor echoes what it reads; here it echoes into nothing.
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
    .option('--profile <NAME>', 'Profile of cdp login', DEFAULT_PROFILE);
  return command.action(async () => {
    const { profile } = command.opts<Options>();
    const { [profile]: forgotten, ...others } = await readProfiles();
    if (forgotten === undefined) throw new UsageError(`There is no profile "${profile}"`);
    await writeProfiles(others);
    process.stdout.write(`Forgot the profile ${profile}; its token stays valid until it is revoked\n`);
  });
}
