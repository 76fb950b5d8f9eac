/**
 * Serves the requests of a route, step by step: admission, body, schemas, handler, response. Every failure leaves
 * through the error exit.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { EngineError } from '../contract/errors.js';
import { type Schema, STRICT, Type } from '../contract/schema.js';
import { appendsOnly } from '../engine/access/append-keys.js';
import type { Caller } from '../engine/access/tokens.js';
import type { Engine } from '../engine/engine.js';
import type { LiveRequest } from '../engine/live-requests.js';
import type { Project } from '../db/project.js';
import type { Admission } from './admission.js';
import { queryOf } from './api/operation.js';
import type { Route, RouteResponse, RouteSettings, Call } from './route.js';
import type { EventLoopThrottle } from '../engine/limits/event-loop-throttle.js';
import { parseJsonBody } from './body.js';
import { dryRunBody, sendResponse } from './response/response.js';

/** Adds a route to the server. */
export function serveRoute(
  app: FastifyInstance,
  engine: Engine,
  settings: RouteSettings,
  admission: Admission,
  route: Route,
): void {
  app.route({
    method: route.method,
    url: route.url,
    onRequest: (request, reply) =>
      isTokenInBody(request, route) ? admission.admitUnknown(request, route) : admission.admit(request, reply, route),
    ...(route.tokenInBody && {
      preValidation: async (request: FastifyRequest, reply: FastifyReply) => {
        if (isTokenInBody(request, route)) await admission.admit(request, reply, route);
      },
    }),
    ...inputOf(route, engine.services.throttle),
    handler: async (request, reply) => {
      const { context } = request;
      context.bodyReadAt = performance.now();
      refuseUnusedKey(request, route);
      const dryRun = dryRunOf(request, route);
      if (dryRun !== null) context.project = dryRun;
      if (route.slot !== null && context.project?.isReadOnly) void reply.header('x-read-only', 'disk');
      const handled = await handle({ engine, settings, request, reply }, route);
      const response: RouteResponse = dryRun === null ? handled : { body: dryRunBody(handled.body, dryRun) };
      noteRows(request, response);
      if (dryRun === null && response.body !== null) await addPosition(request, reply, route);
      if (response.replayed) void reply.header('idempotency-replayed', 'true');
      context.handlerEnded();
      if (response.body !== null) sendResponse(request, reply, response.status ?? route.success.status, response);
      return reply;
    },
  });
}

const isTokenInBody = ({ headers }: FastifyRequest, { tokenInBody }: Route): boolean =>
  tokenInBody === true && headers.authorization === undefined;

/** Runs the handler of the route. Meanwhile, a request with a slot is listed, so that it can be ended. */
async function handle(
  { engine, settings, request, reply }: Pick<Call, 'engine' | 'settings' | 'request' | 'reply'>,
  route: Route,
): Promise<RouteResponse> {
  const { caller, signal } = request.context;
  if (caller === null) throw new Error('A route with access was reached without a caller');
  const unwatch =
    route.slot === null && !route.waits ? null : engine.liveRequests.watch(liveRequest(request, caller, route));
  try {
    return await route.handle({ engine, settings, caller, request, reply, signal });
  } finally {
    unwatch?.();
  }
}

/** For the log, the metrics and what the project uses. */
function noteRows({ context }: FastifyRequest, { rows, moved, replayed = false }: RouteResponse): void {
  if (moved !== undefined) context.moved = replayed ? { in: 0, out: moved.out } : moved;
  if (rows !== undefined) context.rows = replayed ? 0 : rows;
}

/** For reads on a replica that must see this write, which has succeeded; the response waits for one query. */
async function addPosition({ context }: FastifyRequest, reply: FastifyReply, route: Route): Promise<void> {
  const { caller, project } = context;
  const isWrite = route.method !== 'GET' && !context.sql?.readOnly;
  // It would tell a caller who reads nothing how much is written.
  const readsNothing = caller !== null && caller.scopes.size === 1 && appendsOnly(caller);
  if (isWrite && !readsNothing && project?.hasReplicas) void reply.header('x-consistency', await project.position());
}

/** How Fastify reads and validates the body and the query of a route. */
export function inputOf(
  route: Pick<Route, 'body' | 'query' | 'rawBody' | 'hasDryRun'>,
  throttle: EventLoopThrottle | null,
) {
  const body = route.rawBody ? undefined : route.body;
  // A parameter that the route ignored could be one without which the request means something else.
  const querystring: Schema = { ...(queryOf(route) ?? Type.Object({})), ...STRICT };
  return {
    schema: { ...(body === undefined ? {} : { body }), querystring },
    ...(body === undefined ? {} : { preValidation: (request: FastifyRequest) => parseJsonBody(request, throttle) }),
  };
}

const liveRequest = ({ id, context }: FastifyRequest, caller: Caller, { audit }: Route): LiveRequest => ({
  id,
  caller,
  operation: audit.operation,
  address: context.address,
  startedAt: context.startedAt,
  clientKey: () => context.clientKey,
  abort: (reason) => context.abort(reason),
});

/**
 * Rejects a key that would not protect the change from being repeated. A read may be repeated anyway.
 * @throws EngineError invalid_request
 */
function refuseUnusedKey({ headers }: FastifyRequest, route: Route): void {
  if (headers['idempotency-key'] === undefined || route.key !== undefined || route.method === 'GET') return;
  throw new EngineError('invalid_request', 'This request does not support an Idempotency-Key', {
    hint: 'Send it without the key. Inserts, deletes of records, schema changes and POST /api/cdp/sql support one.',
  });
}

/**
 * The project in a dry run, if the request asks for one.
 * @throws EngineError invalid_request with an Idempotency-Key, which a rollback would not store
 */
function dryRunOf({ query, context, headers }: FastifyRequest, { hasDryRun }: Route): Project | null {
  const { dry_run: isDryRun } = query as { dry_run?: string };
  if (!hasDryRun || isDryRun === undefined || context.project === null) return null;
  if (headers['idempotency-key'] !== undefined) {
    throw new EngineError('invalid_request', '`dry_run` cannot be combined with an Idempotency-Key', {
      hint: 'Send the request without the key.',
    });
  }
  return context.project.inDryRun();
}
