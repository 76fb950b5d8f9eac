/** Answers of handlers that say more than their operation: that they are replayed, or of a rehearsal. */
import type { Rehearsal } from '../../engine/database/rehearsal.js';
import type { Answer } from '../api/route.js';

/** @param replayed the answer is that of an earlier request with the same Idempotency-Key */
export const answered = (body: NonNullable<Answer['body']>, replayed: boolean): Answer =>
  replayed ? { body, headers: { 'idempotency-replayed': 'true' } } : { body };

/** The answer, with a report of what the request would have done. */
export function rehearsedAnswer(answer: Answer, { impact }: Rehearsal): Answer {
  const { body } = answer;
  const more = { dry_run: true, impact };
  if (body === null) throw new Error('A rehearsal cannot be streamed');
  if (typeof body === 'object' && !Array.isArray(body)) return { ...answer, body: { ...body, ...more } };
  // The answer of free SQL is one JSON object, as text or in pieces.
  const pieces = typeof body === 'string' ? [Buffer.from(body)] : (body as readonly Buffer[]);
  const last = pieces.at(-1)?.subarray(0, -1) ?? Buffer.alloc(0);
  return { ...answer, body: [...pieces.slice(0, -1), last, Buffer.from(`,${JSON.stringify(more).slice(1)}`)] };
}
