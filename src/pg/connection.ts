/**
 * One logged-in connection as a queue of requests. A request is written up to one Sync, or one Query message; several
 * may be on their way, and the server answers them in order (Postgres manual 54.2.4). `session.ts` says what is
 * written.
 */
import type { Socket } from 'node:net';
import { AnswerTimeout, CommitNotReplicated, ConnectionLost, MessageTooLarge, PostgresError } from './errors.js';
import { Framing, type MessageHandler, messageSize, type RowTaker } from './framing.js';
import { cancel } from './cancel.js';
import type { LoggedIn } from './login.js';
import {
  BACKEND,
  copyFail,
  MESSAGE_HEADER,
  readErrorFields,
  readParameterStatus,
  SYNC,
  TERMINATE,
} from './messages.js';

interface RequestOptions {
  /** Gets the rows; without it, they are messages like all others. */
  readonly takeRows?: RowTaker;
  /** The request contains a COPY … FROM STDIN and its data. */
  readonly copies?: boolean;
  /** The session is clean after the request: it ends with a reset, or provably leaves nothing. */
  readonly endsClean?: boolean;
  /** The statement is canceled and the connection destroyed if the answer takes longer; 0: no limit. */
  readonly timeoutMs?: number;
}

interface Request extends RequestOptions {
  readonly onMessage: MessageHandler;
  readonly timer: NodeJS.Timeout | undefined;
  resolve(): void;
  reject(error: Error): void;
  error: PostgresError | CommitNotReplicated | null;
}

/** Limits of a connection. */
export interface ConnectionLimits {
  /** Longest row of a result or of COPY, in bytes. */
  readonly maxRowBytes?: number;
  /** For every request that sets no limit itself; 0: none. */
  readonly timeoutMs?: number;
}

/** Default limit for the bytes of a row. */
const LONGEST_ROW = 64 * 1024 * 1024;
/** Bytes of any other message: errors and notices, which statements write. */
const LONGEST_MESSAGE = 8 * 1024 * 1024;

/** After the Terminate message Postgres has this long to close the connection. */
const CLOSE_MS = 5_000;

/** Parts of a write below this length are joined: copying them costs less than one more part. */
const LARGE_PART = 16 * 1024;

/** For a COPY … FROM STDIN that no data can follow. */
const NO_COPY = Buffer.concat([copyFail('COPY is not possible here'), SYNC]);

/** Status byte of ReadyForQuery: no transaction block is open. */
const IDLE = 0x49; // 'I'

/**
 * The field `F` of a notice from syncrep.c: the wait for a synchronous standby was canceled, and Postgres reports the
 * commit as a success all the same (Postgres manual 27.2.8). No text that a statement raises contains a zero byte.
 */
const FROM_SYNCREP = Buffer.from('\0Fsyncrep.c\0');

const isRow = (type: number): boolean => type === BACKEND.dataRow || type === BACKEND.copyData;

export abstract class Connection {
  /** Of the server process; `pg_stat_activity.pid`. */
  readonly processId: number;
  /** A transaction block is open, as of the last answer. */
  inTransaction = false;
  /** Requests that the server has answered. */
  answers = 0;
  /** As the server reports it; a statement may have changed it. */
  clientEncoding = 'UTF8';
  /** The server was a standby at the login, and no longer is. */
  wasPromoted = false;
  /** Nothing that may have left a trace was sent since the last reset. */
  isClean = false;
  private readonly socket: Socket;
  private readonly timeoutMs: number;
  private readonly requests: Request[] = [];
  private closedBy: Error | null = null;
  private closeListener: ((reason: Error) => void) | null = null;

