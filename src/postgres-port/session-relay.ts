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

/**
 * Relays until one side ends the connection.
 * @param classify decides what a reader's text may do
 * @param received bytes that the client has sent after its login
 * @returns when the backend has exited
 */
export async function relay(
  client: Socket,
  session: ClientSession,
  classify: (text: string, isPlain: boolean) => Classification | Promise<Classification>,
  received: Buffer,
): Promise<void> {
  const { loggedIn, owner } = session;
  const { socket: backend } = loggedIn;
  const isReader = owner.role === 'reader';
  /** Postgres, or the filter, accepts no more bytes for now. */
  let [isFull, isPaused] = [false, false];
  const applyBackpressure = () => void (isFull || isPaused ? client.pause() : client.resume());
  const toBackend = (bytes: Buffer) => {
    if (backend.write(bytes) || isFull) return;
    isFull = true;
    applyBackpressure();
    backend.once('drain', () => {
      isFull = false;
      applyBackpressure();
    });
  };
  const fail = (error: SessionError) => session.end(error);
  /** An error caused by either side's bytes ends only the session. */
  const guarded = (work: () => void) => {
    try {
      work();
    } catch {
      fail(internal());
    }
  };
  const pause = (isPausing: boolean) => {
    isPaused = isPausing;
    applyBackpressure();
  };
  const filter = isReader ? new ReadOnlyFilter(loggedIn.parameters, classify, toBackend, fail, pause) : null;
  let hasTerminated = false;
  const read = (chunk: Buffer) => {
    if (session.ending !== null) return;
    // Some clients send more after Terminate: node-postgres does if its queue contains queries when it ends.
    hasTerminated ||= chunk.subarray(0, TERMINATE.length).equals(TERMINATE);
    hasTerminated ||= chunk.subarray(-TERMINATE.length).equals(TERMINATE);
    session.received += chunk.length;
    if (filter === null) toBackend(chunk);
    else filter.onClientData(chunk);
  };
  const take = (chunk: Buffer) => guarded(() => read(chunk));
  let lastError: Buffer | null = null;
  const scan = new MessageScan(filter === null ? ERRORS : ReadOnlyFilter.SERVER_MESSAGES, (type, body) => {
    if (type === BACKEND.error) lastError = Buffer.from(body);
    filter?.onServerMessage(type, body);
  });
  const toClient = (bytes: Buffer, end: number) => {
    // The socket may write the bytes after this call returns, when the buffer has other contents.
    const chunk = Buffer.from(bytes.subarray(0, end));
    session.sent += end;
    filter?.hideContext(chunk);
    const mayGoOn = client.write(chunk);
    scan.feed(chunk);
    if (mayGoOn) return;
    backend.pause();
    client.once('drain', () => backend.resume());
  };
  await new Promise<void>((resolve) => {
    const closed = () => resolve();
    client.once('close', closed);
    client.once('end', closed);
    client.on('data', take);
    backend.on('error', () => {});
    backend.once('close', () => {
      guarded(() => {
        const said =
          lastError !== null && scan.lastType === BACKEND.error && scan.isBetween ? asError(lastError) : null;
        if (said?.isFatal) session.ending ??= asPostgresSaid(said);
        else if (!hasTerminated) session.end(lost());
      });
      client.end();
      resolve();
    });
    loggedIn.read((bytes, end) => {
      if (session.ending === null && !session.isOver) guarded(() => toClient(bytes, end));
    });
    session.listen((reason) => {
      if (scan.isBetween && client.writable) client.end(errorResponse(fatal(reason)));
      else client.destroySoon();
      resolve();
    });
    if (received.length > 0) take(received);
    client.resume();
    if (client.closed) resolve();
  });
  client
    .off('data', take)
    .on('data', () => {})
    .resume();
  const timer = setTimeout(() => client.destroy(), LINGER_MS).unref();
  client.once('close', () => clearTimeout(timer));
  await session.release();
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
