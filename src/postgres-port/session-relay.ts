/** Relays bytes between a client and its connection to Postgres, each way as fast as the receiver reads. */
import type { Socket } from 'node:net';
import type { ClientSession } from '../engine/sessions/client-session.js';
import { SessionError } from '../engine/sessions/session-error.js';
import type { Classification } from '../engine/sessions/classify.js';
import { PostgresError } from '../pg/index.js';
import { BACKEND, errorResponse, MessageScan, readErrorFields, TERMINATE } from '../pg/protocol.js';
import { ReadOnlyFilter } from './read-only-filter.js';

/** How long a client may take to read why its session ends. */
const LINGER_MS = 2_000;

const ERRORS: ReadonlySet<number> = new Set([BACKEND.error]);

export class SessionRelay {
  private readonly backend: Socket;
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
    this.filter =
      owner.role === 'reader'
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
    const watched = this.filter === null ? ERRORS : ReadOnlyFilter.SERVER_MESSAGES;
    this.scan = new MessageScan(watched, (type, body) => this.onServerMessage(type, body));
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
      const ended = () => resolve();
      client.once('close', ended);
      client.once('end', ended);
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
    if (filter === null) this.toBackend(chunk);
    else filter.onClientData(chunk);
  }

  private toBackend(bytes: Buffer): void {
    if (this.backend.write(bytes) || this.isBackendFull) return;
    this.isBackendFull = true;
    this.applyBackpressure();
    this.backend.once('drain', () => {
      this.isBackendFull = false;
      this.applyBackpressure();
    });
  }

  private applyBackpressure(): void {
    if (this.isBackendFull || this.isFilterFull) this.client.pause();
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
    if (mayGoOn) return;
    backend.pause();
    client.once('drain', () => backend.resume());
  }

  private onServerMessage(type: number, body: Buffer): void {
    if (type === BACKEND.error) this.lastError = Buffer.from(body);
    this.filter?.onServerMessage(type, body);
  }

  /** Finds out why Postgres has closed the connection. */
  private explainBackendEnd(): void {
    const { session, scan, lastError } = this;
    const isLast = scan.lastType === BACKEND.error && scan.isBetween;
    const said = lastError !== null && isLast ? asError(lastError) : null;
    if (said?.isFatal) session.ending ??= asPostgresSaid(said);
    else if (!this.hasTerminated) session.end(lost());
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

const lost = () =>
  new SessionError('57P02', "terminating connection: the project's Postgres server ended it", 'database_unavailable');
