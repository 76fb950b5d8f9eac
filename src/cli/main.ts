/** The command line: what a person types, and nothing else reads argv, the environment or asks on a terminal. */
import { Command, CommanderError } from 'commander';
import { ConfigError } from '../config.js';
import { EngineError } from '../contract/errors.js';
import { VERSION } from '../service.js';
import { auditCommand } from './audit.js';
import { backupCommand } from './backup.js';
import { configCommand } from './config.js';
import { doctorCommand } from './doctor.js';
import { messageOf } from './management.js';
import { projectCommand } from './project.js';
import { restoreCommand } from './restore.js';
import { serveCommand } from './serve.js';
import { tokenCommand } from './token.js';

/** Exit codes: 0 done, 1 failed, 2 wrong usage or settings. */
const FAILED = 1;
const WRONG_USAGE = 2;

const COMMANDS = [
  serveCommand,
  projectCommand,
  tokenCommand,
  auditCommand,
  backupCommand,
  restoreCommand,
  doctorCommand,
  configCommand,
];

/** Runs one command; sets the exit code of the process and never throws. */
export async function main(argv: readonly string[]): Promise<void> {
  const program = new Command('cdp')
    .description('CDP Data Engine: tables, records and SQL over HTTP, one isolated Postgres per project')
    .version(VERSION)
    .exitOverride()
    .showHelpAfterError('(add --help for the options)');
  for (const command of COMMANDS.map((make) => make())) {
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
