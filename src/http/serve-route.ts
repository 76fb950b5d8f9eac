/**
 * Serves the requests of a route, step by step: admission, body, schemas, handler, response. Every failure leaves
 * through the error exit.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { EngineError } from '../contract/errors.js';
import type { Caller } from '../engine/access/tokens.js';
import type { Engine } from '../engine/engine.js';
import type { LiveRequest } from '../engine/database/live-requests.js';
import type { Project } from '../engine/project.js';
import type { Admission } from './admission.js';
import { queryOf, type RouteResponse, type RouteSettings, type ServedRoute } from './api/route.js';
import { parseJsonBody } from './body.js';
import { dryRunBody } from './response/dry-run-body.js';
import { sendResponse } from './response/response.js';

/** Adds a route to the server. */
export function serveRoute(
  app: FastifyInstance,
  engine: Engine,
  settings: RouteSettings,
  admission: Admission,
  route: ServedRoute,
): void {
  app.route({
    method: route.method,
    url: route.url,
    onRequest: (request, reply) => admission.admit(request, reply, route),
    ...inputOf(route),
    handler: async (request, reply) => {
      const { context } = request;
      const { caller, signal } = context;
      if (caller === null) throw new Error('A route with access was reached without a caller');
      context.bodyRead = performance.now();
      refuseUnusedKey(request, route);
      const dryRun = dryRunOf(request, route);
      if (dryRun !== null) context.project = dryRun;
      const call = { engine, settings, caller, request, reply, signal };
      const unwatch = route.work === null ? null : engine.live.watch(liveRequest(request, caller, route));
      const handled = await route.handle(call).finally(() => unwatch?.());
      const response: RouteResponse = dryRun === null ? handled : { body: dryRunBody(handled.body, dryRun) };
      const { status = route.success.status, body, rows, replayed = false } = response;
      if (rows !== undefined) context.rows = replayed ? 0 : rows;
      const isWrite = route.method !== 'GET' && !context.sql?.readOnly && dryRun === null;
      // For reads on a replica that must see this write, which has succeeded; the response waits for one query.
      if (isWrite && body !== null && context.project?.hasReplicas) {
        void reply.header('x-consistency', await context.project.position());
      }
      if (replayed) void reply.header('idempotency-replayed', 'true');
      context.handlerEnded();
      if (body !== null) sendResponse(request, reply, status, response);
      return reply;
    },
  });
}

/** How Fastify reads and validates the body and the query of a route. */
export function inputOf(route: Pick<ServedRoute, 'body' | 'query' | 'rawBody' | 'hasDryRun'>) {
  const body = route.rawBody ? undefined : route.body;
  const query = queryOf(route);
  return {
    schema: { ...(body === undefined ? {} : { body }), ...(query === undefined ? {} : { querystring: query }) },
    ...(body === undefined ? {} : { preValidation: parseJsonBody }),
  };
}

const liveRequest = ({ id, context }: FastifyRequest, caller: Caller, { audit }: ServedRoute): LiveRequest => ({
  id,
  caller,
  operation: audit,
  address: context.address,
  started: context.started,
  abort: (reason) => context.abort(reason),
});

/**
 * Rejects a key that would not protect the change from being repeated. A read may be repeated anyway.
 * @throws EngineError invalid_request
 */
function refuseUnusedKey({ headers }: FastifyRequest, route: ServedRoute): void {
  if (headers['idempotency-key'] === undefined || route.key !== undefined || route.method === 'GET') return;
  throw new EngineError('invalid_request', 'This request does not support an Idempotency-Key', {
    hint: 'Send it without the key. Inserts, deletes of records, schema changes and POST /api/cdp/sql support one.',
  });
}

/**
 * The project in a dry run, if the request asks for one.
 * @throws EngineError invalid_request with an Idempotency-Key, which a rollback would not store
 */
function dryRunOf({ query, context, headers }: FastifyRequest, { hasDryRun }: ServedRoute): Project | null {
  const { dry_run: isDryRun } = query as { dry_run?: string };
  if (!hasDryRun || isDryRun === undefined || context.project === null) return null;
  if (headers['idempotency-key'] !== undefined) {
    throw new EngineError('invalid_request', '`dry_run` cannot be combined with an Idempotency-Key', {
      hint: 'Send the request without the key.',
    });
  }
  return context.project.inDryRun();
}
