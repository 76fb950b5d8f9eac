/** Verifies receipts of erasures, without the service that signed them. */
import { createHmac } from 'node:crypto';
import { calculateJwkThumbprint, compactVerify, decodeProtectedHeader, importJWK, type JWK } from 'jose';
import { committedText, normalized, NORMALIZATIONS } from '../../contract/subjects.js';
import type { ReceiptPayload } from '../../contract/wire/subjects.js';
import { EXIT, ExitError, UsageError } from '../exit.js';

/** The JWS in a text: alone, or as the field `receipt` of a response. @throws UsageError */
export function readReceipt(text: string): string {
  const found = /(?:"receipt":\s*"|^)([\w-]+\.[\w-]+\.[\w-]+)(?:"|$)/m.exec(text.trim())?.[1];
  if (found === undefined) throw new UsageError('This is no receipt: it has no JWS in compact form');
  return found;
}

/**
 * @param published a JWK Set; null: only the key in the receipt
 * @throws ExitError if the signature is wrong, or not by one of these keys
 */
export async function verifyReceipt(
  compact: string,
  published: unknown,
): Promise<{ payload: ReceiptPayload; kid: string; isPublished: boolean }> {
  try {
    const { jwk, alg } = decodeProtectedHeader(compact);
    if (jwk === undefined || alg !== 'EdDSA') throw new Error('it is not signed with Ed25519');
    const kid = await calculateJwkThumbprint(jwk);
    const { payload } = await compactVerify(compact, await importJWK(jwk, 'EdDSA'), { algorithms: ['EdDSA'] });
    const keys = published === null ? [] : ((published as { keys?: JWK[] }).keys ?? []);
    const thumbprints = await Promise.all(keys.map((key) => calculateJwkThumbprint(key)));
    const isPublished = thumbprints.includes(kid);
    if (published !== null && !isPublished) throw new Error(`its key ${kid} is not among those that are published`);
    return { payload: JSON.parse(Buffer.from(payload).toString()) as ReceiptPayload, kid, isPublished };
  } catch (error) {
    throw new ExitError(EXIT.refused, `The receipt is NOT valid: ${(error as Error).message}`);
  }
}

/** Whether a receipt commits to an identifier. @param word `email=ada@example.com` @throws UsageError */
export function linkOf({ kind, commitments }: ReceiptPayload, nonce: string, word: string): boolean {
  const [, identifier = '', value = ''] = /^([a-z][a-z0-9_]*)=(.+)$/s.exec(word) ?? [];
  if (identifier === '') throw new UsageError(`"${word}" is not IDENTIFIER=VALUE, such as email=ada@example.com`);
  return commitments.some((one) => {
    const normalization = NORMALIZATIONS.find((known) => known === one.normalization);
    if (one.identifier !== identifier || normalization === undefined) return false;
    const text = committedText(kind, identifier, normalized(value, normalization));
    return createHmac('sha256', Buffer.from(nonce, 'base64url')).update(text).digest('base64url') === one.hmac;
  });
}
