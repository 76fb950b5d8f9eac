/** Receipts of erasures: what was erased, when and where, signed. Only who has the nonce can tell of whom. */
import type { JWK } from 'jose';
import { committedText } from '../../contract/subjects.js';
import type { ReceiptPayload } from '../../contract/wire/subjects.js';
import type { Commitment } from '../../tenancy/control/subject-rows.js';
import type { Values } from './find-subject.js';
import { hmac, type SubjectKeys } from './subject-keys.js';
import type { Subjects } from './subject-tables.js';

/** @param nonce base64url */
export const commitmentsOf = (nonce: string, { kind, normalizations }: Subjects, values: Values): Commitment[] =>
  [...values].flatMap(([identifier, texts]) =>
    Array.from(texts, (text) => ({
      identifier,
      normalization: normalizations.get(identifier) ?? 'exact-1',
      hmac: hmac(Buffer.from(nonce, 'base64url'), committedText(kind, identifier, text)).toString('base64url'),
    })),
  );

/** @returns a JWS in compact form (RFC 7515) by Ed25519 (RFC 8037), with its public key in the header */
export async function signReceipt(keys: SubjectKeys, payload: ReceiptPayload): Promise<string> {
  const { CompactSign, importJWK } = await import('jose');
  const { id, privateKey, publicKey } = await keys.signer();
  const { kty, crv, x } = publicKey;
  return new CompactSign(Buffer.from(JSON.stringify(payload)))
    .setProtectedHeader({ alg: 'EdDSA', kid: id, typ: 'cdp-erasure', jwk: { kty, crv, x } as JWK })
    .sign(await importJWK(privateKey, 'EdDSA'));
}
