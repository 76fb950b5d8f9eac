/**
 * What every listener of the service shares: limits of HTTP itself, the id and the headers of each answer, and one shape
 * of refusal, also for what never becomes a request.
 */
import { maxHeaderSize, METHODS } from 'node:http';
import type { Socket } from 'node:net';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest, type HTTPMethods } from 'fastify';
import { EngineError } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import { allHeadersOf, type Answers } from './answer/answers.js';
import { clientAddress } from './gate/client-address.js';
import { ClientConnections, closePort } from './connection/client-connections.js';
import { SCHEMA_CONTROLLER } from './api/compilers.js';
import { Exchange } from './exchange.js';
import { refusalOfHead } from './connection/framing.js';
import { requestIdOf } from './connection/request-id.js';
import { RefusalPace } from './gate/refusal-pace.js';
import { WholeRequest } from './connection/whole-request.js';
import { KEPT_MS, WholeResponse } from './connection/whole-response.js';

export interface AppSettings {
  /** Time in which headers and body must have arrived. */
  requestTimeoutMs: number;
  /** Whoever takes nothing of an answer for so long loses the connection. */
  streamStallMs: number;
  /** Proxies whose X-Forwarded-For is believed, as Fastify's `trustProxy` takes them; null: none. */
  trustProxy: readonly string[] | null;
}

/** Told of what happens to requests. */
interface Watcher {
  /** Of every request, before anything else, and also of one that reaches no hook. */
  opened(request: FastifyRequest, reply: FastifyReply): void;
  /** A failure has been answered. */
  refused(request: FastifyRequest): void;
  /** The answer is out, or the connection broke. */
  closed(request: FastifyRequest, reply: FastifyReply): void;
}

const NOBODY: Watcher = { opened: () => {}, refused: () => {}, closed: () => {} };

/** A server without routes, not yet listening. */
export function createApp(settings: AppSettings, answers: Answers, watcher: Watcher = NOBODY): FastifyInstance {
  const connections = new ClientConnections();
  const believesProxies = settings.trustProxy !== null;
  const begin = (request: FastifyRequest, reply: FastifyReply) => {
    const raw = reply.raw as WholeResponse;
    const connection = connections.begin(raw);
    const exchange = new Exchange(believesProxies ? clientAddress(request) : connection.address);
    request.exchange = exchange;
    // Unlike the hook for it, this also happens when the client has left before its answer.
    raw.on('close', () => {
      connections.end(raw, connection);
      watcher.closed(request, reply);
      if (!raw.writableFinished) exchange.departure.happen();
    });
    watcher.opened(request, reply);
  };
  const app: FastifyInstance = Fastify({
    ...limitsOfHttp(settings),
    // A path that cannot be decoded reaches no route and none of the hooks.
    frameworkErrors: (error, request, reply) => {
      begin(request, reply);
      answers.fail(error, request, reply);
    },
    clientErrorHandler: connections.refuse,
  });
  hearConnections(app, connections);
  setExits(app, answers, watcher);
  app.removeAllContentTypeParsers();
  app.decorateRequest('exchange');

  app.addHook('onRequest', (request, reply, done) => {
    begin(request, reply);
    done(refusalOfHead(request.raw));
  });
  // What Fastify sends by itself. A page may have set some of them for itself.
  app.addHook('onSend', (request, reply, payload, done) => {
    void reply.headers(allHeadersOf(request, reply));
    reply.raw.setTimeout(settings.streamStallMs);
    done(null, payload);
  });
  return app;
}

/** It gets no logger: for one, Fastify makes a child and two listeners for each request. */
function limitsOfHttp({ requestTimeoutMs, trustProxy }: AppSettings) {
  return {
    bodyLimit: LIMITS.bodyBytes,
    requestTimeout: requestTimeoutMs,
    connectionTimeout: 0,
    keepAliveTimeout: KEPT_MS,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    trustProxy: trustProxy === null ? false : [...trustProxy],
    // Node bounds the whole head of a request; a long name in a path is a table that is not there.
    routerOptions: { maxParamLength: maxHeaderSize, ignoreTrailingSlash: false },
    genReqId: requestIdOf,
    schemaController: SCHEMA_CONTROLLER,
    http: {
      headersTimeout: requestTimeoutMs,
      connectionsCheckingInterval: 1_000,
      // Node would answer without a body; the first hook refuses it in our shape.
      requireHostHeader: false,
      IncomingMessage: WholeRequest,
      ServerResponse: WholeResponse,
    },
  } as const;
}

/** What comes over a connection and is no ordinary request, and the end of all connections at a stop. */
function hearConnections(app: FastifyInstance, connections: ClientConnections): void {
  const { server } = app;
  // Node would answer 417 without a body; an expectation that nobody knows may be ignored (RFC 9110 section 10.1.1).
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  server.on('connect', (_request, socket) => {
    // The client may be gone already; there is nobody to tell then.
    socket.on('error', () => socket.destroy());
    connections.refuse(noTunnel(), socket as Socket);
  });
  connections.watch(server);
  // Their size is bounded. By their number Node would leave some of them out, and not say so.
  server.maxHeadersCount = 0;
  app.addHook('preClose', (done) => {
    void connections.stop(server).then(() => done());
  });
}

/** The ways on which a failure leaves. */
function setExits(app: FastifyInstance, answers: Answers, watcher: Watcher): void {
  const pace = new RefusalPace();
  app.setErrorHandler((error, request, reply) => {
    const refuse = () => {
      answers.fail(error, request, reply);
      watcher.refused(request);
    };
    const isOverload = error instanceof EngineError && error.code === 'overloaded';
    const turn = isOverload ? pace.wait(request.exchange.started) : undefined;
    if (turn === undefined) refuse();
    else void turn.then(refuse);
  });
  app.setNotFoundHandler((request) => {
    throw notFound(request);
  });
}

/** Lets running requests finish, and breaks them off if they take longer than `ms`. */
export async function finish(app: FastifyInstance, ms: number): Promise<void> {
  const late = setTimeout(() => app.server.closeAllConnections(), ms);
  // From its beginning Fastify's close tells clients that their connection ends, so the port is closed before.
  await closePort(app.server);
  await app.close();
  clearTimeout(late);
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
      // A path with nothing behind its last slash is none of ours, although the router finds an empty name there.
      onRequest: (request, _reply, done) =>
        done(request.url.split('?')[0]?.endsWith('/') ? notFound(request) : notAllowed(request, allow)),
      handler: () => {},
    });
  }
}

const notFound = ({ method, url }: FastifyRequest) =>
  new EngineError('not_found', `There is no ${method} ${url.split('?')[0]?.slice(0, 200)}`);

const notAllowed = ({ method }: FastifyRequest, allow: string) =>
  new EngineError('method_not_allowed', `${method} is not allowed here`, { headers: { allow } });

/** CONNECT asks a proxy for a tunnel (RFC 9110 section 9.3.6); Node would hang up without a word. */
const noTunnel = () =>
  new EngineError('method_not_allowed', 'The service is no proxy', {
    headers: { allow: 'DELETE, GET, HEAD, POST, PUT' },
  });
