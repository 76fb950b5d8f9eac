/** Runs the command on the command line. */
import { Command, CommanderError } from 'commander';
import { VERSION } from '../version.js';
import { commandsFor } from './commands.js';
import { exitCodeOf, inOptions, inRed, printError } from './exit.js';
import { handleOutputErrors } from './terminal/output.js';
import { PROGRAM } from './program-name.js';

const FIRST_STEPS = `
First steps:
  cdp serve                                            run a service with its own Postgres
  cdp login --url http://127.0.0.1:8080                keep the token that it printed
  cdp import customers.csv --table customers --create  import a file into a table
  cdp sql 'SELECT count(*) FROM customers'             run a query; without one, a shell`;

const HELP_HINT = '(add --help for the options)';

/** Runs one command; sets the exit code of the process and never throws. */
export async function main(argv: readonly string[]): Promise<void> {
  handleOutputErrors();
  const program = new Command('cdp')
    .description('CDP Data Engine: tables, records and SQL over HTTP, one isolated Postgres per project')
    .version(VERSION)
    .exitOverride()
    .configureOutput({
      outputError: (text, write) => write(inRed(text.replace(/^error: /, 'cdp: '))),
      writeOut: (help) => process.stdout.write(help.replace(/^(Usage: |  )cdp /gm, `$1${PROGRAM} `)),
    })
    .showHelpAfterError(HELP_HINT)
    .addHelpText('after', FIRST_STEPS);
  for (const command of await commandsFor(argv)) {
    program.addCommand(command.copyInheritedSettings(program));
  }
  for (const subcommand of program.commands.flatMap(({ commands }) => commands)) {
    subcommand.exitOverride().configureOutput(program.configureOutput()).showHelpAfterError(HELP_HINT);
  }
  let running: Command | undefined;
  program.hook('preAction', (_, command) => {
    running = command;
  });
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (error) {
    process.exitCode = exitCodeOf(error);
    // Commander has already printed its help or message.
    if (error instanceof CommanderError) return;
    printError(inOptions(error, running?.options ?? []));
  }
}
