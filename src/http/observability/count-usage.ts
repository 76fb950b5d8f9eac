/** Counts what an ended request has used. */
import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { Way } from '../../contract/usage.js';
import type { Usage } from '../../engine/usage/usage.js';
import { isStream } from '../body.js';

/**
 * Bytes of a connection that have been counted. Responses of a connection follow each other, so what was sent since the last one
 * is this one's; a request that is sent before the response to the last one may count for that.
 */
const counted = new WeakMap<Socket, { read: number; written: number }>();

export function countUsage(usage: Usage, request: FastifyRequest): void {
  const { context, method } = request;
  const { socket } = request.raw;
  const before = counted.get(socket) ?? { read: 0, written: 0 };
  const now = { read: socket.bytesRead, written: socket.bytesWritten };
  counted.set(socket, now);
  const project = context.project ?? context.caller?.project ?? null;
  if (project === null) return;
  const { rows, moved } = context;
  const isRead = method === 'GET';
  const isKept = !context.project?.dryRun;
  usage.add(project, wayOf(request), {
    requests: 1,
    rows_in: isKept ? (moved?.in ?? (isRead ? 0 : (rows ?? 0))) : 0,
    rows_out: moved?.out ?? (isRead ? (rows ?? 0) : 0),
    bytes_in: now.read - before.read,
    bytes_out: now.written - before.written,
    statement_ms: context.project?.spent.ms ?? 0,
  });
}

function wayOf({ context: { route, sql }, headers }: FastifyRequest): Way {
  if (sql !== null) return 'sql';
  if (route?.url?.startsWith('/v1/')) return 'events';
  return route !== null && isStream(headers, route) ? 'streams' : 'api';
}
