/** The vocabulary of the audit log: words for what was done, and kinds of actors. */

/**
 * The words that no operation of the API has, and whether the setting `changes` records them: it omits inserts, and what
 * changes nothing. The operations declare their own (`http/api`).
 */
export const OTHER_AUDIT_OPERATIONS: ReadonlyMap<string, boolean> = new Map([
  /** Free SQL as the reader, which cannot change anything. */
  ['sql_read', false],
  /** A write with dry_run, which was rolled back. */
  ['dry_run', false],
  /** The project's Postgres server exited unexpectedly, or the service stopped it because it filled the disk. */
  ['project.crash', true],
  ['project.backup', true],
  /** Starts or stops archiving the write-ahead log of the project's server. */
  ['project.archive', true],
  ['project.restore', true],
  /** A run of a schedule has ended, also one that somebody asked for. */
  ['run_schedule', true],
  /** A session of the Postgres port has begun or was refused. */
  ['session.open', false],
  /** A session has ended; the entry contains its duration and bytes. */
  ['session.close', false],
  /** A refused read of /metrics; successful reads are not recorded. */
  ['metrics', true],
  /** An unknown caller: 401 on any route. */
  ['authentication', true],
  /** The service removed a project that a crash had left partly created or deleted. */
  ['repair', true],
  /** Entries that could not be written; `count` is their number. */
  ['audit.lost', true],
]);

/**
 * `token`: a token of a project; `jwt`: a token of the identity provider; `admin`: an admin token; `command_line`: the
 * program `cdp`; `service`: the service itself; `unknown`: a caller that could not be authenticated.
 */
export const AUDIT_ACTORS = ['token', 'jwt', 'admin', 'command_line', 'service', 'unknown'] as const;

export type AuditActor = (typeof AUDIT_ACTORS)[number];

/** What is recorded: everything, everything except inserts and reads, or nothing. */
export const AUDIT_MODES = ['all', 'changes', 'off'] as const;

export type AuditMode = (typeof AUDIT_MODES)[number];

/** What is recorded of a statement: only its keyed hash, or also its text. */
export const AUDIT_STATEMENTS = ['hash', 'text'] as const;

export type AuditStatements = (typeof AUDIT_STATEMENTS)[number];

/** The author of an operation, and the request that asked for it. */
export interface AuditOrigin {
  actor: AuditActor;
  /** The id of a token, the subject of a JWT, or the name of an account. */
  actorId: string | null;
  actorName: string | null;
  requestId: string | null;
  address: string | null;
  /** Status of the response; null: there is none. */
  status: number | null;
  /** On the clock of `performance.now()`. */
  startedAt: number | null;
}

/** The origin of actions that the service takes on its own. */
export const BY_ITSELF: AuditOrigin = {
  actor: 'service',
  actorId: null,
  actorName: null,
  requestId: null,
  address: null,
  status: null,
  startedAt: null,
};
