/**
 * The keys of erasures, encrypted under the secret of the installation: one that hashes identifiers in the ledger, and one that
 * signs receipts. Whoever has the control database or a backup without the secret has neither.
 */
import { createCipheriv, createDecipheriv, createHmac, generateKeyPairSync, hkdfSync, randomBytes } from 'node:crypto';
import type { JWK } from 'jose';
import { EngineError } from '../../contract/errors.js';
import type { KeyPurpose, KeyRow, SubjectRows } from '../../tenancy/control/subject-rows.js';

const ALGORITHM = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

export interface LedgerKey {
  readonly id: string;
  readonly key: Buffer;
}

export class SubjectKeys {
  constructor(
    private readonly rows: Pick<SubjectRows, 'keys' | 'addKey' | 'rewrap'>,
    private readonly secret: string,
    /** Under which keys may still be encrypted; null: none. */
    private readonly previous: string | null,
  ) {}

  /** The key for new entries of the ledger. */
  async ledgerKey(): Promise<LedgerKey> {
    const [found] = await this.readable('ledger');
    if (found !== undefined) return { id: found.id, key: found.plain };
    const key = randomBytes(32);
    const id = randomBytes(8).toString('hex');
    await this.rows.addKey({ id, purpose: 'ledger', wrapped: wrap(this.secret, key), publicKey: null });
    // Another instance may have been faster: all use the newest.
    return (await this.ledgerKeys()).values().next().value ?? { id, key };
  }

  /** Keys of the ledger that the secret opens, by id, the newest first. */
  async ledgerKeys(): Promise<ReadonlyMap<string, LedgerKey>> {
    return new Map((await this.readable('ledger')).map(({ id, plain }) => [id, { id, key: plain }]));
  }

  /** The key that signs receipts. If the secret opens none, as after a restore without it, there is a new one. */
  async signer(): Promise<{ readonly id: string; readonly privateKey: JWK; readonly publicKey: JWK }> {
    const [found] = await this.readable('receipts');
    if (found?.publicKey != null)
      return { id: found.id, privateKey: JSON.parse(found.plain.toString()) as JWK, publicKey: found.publicKey };
    const { calculateJwkThumbprint } = await import('jose');
    const pair = generateKeyPairSync('ed25519');
    const publicJwk = pair.publicKey.export({ format: 'jwk' }) as JWK;
    const privateKey = pair.privateKey.export({ format: 'jwk' }) as JWK;
    const id = await calculateJwkThumbprint(publicJwk);
    const publicKey = { ...publicJwk, kid: id, use: 'sig', alg: 'EdDSA' };
    const wrapped = wrap(this.secret, Buffer.from(JSON.stringify(privateKey)));
    await this.rows.addKey({ id, purpose: 'receipts', wrapped, publicKey });
    return { id, privateKey, publicKey };
  }

  /** All that have ever signed a receipt, also those that no longer do. */
  async publicKeys(): Promise<Readonly<Record<string, unknown>>[]> {
    const keys = await this.rows.keys('receipts');
    if (keys.length === 0) await this.signer();
    return (keys.length > 0 ? keys : await this.rows.keys('receipts')).flatMap(({ publicKey }) =>
      publicKey === null ? [] : [publicKey],
    );
  }

  /** Encrypts what an erasure looks for, until it has ended. */
  seal(value: unknown): Buffer {
    return Buffer.from(wrap(this.secret, Buffer.from(JSON.stringify(value))), 'base64');
  }

  /** @throws EngineError internal if neither secret opens it */
  open(sealed: Buffer): unknown {
    const plain = this.unwrap(sealed.toString('base64'));
    if (plain === null)
      throw new EngineError('internal', 'The erasure was begun under another CDP_SECRET: begin it again');
    return JSON.parse(plain.plain.toString()) as unknown;
  }

  private async readable(purpose: KeyPurpose): Promise<(KeyRow & { readonly plain: Buffer })[]> {
    const readable: (KeyRow & { readonly plain: Buffer })[] = [];
    for (const row of await this.rows.keys(purpose)) {
      const opened = this.unwrap(row.wrapped);
      if (opened === null) continue;
      if (opened.isPrevious) await this.rows.rewrap(row.id, wrap(this.secret, opened.plain));
      readable.push({ ...row, plain: opened.plain });
    }
    return readable;
  }

  private unwrap(wrapped: string): { readonly plain: Buffer; readonly isPrevious: boolean } | null {
    const plain = unwrap(this.secret, wrapped);
    if (plain !== null) return { plain, isPrevious: false };
    const before = this.previous === null ? null : unwrap(this.previous, wrapped);
    return before && { plain: before, isPrevious: true };
  }
}

const keyOf = (secret: string): Buffer => Buffer.from(hkdfSync('sha256', secret, '', 'cdp subjects', 32));

/** @returns base64 */
function wrap(secret: string, plain: Buffer): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(ALGORITHM, keyOf(secret), iv);
  return Buffer.concat([iv, cipher.update(plain), cipher.final(), cipher.getAuthTag()]).toString('base64');
}

/** @returns null if another secret has encrypted it */
function unwrap(secret: string, wrapped: string): Buffer | null {
  const bytes = Buffer.from(wrapped, 'base64');
  const decipher = createDecipheriv(ALGORITHM, keyOf(secret), bytes.subarray(0, IV_BYTES));
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
  } catch {
    return null;
  }
}

export const hmac = (key: Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();
