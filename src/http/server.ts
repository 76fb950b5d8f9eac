/**
 * The HTTP server: every request passes authentication, body, schema, handler and error exit, in this order, and leaves
 * one line in the log.
 */
import { randomUUID } from 'node:crypto';
import { maxHeaderSize, METHODS } from 'node:http';
import type { Socket } from 'node:net';
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
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
import type { Engine } from '../engine/engine.js';
import { ADMIN_ROUTES } from './admin-routes.js';
import { auditOperation, newTrail, requestSettled, responseClosed } from './audit.js';
import { authenticate } from './authenticate.js';
import { readJsonBody } from './body.js';
import { rawError, sendError } from './error-exit.js';
import { Metrics } from './metrics.js';
import { openApiDocument } from './openapi.js';
import { operatorRoutes } from './operator-routes.js';
import type { Route, RouteSettings } from './route.js';
import { ROUTES } from './routes.js';
import { serverTiming } from './server-timing.js';

export interface HttpSettings extends RouteSettings {
  /** Time in which headers and body must have arrived. */
  requestTimeoutMs: number;
  /** True where /metrics has a listener of its own. */
  separateMetrics: boolean;
  version: string;
}

/**
 * The documentation page takes everything from here; Swagger UI sets styles in attributes. Unlike the default of its
 * plugin this does not make browsers change to HTTPS, which whoever reaches the service by plain HTTP may not have.
 */
const DOCS_CONTENT_POLICY = {
  'default-src': "'self'",
  'style-src': "'self' 'unsafe-inline'",
  'img-src': "'self' data:",
  'object-src': "'none'",
  'frame-ancestors': "'self'",
};

/** An id of the caller's own is passed on where it cannot do harm in a header or a log. */
const SANE_REQUEST_ID = /^[\w.:/+=-]{1,128}$/;

/** The server, not yet listening, and the metrics it fills. */
export async function httpServer(
  engine: Engine,
  settings: HttpSettings,
  logger: Logger,
): Promise<{ app: FastifyInstance; metrics: Metrics }> {
  const metrics = new Metrics(engine);
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
    // Node bounds the whole head of a request; a long name in a path is a table that is not there.
    routerOptions: { maxParamLength: maxHeaderSize, ignoreTrailingSlash: false },
    genReqId: (raw) => {
      const given = raw.headers['x-request-id'];
      return typeof given === 'string' && SANE_REQUEST_ID.test(given) ? given : randomUUID();
    },
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false, allErrors: false } },
    // A path that cannot be decoded reaches no route and none of the hooks below.
    frameworkErrors: (error, request, reply) => {
      begin(Object.assign(request, { caller: null, rows: null }), reply);
      reply.raw.once('close', () => logRequest(request, reply, metrics));
      sendError(error, request, reply.header('server-timing', serverTiming(request)));
    },
    clientErrorHandler: refuseBrokenHttp,
    http: {
      headersTimeout: settings.requestTimeoutMs,
      connectionsCheckingInterval: 1_000,
      // Node would answer without a body; the first hook refuses it in our shape.
      requireHostHeader: false,
    },
  });
  // For the same reason an expectation that nobody knows is not met, and not refused (RFC 9110 section 10.1.1).
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  // Answers are made as they are sent; the schemas describe them and do not rewrite them.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.setErrorHandler((error, request, reply) => {
    sendError(error, request, reply);
    requestSettled(engine.audit, request);
  });
  app.setNotFoundHandler((request) => {
    throw new EngineError('not_found', `There is no ${request.method} ${request.url.split('?')[0]?.slice(0, 200)}`);
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));

  app.decorateRequest('caller', null);
  app.decorateRequest('document', null);
  app.decorateRequest('errorCode', null);
  app.decorateRequest('rows', null);
  app.decorateRequest('stages');
  app.decorateRequest('trail');

  app.addHook('onRequest', async (request, reply) => {
    begin(request, reply);
    // Unlike the hook for it, this also happens when the client has left before its answer.
    reply.raw.once('close', () => {
      logRequest(request, reply, metrics);
      responseClosed(engine.audit, request, reply);
    });
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1') {
      throw new EngineError('invalid_request', 'The request has no Host header');
    }
    const { access } = request.routeOptions.config;
    if (access === undefined) return;
    request.caller = await authenticate(engine, request, access);
    request.stages.authenticated = performance.now();
  });
  app.addHook('preValidation', async (request) => {
    const { schema, config } = request.routeOptions;
    if (schema?.body !== undefined && config.rawBody !== true) request.document = await readJsonBody(request);
  });
  app.addHook('preHandler', (request, _reply, done) => {
    request.stages.parsed = performance.now();
    done();
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    // Whoever takes nothing of the answer for so long loses the connection; until then the answer fills memory.
    reply.raw.setTimeout(settings.streamStallMs);
    void reply.header('server-timing', serverTiming(request));
    done(null, payload);
  });
  let closing = false;
  app.addHook('preClose', (done) => {
    closing = true;
    done();
  });
  app.addHook('onResponse', (request, _reply, done) => {
    // The client would keep its connection, and the end of the service would wait for it.
    if (closing) request.raw.socket.destroySoon();
    done();
  });

  closeUnusedConnections(app);

  const routes = [...ROUTES, ...ADMIN_ROUTES];
  const document = openApiDocument(routes, settings.version);
  await app.register(swagger, { mode: 'static', specification: { document: document as never } });
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    uiConfig: { validatorUrl: null, supportedSubmitMethods: [] },
    staticCSP: DOCS_CONTENT_POLICY,
    logo: undefined as never,
  });
  const allowed = new Map<string, Set<HTTPMethods>>();
  app.addHook('onRoute', ({ url, method }) => {
    const methods = allowed.get(url) ?? new Set();
    for (const name of [method].flat()) methods.add(name);
    allowed.set(url, methods);
  });
  for (const route of routes) addRoute(app, engine, settings, route);
  operatorRoutes(app, engine, metrics, { document, separateMetrics: settings.separateMetrics });
  refuseOtherMethods(app, [...allowed]);
  return { app, metrics };
}

