/** Runs the command on the command line. */
import { Command, CommanderError } from 'commander';
import { VERSION } from '../version.js';
import { exitCodeOf, inOptions, inRed, printError, PROGRAM } from './exit.js';
import { handleOutputErrors } from './terminal/output.js';

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
    // Options behind the name of a command are of that command: `cdp backup verify` shares some with `cdp backup`.
    .enablePositionalOptions()
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

// Commands are loaded on demand: `cdp sql` needs no server, `cdp serve` no CSV parser.

type Load = () => Promise<Command>;

const COMMANDS: Readonly<Record<string, Load>> = {
  serve: async () => (await import('./serve.js')).serveCommand(),
  project: async () => (await import('./project.js')).projectCommand(),
  server: async () => (await import('./server.js')).serverCommand(),
  rebalance: async () => (await import('./rebalance.js')).rebalanceCommand(),
  token: async () => (await import('./token.js')).tokenCommand(),
  audit: async () => (await import('./audit.js')).auditCommand(),
  usage: async () => (await import('./usage.js')).usageCommand(),
  backup: async () => (await import('./backup.js')).backupCommand(),
  restore: async () => (await import('./backup.js')).restoreCommand(),
  doctor: async () => (await import('./doctor.js')).doctorCommand(),
  config: async () => (await import('./setting-flags.js')).configCommand(),
  login: async () => (await import('./remote/login.js')).loginCommand(),
  logout: async () => (await import('./remote/login.js')).logoutCommand(),
  profiles: async () => (await import('./remote/login.js')).profilesCommand(),
  use: async () => (await import('./remote/login.js')).useCommand(),
  console: async () => (await import('./remote/console.js')).consoleCommand(),
  tables: async () => (await import('./remote/tables.js')).tablesCommand(),
  describe: async () => (await import('./remote/tables.js')).describeCommand(),
  alter: async () => (await import('./remote/alter.js')).alterCommand(),
  quarantine: async () => (await import('./remote/quarantine.js')).quarantineCommand(),
  receipt: async () => (await import('./remote/receipt.js')).receiptCommand(),
  index: async () => (await import('./remote/indexes.js')).indexCommand(),
  events: async () => (await import('./remote/events.js')).eventsCommand(),
  feed: async () => (await import('./remote/feed.js')).feedCommand(),
  changes: async () => (await import('./remote/changes.js')).changesCommand(),
  subject: async () => (await import('./remote/subject.js')).subjectCommand(),
  webhook: async () => (await import('./remote/webhook.js')).webhookCommand(),
  role: async () => (await import('./remote/roles.js')).roleCommand(),
  schedule: async () => (await import('./remote/schedules.js')).scheduleCommand(),
  segment: async () => (await import('./remote/segments.js')).segmentCommand(),
  query: async () => (await import('./remote/queries.js')).queryCommand(),
  table: async () => (await import('./remote/distribute.js')).tableCommand(),
  sql: async () => (await import('./remote/sql.js')).sqlCommand(),
  import: async () => (await import('./import/command.js')).importCommand(),
  export: async () => (await import('./remote/export.js')).exportCommand(),
  mcp: async () => (await import('./remote/mcp.js')).mcpCommand(),
  completion: async () => (await import('./completion.js')).completionCommand(COMMANDS),
};

/** The command that the arguments name. For `--help`, and to suggest a name after a typo: all of them. */
export function commandsFor(argv: readonly string[]): Promise<Command[]> {
  const [first = ''] = argv;
  const load = Object.hasOwn(COMMANDS, first) ? COMMANDS[first] : undefined;
  return Promise.all((load === undefined ? Object.values(COMMANDS) : [load]).map((load) => load()));
}
