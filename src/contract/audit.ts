/** The words of the audit log: what was done, and by what kind of actor. */

/** What an entry can be about. One list for the writer, the filters and the docs. */
export const AUDIT_OPERATIONS = [
  'create_table',
  'alter_table',
  /** Its rows over the workers of a Citus cluster, or back. */
  'distribute_table',
  'add_column',
  'alter_column',
  'drop_table',
  'drop_column',
  'create_index',
  'drop_index',
  'read_schema',
  'read_table',
  'read_indexes',
  'insert',
  'delete',
  'read_quarantine',
  'replay_quarantine',
  'drop_quarantine',
  /** Receipts of batches, looked up or settled. */
  'receipts',
  /** Free SQL as the writer. */
  'sql',
  /** Free SQL as the reader, which can change nothing. */
  'sql_read',
  /** Any write with dry_run: it was rolled back. */
  'rehearsal',
  /** A message of MCP that called no tool; what a tool does has the word of its operation. */
  'mcp',
  'project.create',
  'project.rename',
  'project.activate',
  'project.deactivate',
  'project.delete',
  'project.repair',
  'project.quota',
  'project.own_schemas',
  /** To another server, when it has switched, or failed. */
  'project.move',
  'project.plan_move',
  'project.list',
  /** The project's Postgres server ended by itself, or was stopped since it filled the disk. */
  'project.crash',
  'project.backup',
  /** The write-ahead log of its server is archived from now on, or no more. */
  'project.archive',
  'project.restore',
  'server.add',
  /** Its status, labels, weight or bounds. */
  'server.set',
  'server.remove',
  'server.check',
  /** What was left there and belongs to no project is removed. */
  'server.clear',
  'server.list',
  'server.read',
  'move.list',
  'move.plan_rebalance',
  'move.read',
  'move.cancel',
  'token.create',
  'token.revoke',
  'token.list',
  /** A token asked what it is. */
  'token.read',
  /** The requests that run; one of them ended by an operator. */
  'request.list',
  'request.cancel',
  /** A session of the Postgres port begins, or is refused. */
  'session.open',
  /** It has ended: with its length, and its bytes. */
  'session.close',
  'audit.read',
  /** Refused looks at /metrics; those that are served leave no entry. */
  'metrics',
  /** An unknown caller: 401, on any route. */
  'authentication',
  /** The service cleared away a project that a crash had left half made or half deleted. */
  'repair',
  /** Entries that could not be written, with their number as `count`. */
  'audit.lost',
] as const;

export type AuditOperation = (typeof AUDIT_OPERATIONS)[number];

/**
 * `token`: of a project; `jwt`: of the identity provider; `admin`: an admin token; `command_line`: the program `cdp`;
 * `service`: the service by itself; `unknown`: a caller that could not be authenticated.
 */
export const AUDIT_ACTORS = ['token', 'jwt', 'admin', 'command_line', 'service', 'unknown'] as const;

export type AuditActor = (typeof AUDIT_ACTORS)[number];

/** How much is recorded: everything, everything but inserts and reads, or nothing. */
export const AUDIT_MODES = ['all', 'changes', 'off'] as const;

export type AuditMode = (typeof AUDIT_MODES)[number];

/** What is kept of a statement: its SHA-256 alone, or its text as well. */
export const AUDIT_STATEMENTS = ['hash', 'text'] as const;

export type AuditStatements = (typeof AUDIT_STATEMENTS)[number];
