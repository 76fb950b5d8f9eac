/** The vocabulary of the audit log: operations and kinds of actors. */

/** The operations that an entry can record, for the writer, the filters and the docs. */
export const AUDIT_OPERATIONS = [
  'create_table',
  'alter_table',
  /** Distributes rows over the workers of a Citus cluster, or moves them back to the coordinator. */
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
  /** Reads or settles receipts of batches. */
  'receipts',
  /** Free SQL as the writer. */
  'sql',
  /** Free SQL as the reader, which cannot change anything. */
  'sql_read',
  /** A write with dry_run, which was rolled back. */
  'dry_run',
  /** An MCP message that calls no tool; a tool call is recorded as its operation. */
  'mcp',
  'project.create',
  'project.rename',
  'project.activate',
  'project.deactivate',
  'project.delete',
  'project.repair',
  'project.quota',
  'project.own_schemas',
  /** A move to another server that has switched or failed. */
  'project.move',
  'project.plan_move',
  'project.list',
  /** The project's Postgres server exited unexpectedly, or the service stopped it because it filled the disk. */
  'project.crash',
  'project.backup',
  /** Starts or stops archiving the write-ahead log of the project's server. */
  'project.archive',
  'project.restore',
  'server.add',
  /** Changes a server's status, labels, weight or limits. */
  'server.set',
  'server.remove',
  'server.check',
  /** Removes what a server holds that belongs to no project. */
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
  /** A token reads its own data. */
  'token.read',
  /** Lists running requests; `request.cancel` ends one. */
  'request.list',
  'request.cancel',
  /** A session of the Postgres port has begun or was refused. */
  'session.open',
  /** A session has ended; the entry contains its duration and bytes. */
  'session.close',
  'audit.read',
  /** A refused read of /metrics; successful reads are not recorded. */
  'metrics',
  /** An unknown caller: 401 on any route. */
  'authentication',
  /** The service removed a project that a crash had left partly created or deleted. */
  'repair',
  /** Entries that could not be written; `count` is their number. */
  'audit.lost',
] as const;

export type AuditOperation = (typeof AUDIT_OPERATIONS)[number];

/**
 * `token`: a token of a project; `jwt`: a token of the identity provider; `admin`: an admin token; `command_line`: the
 * program `cdp`; `service`: the service itself; `unknown`: a caller that could not be authenticated.
 */
export const AUDIT_ACTORS = ['token', 'jwt', 'admin', 'command_line', 'service', 'unknown'] as const;

export type AuditActor = (typeof AUDIT_ACTORS)[number];

/** What is recorded: everything, everything except inserts and reads, or nothing. */
export const AUDIT_MODES = ['all', 'changes', 'off'] as const;

export type AuditMode = (typeof AUDIT_MODES)[number];

/** What is recorded of a statement: only its SHA-256, or also its text. */
export const AUDIT_STATEMENTS = ['hash', 'text'] as const;

export type AuditStatements = (typeof AUDIT_STATEMENTS)[number];
