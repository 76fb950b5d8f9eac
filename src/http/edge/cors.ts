/**
 * Cross-origin requests from browsers (Fetch standard, "CORS protocol"): from pages of the setting `cors-origins`, and from
 * those that a token names. Cookies are not used: anyone with the token is a caller.
 */
import type { FastifyCorsOptions } from '@fastify/cors';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { requireOrigin } from '../../engine/access/append-keys.js';
import type { Caller } from '../../engine/access/tokens.js';

const OPTIONS = {
  methods: ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'],
  allowedHeaders: [
    'Accept',
    'Authorization',
    'Content-Encoding',
    'Content-Type',
    'Idempotency-Key',
    'Mcp-Method',
    'Mcp-Name',
    'Mcp-Protocol-Version',
    // Headers of Neon's driver.
    'Neon-Array-Mode',
    'Neon-Batch-Deferrable',
    'Neon-Batch-Isolation-Level',
    'Neon-Batch-Read-Only',
    'Neon-Connection-String',
    'Neon-Pool-Opt-In',
    'Neon-Raw-Text-Output',
    'Traceparent',
    'Tracestate',
    'X-Consistency',
    'X-Request-Id',
    // Segment's SDKs count their attempts.
    'X-Retry-Count',
  ],
  exposedHeaders: [
    'Allow',
    'Idempotency-Replayed',
    'RateLimit',
    'RateLimit-Policy',
    'Retry-After',
    'Server-Timing',
    'WWW-Authenticate',
    'X-Consistency',
    'X-Read-Only',
    'X-Request-Id',
    'X-Served-By',
  ],
  /** Seconds for which a browser may cache the preflight. */
  maxAge: 3_600,
  credentials: false,
} satisfies FastifyCorsOptions;

export class Cors {
  private readonly origins: ReadonlySet<string>;

  /** @param origins as browsers send them, or only `*` */
  constructor(origins: readonly string[]) {
    this.origins = new Set(origins);
  }

  /** Adds the headers to every response, and answers preflights before authentication. */
  async register(app: FastifyInstance): Promise<void> {
    const origin = this.origins.has('*') ? '*' : [...this.origins];
    const any = { ...OPTIONS, origin };
    // Other OPTIONS requests get the usual error, 405 or 404.
    const plain = { ...any, preflight: false };
    // Loaded on demand: most installations do not set `cors-origins`.
    await app.register((await import('@fastify/cors')).default, {
      delegator: (request: FastifyRequest, done: (error: Error | null, options: FastifyCorsOptions) => void) =>
        done(null, isPreflight(request) ? any : plain),
    });
  }

  /** Sets the header that lets a page read a response, for errors that precede all hooks. */
  allow({ headers: { origin } }: FastifyRequest, reply: FastifyReply): void {
    if (this.origins.has('*')) void reply.header('access-control-allow-origin', '*');
    else if (origin !== undefined && this.origins.has(origin)) {
      void reply.header('access-control-allow-origin', origin).header('vary', 'Origin');
    }
  }
}

/**
 * Answers the preflight of a request that may come with a token of its own origins. It carries no token: the origin must be one
 * of any valid token.
 * @param isPageOrigin whether that is so
 * @returns false: the request is no such preflight
 */
export async function answerPagePreflight(
  request: FastifyRequest,
  reply: FastifyReply,
  isPageOrigin: (origin: string) => Promise<boolean>,
): Promise<boolean> {
  const { origin } = request.headers;
  if (!isPreflight(request) || origin === undefined || !(await isPageOrigin(origin))) return false;
  void reply
    .code(204)
    .headers({
      'access-control-allow-origin': origin,
      'access-control-allow-methods': 'GET, POST',
      'access-control-allow-headers': OPTIONS.allowedHeaders.join(', '),
      'access-control-max-age': String(OPTIONS.maxAge),
      vary: 'Origin',
    })
    .send();
  return true;
}

/**
 * Lets the page read the response if the token names its origin, whatever the setting says; no other page may use the token.
 * @throws EngineError origin_not_allowed
 */
export function allowPage(caller: Caller, { headers: { origin } }: FastifyRequest, reply: FastifyReply): void {
  if (caller.limits?.origins == null || origin === undefined) return;
  void reply.removeHeader('access-control-allow-origin');
  requireOrigin(caller, origin);
  void reply
    .header('access-control-allow-origin', origin)
    .header('access-control-expose-headers', OPTIONS.exposedHeaders.join(', '))
    .header('vary', 'Origin');
}

const isPreflight = ({ method, headers }: FastifyRequest): boolean =>
  method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
