/**
 * The HTTP server: every request passes authentication, body, schema, handler and error exit, in this order, and leaves
 * one line in the log.
 */
import { randomUUID } from 'node:crypto';
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

const METHODS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** An id of the caller's own is passed on where it cannot do harm in a header or a log. */
const SANE_REQUEST_ID = /^[\w.:/+=-]{1,128}$/;

/** The server, not yet listening, and the metrics it fills. */
export async function httpServer(
  engine: Engine,
  settings: HttpSettings,
  logger: Logger,
): Promise<{ app: FastifyInstance; metrics: Metrics }> {
  const metrics = new Metrics(engine);
  const app: FastifyInstance = Fastify({
    loggerInstance: logger as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    bodyLimit: LIMITS.bodyBytes,
    requestTimeout: settings.requestTimeoutMs,
    connectionTimeout: 0,
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: { maxParamLength: 500, ignoreTrailingSlash: false },
    genReqId: (raw) => {
      const given = raw.headers['x-request-id'];
      return typeof given === 'string' && SANE_REQUEST_ID.test(given) ? given : randomUUID();
    },
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false, allErrors: false } },
    frameworkErrors: sendError,
    clientErrorHandler: refuseBrokenHttp,
    http: { headersTimeout: settings.requestTimeoutMs, connectionsCheckingInterval: 1_000 },
  });
  // Answers are made as they are sent; the schemas describe them and do not rewrite them.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.setErrorHandler(sendError);
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

  app.addHook('onRequest', async (request, reply) => {
    const started = performance.now();
    request.stages = { started, authenticated: started, parsed: started };
    void reply.header('x-request-id', request.id);
    if (request.url.startsWith('/api/cdp')) void reply.header('cache-control', 'no-store');
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
    void reply.header('server-timing', serverTiming(request));
    done(null, payload);
  });
  let closing = false;
  app.addHook('preClose', (done) => {
    closing = true;
    done();
  });
  app.addHook('onResponse', (request, reply, done) => {
    logRequest(request, reply, metrics);
    // The client would keep its connection, and the end of the service would wait for it.
    if (closing) request.raw.socket.destroySoon();
    done();
  });

  const routes = [...ROUTES, ...ADMIN_ROUTES];
  const document = openApiDocument(routes, settings.version);
  await app.register(swagger, { mode: 'static', specification: { document: document as never } });
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    uiConfig: { validatorUrl: null, supportedSubmitMethods: [] } as never,
    staticCSP: true,
    logo: undefined as never,
  });
  for (const route of routes) addRoute(app, engine, settings, route);
  operatorRoutes(app, engine, metrics, { document, separateMetrics: settings.separateMetrics });
  refuseOtherMethods(app, routes);
  return { app, metrics };
}

function addRoute(app: FastifyInstance, engine: Engine, settings: HttpSettings, route: Route): void {
  app.route({
    method: route.method,
    url: route.url,
    config: { access: route.access, dataField: route.dataField, rawBody: route.rawBody },
    schema: {
      ...(route.body === undefined || route.rawBody ? {} : { body: route.body }),
      ...(route.query === undefined ? {} : { querystring: route.query }),
    },
    handler: async (request, reply) => {
      const { caller } = request;
      if (caller === null) throw new Error('A route with access was reached without a caller');
      const signal = clientGone(request, reply);
      const answer = await route.handle({ engine, settings, caller, request, reply, signal });
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
function refuseOtherMethods(app: FastifyInstance, routes: readonly Route[]): void {
  const allowed = new Map<string, Set<HTTPMethods>>();
  for (const { method, url } of routes) {
    const methods = allowed.get(url) ?? new Set();
    methods.add(method);
    if (method === 'GET') methods.add('HEAD');
    allowed.set(url, methods);
  }
  for (const [url, methods] of allowed) {
    const allow = [...methods].sort().join(', ');
    app.route({
      method: METHODS.filter((method) => !methods.has(method)),
      url,
      onRequest: (request, _reply, done) =>
        done(new EngineError('method_not_allowed', `${request.method} is not allowed here`, { headers: { allow } })),
      handler: () => {},
    });
  }
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
