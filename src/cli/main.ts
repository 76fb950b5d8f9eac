/** The command line: what a person types, and nothing else reads argv, the environment or asks on a terminal. */
import { Command, CommanderError } from 'commander';
import { ConfigError } from '../config.js';
import { EngineError } from '../contract/errors.js';
import { VERSION } from '../version.js';
import { commandsFor } from './commands.js';
import { messageOf } from '../contract/operator-message.js';
import { printableLines } from './remote/terminal-text.js';

/** Exit codes: 0 done, 1 failed, 2 wrong usage or settings. `remote/outcome.ts` has more, for people with a token. */
const FAILED = 1;
const WRONG_USAGE = 2;

const FIRST_STEPS = `
First steps:
  cdp serve                                            a service with a Postgres of its own
  cdp login --url http://127.0.0.1:8080                keep the token that it printed
  cdp import customers.csv --table customers --create  a file into a table
  cdp sql 'SELECT count(*) FROM customers'             a question; alone, a shell`;

/** Runs one command; sets the exit code of the process and never throws. */
export async function main(argv: readonly string[]): Promise<void> {
  const program = new Command('cdp')
    .description('CDP Data Engine: tables, records and SQL over HTTP, one isolated Postgres per project')
    .version(VERSION)
    .exitOverride()
    .showHelpAfterError('(add --help for the options)')
    .addHelpText('after', FIRST_STEPS);
  for (const command of await commandsFor(argv)) {
    program.addCommand(command.copyInheritedSettings(program));
  }
  program.commands.flatMap((command) => command.commands).forEach((command) => command.exitOverride());
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (error) {
    process.exitCode = report(error);
  }
}

function report(error: unknown): number {
  // Commander has printed its help or its complaint already.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
  process.stderr.write(`cdp: ${printableLines(messageOf(error))}\n`);
  if (error instanceof EngineError && error.hint !== undefined) process.stderr.write(`${error.hint}\n`);
  const wrongUsage = error instanceof ConfigError || (error instanceof EngineError && error.status === 400);
  return wrongUsage ? WRONG_USAGE : FAILED;
}
