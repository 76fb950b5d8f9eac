/** Errors between a client and Postgres: Postgres reports one, or the connection is lost. */

/**
 * SQLSTATEs that the code uses, by their names in the Postgres manual (PostgreSQL Error Codes).
 * `tenancy/postgres-errors.ts` maps them to codes for callers.
 */
export const SQLSTATE = {
  PROTOCOL_VIOLATION: '08P01',
  FEATURE_NOT_SUPPORTED: '0A000',
  CARDINALITY_VIOLATION: '21000',
  DIVISION_BY_ZERO: '22012',
  FOREIGN_KEY_VIOLATION: '23503',
  UNIQUE_VIOLATION: '23505',
  ACTIVE_SQL_TRANSACTION: '25001',
  READ_ONLY_SQL_TRANSACTION: '25006',
  IDLE_IN_TRANSACTION_SESSION_TIMEOUT: '25P03',
  TRANSACTION_TIMEOUT: '25P04',
  INVALID_AUTHORIZATION: '28000',
  INVALID_PASSWORD: '28P01',
  DEPENDENT_OBJECTS_STILL_EXIST: '2BP01',
  INVALID_TRANSACTION_TERMINATION: '2D000',
  INVALID_CATALOG_NAME: '3D000',
  DEADLOCK_DETECTED: '40P01',
  INSUFFICIENT_PRIVILEGE: '42501',
  DUPLICATE_COLUMN: '42701',
  UNDEFINED_OBJECT: '42704',
  DUPLICATE_OBJECT: '42710',
  DATATYPE_MISMATCH: '42804',
  WRONG_OBJECT_TYPE: '42809',
  CANNOT_COERCE: '42846',
  UNDEFINED_FUNCTION: '42883',
  GENERATED_ALWAYS: '428C9',
  UNDEFINED_TABLE: '42P01',
  DUPLICATE_TABLE: '42P07',
  DISK_FULL: '53100',
  OUT_OF_MEMORY: '53200',
  TOO_MANY_CONNECTIONS: '53300',
  CONFIGURATION_LIMIT_EXCEEDED: '53400',
  PROGRAM_LIMIT_EXCEEDED: '54000',
  OBJECT_NOT_IN_PREREQUISITE_STATE: '55000',
  OBJECT_IN_USE: '55006',
  LOCK_NOT_AVAILABLE: '55P03',
  QUERY_CANCELED: '57014',
  ADMIN_SHUTDOWN: '57P01',
  CANNOT_CONNECT_NOW: '57P03',
  IO_ERROR: '58030',
  UNDEFINED_FILE: '58P01',
  INTERNAL_ERROR: 'XX000',
  DATA_CORRUPTED: 'XX001',
  INDEX_CORRUPTED: 'XX002',
} as const;

/** An ErrorResponse of the server. */
export class PostgresError extends Error {
  constructor(
    message: string,
    readonly sqlstate: string,
    readonly severity: string,
    readonly fields: {
      detail?: string | undefined;
      hint?: string | undefined;
      position?: number | undefined;
      /** The position in a statement that the caller's function ran, and the text of that statement. */
      internalPosition?: number | undefined;
      internalQuery?: string | undefined;
      where?: string | undefined;
      schema?: string | undefined;
      table?: string | undefined;
      column?: string | undefined;
      dataType?: string | undefined;
      constraint?: string | undefined;
      /**
       * The source file and the function of Postgres that raised the error. They do not depend on the server's language,
       * and callers must not see them.
       */
      source?: string | undefined;
      routine?: string | undefined;
    } = {},
  ) {
    super(message);
    this.name = 'PostgresError';
  }

  /** @param sent the fields of an ErrorResponse (Postgres manual, Error and Notice Message Fields) */
  static fromFields(sent: ReadonlyMap<string, string>): PostgresError {
    const fields = asOnOneServer(sent);
    const numberIn = (field: string) => {
      const text = fields.get(field);
      return text === undefined ? undefined : Number(text);
    };
    return new PostgresError(
      fields.get('M') ?? '',
      fields.get('C') ?? SQLSTATE.INTERNAL_ERROR,
      fields.get('V') ?? 'ERROR',
      {
        detail: fields.get('D'),
        hint: fields.get('H'),
        position: numberIn('P'),
        internalPosition: numberIn('p'),
        internalQuery: fields.get('q'),
        where: fields.get('W'),
        schema: fields.get('s'),
        table: fields.get('t'),
        column: fields.get('c'),
        dataType: fields.get('d'),
        constraint: fields.get('n'),
        source: fields.get('F'),
        routine: fields.get('R'),
      },
    );
  }

  /** Whether a Citus coordinator passed the error on from a worker. */
  get comesFromWorker(): boolean {
    return comesFromWorker(this.fields.routine);
  }

  /** Whether the server closes the connection after this error. */
  get isFatal(): boolean {
    return this.severity === 'FATAL' || this.severity === 'PANIC';
  }
}

