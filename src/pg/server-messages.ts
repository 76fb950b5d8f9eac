/** The messages of a server (Postgres manual 54.7), for clients of the Postgres port. */
import { FRONTEND, int32, message } from './messages.js';

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
