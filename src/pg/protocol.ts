/**
 * The raw messages of Postgres's protocol, for code between a client and a server: the Postgres port and pg_dump. It
 * scans messages that pass through, reads a client's start-up, and writes messages as a server does.
 */
import { messageSize } from './framing.js';
import { FRONTEND, int32, message, MESSAGE_HEADER } from './messages.js';

export { Framing } from './framing.js';
export { BACKEND, FRONTEND, IDLE, MESSAGE_HEADER, parse, readErrorFields, simpleQuery, TERMINATE } from './messages.js';

/** Maximum number of bytes of a body that are passed on; the rest of a longer one is ignored. */
const KEPT = 64 * 1024;

/** Reads the headers of messages that pass through, and passes on the bodies of a few types. It copies nothing else. */
export class MessageScan {
  /** The type of the last message, complete or incomplete. */
  lastType = 0;
  private readonly header = Buffer.alloc(MESSAGE_HEADER);
  private headerFilled = 0;
  /** The number of bytes that the current message still lacks. */
  private left = 0;
  /** Parts of a wanted body that arrives in pieces. */
  private parts: Buffer[] | null = null;
  private keptBytes = 0;

  /**
   * @param wantedTypes types whose bodies are passed on
   * @param onMessage called when such a message is complete; `body` is valid until it returns
   */
  constructor(
    private readonly wantedTypes: ReadonlySet<number>,
    private readonly onMessage: (type: number, body: Buffer) => void,
  ) {}

  /** Whether the stream is between two messages. */
  get isBetween(): boolean {
    return this.left === 0 && this.headerFilled === 0;
  }

  /** Scans `chunk[0, end)`. */
  feed(chunk: Buffer, end = chunk.length): void {
    let at = this.finishPending(chunk, end);
    while (end - at >= MESSAGE_HEADER) {
      const size = Math.max(messageSize(chunk, at), MESSAGE_HEADER);
      const next = at + size;
      const type = (this.lastType = chunk[at] as number);
      if (this.wantedTypes.has(type)) {
        if (next <= end) this.onMessage(type, chunk.subarray(at + MESSAGE_HEADER, next));
        else this.begin(type, chunk.subarray(at + MESSAGE_HEADER, end));
      }
      if (next > end) {
        this.left = next - end;
        return;
      }
      at = next;
    }
    this.headerFilled += chunk.copy(this.header, this.headerFilled, at, end);
  }

  /** @returns the start of the next message, or the end */
  private finishPending(chunk: Buffer, end: number): number {
    let at = 0;
    if (this.headerFilled > 0) {
      const count = Math.min(MESSAGE_HEADER - this.headerFilled, end);
      chunk.copy(this.header, this.headerFilled, 0, count);
      this.headerFilled += count;
      if (this.headerFilled < MESSAGE_HEADER) return end;
      at = count;
      this.headerFilled = 0;
      this.left = Math.max(messageSize(this.header, 0), MESSAGE_HEADER) - MESSAGE_HEADER;
      const type = (this.lastType = this.header[0] as number);
      if (this.wantedTypes.has(type)) {
        if (this.left === 0) this.onMessage(type, this.header.subarray(0, 0));
        else this.begin(type, Buffer.alloc(0));
      }
    }
    if (this.left === 0) return at;
    const count = Math.min(this.left, end - at);
    this.left -= count;
    if (this.parts !== null) {
      this.append(chunk.subarray(at, at + count));
      if (this.left === 0) {
        const body = Buffer.concat(this.parts);
        this.parts = null;
        this.onMessage(this.header[0] as number, body);
      }
    }
    return at + count;
  }

  private begin(type: number, body: Buffer): void {
    this.header[0] = type;
    this.parts = [];
    this.keptBytes = 0;
    this.append(body);
  }

  private append(part: Buffer): void {
    const bytes = part.subarray(0, KEPT - this.keptBytes);
    this.keptBytes += bytes.length;
    this.parts?.push(Buffer.from(bytes));
  }
}

// Packets that a client sends before a session, which have no type byte (Postgres manual, Message Flow and Message
// Formats).

/** Postgres's own limit (MAX_STARTUP_PACKET_LENGTH). */
const MAX_START_UP_BYTES = 10_000;

const CODE = { cancel: 80877102, ssl: 80877103, gss: 80877104 } as const;

export type StartUp =
  | { readonly kind: 'ssl' }
  | { readonly kind: 'gss' }
  | { readonly kind: 'cancel'; readonly processId: number; readonly secretKey: Buffer }
  | { readonly kind: 'start-up'; readonly minor: number; readonly parameters: ReadonlyMap<string, string> }
  | { readonly kind: 'unsupported'; readonly version: string };