/** A connection on which no request has begun yet does not hold a stop up; Node counts it among the busy ones. */
function closeUnusedConnections(app: FastifyInstance): void {
  const unused = new Set<Socket>();
  app.server.on('connection', (socket: Socket) => {
    unused.add(socket);
    socket.once('close', () => unused.delete(socket));
  });
  app.server.on('request', ({ socket }: { socket: Socket }) => unused.delete(socket));
  app.addHook('preClose', (done) => {
    for (const socket of unused) socket.destroy();
    done();
  });
}

function addRoute(app: FastifyInstance, engine: Engine, settings: HttpSettings, route: Route): void {
  app.route({
    method: route.method,
    url: route.url,
    config: {
      access: route.access,
      dataField: route.dataField,
      rawBody: route.rawBody,
      audit: auditOperation(route.operationId),
      successStatus: route.success.status,
    },
    schema: {
      ...(route.body === undefined || route.rawBody ? {} : { body: route.body }),
      ...(route.query === undefined ? {} : { querystring: route.query }),
    },
    handler: async (request, reply) => {
      const { caller } = request;
      if (caller === null) throw new Error('A route with access was reached without a caller');
      const signal = clientGone(request, reply);
      const answer = await route.handle({ engine, settings, caller, request, reply, signal });
      requestSettled(engine.audit, request);
      if (answer.body === null) return reply;
      return reply
        .status(answer.status)
        .headers(answer.headers ?? {})
        .type('application/json')
        .send(answer.body);
    },
  });
}

/** Aborted when the connection ends before the answer is out. */
function clientGone(request: FastifyRequest, reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort();
  });
  // The client may have left while its body was read.
  if (request.raw.destroyed && !request.raw.complete) controller.abort();
  return controller.signal;
}

/** 405 with `Allow` for paths that exist; before authentication and body, since neither matters. */
function refuseOtherMethods(app: FastifyInstance, paths: readonly [url: string, allowed: Set<HTTPMethods>][]): void {
  // A request with CONNECT is for a proxy; Node ends its connection.
  const all = METHODS.filter((method) => method !== 'CONNECT');
  for (const method of all) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
  for (const [url, allowed] of paths) {
    const allow = [...allowed].sort().join(', ');
    app.route({
      method: all.filter((method) => !allowed.has(method)),
      url,
      onRequest: (request, _reply, done) =>
        done(new EngineError('method_not_allowed', `${request.method} is not allowed here`, { headers: { allow } })),
      handler: () => {},
    });
  }
}

/** What every answer needs, whatever becomes of the request. */
function begin(request: FastifyRequest, reply: FastifyReply): void {
  const started = performance.now();
  request.stages = { started, authenticated: started, parsed: started };
  request.trail = newTrail(request);
  void reply.header('x-request-id', request.id);
  if (request.url.startsWith('/api/cdp')) void reply.header('cache-control', 'no-store');
}

/** One line a request: no values, no names of the caller's tables, no token. */
function logRequest(request: FastifyRequest, reply: FastifyReply, metrics: Metrics): void {
  const seconds = (performance.now() - request.stages.started) / 1000;
  const route = request.routeOptions.url ?? 'unknown';
  const { errorCode, caller, rows, method } = request;
  const status = reply.raw.statusCode;
  const insertedRows = route === '/api/cdp/data/:table_name' && errorCode === null ? (rows ?? 0) : 0;
  metrics.observe({ route, method, status, code: errorCode ?? '', seconds, insertedRows });
  request.log.info(
    {
      method,
      route,
      status,
      duration_ms: Math.round(seconds * 1e5) / 100,
      ...(errorCode === null ? {} : { error: errorCode }),
      ...(caller === null ? {} : { project: caller.project?.name, token: caller.id }),
      ...(rows === null ? {} : { rows }),
      ...(reply.raw.writableFinished ? {} : { aborted: true }),
    },
    'request',
  );
}

/** What Node's parser refuses, or gives up waiting for, never becomes a request. */
function refuseBrokenHttp(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return void socket.destroy();
  if (socket.writable) socket.end(rawError(error, randomUUID()));
  else socket.destroy();
}
