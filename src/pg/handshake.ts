/**
 * Opens a connection and logs in: TLS, password by SCRAM-SHA-256, MD5 or in cleartext, startup parameters (Postgres
 * manual, Start-up). The result is the socket of a session that is ready for its first query; `connection.ts` then
 * takes over.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { connectTo, type LoginOptions, type ServerAddress } from './address.js';
import { ConnectionLost, NoPrimary, PostgresError, protocolViolation, SQLSTATE } from './errors.js';
import { Framing } from './framing.js';
import { nameOf } from './hosts.js';
import {
  BACKEND,
  passwordMessage,
  readErrorFields,
  readParameterStatus,
  saslInitialResponse,
  SSL_REQUEST,
  startup,
} from './messages.js';
import { MECHANISM, Scram } from './scram.js';

/** Receives the bytes `bytes[0, end)`, which are valid until the call returns. */
type ReadListener = (bytes: Buffer, end: number) => void;

export interface LoggedIn {
  readonly address: ServerAddress;
  readonly socket: Socket;
  readonly processId: number;
  /** The secret key for a cancel request. */
  readonly secretKey: Buffer;
  /** The settings that the server has reported (ParameterStatus). */
  readonly parameters: ReadonlyMap<string, string>;
  /** From now on, received bytes go to `listener`, and the socket emits no `data` events. */
  read(listener: ReadListener): void;
}

/**
 * With several hosts, uses the first one that accepts the login and is the primary. Each gets an equal share of the
 * time.
 * @param signal aborts the login
 * @throws PostgresError if the server refuses (28P01, 53300, 57P03 …); ConnectionLost if it cannot be reached;
 * NoPrimary
 */
export async function logIn(options: LoginOptions, signal?: AbortSignal): Promise<LoggedIn> {
  const { hosts } = options;
  if (hosts === undefined) return logInAt(options, signal);
  const connectionTimeoutMillis = options.connectionTimeoutMillis / hosts.list.length;
  const reasons: string[] = [];
  for (const host of hosts.inTurn()) {
    try {
      const loggedIn = await logInAt({ ...options, ...host, connectionTimeoutMillis }, signal);
      hosts.confirm(host);
      return loggedIn;
    } catch (error) {
      // A server that refuses the login is up, and the other ones would refuse it, too.
      if (signal?.aborted || (error instanceof PostgresError && error.sqlstate !== SQLSTATE.CANNOT_CONNECT_NOW))
        throw error;
      reasons.push(error instanceof NoPrimary ? error.message : `${nameOf(host)}: ${reasonOf(error)}`);
    }
  }
  throw new NoPrimary(reasons.join('; '));
}