/**
 * @param bytes all bytes that have arrived
 * @returns the size of the first packet; null if its length has not arrived yet
 * @throws Error if this cannot be a packet
 */
export function startUpSize(bytes: Buffer): number | null {
  if (bytes.length < 4) return null;
  const size = bytes.readInt32BE(0);
  if (size < 8 || size > MAX_START_UP_BYTES) throw new Error('invalid length of startup packet');
  return size;
}

/**
 * @param packet complete, including its length
 * @throws Error if it is malformed
 */
export function readStartUp(packet: Buffer): StartUp {
  const code = packet.readInt32BE(4);
  if (code === CODE.ssl || code === CODE.gss) {
    if (packet.length !== 8) throw new Error('invalid length of startup packet');
    return { kind: code === CODE.ssl ? 'ssl' : 'gss' };
  }
  if (code === CODE.cancel) {
    if (packet.length < 16) throw new Error('invalid length of startup packet');
    return { kind: 'cancel', processId: packet.readInt32BE(8), secretKey: packet.subarray(12) };
  }
  const [major, minor] = [packet.readUInt16BE(4), packet.readUInt16BE(6)];
  if (major !== 3) return { kind: 'unsupported', version: `${major}.${minor}` };
  return { kind: 'start-up', minor, parameters: readParameters(packet) };
}

/** Pairs of strings, and a zero byte at the end. */
function readParameters(packet: Buffer): Map<string, string> {
  const fields = packet.toString('utf8', 8).split('\0');
  const isComplete = packet.at(-1) === 0 && fields.at(-2) === '' && fields.length % 2 === 0;
  if (!isComplete) throw new Error('invalid startup packet layout: expected terminator as last byte');
  const parameters = new Map<string, string>();
  for (let i = 0; i + 3 < fields.length; i += 2) {
    const [name = '', value = ''] = [fields[i], fields[i + 1]];
    if (name === '' || parameters.has(name)) throw new Error('invalid startup packet layout: a name is empty or twice');
    parameters.set(name, value);
  }
  return parameters;
}

// The messages of a server (Postgres manual, Message Formats), for clients of the Postgres port.

const text = (...values: string[]): Buffer => Buffer.from(values.map((value) => `${value}\0`).join(''));

/** The responses to SSLRequest and GSSENCRequest. */
export const WITH_TLS = Buffer.from('S');
export const WITHOUT_ENCRYPTION = Buffer.from('N');

export const ASK_CLEARTEXT_PASSWORD = message('R', int32(3));
export const AUTHENTICATION_OK = message('R', int32(0));
export const READY_IDLE = message('Z', Buffer.from('I'));

export const parameterStatus = (name: string, value: string): Buffer => message('S', text(name, value));

export const backendKeyData = (processId: number, secretKey: Buffer): Buffer =>
  message('K', int32(processId), secretKey);

/**
 * Offers protocol 3.0 to a client that requests a later version.
 * @param options those that the client requests; all are unknown
 */
export const negotiateVersion = (options: readonly string[]): Buffer =>
  message('v', int32(3 << 16, options.length), text(...options));

/** The contents of an ErrorResponse. */
interface ErrorFields {
  readonly severity: 'ERROR' | 'FATAL';
  readonly sqlstate: string;
  readonly message: string;
  readonly hint?: string | undefined;
}

export function errorResponse({ severity, sqlstate, message: said, hint }: ErrorFields): Buffer {
  const clean = (value: string) => value.replaceAll('\0', '');
  const fields = [`S${severity}`, `V${severity}`, `C${sqlstate}`, `M${clean(said)}`];
  if (hint !== undefined) fields.push(`H${clean(hint)}`);
  return message('E', text(...fields), Buffer.alloc(1));
}

/** The body of a PasswordMessage without its zero byte; null for another message. */
export function readPassword(type: number, body: Buffer): string | null {
  if (type !== FRONTEND.password || body.indexOf(0) !== body.length - 1) return null;
  return body.toString('utf8', 0, body.length - 1);
}

/**
 * The strings at the beginning of a client's message.
 * @throws Error if one is not terminated
 */
export function readStrings(body: Buffer, count: number): string[] {
  const strings: string[] = [];
  let at = 0;
  for (let i = 0; i < count; i++) {
    const end = body.indexOf(0, at);
    if (end < 0) throw new Error('A message of the client is malformed');
    strings.push(body.toString('utf8', at, end));
    at = end + 1;
  }
  return strings;
}
