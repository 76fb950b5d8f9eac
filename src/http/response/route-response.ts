/** Responses of handlers that say more than their operation: that they are replayed, or of a dry run. */
import type { DryRun } from '../../engine/database/dry-run.js';
import type { RouteResponse } from '../api/route.js';

/** @param replayed the response is that of an earlier request with the same Idempotency-Key */
export const answered = (body: NonNullable<RouteResponse['body']>, replayed: boolean): RouteResponse =>
  replayed ? { body, headers: { 'idempotency-replayed': 'true' } } : { body };

/** The response, with a report of what the request would have done. */
export function dryRunResponse(response: RouteResponse, { impact }: DryRun): RouteResponse {
  const { body } = response;
  const more = { dry_run: true, impact };
  if (body === null) throw new Error('A dry run cannot be streamed');
  if (typeof body === 'object' && !Array.isArray(body)) return { ...response, body: { ...body, ...more } };
  // The response of free SQL is one JSON object, as text or in pieces.
  const pieces = typeof body === 'string' ? [Buffer.from(body)] : (body as readonly Buffer[]);
  const last = pieces.at(-1)?.subarray(0, -1) ?? Buffer.alloc(0);
  return { ...response, body: [...pieces.slice(0, -1), last, Buffer.from(`,${JSON.stringify(more).slice(1)}`)] };
}
