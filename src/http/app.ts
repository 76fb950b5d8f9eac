/**
 * What every listener of the service shares: limits of HTTP itself, the id and the headers of each answer, and one shape
 * of refusal, also for what never becomes a request.
 */
import { randomUUID } from 'node:crypto';
import { type IncomingMessage, maxHeaderSize, METHODS } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import Fastify, {
  LogController,
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type HTTPMethods,
} from 'fastify';
import type { Logger } from 'pino';
import { EngineError } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import { parseProxies } from './client-address.js';
import { rawError, sendError } from './error-exit.js';
import { BrokenHttp, endSoon, refusalOfHead } from './framing.js';
import { SECURITY_HEADERS } from './security-headers.js';
import { serverTiming } from './server-timing.js';

export interface AppSettings {
  /** Time in which headers and body must have arrived. */
  requestTimeoutMs: number;
  /** Whoever takes nothing of an answer for so long loses the connection. */
  streamStallMs: number;
  /** Proxies whose X-Forwarded-For is believed, as {@link parseProxies} reads them; null: none. */
  trustProxy: string | null;
}

/** An id of the caller's own is passed on where it cannot do harm in a header or a log. */
const SANE_REQUEST_ID = /^[\w.:/+=-]{1,128}$/;

/** Told of what happens to requests. */
export interface Watcher {
  /** Of every request, before anything else, and also of one that reaches no hook. */
  opened(request: FastifyRequest, reply: FastifyReply): void;
  /** The error exit has answered. */
  refused(request: FastifyRequest): void;
}

const NOBODY: Watcher = { opened: () => {}, refused: () => {} };

/** A server without routes, not yet listening. */
export function createApp(settings: AppSettings, logger: Logger, watcher: Watcher = NOBODY): FastifyInstance {
  const broken = new BrokenHttp();
  const loggerInstance: FastifyBaseLogger = logger;
  const app: FastifyInstance = Fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    bodyLimit: LIMITS.bodyBytes,
    requestTimeout: settings.requestTimeoutMs,
    connectionTimeout: 0,
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    trustProxy: settings.trustProxy === null ? false : parseProxies(settings.trustProxy),
    // Node bounds the whole head of a request; a long name in a path is a table that is not there.
    routerOptions: { maxParamLength: maxHeaderSize, ignoreTrailingSlash: false },
    genReqId: (raw) => {
      const given = raw.headers['x-request-id'];
      return typeof given === 'string' && SANE_REQUEST_ID.test(given) ? given : randomUUID();
    },
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false, allErrors: false } },
    // A path that cannot be decoded reaches no route and none of the hooks.
    frameworkErrors: (error, request, reply) => {
      begin(Object.assign(request, { caller: null, rows: null }), reply);
      watcher.opened(request, reply);
      sendError(error, request, reply.header('server-timing', serverTiming(request)));
    },
    clientErrorHandler: broken.refuse,
    http: {
      headersTimeout: settings.requestTimeoutMs,
      connectionsCheckingInterval: 1_000,
      // Node would answer without a body; the first hook refuses it in our shape.
      requireHostHeader: false,
    },
  });
  // For the same reason an expectation that nobody knows is not met, and not refused (RFC 9110 section 10.1.1).
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  app.server.on('connect', refuseTunnel);
  broken.watch(app.server);
  // Their size is bounded. By their number Node would leave some of them out, and not say so.
  app.server.maxHeadersCount = 0;
  // Answers are made as they are sent; the schemas describe them and do not rewrite them.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.setErrorHandler((error, request, reply) => {
    sendError(error, request, reply);
    watcher.refused(request);
  });
  app.setNotFoundHandler((request) => {
    throw new EngineError('not_found', `There is no ${request.method} ${request.url.split('?')[0]?.slice(0, 200)}`);
  });
  app.removeAllContentTypeParsers();
  app.decorateRequest('caller', null);
  app.decorateRequest('project', null);
  app.decorateRequest('place', null);
  app.decorateRequest('gone');
  app.decorateRequest('document', null);
  app.decorateRequest('errorCode', null);
  app.decorateRequest('rows', null);
  app.decorateRequest('stages');

  app.addHook('onRequest', (request, reply, done) => {
    begin(request, reply);
    watcher.opened(request, reply);
    done(refusalOfHead(request.raw));
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    // Until then the answer fills memory.
    reply.raw.setTimeout(settings.streamStallMs);
    void reply.header('server-timing', serverTiming(request));
    done(null, payload);
  });
  closeInTime(app);
  return app;
}

