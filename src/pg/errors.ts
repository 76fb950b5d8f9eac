/** Errors between a client and Postgres: Postgres reports one, or the connection is lost. */
import { asOnOneServer, isOfWorker } from './shard-errors.js';
import { SQLSTATE } from './sqlstate.js';

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

  /** @param sent the fields of an ErrorResponse (Postgres manual 54.8) */
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
  get isOfWorker(): boolean {
    return isOfWorker(this.fields.routine);
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
