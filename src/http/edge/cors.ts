/**
 * Cross-origin requests from browsers (Fetch standard, "CORS protocol"), if the setting `cors-origins` allows any.
 * Cookies are not used: anyone with the token is a caller.
 */
import type { FastifyCorsOptions } from '@fastify/cors';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

const OPTIONS: FastifyCorsOptions = {
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
};

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

const isPreflight = ({ method, headers }: FastifyRequest): boolean =>
  method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
