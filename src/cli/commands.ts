/** The commands by name, each loaded on demand: `cdp sql` needs no server, `cdp serve` no CSV parser. */
import type { Command } from 'commander';

type Load = () => Promise<Command>;

const COMMANDS: Readonly<Record<string, Load>> = {
  serve: async () => (await import('./serve.js')).serveCommand(),
  project: async () => (await import('./project.js')).projectCommand(),
  server: async () => (await import('./server.js')).serverCommand(),
  rebalance: async () => (await import('./rebalance.js')).rebalanceCommand(),
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
  console: async () => (await import('./remote/console.js')).consoleCommand(),
  tables: async () => (await import('./remote/tables.js')).tablesCommand(),
  describe: async () => (await import('./remote/tables.js')).describeCommand(),
  alter: async () => (await import('./remote/alter.js')).alterCommand(),
  quarantine: async () => (await import('./remote/quarantine.js')).quarantineCommand(),
  receipt: async () => (await import('./remote/receipt.js')).receiptCommand(),
  index: async () => (await import('./remote/indexes.js')).indexCommand(),
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
  const named = Object.hasOwn(COMMANDS, first) ? COMMANDS[first] : undefined;
  return Promise.all((named === undefined ? Object.values(COMMANDS) : [named]).map((load) => load()));
}
