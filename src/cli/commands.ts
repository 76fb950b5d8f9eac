/** The commands by name, each loaded when it is typed: `cdp sql` needs no server, `cdp serve` no CSV parser. */
import type { Command } from 'commander';

type Load = () => Promise<Command>;

export const COMMANDS: Readonly<Record<string, Load>> = {
  serve: async () => (await import('./serve.js')).serveCommand(),
  project: async () => (await import('./project.js')).projectCommand(),
  token: async () => (await import('./token.js')).tokenCommand(),
  audit: async () => (await import('./audit.js')).auditCommand(),
  backup: async () => (await import('./backup.js')).backupCommand(),
  restore: async () => (await import('./backup.js')).restoreCommand(),
  doctor: async () => (await import('./doctor.js')).doctorCommand(),
  config: async () => (await import('./config.js')).configCommand(),
  login: async () => (await import('./remote/login.js')).loginCommand(),
  logout: async () => (await import('./remote/login.js')).logoutCommand(),
  profiles: async () => (await import('./remote/login.js')).profilesCommand(),
  use: async () => (await import('./remote/login.js')).useCommand(),
  tables: async () => (await import('./remote/tables.js')).tablesCommand(),
  describe: async () => (await import('./remote/tables.js')).describeCommand(),
  sql: async () => (await import('./remote/sql.js')).sqlCommand(),
  import: async () => (await import('./import/command.js')).importCommand(),
  export: async () => (await import('./remote/export.js')).exportCommand(),
  completion: async () => (await import('./completion.js')).completionCommand(COMMANDS),
};

/** The command that the arguments name, or all of them: for `--help`, and to suggest what was meant. */
export function commandsFor(argv: readonly string[]): Promise<Command[]> {
  const [first = ''] = argv;
  const named = Object.hasOwn(COMMANDS, first) ? COMMANDS[first] : undefined;
  return Promise.all((named === undefined ? Object.values(COMMANDS) : [named]).map((load) => load()));
}
