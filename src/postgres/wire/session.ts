/**
 * One logged-in connection, spoken to in the extended query protocol. Everything a request needs in one go is written
 * in one piece and ends in one Sync; rows reach the caller as the bytes of their DataRow message.
 */
import type { Socket } from 'node:net';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { ConnectionLost, PostgresError } from '../errors.js';
import { ROLLBACK, type Statement } from '../sql.js';
import { Framing, type MessageHandler, messageSize, type RowTaker } from './framing.js';
import type { LoggedIn } from './login.js';
import { joined } from './pieces.js';
import { PreparedStatements } from './prepared-statements.js';
import {
  BACKEND,
  bind,
  COPY_FAIL,
  DESCRIBE_STATEMENT,
  execute,
  type FieldDescription,
  parse,
  readErrorFields,
  readParameterOids,
  readParameterStatus,
  readRowDescription,
  readTag,
  runUnnamed,
  SYNC,
  TERMINATE,
} from './messages.js';
import { resetMessages } from './reset.js';
import { copyMessages, type RowsIn } from './rows-in.js';
import { type TextResult, textResults } from './text-results.js';

/** What Postgres says of a statement before it runs. */
export interface Described {
  /** Type oids of `$1`, `$2`, … */
  parameterOids: number[];
  /** null where the statement returns no rows. */
  columns: FieldDescription[] | null;
}

/** How one Execute ended. */
export interface Executed {
  /** Command tag; null where the row limit ended it and the portal is suspended. */
  tag: string | null;
}

/** What an exchange is beside its messages. */
interface ExchangeOptions {
  /** Gets the rows; without it they are messages like others. */
  takeRows: RowTaker | null;
  /** A COPY … FROM STDIN is part of it. */
  copies: boolean;
  /** The session is clean behind it, where nothing goes wrong. */
  cleans: boolean;
  /** The Parse message of the statement without a name that is there behind it, where that is known. */
  parse: string | null;
}

/** Everything up to one ReadyForQuery. */
interface Exchange extends ExchangeOptions {
  readonly onMessage: MessageHandler;
  resolve(): void;
  reject(error: Error): void;
  error: PostgresError | null;
}

/** Status byte of ReadyForQuery: idle, in a transaction, in a failed transaction. */
export type TransactionStatus = 'I' | 'T' | 'E';

/** Bytes of any message but a row: errors and notices, which statements write. */
const LONGEST_MESSAGE = 8 * 1024 * 1024;

/** Type and length of a message. */
const MESSAGE_HEADER = 5;

const ignore = () => {};

export class Session {
  readonly processId: number;
  readonly secretKey: number;
  /** As of the last ReadyForQuery. */
  transaction: TransactionStatus = 'I';
  /** Exchanges that the server has answered. */
  answers = 0;
  /** Statements that have come to their end; what they did is not committed by that. */
  completed = 0;
  /** Set by the server's reports; a statement may have changed it. */
  clientEncoding = 'UTF8';
  /** Nothing that may have left something was sent since the last reset came to its end. */
  isReset = false;
  /** The Parse message of the statement without a name, which Postgres keeps until the next one; null: not known. */
  private parsed: string | null = null;
  private readonly socket: Socket;
  private readonly exchanges: Exchange[] = [];
  private readonly prepared = new PreparedStatements();
  private closedBy: Error | null = null;
  private closeListener: (() => void) | null = null;

  constructor(loggedIn: LoggedIn) {
    this.socket = loggedIn.socket;
    this.processId = loggedIn.processId;
    this.secretKey = loggedIn.secretKey;
    const framing = new Framing(
      (type, buffer, start, end) => this.receive(type, buffer, start, end),
      (type, length) => length <= (type === BACKEND.dataRow ? LIMITS.resultBytes : LONGEST_MESSAGE),
      (buffer, start, end) => this.receiveRows(buffer, start, end),
    );
    loggedIn.read((bytes, end) => {
      if (this.closedBy !== null) return;
      try {
        if (!framing.feed(bytes, end)) this.destroy(new MessageTooLarge());
      } catch (error) {
        // Whoever takes the rows gave up, or there is a defect, which must not end the process: what is still coming
        // cannot be read any more.
        this.destroy(error as Error);
      }
    });
    this.socket.on('error', (error) => this.lost(error));
    this.socket.on('close', () => this.lost(null));
  }

  get closed(): boolean {
    return this.closedBy !== null;
  }

  /** The server owes an answer, and nobody holds it back. */
  get isAwaiting(): boolean {
    return this.closedBy === null && this.exchanges.length > 0 && !this.socket.isPaused();
  }

  get bytesRead(): number {
    return this.socket.bytesRead;
  }

  /** Called once when the connection ends, whoever ended it. */
  onClose(listener: () => void): void {
    this.closeListener = listener;
  }

