/**
 * Logging in is the driver's work: socket or TLS, SCRAM, start-up parameters. What comes out is the bare socket of a
 * session that is ready for its first query; `connection.ts` speaks the protocol from there.
 */
import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import pg from 'pg';
import type { LoginOptions } from '../server.js';
import { PostgresError } from '../errors.js';

/** Gets what has arrived: `bytes[0, end)`, valid until the call returns. */
type ReadListener = (bytes: Buffer, end: number) => void;

export interface LoggedIn {
  socket: Socket;
  processId: number;
  secretKey: number;
  /** From now on what arrives goes to `listener` and is no `data` event of the socket. */
  read(listener: ReadListener): void;
}

/** The fields of the driver's client that its type declarations leave out. */
interface ClientInternals {
  connection: { stream: Socket };
  processID: number;
  secretKey: number;
}

/**
 * @throws PostgresError when the server refuses (28P01, 53300, 57P03 …), the socket's own error when it cannot be
 * reached.
 */
export async function login(options: LoginOptions): Promise<LoggedIn> {
  const shared = options.ssl || !READS_ONE_AT_A_TIME ? null : sharedReading();
  const client = new pg.Client({ ...options, ...(shared === null ? {} : { stream: () => shared.socket }) });
  // Once logged in, the session owns the socket; the driver must not throw when it closes.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    throw error instanceof pg.DatabaseError ? PostgresError.fromDriver(error) : error;
  }
  const { connection, processID, secretKey } = client as unknown as ClientInternals;
  const socket = connection.stream.removeAllListeners('data');
  const read = shared?.read ?? ((listener) => socket.on('data', (chunk: Buffer) => listener(chunk, chunk.length)));
  return { socket, processId: processID, secretKey, read };
}

const READ_BYTES = 128 * 1024;

/** On Windows a buffer is handed to the system before anything has arrived, and several connections would share one. */
const READS_ONE_AT_A_TIME = process.platform !== 'win32';

/**
 * What arrives on any connection lies here while its listener runs. Node makes a new buffer for every read otherwise, and
 * large results are so many of them that collecting garbage takes a tenth of the time.
 */
const arrivals = Buffer.allocUnsafeSlow(READ_BYTES);

/** A socket, not yet connected, that reads into {@link arrivals}. */
function sharedReading(): Pick<LoggedIn, 'socket' | 'read'> {
  let listener: ReadListener | null = null;
  const callback = (size: number, bytes: Uint8Array): boolean => {
    // The driver keeps what it is given.
    if (listener === null) return socket.push(Buffer.from(bytes.subarray(0, size)));
    listener(arrivals, size);
    return true;
  };
  // The type declarations know the option for connect() alone, which the driver calls.
  const onread: OnReadOpts = { buffer: arrivals, callback };
  const socket = new Socket({ onread } as SocketConstructorOpts);
  return { socket, read: (taker) => void (listener = taker) };
}
