/** The header `Server-Timing` (W3C): how long a request took so far, in milliseconds. */
import type { FastifyRequest } from 'fastify';

/** `auth` and `work` are stages; `total` runs from the request line to now, where the answer begins. */
export function serverTiming({ exchange }: FastifyRequest): string {
  const now = performance.now();
  const { started, authenticated, parsed } = exchange;
  return `auth;dur=${ms(authenticated - started)}, work;dur=${ms(now - Math.max(parsed, authenticated))}, total;dur=${ms(now - started)}`;
}

/** Hundredths are enough. */
export function ms(duration: number): string {
  const hundredths = Math.round(duration * 100);
  return SHORT[hundredths] ?? textOf(hundredths);
}

/** From whole numbers: the text of a fraction takes some ten times as long to find. */
function textOf(hundredths: number): string {
  const whole = Math.trunc(hundredths / 100);
  const rest = hundredths - whole * 100;
  if (rest === 0) return String(whole);
  if (rest < 10) return `${whole}.0${rest}`;
  return rest % 10 === 0 ? `${whole}.${rest / 10}` : `${whole}.${rest}`;
}

/** Most are below 10 ms, and each request says four. */
const SHORT: readonly string[] = Array.from({ length: 1_000 }, (_, hundredths) => textOf(hundredths));