  /**
   * Runs statements in order in one round trip. The first error skips the rest, as the protocol does.
   * @throws PostgresError of the failing statement, ConnectionLost
   */
  async run(statements: readonly Statement[]): Promise<TextResult[]> {
    const results: TextResult[] = [];
    await this.exchange([...runUnnamed(statements), SYNC], textResults(results));
    return results;
  }

  /**
   * The same with a reset of the session behind it. Whether that failed is for whoever uses the session next.
   * @throws what {@link run} throws, where one of the statements was not answered
   */
  async runAndReset(statements: readonly Statement[]): Promise<TextResult[]> {
    const results: TextResult[] = [];
    try {
      await this.sendWithReset(Buffer.concat([...runUnnamed(statements), resetMessages(), SYNC]), textResults(results));
    } catch (error) {
      if (results.length < statements.length) throw error;
    }
    return results.slice(0, statements.length);
  }

  /** Messages up to a Sync, with those of a reset as the last before it. @throws PostgresError, ConnectionLost */
  sendWithReset(bytes: Buffer, onMessage: MessageHandler, takeRows: RowTaker | null = null): Promise<void> {
    this.prepared.clear();
    return this.exchange([bytes], onMessage, { takeRows, cleans: true });
  }

  /**
   * Messages up to a Sync that provably leave the session as it is.
   * @param parse the Parse message of their one statement, which they need not hold where {@link hasParsed} says so
   * @throws PostgresError, ConnectionLost
   */
  sendHarmless(
    bytes: Buffer,
    onMessage: MessageHandler,
    takeRows: RowTaker | null = null,
    parse: string | null = null,
  ): Promise<void> {
    return this.exchange([bytes], onMessage, { takeRows, cleans: this.isReset, parse });
  }

  /** Whether this Parse message of {@link sendHarmless} was the last one of all. */
  hasParsed(parse: string): boolean {
    return this.parsed === parse;
  }

  /**
   * Rows between other statements, in one round trip and one implicit transaction: the Sync at the end commits all, or
   * nothing. The statements are prepared once for each session. COPY's messages go out without waiting for
   * CopyInResponse; where the command or one before it fails, the server throws them away (Postgres manual 54.2.3).
   * @throws PostgresError, ConnectionLost
   */
  async store(rows: RowsIn, before: readonly Statement[], after: readonly Statement[]): Promise<void> {
    try {
      await this.exchange(this.storing(rows, before, after), ignore, { copies: 'copy' in rows });
    } catch (error) {
      const texts = [...before, ...after].map(({ text }) => text);
      const closing = this.prepared.forget('copy' in rows ? rows.copy : rows.insert, ...texts);
      // What went wrong before this is what the caller has to know.
      if (this.closedBy === null) await this.exchange([...closing, SYNC], ignore).catch(ignore);
      throw error;
    }
  }

  private storing(rows: RowsIn, before: readonly Statement[], after: readonly Statement[]): Uint8Array[] {
    const messages: Uint8Array[] = [];
    for (const statement of before) this.prepared.run(statement, messages);
    if ('copy' in rows) {
      this.prepared.run({ text: rows.copy, params: [] }, messages);
      messages.push(...copyMessages(rows.data));
    } else this.prepared.runRow(rows.insert, rows.row, messages);
    for (const statement of after) this.prepared.run(statement, messages);
    messages.push(SYNC);
    return messages;
  }

  /** Whatever statements left behind in the session goes away: an open transaction, and prepared statements too. */
  async reset(): Promise<void> {
    const rollback = this.transaction === 'I' ? [] : runUnnamed([ROLLBACK]);
    await this.sendWithReset(Buffer.concat([...rollback, resetMessages(), SYNC]), ignore);
  }

  /** One statement, its rows. */
  async query(statement: Statement): Promise<(string | null)[][]> {
    const [result] = await this.run([statement]);
    return result?.rows ?? [];
  }

  /**
   * Runs `before`, then parses and describes a statement, in one round trip.
   * @throws PostgresError of whichever failed, ConnectionLost
   */
  async prepare(text: string, before: readonly Statement[] = []): Promise<Described> {
    let described: Described = { parameterOids: [], columns: null };
    await this.exchange([...runUnnamed(before), parse(text), DESCRIBE_STATEMENT, SYNC], (type, buffer, start, end) => {
      if (type === BACKEND.parameterDescription) {
        described = { parameterOids: readParameterOids(buffer, start, end), columns: null };
      } else if (type === BACKEND.rowDescription) described.columns = readRowDescription(buffer, start, end);
    });
    return described;
  }

  /**
   * Runs what {@link prepare} left, up to `maxRows` rows (0: all).
   * @throws PostgresError, ConnectionLost, MessageTooLarge
   */
  execute(
    params: readonly (string | null)[],
    formats: readonly number[],
    maxRows: number,
    takeRows: RowTaker,
  ): Promise<Executed> {
    return this.fetch([bind(params, formats), execute(maxRows), SYNC], takeRows);
  }