  constructor(
    private readonly loggedIn: LoggedIn,
    { maxRowBytes = LONGEST_ROW, timeoutMs = 0 }: ConnectionLimits = {},
  ) {
    this.socket = loggedIn.socket;
    this.processId = loggedIn.processId;
    this.timeoutMs = timeoutMs;
    loggedIn.address.hosts?.opened(this, loggedIn.address);
    const framing = new Framing(
      (type, buffer, start, end) => this.receive(type, buffer, start, end),
      (type, length) => length <= (isRow(type) ? maxRowBytes : LONGEST_MESSAGE),
      (buffer, start, end) => this.receiveRows(buffer, start, end),
    );
    loggedIn.read((bytes, end) => {
      if (this.closedBy !== null) return;
      try {
        if (!framing.feed(bytes, end)) this.destroy(new MessageTooLarge());
      } catch (error) {
        // The reader of the rows stopped, or has a bug, which must not end the process. The rest of the stream cannot
        // be read any more.
        this.destroy(error as Error);
      }
    });
    this.socket.on('error', (error) => this.lost(error));
    this.socket.on('close', () => this.lost(null));
  }

  get closed(): boolean {
    return this.closedBy !== null;
  }

  /** The server owes an answer, and reading is not paused. */
  get isAwaiting(): boolean {
    return this.closedBy === null && this.requests.length > 0 && !this.socket.isPaused();
  }

  get bytesRead(): number {
    return this.socket.bytesRead;
  }

  /** Called once when the connection ends, for any reason. */
  onClose(listener: (reason: Error) => void): void {
    this.closeListener = listener;
  }

  /** Stops reading, so that Postgres stops sending: back-pressure for a slow reader. */
  pause(): void {
    this.socket.pause();
  }

  unpause(): void {
    this.socket.resume();
  }

  /**
   * Asks Postgres, on a connection of its own, to cancel what is running (Postgres manual 54.2.8). It may take effect
   * after the statement has ended, so a canceled session must not be used again. Only the statement's own outcome shows
   * whether it worked. Never rejects.
   */
  cancel(): Promise<void> {
    return cancel(this.loggedIn);
  }

