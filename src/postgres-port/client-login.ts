/** The steps before a session: startup packets, TLS, the token as password (Postgres manual, Start-up). */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';
import { isLoopback } from '../ip-address.js';
import { SessionError } from '../engine/sessions/session-error.js';
import { messageSize } from '../pg/index.js';
import {
  ASK_CLEARTEXT_PASSWORD,
  MESSAGE_HEADER,
  readPassword,
  readStartUp,
  type StartUp,
  startUpSize,
  WITH_TLS,
  WITHOUT_ENCRYPTION,
} from '../pg/protocol.js';

/** A JWT may have a few thousand bytes. */
const MAX_PASSWORD_BYTES = 16 * 1024;

/** The first byte of a TLS handshake, which clients of Postgres 17 and later may start without a request. */
const TLS_HANDSHAKE = 0x16;

/** The protocol's name in TLS (RFC 7301). */
const ALPN = 'postgresql';

export interface Encryption {
  /** null: there is no certificate. */
  readonly tls: SecureContext | null;
  /** Whether clients on other machines are refused without TLS. */
  readonly requiresTls: boolean;
}

/** Reads a socket piece by piece, and keeps the bytes that were not taken. */
export class BufferedSocket {
  private bytes: Buffer = Buffer.alloc(0);

  constructor(readonly socket: Socket) {}

  /** Takes all bytes that have arrived. */
  rest(): Buffer {
    const { bytes } = this;
    this.bytes = Buffer.alloc(0);
    return bytes;
  }

  /**
   * Takes a piece.
   * @param size the length of the next piece; null: more bytes are needed
   * @throws Error if the client disconnects, and what `size` throws
   */
  async take(size: (bytes: Buffer) => number | null): Promise<Buffer> {
    for (;;) {
      const length = size(this.bytes);
      if (length !== null && this.bytes.length >= length) {
        const piece = this.bytes.subarray(0, length);
        this.bytes = this.bytes.subarray(length);
        return piece;
      }
      this.bytes = Buffer.concat([this.bytes, await nextChunk(this.socket)]);
    }
  }

  /** Returns the first byte without taking it. */
  async firstByte(): Promise<number> {
    if (this.bytes.length === 0) this.bytes = await nextChunk(this.socket);
    return this.bytes[0] as number;
  }
}

/** Reads the next bytes, then pauses the socket again. */
async function nextChunk(socket: Socket): Promise<Buffer> {
  const over = new AbortController();
  const { signal } = over;
  const left = async (): Promise<never> => {
    await Promise.race([once(socket, 'end', { signal }), once(socket, 'close', { signal })]);
    throw new Error('the client disconnected');
  };
  try {
    if (socket.closed || socket.readableEnded) throw new Error('the client disconnected');
    const leaving = left();
    // Whichever comes first is awaited below; the other must not count as unhandled.
    leaving.catch(() => {});
    const coming = once(socket, 'data', { signal });
    // As above.
    coming.catch(() => {});
    socket.resume();
    const [chunk] = (await Promise.race([coming, leaving])) as [Buffer];
    return chunk;
  } finally {
    socket.pause();
    over.abort();
  }
}

/**
 * Reads up to the startup packet or a cancel request, with TLS if the client requests it.
 * @param onSecured receives what replaces `client` then
 * @throws SessionError to send to the client
 * @throws Error if there is nothing to send
 */
export async function negotiate(
  client: BufferedSocket,
  encryption: Encryption,
  onSecured: (client: BufferedSocket) => void,
): Promise<Extract<StartUp, { kind: 'start-up' | 'cancel' }>> {
  let current = client;
  let isSecure = false;
  const secure = async (isAtOnce: boolean) => {
    current = await secured(current, encryption.tls as SecureContext, isAtOnce);
    isSecure = true;
    onSecured(current);
  };
  if (encryption.tls !== null && (await current.firstByte()) === TLS_HANDSHAKE) await secure(true);
  // One request for TLS and one for GSS, in any order.
  for (const requested = new Set<string>(); ;) {
    const startUp = readStartUp(await current.take(startUpSize));
    if (startUp.kind === 'ssl' || startUp.kind === 'gss') {
      if (isSecure || requested.has(startUp.kind)) throw new Error('asked for encryption twice');
      requested.add(startUp.kind);
      const offers = startUp.kind === 'ssl' && encryption.tls !== null;
      current.socket.write(offers ? WITH_TLS : WITHOUT_ENCRYPTION);
      if (offers) await secure(false);
      continue;
    }
    if (startUp.kind === 'unsupported') {
      throw new SessionError(
        '0A000',
        `unsupported frontend protocol ${startUp.version}: server supports 3.0`,
        'malformed',
      );
    }
    const address = current.socket.remoteAddress ?? '';
    if (startUp.kind === 'start-up' && encryption.requiresTls && !isSecure && !isLoopback(address)) {
      throw new SessionError('28000', 'connections from other machines need TLS (sslmode=require)', 'tls_required');
    }
    return startUp;
  }
}

/**
 * @param isAtOnce the client has begun the handshake without a request
 * @throws Error for bytes before the response, which an attacker outside the encryption may have sent (CVE-2021-23214);
 * also, as in Postgres 17, for a direct handshake without the protocol's name: a browser may have meant another port
 * (ALPACA)
 */
async function secured(
  client: BufferedSocket,
  secureContext: SecureContext,
  isAtOnce: boolean,
): Promise<BufferedSocket> {
  const early = client.rest();
  const { socket } = client;
  if (early.length > 0 && !isAtOnce) throw new Error('data before the response about TLS');
  if (early.length > 0) socket.unshift(early);
  const tls = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: [ALPN] });
  tls.on('error', () => {});
  await Promise.race([
    once(tls, 'secure'),
    once(tls, 'close').then(() => {
      throw new Error('the client disconnected');
    }),
  ]);
  if (isAtOnce && tls.alpnProtocol !== ALPN) throw new Error('direct TLS without ALPN');
  tls.pause();
  return new BufferedSocket(tls);
}

/**
 * Requests the token.
 * @throws SessionError, Error
 */
export async function askPassword(client: BufferedSocket): Promise<string> {
  client.socket.write(ASK_CLEARTEXT_PASSWORD);
  const message = await client.take((bytes) => {
    if (bytes.length < MESSAGE_HEADER) return null;
    const size = messageSize(bytes, 0);
    if (size < MESSAGE_HEADER || size > MAX_PASSWORD_BYTES) throw notPassword();
    return size;
  });
  const password = readPassword(message[0] as number, message.subarray(MESSAGE_HEADER));
  if (password === null) throw notPassword();
  return password;
}

const notPassword = () => new SessionError('08P01', 'expected password response', 'malformed');
