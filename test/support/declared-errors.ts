/**
 * A test fails if the service answers one of its requests with an error that the operation does not declare. Fastify
 * announces every server of the process, so this holds for each test with a service of its own.
 */
import { subscribe } from 'node:diagnostics_channel';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { afterAll, afterEach, expect } from 'vitest';
import { codesOf, type Operation } from '../../src/http/api/operation.js';

const undeclared = new Set<string>();

/** The undeclared errors since the last call, each with its operation. */
export function takeUndeclared(): string[] {
  const taken = [...undeclared];
  undeclared.clear();
  return taken;
}

function check({ context }: FastifyRequest): void {
  const { route, errorCode } = context;
  if (errorCode === null || !isOperation(route) || codesOf(route).has(errorCode)) return;
  undeclared.add(`${route.operationId}: ${errorCode}`);
}

/** Not the routes of operators and of MCP, nor those of the admin socket, which leave no route. */
const isOperation = (route: FastifyRequest['context']['route']): route is Operation =>
  route !== null && 'operationId' in route;

subscribe('fastify.initialization', (message) => {
  const { fastify } = message as { fastify: FastifyInstance };
  fastify.addHook('onResponse', (request, _reply, done) => {
    check(request);
    done();
  });
});

const none = () => expect(takeUndeclared(), 'answers with errors that the operation does not declare').toEqual([]);
afterEach(none);
afterAll(none);
