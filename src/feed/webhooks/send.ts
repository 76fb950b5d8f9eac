/** One call of an endpoint, on a connection of its own: what it may take, and what counts as an answer. */
import { request as overHttp } from 'node:http';
import { request as overHttps } from 'node:https';
import { messageOf } from '../../contract/errors.js';
import { VERSION } from '../../version.js';
import { type Targets, TargetRefused } from './targets.js';

export interface Outcome {
  /** null: no answer. */
  readonly status: number | null;
  /** null: confirmed. */
  readonly error: string | null;
  readonly durationMs: number;
}

/** For everything, from the name to the last byte. */
const TOTAL_MS = 10_000;

/** What is read of an answer, and dropped. */
const ANSWER_BYTES = 64 * 1024;

/**
 * Never rejects because of the endpoint.
 * @param signal ends it
 * @throws the signal's reason
 */
export async function send(
  targets: Targets,
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
  signal: AbortSignal,
): Promise<Outcome> {
  const startedAt = performance.now();
  const late = AbortSignal.timeout(TOTAL_MS);
  const result = await statusOf(targets, url, headers, body, AbortSignal.any([signal, late])).catch((error: unknown) =>
    late.aborted ? `no answer within ${TOTAL_MS / 1_000} s` : describe(error),
  );
  signal.throwIfAborted();
  const durationMs = Math.round(performance.now() - startedAt);
  if (typeof result === 'string') return { status: null, error: result, durationMs };
  return { status: result, error: errorOf(result), durationMs };
}

function errorOf(status: number): string | null {
  if (status >= 200 && status < 300) return null;
  return status >= 300 && status < 400 ? `${status}: redirects are not followed` : `the answer was ${status}`;
}

const describe = (error: unknown): string =>
  error instanceof TargetRefused ? `the host of the URL ${error.message}` : messageOf(error).slice(0, 500);

async function statusOf(
  targets: Targets,
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
  signal: AbortSignal,
): Promise<number> {
  targets.requireAllowed(url);
  const isPlain = url.protocol === 'http:';
  return new Promise((resolve, reject) => {
    const request = (isPlain ? overHttp : overHttps)(url, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        'content-length': body.length,
        'user-agent': `cdp-data-engine/${VERSION}`,
      },
      // A connection that is kept would outlive what DNS says of its name.
      agent: false,
      lookup: targets.lookup(isPlain),
      // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
      rejectUnauthorized: true,
      signal,
    });
    request.on('error', reject);
    request.on('response', (response) => {
      const { statusCode = 0 } = response;
      // Its head has said it all, however the rest ends.
      request.off('error', reject).on('error', () => {});
      response.on('error', () => {});
      let bytes = 0;
      response.on('data', (part: Buffer) => {
        bytes += part.length;
        if (bytes > ANSWER_BYTES) request.destroy();
      });
      response.on('close', () => resolve(statusCode));
    });
    request.end(body);
  });
}
