/** Runs the command that a person types. */
import { Command, CommanderError } from 'commander';
import { ConfigError } from '../load-config.js';
import { EngineError } from '../contract/errors.js';
import { VERSION } from '../version.js';
import { commandsFor } from './commands.js';
import { messageOf } from '../contract/operator-message.js';
import { printableLines } from '../terminal/text.js';

/** Exit codes; `terminal/outcome.ts` has more, for people with a token. */
const FAILED = 1;
const WRONG_USAGE = 2;

const FIRST_STEPS = `
First steps:
  cdp serve                                            run a service with its own Postgres
  cdp login --url http://127.0.0.1:8080                keep the token that it printed
  cdp import customers.csv --table customers --create  import a file into a table
  cdp sql 'SELECT count(*) FROM customers'             run a query; without one, a shell`;

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
  // Commander has already printed its help or message.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
  process.stderr.write(`cdp: ${printableLines(messageOf(error))}\n`);
  if (error instanceof EngineError && error.hint !== undefined) process.stderr.write(`${error.hint}\n`);
  const wrongUsage = error instanceof ConfigError || (error instanceof EngineError && error.status === 400);
  return wrongUsage ? WRONG_USAGE : FAILED;
}
