/**
 * One logged-in connection as a queue of exchanges: what is written up to one Sync, and what comes back for it. Several may
 * be on their way; the server answers them in their order (Postgres manual 54.2.4). `session.ts` says what is written.
 */
import type { Socket } from 'node:net';
import { LIMITS } from '../../contract/limits.js';
import { ConnectionLost, MessageTooLarge, PostgresError } from '../errors.js';
import { Framing, type MessageHandler, messageSize, type RowTaker } from './framing.js';
import type { LoggedIn } from './login.js';
import {
  BACKEND,
  COPY_FAIL,
  MESSAGE_HEADER,
  readErrorFields,
  readParameterStatus,
  SYNC,
  TERMINATE,
} from './messages.js';
import { joined } from './pieces.js';

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
type TransactionStatus = 'I' | 'T' | 'E';

/** Bytes of any message but a row: errors and notices, which statements write. */
const LONGEST_MESSAGE = 8 * 1024 * 1024;

export abstract class Connection {
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

  /** Whether the last exchange of all left this Parse message's statement as the one without a name. */
  hasParsed(parse: string): boolean {
    return this.parsed === parse;
  }

  /** Called once when the connection ends, whoever ended it. */
  onClose(listener: () => void): void {
    this.closeListener = listener;
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

  /**
   * Writes the parts, the last of which is a Sync, in one go.
   * @param onMessage gets the answers to them, but for what the queue itself needs
   * @throws the first PostgresError among the answers, ConnectionLost
   */
  protected exchange(
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

  /** Some messages come unasked, too (Postgres manual 54.2.7). */
  private receive(type: number, buffer: Buffer, start: number, end: number): void {
    const current = this.exchanges[0];
    switch (type) {
      case BACKEND.parameterStatus: {
        const [name, value] = readParameterStatus(buffer, start, end);
        if (name === 'client_encoding') this.clientEncoding = value;
        return;
      }
      case BACKEND.notice:
        // Nobody reads them: an answer has no place for notices.
        return;
      case BACKEND.error:
        return this.receiveError(current, PostgresError.fromFields(readErrorFields(buffer, start, end)));
      default:
        // Else a late answer to nobody; the connection is about to be closed.
        if (current !== undefined) this.receiveAnswer(current, type, buffer, start, end);
    }
  }

  /** A FATAL error is followed by the end of the connection, not by ReadyForQuery. */
  private receiveError(current: Exchange | undefined, error: PostgresError): void {
    if (error.severity === 'FATAL' || error.severity === 'PANIC' || current === undefined) this.destroy(error);
    else current.error ??= error;
  }

  private receiveAnswer(current: Exchange, type: number, buffer: Buffer, start: number, end: number): void {
    switch (type) {
      case BACKEND.readyForQuery:
        this.transaction = String.fromCharCode(buffer[start] as number) as TransactionStatus;
        return this.settle(current);
      case BACKEND.copyInResponse:
        // In copy-in mode the server has thrown our Sync away (Postgres manual 54.2.6): send it again.
        if (!current.copies) this.socket.write(Buffer.concat([COPY_FAIL, SYNC]));
        return;
      case BACKEND.commandComplete:
        this.completed++;
    }
    current.onMessage(type, buffer, start, end);
  }

  /** Its ReadyForQuery has come. */
  private settle(exchange: Exchange): void {
    const { error } = exchange;
    this.answers++;
    this.isReset = exchange.cleans && error === null;
    this.exchanges.shift();
    if (error !== null) return exchange.reject(error);
    // What was sent behind it has been parsed since.
    if (this.exchanges.length === 0) this.parsed = exchange.parse;
    exchange.resolve();
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
