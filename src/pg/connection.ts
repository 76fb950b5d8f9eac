/**
 * A logged-in connection as a queue of requests. A request ends with one Sync, or is one Query message. Several
 * requests may be in flight, and the server answers them in order (Postgres manual, Pipelining). `session.ts` decides
 * what to write.
 */
import type { Socket } from 'node:net';
import { ResponseTimeout, CommitNotReplicated, ConnectionLost, MessageTooLarge, PostgresError } from './errors.js';
import { Framing, type MessageHandler, messageSize, type RowHandler } from './framing.js';
import { cancel } from './cancel.js';
import type { LoggedIn } from './handshake.js';
import {
  BACKEND,
  copyFail,
  IDLE,
  joinSmall,
  MESSAGE_HEADER,
  readErrorFields,
  readParameterStatus,
  SYNC,
  TERMINATE,
} from './messages.js';

interface RequestOptions {
  /** Receives the rows; without it, rows are handled like other messages. */
  readonly takeRows?: RowHandler;
  /** The request contains a COPY … FROM STDIN and its data. */
  readonly copies?: boolean;
  /** The session is clean after the request: it ends with a reset, or provably leaves nothing. */
  readonly endsClean?: boolean;
  /** If the response takes longer, the statement is canceled and the connection destroyed; 0: no limit. */
  readonly timeoutMs?: number | undefined;
}

interface Request extends RequestOptions {
  readonly onMessage: MessageHandler;
  readonly timer: NodeJS.Timeout | undefined;
  resolve(): void;
  reject(error: Error): void;
  error: PostgresError | CommitNotReplicated | null;
}

export interface ConnectionLimits {
  /** Maximum size of a row of a result or of COPY. */
  readonly maxRowBytes?: number;
  /** For requests without a limit of their own; 0: no limit. */
  readonly timeoutMs?: number;
}

/** Default limit for the bytes of a row. */
const MAX_ROW_BYTES = 64 * 1024 * 1024;
/** Limit for any other message, such as errors and notices, which statements can create. */
const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;

/** After the Terminate message, Postgres has this long to close the connection. */
const CLOSE_MS = 5_000;

/** Ends a COPY … FROM STDIN for which there is no data. */
const NO_COPY = Buffer.concat([copyFail('COPY is not possible here'), SYNC]);

/**
 * The field `F` of a notice from syncrep.c: the wait for a synchronous standby was canceled, and Postgres nevertheless
 * reports the commit as a success (Postgres manual, Synchronous Replication). A text from a statement cannot contain a
 * zero byte.
 */
const FROM_SYNCREP = Buffer.from('\0Fsyncrep.c\0');

/**
 * The field `V` of a warning (Postgres manual, Error and Notice Message Fields). It is not translated, and INFO and
 * NOTICE have others.
 */
const OF_WARNING = Buffer.from('\0VWARNING\0');

const isRow = (type: number): boolean => type === BACKEND.dataRow || type === BACKEND.copyData;

export abstract class Connection {
  /** The server process; `pid` in `pg_stat_activity`. */
  readonly processId: number;
  /** Whether a transaction block was open at the last response. */
  inTransaction = false;
  /** The number of requests that the server has answered. */
  answeredCount = 0;
  /** As the server reports it; a statement may have changed it. */
  clientEncoding = 'UTF8';
  /** The server was a standby at login, and has been promoted since. */
  wasPromoted = false;
  /** Nothing that can leave a trace has been sent since the last reset. */
  isClean = false;
  /** Receives the warnings of statements, which it reads only if it wants them; null: they are ignored. */
  onWarning: ((read: () => PostgresError) => void) | null = null;
  private readonly socket: Socket;
  private readonly timeoutMs: number;
  private readonly requests: Request[] = [];
  private closedBy: Error | null = null;
  private closeListener: ((reason: Error) => void) | null = null;

  constructor(
    private readonly loggedIn: LoggedIn,
    { maxRowBytes = MAX_ROW_BYTES, timeoutMs = 0 }: ConnectionLimits = {},
  ) {
    this.socket = loggedIn.socket;
    this.processId = loggedIn.processId;
    this.timeoutMs = timeoutMs;
    loggedIn.address.hosts?.opened(this, loggedIn.address);
    const framing = new Framing(
      (type, buffer, start, end) => this.receive(type, buffer, start, end),
      (type, length) => length <= (isRow(type) ? maxRowBytes : MAX_MESSAGE_BYTES),
      (buffer, start, end) => this.receiveRows(buffer, start, end),
    );
    loggedIn.read((bytes, end) => {
      if (this.closedBy !== null) return;
      try {
        if (!framing.feed(bytes, end)) this.destroy(new MessageTooLarge());
      } catch (error) {
        // The reader of the rows has stopped, or has a bug, which must not end the process. The rest of the stream
        // cannot be read any more.
        this.destroy(error as Error);
      }
    });
    this.socket.on('error', (error) => this.onLost(error));
    this.socket.on('close', () => this.onLost(null));
  }

