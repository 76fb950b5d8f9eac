/**
 * Cross-origin requests from browsers (Fetch standard, "CORS protocol"), if the setting `cors-origins` allows any.
 * Cookies play no part: a caller is anyone with the token.
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
    // Of the driver of Neon.
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
    'X-Request-Id',
    'X-Served-By',
  ],
  /** Seconds for which a browser need not ask again. */
  maxAge: 3_600,
  credentials: false,
};

export class Cors {
  private readonly origins: ReadonlySet<string>;

  /** @param origins as browsers send them, or `*` alone */
  constructor(origins: readonly string[]) {
    this.origins = new Set(origins);
  }

  /** Adds the headers to every answer, and answers preflights before anybody asks for a token. */
  async register(app: FastifyInstance): Promise<void> {
    const origin = this.origins.has('*') ? '*' : [...this.origins];
    const any = { ...OPTIONS, origin };
    // Any other OPTIONS request is answered like the rest: 405 or 404, in our shape.
    const plain = { ...any, preflight: false };
    // Loaded on demand: most services have no such setting.
    await app.register((await import('@fastify/cors')).default, {
      delegator: (request: FastifyRequest, done: (error: Error | null, options: FastifyCorsOptions) => void) =>
        done(null, isPreflight(request) ? any : plain),
    });
  }

  /** The one header that lets a page read an answer, for an error before all hooks. */
  allow({ headers: { origin } }: FastifyRequest, reply: FastifyReply): void {
    if (this.origins.has('*')) void reply.header('access-control-allow-origin', '*');
    else if (origin !== undefined && this.origins.has(origin)) {
      void reply.header('access-control-allow-origin', origin).header('vary', 'Origin');
    }
  }
}

const isPreflight = ({ method, headers }: FastifyRequest): boolean =>
  method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