async function logInAt(options: LoginOptions, signal?: AbortSignal): Promise<LoggedIn> {
  signal?.throwIfAborted();
  const transport = options.ssl || !READS_ONE_AT_A_TIME ? ownBufferSocket(options) : sharedBufferSocket(options);
  const { socket: plain } = transport;
  /** The first failure, which the socket's own error must not replace. */
  let reason: Error | undefined;
  const giveUp = (error: Error) => {
    reason ??= error;
    plain.destroy(error);
  };
  const abort = () => giveUp(new ConnectionLost('The login was aborted', { cause: signal?.reason }));
  signal?.addEventListener('abort', abort);
  const late = () => giveUp(new ConnectionLost('Postgres did not answer the login in time'));
  const timer = setTimeout(late, options.connectionTimeoutMillis);
  plain.on('error', () => {});
  try {
    await once(plain, 'connect');
    plain.setNoDelay(true);
    if (options.keepAliveMs !== undefined) plain.setKeepAlive(true, options.keepAliveMs);
    if (!options.ssl)
      return { address: options, socket: plain, ...(await handshake(plain, options)), read: transport.read };
    const socket = await encrypted(plain, options);
    const keys = await handshake(socket, options);
    return { address: options, socket, ...keys, read: (listener) => readEvents(socket, listener) };
  } catch (error) {
    plain.destroy();
    throw reason ?? asLost(error);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
}

const asLost = (error: unknown): unknown =>
  error instanceof PostgresError || error instanceof ConnectionLost || !(error instanceof Error)
    ? error
    : new ConnectionLost(reasonOf(error), { cause: error });

/** If all of a host's addresses fail, Node throws one error without a message. */
const reasonOf = (error: unknown): string =>
  error instanceof AggregateError ? error.errors.map(reasonOf).join(', ') : (error as Error).message;

/** Postgres answers with one letter whether it supports TLS. More bytes would come from an attacker in between. */
async function encrypted(socket: Socket, { host, ssl }: LoginOptions): Promise<Socket> {
  socket.write(SSL_REQUEST);
  const [response] = (await Promise.race([once(socket, 'data'), untilClosed(socket)])) as [Buffer];
  if (response.length !== 1) throw protocolViolation();
  if (response.toString('latin1') !== 'S') throw new ConnectionLost('The server does not support TLS connections');
  const servername = isIP(host) === 0 ? { servername: host } : {};
  // Without a name or address, Node would expect a certificate for localhost.
  const secure = connectTls({ host, ...servername, ...(typeof ssl === 'object' ? ssl : {}), socket });
  secure.on('error', () => {});
  await Promise.race([once(secure, 'secureConnect'), untilClosed(secure)]);
  return secure;
}

async function untilClosed(socket: Socket): Promise<never> {
  await once(socket, 'close');
  throw new ConnectionLost('The connection was closed during the login');
}

interface Reply {
  readonly type: number;
  readonly body: Buffer;
}

const MAX_REPLY_BYTES = 64 * 1024;

/** Reads the messages of a login one at a time. */
class Replies {
  private readonly arrived: Reply[] = [];
  private failure: Error | null = null;
  private wake = (): void => {};

  constructor(private readonly socket: Socket) {
    socket.on('data', this.onData).on('error', this.onError).on('close', this.onClose);
  }

  async next(): Promise<Reply> {
    for (;;) {
      const reply = this.arrived.shift();
      if (reply?.type === BACKEND.error) {
        throw PostgresError.fromFields(readErrorFields(reply.body, 0, reply.body.length));
      }
      if (reply !== undefined) return reply;
      if (this.failure !== null) throw this.failure;
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }

  stop(): void {
    this.socket.off('data', this.onData).off('error', this.onError).off('close', this.onClose);
  }

  private readonly framing = new Framing(
    (type, buffer, start, end) => this.arrived.push({ type, body: Buffer.from(buffer.subarray(start, end)) }),
    (_type, length) => length <= MAX_REPLY_BYTES,
  );

  private readonly onData = (bytes: Buffer): void => {
    try {
      if (!this.framing.feed(bytes)) this.failure = protocolViolation();
    } catch (error) {
      this.failure = error as Error;
    }
    this.wake();
  };

  private readonly onError = (error: Error): void => {
    this.failure ??= error;
    this.wake();
  };

  private readonly onClose = (): void => this.onError(new ConnectionLost('The connection was closed during the login'));
}

/** Codes of the Authentication messages (Postgres manual, Message Formats). */
const AUTHENTICATION = { ok: 0, cleartext: 3, md5: 5, sasl: 10, saslContinue: 11, saslFinal: 12 } as const;

type StartupResult = Pick<LoggedIn, 'processId' | 'secretKey' | 'parameters'>;

async function handshake(socket: Socket, options: LoginOptions): Promise<StartupResult> {
  const replies = new Replies(socket);
  try {
    const { user, database, application_name, client_encoding = 'UTF8', options: settings, needsPrimary } = options;
    const { replication } = options;
    socket.write(startup({ user, database, application_name, options: settings, client_encoding, replication }));
    await authenticate(socket, replies, options);
    let keys = { processId: 0, secretKey: Buffer.alloc(4) as Buffer };
    const parameters = new Map<string, string>();
    for (;;) {
      const { type, body } = await replies.next();
      if (type === BACKEND.readyForQuery) return { ...keys, parameters };
      if (type === BACKEND.parameterStatus) {
        const [name, value] = readParameterStatus(body, 0, body.length);
        if (needsPrimary && name === 'in_hot_standby' && value === 'on') throw standbyError(options);
        parameters.set(name, value);
      }
      if (type === BACKEND.keyData) keys = { processId: body.readInt32BE(0), secretKey: body.subarray(4) };
    }
  } finally {
    replies.stop();
  }
}

async function authenticate(socket: Socket, replies: Replies, { user, password }: LoginOptions): Promise<void> {
  let scram: Scram | undefined;
  for (;;) {
    const { type, body } = await replies.next();
    if (type !== BACKEND.authentication) continue;
    const data = body.subarray(4);
    switch (body.readInt32BE(0)) {
      case AUTHENTICATION.ok:
        return;
      case AUTHENTICATION.cleartext:
        socket.write(passwordMessage(`${password}\0`));
        break;
      case AUTHENTICATION.md5:
        socket.write(passwordMessage(`md5${md5(Buffer.from(md5(password + user)), data)}\0`));
        break;
      case AUTHENTICATION.sasl:
        if (!data.toString('latin1').split('\0').includes(MECHANISM)) throw unsupported();
        scram = new Scram(password);
        socket.write(saslInitialResponse(MECHANISM, scram.first));
        break;
      case AUTHENTICATION.saslContinue:
        socket.write(passwordMessage((await scram?.answer(data.toString())) ?? ''));
        break;
      case AUTHENTICATION.saslFinal:
        scram?.verify(data.toString());
        break;
      default:
        throw unsupported();
    }
  }
}

const standbyError = (host: LoginOptions) => new NoPrimary(`${nameOf(host)} is a standby, which accepts no writes`);

const unsupported = () =>
  new ConnectionLost('The server asks for a kind of authentication other than SCRAM-SHA-256, MD5 and password');

const md5 = (...parts: (string | Buffer)[]): string =>
  parts.reduce((hash, part) => hash.update(part), createHash('md5')).digest('hex');

type ReadableSocket = Pick<LoggedIn, 'socket' | 'read'>;

const readEvents = (socket: Socket, listener: ReadListener) =>
  void socket.on('data', (chunk: Buffer) => listener(chunk, chunk.length));

function ownBufferSocket(address: LoginOptions): ReadableSocket {
  const socket = connectTo(address);
  return { socket, read: (listener) => readEvents(socket, listener) };
}

const READ_BYTES = 128 * 1024;

/** On Windows, a read gets its buffer before any bytes arrive, so several connections would share one. */
const READS_ONE_AT_A_TIME = process.platform !== 'win32';

/**
 * Holds the bytes received on any connection while its listener runs. Otherwise Node would allocate a buffer for every
 * read, and for large results collecting this garbage takes a tenth of the time.
 */
const readBuffer = Buffer.allocUnsafeSlow(READ_BYTES);

/** A socket that reads into {@link readBuffer}. */
function sharedBufferSocket(address: LoginOptions): ReadableSocket {
  let listener: ReadListener | null = null;
  const callback = (size: number, bytes: Uint8Array): boolean => {
    // Messages of the login are copied, because they are read later.
    if (listener === null) return socket.push(Buffer.from(bytes.subarray(0, size)));
    listener(readBuffer, size);
    return true;
  };
  const socket = connectTo(address, { buffer: readBuffer, callback });
  return { socket, read: (taker) => void (listener = taker) };
}
