/** Reading the changes of a project: in answers that wait, as events of a stream, and tables as of a cursor (docs/feed.md). */
import Negotiator from 'negotiator';
import { LIMITS } from '../../contract/limits.js';
import * as wire from '../../contract/wire/changes.js';
import { cursorOf } from '../../feed/cursor.js';
import type { Feed, Page, ReadChanges } from '../../feed/feed.js';
import { streamSnapshot } from '../../engine/sql/stream-snapshot.js';
import { postgresRole } from '../../tenancy/placement.js';
import { authorize, bearerToken } from '../admission.js';
import { asEngineError, errorBody } from '../response/error-exit.js';
import { readRightsOf } from '../response/redaction.js';
import { writeHead } from '../response/response.js';
import type { Call } from '../route.js';
import { drained, streamResponse } from '../response/sql-response.js';
import { projectOf } from './call-inputs.js';
import { type Operation, succeeds } from './operation.js';

const EXAMPLE: wire.Change = {
  cursor: '9f3a01c7.1a2b3c4.1',
  op: 'update',
  table: 'customers',
  key: { id: 1 },
  record: { id: 1, email: 'ada@example.com' },
  committed_at: '2026-01-31T09:30:00.123456Z',
  transaction: '4711',
};

const JSON_TYPE = 'application/json';
const EVENT_STREAM = 'text/event-stream';

/** An event stream gets a comment after so much time without a change, so that proxies keep it open. */
const HEARTBEAT_MS = 15_000;

const READ_CHANGES: Operation = {
  method: 'GET',
  url: '/api/cdp/changes',
  access: ['sql:read', 'sql:write'],
  operationId: 'readChanges',
  summary: 'Read what has changed in tables, in the order of commits',
  description:
    'Answers at once if there are changes after the cursor, and otherwise when there is one, or after `wait` seconds. With ' +
    '`Accept: text/event-stream` it never ends: each change is an event whose `id` is its cursor. Only what the token’s role may read.',
  tag: 'data',
  audit: { operation: 'read_changes', isChange: false, isPolled: true },
  slot: null,
  waits: true,
  query: wire.ChangesQuery,
  headers: wire.ChangesHeaders,
  success: succeeds(200, wire.ChangesResponse, '1 change', { changes: [EXAMPLE], cursor: EXAMPLE.cursor }),
  errors: ['not_found', 'cursor_expired', 'table_not_found'],
  async handle(call) {
    const { request, engine } = call;
    const feed = await engine.feeds.of(projectOf(call).row);
    const read = requestOf(call);
    if (new Negotiator(request.raw).mediaType([JSON_TYPE, EVENT_STREAM]) === EVENT_STREAM) {
      await streamEvents(call, feed, read);
      return { body: null };
    }
    const page = await feed.read(read);
    await stillAllowed(call);
    return { body: bodyOf(page), rows: page.changes.length };
  },
};

function requestOf(call: Call): ReadChanges {
  const { request, engine, signal } = call;
  const { after, tables, limit = '1000', wait = '0' } = request.query as wire.ChangesQuery;
  const resumed = request.headers['last-event-id']?.toString() ?? after;
  const { id } = projectOf(call);
  return {
    after: resumed === undefined ? null : cursorOf(resumed),
    role: roleOf(call),
    filter: { tables: tables === undefined ? null : new Set(tables.split(',')), operations: null, columns: null },
    limit: Number(limit),
    waitMs: Number(wait) * 1_000,
    signal,
    turn: () => engine.services.throttle.turn(id),
  };
}

/** The token may have been revoked, or its project deactivated, while the request waited. @throws EngineError */
async function stillAllowed({ engine, request }: Call): Promise<void> {
  authorize(await engine.authenticator.authenticateAgain(bearerToken(request.headers)), READ_CHANGES.access);
}

/** The role that the token acts as in Postgres. */
function roleOf(call: Call): string {
  const { placement } = projectOf(call).row;
  const { role, scopes } = call.caller;
  if (role !== null) return postgresRole(placement, role);
  return scopes.has('sql:write') ? placement.writer : placement.reader;
}

function bodyOf({ changes, bytes, cursor }: Page): readonly Buffer[] {
  const message = changes.length === 1 ? '1 change' : `${changes.length} changes`;
  const head = `{"success":true,"message":"${message}","changes":[`;
  return [Buffer.from(head), bytes, Buffer.from(`],"cursor":"${cursor}"}`)];
}

function eventsOf({ changes, bytes, cursor }: Page): Buffer | string {
  // The cursor goes on although nothing is for this reader.
  if (changes.length === 0) return `id: ${cursor}\n:\n\n`;
  return Buffer.concat(
    changes.flatMap(({ cursor, start, end }) => [
      Buffer.from(`id: ${cursor}\ndata: `),
      bytes.subarray(start, end),
      END_OF_EVENT,
    ]),
  );
}

const END_OF_EVENT = Buffer.from('\n\n');

/** Ends with the request: the client leaves, or its token is revoked. */
async function streamEvents(call: Call, feed: Feed, read: ReadChanges): Promise<void> {
  const { request, reply, signal } = call;
  const { raw } = reply;
  const { context } = request;
  let { after } = read;
  // An error before the first bytes is an ordinary response.
  let page = await feed.read({ ...read, waitMs: 0 });
  writeHead(request, reply, 200, { 'content-type': EVENT_STREAM, 'x-accel-buffering': 'no' });
  try {
    for (;;) {
      context.rows = (context.rows ?? 0) + page.changes.length;
      if (!raw.write(eventsOf(page))) {
        await drained(raw, context.stallMs);
      }
      signal.throwIfAborted();
      after = cursorOf(page.cursor);
      page = await feed.read({ ...read, after, waitMs: HEARTBEAT_MS });
      await stillAllowed(call);
    }
  } catch (thrown) {
    if (raw.destroyed) return;
    const error = asEngineError(signal.aborted ? signal.reason : thrown);
    context.errorCode = error.code;
    raw.end(`event: error\ndata: ${JSON.stringify(errorBody(error, request.id, readRightsOf(context)))}\n\n`);
  }
}

const READ_SNAPSHOT: Operation = {
  method: 'GET',
  url: '/api/cdp/changes/snapshot',
  access: ['sql:read', 'sql:write'],
  operationId: 'readSnapshot',
  summary: 'Read a table with the cursor from which its changes go on',
  description: 'NDJSON: a line with the cursor, a line for each row, and a last line that says it is complete.',
  tag: 'data',
  audit: { operation: 'read_snapshot', isChange: false },
  slot: 'sql',
  command: 'SELECT',
  query: wire.SnapshotQuery,
  success: {
    status: 200,
    response: wire.SnapshotResponse,
    example: '{"cursor":"9f3a01c7.1a2b3c4.2","table":"customers"}\n',
  },
  errors: ['not_found', 'table_not_found', 'sql_error', 'permission_denied', 'row_too_large'],
  async handle(call) {
    const { table } = call.request.query as wire.SnapshotQuery;
    const feed = await call.engine.feeds.of(projectOf(call).row);
    const project = projectOf(call);
    const options = {
      table,
      role: roleOf(call),
      connection: call.caller.scopes.has('sql:write') ? ('sql-write' as const) : ('sql-read' as const),
      timeoutMs: LIMITS.timeoutMsMax,
      signal: call.signal,
    };
    const format = { format: 'ndjson', columns: false } as const;
    await streamResponse(call, format, (write) => streamSnapshot(call.engine.services, project, feed, options, write));
    return { body: null };
  },
};

export const CHANGES: readonly Operation[] = [READ_CHANGES, READ_SNAPSHOT];
