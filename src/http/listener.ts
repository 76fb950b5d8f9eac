/**
 * Common to all listeners: the limits of HTTP, the id and headers of each response, and one shape of error, even for
 * bytes that never become a request.
 */
import { randomUUID } from 'node:crypto';
import { type IncomingMessage, maxHeaderSize } from 'node:http';
import { isIP, type Socket } from 'node:net';
import Fastify, {
  errorCodes,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifySchemaCompiler,
  type FastifyServerOptions,
} from 'fastify';
import { EngineError } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import type { Schema } from '../contract/schema.js';
import { thoroughValidator } from '../contract/validator.js';
import { isStream, readBody } from './body.js';
import { ClientConnections } from './edge/client-connections.js';
import { errorInHead } from './edge/request-head.js';
import { KnownPaths, hintForUnknownPath } from './known-paths.js';
import { RequestContext } from './request-context.js';
import { type ErrorExit, HttpError } from './response/error-exit.js';
import { responseHeaders } from './response/response.js';

export interface ListenerSettings {
  /** The time limit for the arrival of headers and body. */
  requestTimeoutMs: number;
  /** A client that reads nothing of a response for this long loses its connection. */
  streamStallMs: number;
  /** Proxies whose X-Forwarded-For is trusted, as Fastify's `trustProxy` takes them; null: none. */
  trustProxy: readonly string[] | null;
}

/** Called for each request of a listener. */
interface RequestObserver {
  /** Comes first, even for a request that reaches no hook. */
  begin(request: FastifyRequest, reply: FastifyReply): void;
  /** The response has been sent, or the connection has closed. */
  close(request: FastifyRequest, reply: FastifyReply): void;
  /** The handler has ended as well. */
  end(request: FastifyRequest): void;
}

const NO_OBSERVER: RequestObserver = { begin: () => {}, close: () => {}, end: () => {} };

/**
 * The least time between the start of a request and its `overloaded` response. Clients that ignore `Retry-After` and retry at once would
 * otherwise take the event loop from the requests being served.
 */
const OVERLOADED_MS = 250;

/** How long an idle connection is kept. */
const KEEP_ALIVE_MS = 72_000;

type Parsed = (error: Error | null, body?: Buffer) => void;

/** A server without routes, not yet listening. */
export function createListener(
  settings: ListenerSettings,
  errors: ErrorExit,
  observer: RequestObserver = NO_OBSERVER,
): FastifyInstance {
  const connections = new ClientConnections(settings.requestTimeoutMs);
  const paths = new KnownPaths();
  const begin = (request: FastifyRequest, reply: FastifyReply) => {
    const { raw } = reply;
    const context = new RequestContext(clientAddress(request), settings.streamStallMs, () => observer.end(request));
    context.path = paths.of(request);
    request.context = context;
    if (/^100-continue$/i.test(request.headers.expect ?? '')) context.askForBody = () => raw.writeContinue();
    connections.begin(raw, () => {
      observer.close(request, reply);
      context.close(raw.headersSent ? raw.statusCode : null, raw.writableFinished);
    });
    observer.begin(request, reply);
  };
  const app: FastifyInstance = Fastify({
    ...httpLimits(settings),
    // A path that cannot be decoded reaches no route and no hook.
    frameworkErrors: (error, request, reply) => {
      begin(request, reply);
      void reply.headers(responseHeaders(request, reply));
      errors.send(error, request, reply);
    },
    clientErrorHandler: (error, socket) => void connections.refuse(error, socket),
  });
  handleOddRequests(app, connections);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', readBody);
  app.addContentTypeParser('*', (request: FastifyRequest, payload: IncomingMessage, done: Parsed) => {
    const { headers, context } = request;
    const { rawBody, streams } = context.route ?? {};
    const isText = /^text\/plain *(?:;|$)/i.test(headers['content-type'] ?? '');
    if (rawBody === 'any' || (rawBody === 'json-or-text' && isText)) readBody(request, payload, done);
    else if (isStream(headers, { ...(streams && { streams }) })) {
      connections.expectStream(payload);
      done(null);
    } else done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE(headers['content-type']));
  });
  app.decorateRequest('context');
  app.addHook('onRoute', (route) => paths.add(route));
  app.addHook('onRequest', (request, reply, done) => {
    begin(request, reply);
    done(errorInHead(request.raw));
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    void reply.headers(responseHeaders(request, reply));
    reply.raw.setTimeout(request.context.stallMs);
    done(null, payload);
  });
  app.setErrorHandler((error, request, reply) => {
    const isOverload = error instanceof EngineError && error.code === 'overloaded';
    const holdMs = isOverload ? request.context.startedAt + OVERLOADED_MS - performance.now() : 0;
    if (holdMs <= 0) errors.send(error, request, reply);
    else setTimeout(() => errors.send(error, request, reply), holdMs);
  });
  app.setNotFoundHandler((request) => {
    throw notFound(request);
  });
  return app;
}

