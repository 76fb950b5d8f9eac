/** The header `Server-Timing` (W3C): how long a request took so far, in milliseconds. */
import type { FastifyRequest } from 'fastify';

/** `auth` and `work` are stages; `total` runs from the request line to now, where the answer begins. */
export function serverTiming({ stages }: FastifyRequest): string {
  const now = performance.now();
  const { started, authenticated, parsed } = stages;
  const ms = (from: number, to: number) => Math.max(0, to - from).toFixed(2);
  return `auth;dur=${ms(started, authenticated)}, work;dur=${ms(Math.max(parsed, authenticated), now)}, total;dur=${ms(started, now)}`;
}
