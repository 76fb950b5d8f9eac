/** `cdp completion bash|zsh|fish`: prints the script for a shell, and for that script what could come last in a line. */
import { Argument, Command } from 'commander';
import { NAME_PATTERN } from '../../contract/names.js';
import { clientFor, findProfile } from '../remote/connection.js';
import { heedOutput } from '../remote/output.js';
import { readProfiles } from '../remote/profiles.js';
import { type Candidates, candidatesFor } from './candidates.js';
import { FILES, SHELLS } from './scripts.js';

type Commands = Readonly<Record<string, () => Promise<Command>>>;

/** Whoever presses Tab waits. */
const PATIENCE_MS = 1_500;

export function completionCommand(commands: Commands): Command {
  return new Command('completion')
    .description('Print the script that completes commands, options and tables in your shell')
    .addArgument(new Argument('<SHELL>').choices(Object.keys(SHELLS)))
    .argument('[WORDS...]', 'Of a line, behind --: print what the last of them could be')
    .addHelpText('after', '\nIn ~/.bashrc: source <(cdp completion bash)')
    .action(async (name: keyof typeof SHELLS, words: string[]) => {
      heedOutput(() => process.exit(1));
      const shell = SHELLS[name];
      if (words.length === 0) return void process.stdout.write(shell.script);
      // Nothing is to be said between the words of somebody's line.
      const candidates = await lastWord(commands, words).catch(() => []);
      const lines = candidates === 'files' ? [FILES] : candidates.map((candidate) => shell.line(candidate));
      process.stdout.write(lines.map((line) => `${line}\n`).join(''));
    });
}

async function lastWord(commands: Commands, words: readonly string[]): Promise<Candidates> {
  const [first = '', ...rest] = words;
  if (rest.length === 0) {
    const names = [...Object.keys(commands), ...(first === '' ? [] : ['--help', '--version'])];
    return names.filter((each) => each.startsWith(first)).map((value) => ({ value, description: '' }));
  }
  const command = Object.hasOwn(commands, first) ? await commands[first]?.() : undefined;
  if (command === undefined) return [];
  return candidatesFor(command, rest, { tables: tableNames, profiles: async () => Object.keys(await readProfiles()) });
}

const NAME = new RegExp(NAME_PATTERN);

/** Those with names that a command takes; others could hold what a shell would run. */
async function tableNames(profile: string | undefined): Promise<string[]> {
  const client = clientFor(await findProfile(profile), 0);
  const tables = await client.tables({ signal: AbortSignal.timeout(PATIENCE_MS) });
  return tables.map(({ name }) => name).filter((name) => NAME.test(name));
}
