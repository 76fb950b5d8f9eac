/** What can go wrong between a client and Postgres: Postgres says no, or the connection is lost. */
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
      /** The position in a statement that the caller's function ran, and that statement's text. */
      internalPosition?: number | undefined;
      internalQuery?: string | undefined;
      where?: string | undefined;
      schema?: string | undefined;
      table?: string | undefined;
      column?: string | undefined;
      dataType?: string | undefined;
      constraint?: string | undefined;
      /** The file of Postgres's source that raised it: independent of the server's language, and not for callers. */
      source?: string | undefined;
      line?: string | undefined;
      routine?: string | undefined;
    } = {},
  ) {
    super(message);
    this.name = 'PostgresError';
  }

  /** From the fields of an ErrorResponse (Postgres manual 54.8). */
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
        line: fields.get('L'),
        routine: fields.get('R'),
      },
    );
  }

  /** A Citus coordinator passed it on from a worker. */
  get isOfWorker(): boolean {
    return isOfWorker(this.fields.routine);
  }

  /** The server ends the connection after it. */
  get isFatal(): boolean {
    return this.severity === 'FATAL' || this.severity === 'PANIC';
  }
}

/** An administrator ended the connection (admin_shutdown); what ran on it was rolled back. */
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

/** The connection broke, was closed, or could not be opened. */
export class ConnectionLost extends Error {
  /** Of a system error that caused it: `ECONNREFUSED`, … */
  readonly code: string | undefined;

  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.name = 'ConnectionLost';
    this.code = (options.cause as { code?: string } | null | undefined)?.code;
  }
}

/** No reachable host is the primary. */
export class NoPrimary extends ConnectionLost {}

/** The time limit of a request passed without an answer. The connection is closed, since its state is unknown. */
export class AnswerTimeout extends ConnectionLost {
  constructor() {
    super('Postgres did not answer in time');
  }
}

/** A row or another message is longer than allowed; the connection is closed because the rest of it is still coming. */
export class MessageTooLarge extends Error {
  constructor() {
    super('A row or a message from Postgres is too large');
  }
}

/** What arrived is not Postgres's protocol, so nothing after it can be read either. */
export const protocolViolation = (): ConnectionLost =>
  new ConnectionLost('Postgres sent something that is not its protocol');
