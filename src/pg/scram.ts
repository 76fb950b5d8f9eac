/** The client's side of a login by SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding. */
import { createHash, createHmac, pbkdf2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { PostgresError, protocolViolation, SQLSTATE } from './errors.js';

export const MECHANISM = 'SCRAM-SHA-256';
const MAX_ITERATIONS = 100_000;
/** No channel binding (RFC 5802, section 7). */
const GS2_HEADER = 'n,,';

const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest();

/** One login. Postgres takes the user from the startup message. */
export class Scram {
  private readonly nonce = randomBytes(18).toString('base64');
  private serverSignature: Buffer | null = null;

  constructor(private readonly password: string) {}

  get first(): string {
    return `${GS2_HEADER}n=*,r=${this.nonce}`;
  }

  /** @returns the client's proof that it knows the password */
  async answer(serverFirst: string): Promise<string> {
    const { r: nonce = '', s: salt = '', i: iterations = '' } = attributes(serverFirst);
    const count = Number(iterations);
    const isLonger = nonce.startsWith(this.nonce) && nonce.length > this.nonce.length;
    if (!isLonger || !(count >= 1)) throw protocolViolation();
    // A role can set such a verifier for itself. For the service, that is a password that does not work.
    if (count > MAX_ITERATIONS) {
      const message = `The role's password has ${count} SCRAM iterations; at most ${MAX_ITERATIONS} are supported`;
      throw new PostgresError(message, SQLSTATE.INVALID_PASSWORD, 'FATAL');
    }
    const prepared = saslPrep(this.password);
    const salted = await promisify(pbkdf2)(prepared, Buffer.from(salt, 'base64'), count, 32, 'sha256');
    const clientKey = hmac(salted, 'Client Key');
    const storedKey = createHash('sha256').update(clientKey).digest();
    const final = `c=${Buffer.from(GS2_HEADER).toString('base64')},r=${nonce}`;
    const exchange = `n=*,r=${this.nonce},${serverFirst},${final}`;
    const signature = hmac(storedKey, exchange);
    this.serverSignature = hmac(hmac(salted, 'Server Key'), exchange);
    return `${final},p=${Buffer.from(clientKey.map((byte, i) => byte ^ (signature[i] ?? 0))).toString('base64')}`;
  }

  /** @throws ConnectionLost if the server cannot prove that it knows the password */
  verify(serverFinal: string): void {
    const signature = Buffer.from(attributes(serverFinal).v ?? '', 'base64');
    const expected = this.serverSignature;
    if (expected?.length !== signature.length || !timingSafeEqual(expected, signature)) throw protocolViolation();
  }
}

/** Parses `r=…,s=…`. */
const attributes = (text: string): Partial<Record<string, string>> =>
  Object.fromEntries(text.split(',').map((pair) => [pair.slice(0, 1), pair.slice(2)]));

/**
 * The steps of RFC 4013 that change bytes: maps other spaces to a space, removes invisible characters, applies NFKC.
 */
const saslPrep = (password: string): string =>
  password
    .replace(/[\u00A0\u1680\u2000-\u200B\u202F\u205F\u3000]/g, ' ')
    .replace(/\u00AD|\u034F|\u1806|[\u180B-\u180D]|\u200C|\u200D|\u2060|[\uFE00-\uFE0F]|\uFEFF/g, '')
    .normalize('NFKC');
