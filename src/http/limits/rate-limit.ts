/** Reports the state of a token's rate in every response (contract section 8). */
import type { FastifyReply } from 'fastify';
import type { Counted, Rate } from '../../engine/access/token-rate.js';

/** `RateLimit` and `RateLimit-Policy` as in draft-ietf-httpapi-ratelimit-headers-10: structured fields (RFC 9651). */
export function setRateHeaders(reply: FastifyReply, { requests, windowS }: Rate, counted: Counted): void {
  void reply
    .header('ratelimit-policy', `"default";q=${requests};w=${windowS}`)
    .header('ratelimit', `"default";r=${counted.remaining};t=${counted.seconds}`);
}
