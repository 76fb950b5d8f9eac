/** Relays bytes between a client and its connection to Postgres, each way as fast as the receiver reads. */
import type { Socket } from 'node:net';
import type { ClientSession } from '../engine/sessions/client-session.js';
import { SessionError } from '../engine/sessions/session-error.js';
import type { Classification } from '../engine/parser/classify-reader-text.js';
import { PostgresError } from '../pg/index.js';
import { BACKEND, errorResponse, IDLE, MessageScan, readErrorFields, TERMINATE } from '../pg/protocol.js';
import { ReadOnlyFilter } from './read-only-filter.js';
import { COUNTED_MESSAGES, SessionUsage } from './session-usage.js';

/** How long a client may take to read why its session ends. */
const LINGER_MS = 2_000;

const WATCHED: ReadonlySet<number> = new Set([BACKEND.error, ...COUNTED_MESSAGES]);
const WATCHED_OF_READERS: ReadonlySet<number> = new Set([...WATCHED, ...ReadOnlyFilter.SERVER_MESSAGES]);

export class SessionRelay {
  private readonly backend: Socket;
  private readonly usage: SessionUsage;
  /** null: the session may write. */
  private readonly filter: ReadOnlyFilter | null;
  /** The messages of Postgres, as they pass. */
  private readonly scan: MessageScan;
  /** The last error among them. */
  private lastError: Buffer | null = null;
  /** Postgres takes no more bytes for now. */
  private isBackendFull = false;
  /** The filter takes no more messages for now. */
  private isFilterFull = false;
  /** Pieces that wait for a cancel request. */
  private held = 0;
  /** The client has said that it disconnects. */
  private hasTerminated = false;

  /** @param classify says what a reader's text may do */
  constructor(
    private readonly client: Socket,
    private readonly session: ClientSession,
    classify: (text: string, isPlain: boolean) => Classification | Promise<Classification>,
  ) {
    const { loggedIn, owner } = session;
    this.backend = loggedIn.socket;
    this.usage = new SessionUsage(session);
    this.filter = owner.isReadOnly
      ? new ReadOnlyFilter(
          loggedIn.parameters,
          classify,
          (bytes) => this.toBackend(bytes),
          (error) => session.end(error),
          (isFull) => {
            this.isFilterFull = isFull;
            this.applyBackpressure();
          },
        )
      : null;
    const messageTypes = this.filter === null ? WATCHED : WATCHED_OF_READERS;
    this.scan = new MessageScan(messageTypes, (type, body) => this.onServerMessage(type, body));
  }

  /**
   * Relays until one side ends.
   * @param received bytes that the client has sent after its login
   * @returns when the backend is gone
   */
  async run(received: Buffer): Promise<void> {
    const { client, session, backend } = this;
    const onData = (chunk: Buffer) => this.guarded(() => this.fromClient(chunk));
    await new Promise<void>((resolve) => {
      const onEnd = () => resolve();
      client.once('close', onEnd);
      client.once('end', onEnd);
      client.on('data', onData);
      backend.on('error', () => {});
      backend.once('close', () => {
        this.guarded(() => this.explainBackendEnd());
        client.end();
        resolve();
      });
      session.loggedIn.read((bytes, end) => {
        if (session.ending === null && !session.hasEnded) this.guarded(() => this.fromBackend(bytes, end));
      });
      session.listen((reason) => {
        this.endClient(reason);
        resolve();
      });
      if (received.length > 0) onData(received);
      client.resume();
      if (client.closed) resolve();
    });
    client
      .off('data', onData)
      .on('data', () => {})
      .resume();
    const timer = setTimeout(() => client.destroy(), LINGER_MS).unref();
    client.once('close', () => clearTimeout(timer));
    await session.release();
  }

  /** An error in what either side sends ends only the session. */
  private guarded(work: () => void): void {
    try {
      work();
    } catch {
      this.session.end(internal());
    }
  }

