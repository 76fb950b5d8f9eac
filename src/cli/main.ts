/** The command line: what a person types, and nothing else reads argv, the environment or asks on a terminal. */
import { Command, CommanderError } from 'commander';
import { ConfigError } from '../config.js';
import { EngineError } from '../contract/errors.js';
import { VERSION } from '../version.js';

/** Exit codes: 0 done, 1 failed, 2 wrong usage or settings. */
const FAILED = 1;
const WRONG_USAGE = 2;

/** By name, and read only when they are needed: all of them take longer to read than Postgres takes to start. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('./serve.js')).serveCommand(),
  project: async () => (await import('./project.js')).projectCommand(),
  token: async () => (await import('./token.js')).tokenCommand(),
  audit: async () => (await import('./audit.js')).auditCommand(),
  backup: async () => (await import('./backup.js')).backupCommand(),
  restore: async () => (await import('./restore.js')).restoreCommand(),
  config: async () => (await import('./config.js')).configCommand(),
};

/** The command that is named, or all of them, for the help and for complaints. */
function commandsFor([name = '']: readonly string[]): Promise<Command[]> {
  const named = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  return Promise.all((named === undefined ? Object.values(COMMANDS) : [named]).map((load) => load()));
}

/** Runs one command; sets the exit code of the process and never throws. */
export async function main(argv: readonly string[]): Promise<void> {
  const program = new Command('cdp')
    .description('CDP Data Engine: tables, records and SQL over HTTP, one isolated Postgres per project')
    .version(VERSION)
    .exitOverride()
    .showHelpAfterError('(add --help for the options)');
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
  process.stderr.write(`cdp: ${messageOf(error)}\n`);
  if (error instanceof EngineError && error.hint !== undefined) process.stderr.write(`${error.hint}\n`);
  const wrongUsage = error instanceof ConfigError || (error instanceof EngineError && error.status === 400);
  return wrongUsage ? WRONG_USAGE : FAILED;
}

function messageOf(error: unknown): string {
  // What fails at each of a host's addresses comes as one error, which has nothing to say itself.
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ');
  // An operator may know what a caller over HTTP may not.
  if (error instanceof EngineError && error.cause instanceof Error)
    return `${error.message}: ${messageOf(error.cause)}`;
  return error instanceof Error ? error.message : String(error);
}