  /**
   * Sends Terminate.
   * @returns when the server has closed the connection, and with it has released the session's locks
   */
  close(): Promise<void> {
    const { socket } = this;
    if (socket.closed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(() => socket.destroy(), CLOSE_MS).unref();
      socket.once('close', () => {
        clearTimeout(timer);
        resolve();
      });
      if (this.closedBy !== null) return;
      this.end(new ConnectionLost('The connection was closed'));
      socket.end(TERMINATE);
      socket.resume();
    });
  }

  /** Hands the connection over to the caller, who reads and closes it. Nothing may be in progress. */
  handOver(): LoggedIn {
    this.closeListener = null;
    this.end(new ConnectionLost('The connection was handed over'));
    return this.loggedIn;
  }

  /** Closes at once; everything in progress is rejected with `error`. */
  destroy(error: Error): void {
    this.end(error);
    this.socket.destroy();
  }

  /**
   * Writes a request in one go.
   * @param parts messages, the last of which is a Sync or a Query
   * @param onMessage gets the answers to them, except those that the queue itself handles
   * @throws the first PostgresError among the answers, CommitNotReplicated, ConnectionLost
   */
  protected request(
    parts: readonly Uint8Array[],
    onMessage: MessageHandler,
    options: RequestOptions = {},
  ): Promise<void> {
    if (this.closedBy !== null) return Promise.reject(this.closedBy);
    this.isClean = false;
    return new Promise((resolve, reject) => {
      const { timeoutMs = this.timeoutMs } = options;
      const timer = timeoutMs > 0 ? setTimeout(() => this.timedOut(), timeoutMs) : undefined;
      this.requests.push({ ...options, onMessage, timer, resolve, reject, error: null });
      this.write(parts);
    });
  }

  /**
   * Writes more of the last request, which had no Sync yet.
   * @returns when the server accepts more; false: it does not, and the request fails
   */
  protected async more(parts: readonly Uint8Array[]): Promise<boolean> {
    const { socket } = this;
    const request = this.requests.at(-1);
    if (request === undefined) return false;
    this.write(parts);
    if (socket.writableNeedDrain) {
      await new Promise<void>((resolve) => {
        const done = () => {
          socket.off('drain', done).off('close', done);
          resolve();
        };
        socket.on('drain', done).on('close', done);
      });
    }
    return this.closedBy === null && request.error === null;
  }

  /** A backend that waits for a lock or a standby does not notice that its client has gone. */
  private timedOut(): void {
    void this.cancel();
    this.destroy(new AnswerTimeout());
  }

  /** Small parts are joined, large ones are not copied. */
  private write(parts: readonly Uint8Array[]): void {
    this.socket.cork();
    let small: Uint8Array[] = [];
    const flush = () => {
      if (small.length > 0) this.socket.write(small.length === 1 ? (small[0] as Uint8Array) : Buffer.concat(small));
      small = [];
    };
    for (const part of parts) {
      if (part.length < LARGE_PART) small.push(part);
      else {
        flush();
        this.socket.write(part);
      }
    }
    flush();
    this.socket.uncork();
  }

  private receiveRows(buffer: Buffer, start: number, end: number): number {
    const takeRows = this.requests[0]?.takeRows;
    if (takeRows !== undefined) return takeRows(buffer, start, end);
    const next = start + messageSize(buffer, start);
    this.receive(BACKEND.dataRow, buffer, start + MESSAGE_HEADER, next);
    return next;
  }

  /** Some messages arrive without a request (Postgres manual 54.2.7). */
  private receive(type: number, buffer: Buffer, start: number, end: number): void {
    const current = this.requests[0];
    switch (type) {
      case BACKEND.parameterStatus: {
        const [name, value] = readParameterStatus(buffer, start, end);
        if (name === 'client_encoding') this.clientEncoding = value;
        if (name === 'in_hot_standby') this.wasPromoted = value === 'off';
        return;
      }
      case BACKEND.notice:
        // All other notices are dropped.
        if (current !== undefined && buffer.subarray(start, end).includes(FROM_SYNCREP)) {
          current.error ??= new CommitNotReplicated();
        }
        return;
      case BACKEND.error:
        return this.receiveError(current, PostgresError.fromFields(readErrorFields(buffer, start, end)));
      default:
        // Otherwise the answer is late; the connection is about to be closed.
        if (current !== undefined) this.receiveAnswer(current, type, buffer, start, end);
    }
  }

  /** A FATAL error is followed by the end of the connection, not by ReadyForQuery. */
  private receiveError(current: Request | undefined, error: PostgresError): void {
    if (error.isFatal || current === undefined) this.destroy(error);
    else current.error ??= error;
  }

  private receiveAnswer(current: Request, type: number, buffer: Buffer, start: number, end: number): void {
    if (type === BACKEND.readyForQuery) {
      this.inTransaction = buffer[start] !== IDLE;
      this.settle(current);
    } else if (type === BACKEND.copyInResponse) {
      // In copy-in mode the server has discarded our Sync (Postgres manual 54.2.6): send it again.
      if (!current.copies) this.socket.write(NO_COPY);
    } else current.onMessage(type, buffer, start, end);
  }

  /** Its ReadyForQuery has come. */
  private settle(request: Request): void {
    const { error } = request;
    clearTimeout(request.timer);
    this.answers++;
    this.isClean = request.endsClean === true && error === null;
    this.requests.shift();
    if (error === null) request.resolve();
    else request.reject(error);
  }

  private lost(cause: Error | null): void {
    this.end(new ConnectionLost('The connection to Postgres was lost', { cause }));
  }

  private end(error: Error): void {
    if (this.closedBy !== null) return;
    this.closedBy = error;
    this.loggedIn.address.hosts?.closed(this);
    for (const request of this.requests.splice(0)) {
      clearTimeout(request.timer);
      request.reject(error);
    }
    this.closeListener?.(error);
  }
}