  /** Goes on with a suspended portal, inside the same transaction. */
  resume(maxRows: number, takeRows: RowTaker): Promise<Executed> {
    return this.fetch([execute(maxRows), SYNC], takeRows);
  }

  private async fetch(parts: readonly Buffer[], takeRows: RowTaker): Promise<Executed> {
    let tag: string | null = null;
    const onMessage: MessageHandler = (type, buffer, start, end) => {
      if (type === BACKEND.commandComplete) tag = readTag(buffer, start, end);
      else if (type === BACKEND.emptyQuery) tag = '';
    };
    await this.exchange(parts, onMessage, { takeRows });
    return { tag };
  }

  /** Stops reading, so that Postgres stops sending: back-pressure of a slow reader. */
  pause(): void {
    this.socket.pause();
  }

  unpause(): void {
    this.socket.resume();
  }

  /** Says goodbye and closes. */
  close(): void {
    if (this.closedBy === null) {
      this.end(new ConnectionLost('The connection was closed'));
      this.socket.end(TERMINATE);
    }
  }

  /** Closes at once; whatever is under way is rejected with `error`. */
  destroy(error: Error): void {
    this.end(error);
    this.socket.destroy();
  }

  /** Writes the parts in one go. */
  private exchange(
    parts: readonly Uint8Array[],
    onMessage: MessageHandler,
    { takeRows = null, copies = false, cleans = false, parse = null }: Partial<ExchangeOptions> = {},
  ): Promise<void> {
    if (this.closedBy !== null) return Promise.reject(this.closedBy);
    this.isReset = false;
    this.parsed = null;
    return new Promise((resolve, reject) => {
      this.exchanges.push({ onMessage, takeRows, resolve, reject, copies, cleans, parse, error: null });
      const pieces = joined(parts);
      if (pieces.length > 1) this.socket.cork();
      for (const piece of pieces) this.socket.write(piece);
      if (pieces.length > 1) this.socket.uncork();
    });
  }

  private receiveRows(buffer: Buffer, start: number, end: number): number {
    const takeRows = this.exchanges[0]?.takeRows;
    if (takeRows != null) return takeRows(buffer, start, end);
    const next = start + messageSize(buffer, start);
    this.receive(BACKEND.dataRow, buffer, start + MESSAGE_HEADER, next);
    return next;
  }

  private receive(type: number, buffer: Buffer, start: number, end: number): void {
    const current = this.exchanges[0];
    if (type === BACKEND.dataRow) current?.onMessage(type, buffer, start, end);
    else if (type === BACKEND.parameterStatus) {
      const [name, value] = readParameterStatus(buffer, start, end);
      if (name === 'client_encoding') this.clientEncoding = value;
    } else if (type === BACKEND.notice) {
      // Nobody reads them: an answer has no place for notices.
    } else if (type === BACKEND.error) {
      const error = PostgresError.fromFields(readErrorFields(buffer, start, end));
      // A FATAL error is followed by the end of the connection, not by ReadyForQuery.
      if (error.severity === 'FATAL' || error.severity === 'PANIC' || current === undefined) this.destroy(error);
      else current.error ??= error;
    } else if (current === undefined) {
      // A late answer to nobody; the connection is about to be closed.
    } else if (type === BACKEND.readyForQuery) {
      this.transaction = String.fromCharCode(buffer[start] as number) as TransactionStatus;
      this.answers++;
      this.isReset = current.cleans && current.error === null;
      this.exchanges.shift();
      if (current.error === null) {
        // What was sent behind it has been parsed since.
        if (this.exchanges.length === 0) this.parsed = current.parse;
        current.resolve();
      } else current.reject(current.error);
    } else if (type === BACKEND.copyInResponse) {
      if (current.copies) return;
      // In copy-in mode the server has thrown our Sync away (Postgres manual 54.2.6): send it again.
      this.socket.write(Buffer.concat([COPY_FAIL, SYNC]));
    } else {
      if (type === BACKEND.commandComplete) this.completed++;
      current.onMessage(type, buffer, start, end);
    }
  }

  private lost(cause: Error | null): void {
    this.end(new ConnectionLost('The connection to Postgres was lost', { cause }));
  }

  private end(error: Error): void {
    if (this.closedBy !== null) return;
    this.closedBy = error;
    for (const exchange of this.exchanges.splice(0)) exchange.reject(error);
    this.closeListener?.();
  }
}

/** A row or another message is longer than it may be; the connection is closed because the rest of it is still coming. */
export class MessageTooLarge extends EngineError {
  constructor() {
    super(
      'result_too_large',
      `One row of the result, or a message of Postgres, is larger than ${LIMITS.resultBytes} bytes`,
    );
  }
}
