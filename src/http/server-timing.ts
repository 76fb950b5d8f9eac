/** The header `Server-Timing` (W3C): how long a request took so far, in milliseconds. */
import type { FastifyRequest } from 'fastify';

/** `auth` and `work` are stages; `total` runs from the request line to now, where the answer begins. */
export function serverTiming({ exchange }: FastifyRequest): string {
  const now = performance.now();
  const { started, authenticated, parsed } = exchange;
  return `auth;dur=${ms(authenticated - started)}, work;dur=${ms(now - Math.max(parsed, authenticated))}, total;dur=${ms(now - started)}`;
}

/** Hundredths are enough. */
export const ms = (duration: number): number => Math.round(duration * 100) / 100;