  get closed(): boolean {
    return this.closedBy !== null;
  }

  /** Whether the server owes a response, and reading is not paused. */
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

  /** Stops reading, and so Postgres stops sending: back-pressure for a slow reader. */
  pause(): void {
    this.socket.pause();
  }

  unpause(): void {
    this.socket.resume();
  }

  /**
   * Sends a cancel request over a new connection (Postgres manual, Canceling Requests in Progress). It may take effect
   * after the statement has ended, so a canceled session must not be used again. Only the statement's own outcome shows
   * whether it worked. Never rejects.
   */
  cancel(): Promise<boolean> {
    return cancel(this.loggedIn);
  }

  /**
   * Sends Terminate.
   * @returns when the server has closed the connection and released the session's locks
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

  /** Hands the connection over to the caller, which then reads and closes it. No request may be in progress. */
  handOver(): LoggedIn {
    this.closeListener = null;
    this.end(new ConnectionLost('The connection was handed over'));
    return this.loggedIn;
  }

  /** Closes the connection at once; requests in progress are rejected with `error`. */
  destroy(error: Error): void {
    this.end(error);
    this.socket.destroy();
  }

  /**
   * Writes a request.
   * @param parts messages, the last of which is a Sync or a Query
   * @param onMessage receives the responses, except those that the queue itself handles
   * @throws the first PostgresError among the responses, CommitNotReplicated, ConnectionLost
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
      this.requests.push({ onMessage, timer, resolve, reject, error: null, ...options });
      this.write(parts);
    });
  }

  /**
   * Writes more of the last request, whose Sync has not been sent.
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

  /** Cancels first: a backend that waits for a lock or a standby does not notice that its client has gone. */
  private timedOut(): void {
    void this.cancel();
    this.destroy(new ResponseTimeout());
  }

  /** Everything that one operation of the event loop writes goes out at its end. */
  private write(parts: readonly Uint8Array[]): void {
    this.socket.cork();
    for (const part of joinSmall(parts)) this.socket.write(part);
    process.nextTick(() => this.socket.uncork());
  }

  private receiveRows(buffer: Buffer, start: number, end: number): number {
    const takeRows = this.requests[0]?.takeRows;
    if (takeRows !== undefined) return takeRows(buffer, start, end);
    const next = start + messageSize(buffer, start);
    this.receive(BACKEND.dataRow, buffer, start + MESSAGE_HEADER, next);
    return next;
  }

  /** Some messages arrive without a request (Postgres manual, Asynchronous Operations). */
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
        if (current !== undefined) this.receiveNotice(current, buffer, start, end);
        return;
      case BACKEND.error:
        return this.receiveError(current, PostgresError.fromFields(readErrorFields(buffer, start, end)));
      default:
        // Without a request, the response is late; the connection is about to be closed.
        if (current !== undefined) this.receiveResponse(current, type, buffer, start, end);
    }
  }

  /** Only warnings matter. */
  private receiveNotice(current: Request, buffer: Buffer, start: number, end: number): void {
    const fields = buffer.subarray(start, end);
    if (fields.includes(FROM_SYNCREP)) current.error ??= new CommitNotReplicated();
    else if (this.onWarning !== null && fields.includes(OF_WARNING)) {
      this.onWarning(() => PostgresError.fromFields(readErrorFields(buffer, start, end)));
    }
  }

  /** After a FATAL error, the server closes the connection and sends no ReadyForQuery. */
  private receiveError(current: Request | undefined, error: PostgresError): void {
    if (error.isFatal || current === undefined) this.destroy(error);
    else current.error ??= error;
  }

  private receiveResponse(current: Request, type: number, buffer: Buffer, start: number, end: number): void {
    if (type === BACKEND.readyForQuery) {
      this.inTransaction = buffer[start] !== IDLE;
      this.settle(current);
    } else if (type === BACKEND.copyInResponse) {
      // In copy-in mode the server has discarded the Sync (Postgres manual, COPY Operations), so send it again.
      if (!current.copies) this.socket.write(NO_COPY);
    } else current.onMessage(type, buffer, start, end);
  }

  /** Call this when ReadyForQuery has arrived. */
  private settle(request: Request): void {
    const { error } = request;
    clearTimeout(request.timer);
    this.answeredCount++;
    this.isClean = request.endsClean === true && error === null;
    this.requests.shift();
    if (error === null) request.resolve();
    else request.reject(error);
  }

  private onLost(cause: Error | null): void {
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