  private fromClient(chunk: Buffer): void {
    const { session, filter } = this;
    if (session.ending !== null) return;
    // Some clients send more after it: node-postgres does if it ends with queries in its queue.
    this.hasTerminated ||= chunk.subarray(0, TERMINATE.length).equals(TERMINATE);
    this.hasTerminated ||= chunk.subarray(-TERMINATE.length).equals(TERMINATE);
    session.received += chunk.length;
    this.usage.received(chunk.length);
    if (filter === null) this.toBackend(chunk);
    else filter.onClientData(chunk);
  }

  /** While a cancel request is under way, bytes wait: their statement is not the one to be canceled. */
  private toBackend(bytes: Buffer): void {
    const { order } = this.session;
    if (order.isIdle) return this.write(bytes);
    this.held++;
    order.run(() => {
      this.held--;
      if (this.session.ending === null) this.write(bytes);
      this.applyBackpressure();
    });
    this.applyBackpressure();
  }

  private write(bytes: Buffer): void {
    if (this.backend.write(bytes) || this.isBackendFull) return;
    this.isBackendFull = true;
    this.applyBackpressure();
    this.backend.once('drain', () => {
      this.isBackendFull = false;
      this.applyBackpressure();
    });
  }

  private applyBackpressure(): void {
    if (this.isBackendFull || this.isFilterFull || this.held > 0) this.client.pause();
    else this.client.resume();
  }

  /** Takes `bytes[0, end)`. */
  private fromBackend(bytes: Buffer, end: number): void {
    const { client, backend } = this;
    // The socket may write it after this call returns, when the buffer holds other bytes.
    const chunk = Buffer.from(bytes.subarray(0, end));
    this.session.sent += end;
    this.filter?.hideContext(chunk);
    const mayGoOn = client.write(chunk);
    this.scan.feed(chunk);
    this.usage.sent(end);
    if (mayGoOn) return;
    backend.pause();
    client.once('drain', () => backend.resume());
  }

  private onServerMessage(type: number, body: Buffer): void {
    this.usage.onServerMessage(type, body);
    if (type === BACKEND.error) {
      this.lastError = Buffer.from(body);
      this.session.noteError(asError(this.lastError));
    }
    if (type === BACKEND.readyForQuery && body[0] === IDLE) this.session.endedTransactions++;
    this.filter?.onServerMessage(type, body);
  }

  /** Finds out why Postgres has closed the connection. */
  private explainBackendEnd(): void {
    const { session, scan, lastError } = this;
    const isLast = scan.lastType === BACKEND.error && scan.isBetween;
    const message = lastError !== null && isLast ? asError(lastError) : null;
    if (message?.isFatal) session.ending ??= asPostgresSaid(message);
    else if (!this.hasTerminated) session.end(connectionLost());
  }

  /** Ends the client's connection, with the reason if no other message is under way. */
  private endClient(reason: SessionError): void {
    const { client } = this;
    if (this.scan.isBetween && client.writable) client.end(errorResponse(fatal(reason)));
    else client.destroySoon();
  }
}

export const fatal = ({ sqlstate, message, hint }: SessionError) =>
  ({ severity: 'FATAL', sqlstate, message, hint }) as const;

/** @param body of a long error only the beginning: a zero byte ends the field that is cut off */
function asError(body: Buffer): PostgresError {
  const fields = Buffer.concat([body, Buffer.alloc(1)]);
  return PostgresError.fromFields(readErrorFields(fields, 0, fields.length));
}

/** Postgres has already sent the error to the client. */
const asPostgresSaid = ({ sqlstate, message }: PostgresError): SessionError =>
  new SessionError(sqlstate, message, 'database_unavailable');

const internal = () => new SessionError('XX000', 'terminating connection: internal error', 'internal');

const connectionLost = () =>
  new SessionError('57P02', "terminating connection: the project's Postgres server ended it", 'database_unavailable');