function httpLimits({ requestTimeoutMs, trustProxy }: ListenerSettings) {
  return {
    bodyLimit: LIMITS.bodyBytes,
    // Node's limit would end every stream; `ClientConnections` has one for the other bodies.
    requestTimeout: 0,
    connectionTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    trustProxy: trustProxy === null ? false : [...trustProxy],
    // Node limits the whole head. A long name in a path should be a table that does not exist, and not an error of the
    // router.
    routerOptions: { maxParamLength: maxHeaderSize, ignoreTrailingSlash: false },
    genReqId: requestIdOf,
    schemaController: SCHEMA_CONTROLLER,
    http: {
      headersTimeout: requestTimeoutMs,
      connectionsCheckingInterval: 1_000,
      // Node would answer without a body; `errorInHead` answers with an error in our shape.
      requireHostHeader: false,
    },
  } as const;
}

/** Request ids that are harmless in a header or log. */
const SAFE_ID = /^[\w.:/+=-]{1,128}$/;

function requestIdOf({ headers }: IncomingMessage): string {
  const sentId = headers['x-request-id'];
  return typeof sentId === 'string' && SAFE_ID.test(sentId) ? sentId : randomUUID();
}

/**
 * The address of the socket. If that is a proxy of the setting `trust-proxy`, the last address in X-Forwarded-For that
 * is not one. If that text is not an address, the proxy's own.
 */
const clientAddress = ({ ip, socket }: FastifyRequest): string => (isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip);

/** Handles unusual requests, and the end of all connections when the service stops. */
function handleOddRequests(app: FastifyInstance, connections: ClientConnections): void {
  const { server } = app;
  // Node would answer 417 without a body; an unknown expectation may be ignored (RFC 9110 section 10.1.1).
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  // The client may send its body once the request is admitted.
  server.on('checkContinue', (request, response) => server.emit('request', request, response));
  server.on('connect', (_request, socket) => {
    socket.on('error', () => socket.destroy());
    void connections.refuse(noTunnel(), socket as Socket);
  });
  connections.watch(server);
  // No limit on the number of headers, beyond which Node would drop some silently: their total size is limited.
  server.maxHeadersCount = 0;
  app.addHook('preClose', () => connections.drain());
}

/** Lets running requests finish, and closes their connections after `ms`. */
export async function finishRequests(app: FastifyInstance, ms: number): Promise<void> {
  const late = setTimeout(() => app.server.closeAllConnections(), ms);
  await app.close().finally(() => clearTimeout(late));
}

function notFound({ method, url }: FastifyRequest): EngineError {
  const [path = ''] = url.split('?');
  return new EngineError('not_found', `There is no ${method} ${path.slice(0, 200)}`, {
    hint: hintForUnknownPath(path),
  });
}

/** CONNECT asks a proxy for a tunnel (RFC 9110 section 9.3.6); Node would close the connection without a response. */
const noTunnel = () =>
  new HttpError('method_not_allowed', 'This service is not a proxy', { allow: 'DELETE, GET, HEAD, POST, PUT' });

// Compiles the schemas of routes on first use, not all of them at the start as Fastify does.

const compileValidator: FastifySchemaCompiler<Schema> = ({ schema }) => {
  const errorsOf = thoroughValidator(schema);
  return (value: unknown) => {
    const errors = errorsOf(value);
    if (errors === null) return true;
    return { error: errors.map((each) => ({ ...each, params: { ...each.params, known: fieldsOf(schema) } })) };
  };
};

const fieldsOf = (schema: Schema): string[] => Object.keys((schema as { properties?: object }).properties ?? {});

const SCHEMA_CONTROLLER: NonNullable<FastifyServerOptions['schemaController']> = {
  compilersFactory: {
    // Fastify types this as a function of Ajv.
    buildValidator: (() => compileValidator) as never,
    // No schema serializes a response.
    buildSerializer: () => () => JSON.stringify,
  },
};