/** What every answer needs, whatever becomes of the request. */
function begin(request: FastifyRequest, reply: FastifyReply): void {
  const started = performance.now();
  request.stages = { started, authenticated: started, parsed: started };
  void reply.headers(SECURITY_HEADERS).header('x-request-id', request.id);
  if (request.url.startsWith('/api/cdp')) void reply.header('cache-control', 'no-store');
}

/** How long a stop leaves kept connections open for the request that may be on its way there. */
const DRAIN_MS = 500;

/**
 * At a stop nobody new comes in. What comes on a connection that is kept, at that moment or shortly after, is still
 * answered, and told that it was the last: closing it at once would break off a request that the client has sent already,
 * and which it may not repeat. A connection on which no request has begun by then does not hold the stop up (Node counts it
 * among the busy ones), and none is kept after its answer.
 */
function closeInTime(app: FastifyInstance): void {
  const unused = new Set<Socket>();
  let closing = false;
  app.server.on('connection', (socket: Socket) => {
    unused.add(socket);
    socket.once('close', () => unused.delete(socket));
  });
  app.server.on('request', ({ socket }: { socket: Socket }) => unused.delete(socket));
  app.addHook('preClose', (done) => {
    closing = true;
    const drained = () => {
      clearTimeout(timer);
      app.server.off('close', drained);
      for (const socket of unused) socket.destroy();
      done();
    };
    const timer = setTimeout(drained, DRAIN_MS);
    app.server.once('close', drained);
    // Unlike that of HTTP, this leaves idle connections open; it ends with the last of them.
    if (app.server.listening) NetServer.prototype.close.call(app.server);
  });
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (closing) void reply.header('connection', 'close');
    done(null, payload);
  });
  app.addHook('onResponse', (request, _reply, done) => {
    // A stream may have begun before; the end of the service would wait for the connection that its client keeps.
    if (closing) request.raw.socket.destroySoon();
    done();
  });
}

/**
 * Defines routes, and for each of their paths the refusal of every other method: 405 with `Allow`, before authentication
 * and body, since neither matters.
 */
export function defineRoutes(app: FastifyInstance, define: () => void): void {
  const allowed = new Map<string, Set<HTTPMethods>>();
  app.addHook('onRoute', ({ url, method }) => {
    const methods = allowed.get(url) ?? new Set();
    for (const name of [method].flat()) methods.add(name);
    allowed.set(url, methods);
  });
  define();
  // CONNECT reaches no route.
  const all = METHODS.filter((method) => method !== 'CONNECT');
  for (const method of all) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
  for (const [url, methods] of [...allowed]) {
    const allow = [...methods].sort().join(', ');
    app.route({
      method: all.filter((method) => !methods.has(method)),
      url,
      onRequest: (request, _reply, done) =>
        done(new EngineError('method_not_allowed', `${request.method} is not allowed here`, { headers: { allow } })),
      handler: () => {},
    });
  }
}

/** CONNECT asks a proxy for a tunnel (RFC 9110 section 9.3.6); Node would hang up without a word. */
function refuseTunnel(_request: IncomingMessage, socket: Duplex): void {
  const headers = { allow: 'DELETE, GET, HEAD, POST, PUT' };
  // The client may be gone already; there is nobody to tell then.
  socket.on('error', () => socket.destroy());
  endSoon(
    socket,
    rawError(new EngineError('method_not_allowed', 'The service is no proxy', { headers }), randomUUID()),
  );
}