/** An administrator ended the connection (admin_shutdown); its transaction was rolled back. */
export const isShutdown = (error: unknown): error is PostgresError =>
  error instanceof PostgresError && error.sqlstate === SQLSTATE.ADMIN_SHUTDOWN;

/**
 * The transaction is committed here, but its wait for a synchronous standby was canceled. The standby may not have it.
 */
export class CommitNotReplicated extends Error {
  constructor() {
    super('The commit was canceled while it waited for a synchronous standby');
    this.name = 'CommitNotReplicated';
  }
}

/** The connection was interrupted or closed, or could not be opened. */
export class ConnectionLost extends Error {
  /** The code of the system error that caused it, such as `ECONNREFUSED`. */
  readonly code: string | undefined;

  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.name = 'ConnectionLost';
    this.code = (options.cause as { code?: string } | null | undefined)?.code;
  }
}

/** None of the reachable hosts is the primary. */
export class NoPrimary extends ConnectionLost {}

/** A request was not answered within its time limit. The connection is closed, because its state is unknown. */
export class ResponseTimeout extends ConnectionLost {
  constructor() {
    super('Postgres did not answer in time');
  }
}

/**
 * A row or another message is longer than allowed. The connection is closed, because the rest of it is still to come.
 */
export class MessageTooLarge extends Error {
  constructor() {
    super('A row or a message from Postgres is too large');
  }
}

/** The bytes are not Postgres's protocol, so nothing after them can be read, either. */
export const protocolViolation = (): ConnectionLost =>
  new ConnectionLost('Postgres sent something that is not its protocol');

// Errors that a Citus coordinator passes on from a worker. They name shards (`customers_pkey_102010`) and lack the
// fields for table and constraint; those of a COPY or an INSERT … SELECT also lack their SQLSTATE. They are
// converted to the error that a table on one server would cause, as far as the message allows (`ReportResultError`,
// `ReportCopyError` in Citus's sources).

/**
 * The functions of Citus that pass on a worker's error (field R of an ErrorResponse). No SQL can imitate their names.
 */
const REPORTERS = new Set(['ReportResultError', 'ReportCopyError', 'ReportConnectionError']);

export const comesFromWorker = (routine: string | undefined): boolean => REPORTERS.has(routine ?? '');

/**
 * Names that always end with a shard's number. The name of a check does so only if the check was added after the table
 * was distributed.
 */
const NUMBERED =
  /\b(?:(?:relation|table|index|unique constraint|exclusion constraint|foreign key constraint) "[^"]+_(\d{5,})"|check constraint "[^"]+_(\d{5,})" of relation)/g;

function withoutShards(text: string): string {
  const numbers = Array.from(text.matchAll(NUMBERED), ([, number, ofCheck]) => number ?? ofCheck ?? '');
  return numbers.reduce((changed, number) => changed.replaceAll(`_${number}"`, '"'), text);
}

/** Postgres's English messages, with their SQLSTATE and the fields they contain. */
const VIOLATIONS: readonly (readonly [RegExp, string])[] = [
  [/^null value in column "(?<c>.+)" of relation "(?<t>.+)" violates not-null constraint$/, '23502'],
  [/^.+ on table "(?<t>[^"]+)" violates foreign key constraint "(?<n>[^"]+)"/, SQLSTATE.FOREIGN_KEY_VIOLATION],
  [/^duplicate key value violates unique constraint "(?<n>.+)"$/, SQLSTATE.UNIQUE_VIOLATION],
  [/^new row for relation "(?<t>.+)" violates check constraint "(?<n>.+)"$/, '23514'],
  [/^conflicting key value violates exclusion constraint "(?<n>.+)"$/, '23P01'],
];

/** The connection to a worker was lost during a statement. Citus has no SQLSTATE for this. */
const BROKEN = 'failure on connection marked as essential';
const CONNECTION_FAILURE = '08006';

/** @param fields of an ErrorResponse, by their one-letter codes (Postgres manual, Error and Notice Message Fields) */
function asOnOneServer(fields: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const message = fields.get('M') ?? '';
  if (fields.get('C') === SQLSTATE.INTERNAL_ERROR && message.startsWith(BROKEN)) {
    return new Map([...fields, ['C', CONNECTION_FAILURE]]);
  }
  if (!comesFromWorker(fields.get('R'))) return fields;
  const changed = new Map(fields);
  for (const letter of ['M', 'D', 'H']) {
    const text = fields.get(letter);
    if (text !== undefined) changed.set(letter, withoutShards(text));
  }
  for (const [pattern, sqlstate] of VIOLATIONS) {
    const match = pattern.exec(changed.get('M') ?? '');
    if (match === null) continue;
    if (fields.get('C') === SQLSTATE.INTERNAL_ERROR) changed.set('C', sqlstate);
    for (const [letter, name] of Object.entries(match.groups ?? {})) changed.set(letter, name);
    break;
  }
  return changed;
}
