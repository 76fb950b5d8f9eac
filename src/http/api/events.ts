/**
 * Events: the tracking API of Segment's and RudderStack's SDKs, and whether a project takes events (docs/events.md). SDKs drop a
 * batch for ever if the response is 4xx, except 429: so only what they can never send otherwise gets one.
 */
import type { FastifyRequest } from 'fastify';
import { memberOf, readEventsBody } from '../../codec/index.js';
import { EngineError, type ErrorCode } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { DOCUMENTED, Type } from '../../contract/schema.js';
import * as wire from '../../contract/wire/events.js';
import type { ErrorBody } from '../../contract/wire/failure.js';
import type { Project } from '../../db/project.js';
import { appendsOnly, mayInsertInto } from '../../engine/access/append-keys.js';
import { dropEvents, setEvents } from '../../engine/events/event-settings.js';
import { CALL_TYPES, type CallType } from '../../engine/events/read-events.js';
import { track } from '../../engine/events/track.js';
import { bearerToken } from '../admission.js';
import { decodeBody } from '../body.js';
import { auditOriginOf } from '../observability/audit-request.js';
import { HttpError } from '../response/error-exit.js';
import type { Call } from '../route.js';
import { projectOf, projectOfOwner, schemaOptions } from './call-inputs.js';
import { GROWING_ERRORS, type Operation, succeeds } from './operation.js';

/** The calls in the path, with the short names that browsers use; null: a batch. */
const CALLS: ReadonlyMap<string, CallType | null> = new Map<string, CallType | null>([
  ...CALL_TYPES.flatMap((type): [string, CallType][] => [
    [type, type],
    [type[0] ?? '', type],
  ]),
  ['batch', null],
  ['b', null],
]);

const EXAMPLE: wire.EventSettings = { mode: 'columns', schema: 'closed', ip: true };

const SET_EVENTS: Operation = {
  method: 'PUT',
  url: '/api/cdp/events',
  access: ['schema:write'],
  operationId: 'setEvents',
  summary: 'Take events of the tracking API',
  description:
    'Makes the tables that all events need: tracks, identifies, pages, screens, groups, aliases, users, accounts.',
  tag: 'data',
  audit: { operation: 'set_events', isChange: true },
  writesEntry: true,
  slot: 'typed',
  command: 'CREATE TABLE',
  body: wire.EventSettingsBody,
  example: { mode: 'columns' },
  success: succeeds(200, wire.EventsResponse, 'events are on', { events: EXAMPLE }),
  errors: ['table_exists', 'request_in_flight', ...GROWING_ERRORS],
  async handle(call) {
    const { engine, request } = call;
    const body = request.body as wire.EventSettingsBody;
    const events = await setEvents(engine, ownProject(call), body, auditOriginOf(request), schemaOptions(call));
    return { body: { success: true, message: 'events are on', events } };
  },
};

const READ_EVENTS: Operation = {
  method: 'GET',
  url: '/api/cdp/events',
  access: ['schema:read'],
  operationId: 'readEvents',
  summary: 'Show whether and how the project takes events',
  tag: 'data',
  audit: { operation: 'read_events', isChange: false },
  slot: null,
  success: succeeds(200, wire.EventsResponse, 'events are on', { events: EXAMPLE }),
  errors: ['not_found'],
  async handle(call) {
    // What the token was looked up with may be a second old, and whoever has just changed them looks.
    const { events } = await call.engine.projects.get(projectOf(call).row.name);
    return { body: { success: true, message: events === null ? 'events are off' : 'events are on', events } };
  },
};

const DROP_EVENTS: Operation = {
  method: 'DELETE',
  url: '/api/cdp/events',
  access: ['schema:write'],
  operationId: 'dropEvents',
  summary: 'Take no more events',
  description: 'The tables stay, with what is in them.',
  tag: 'data',
  audit: { operation: 'drop_events', isChange: true },
  writesEntry: true,
  slot: null,
  success: succeeds(200, wire.EventsResponse, 'events are off', { events: null }),
  errors: ['request_in_flight', 'outcome_unknown'],
  async handle(call) {
    await dropEvents(call.engine, ownProject(call), auditOriginOf(call.request));
    return { body: { success: true, message: 'events are off', events: null } };
  },
};

/** @throws EngineError insufficient_scope */
const ownProject = (call: Call): Project =>
  projectOfOwner(call, ': what events write, and which tables they make, is not a matter of roles');

const TRACK: Operation = {
  method: 'POST',
  url: '/v1/:call',
  access: ['data:append', 'data:write'],
  fromPages: true,
  operationId: 'track',
  summary: 'Store events, each once',
  description:
    `One event, by \`call\`: ${CALL_TYPES.join(', ')}, or \`batch\`; or the first letter of these. The token is the user of Basic, ` +
    'a bearer token, or `writeKey` in the body, which is JSON whatever its content type says. A repeat of a `messageId` stores nothing.',
  tag: 'data',
  audit: { operation: 'track', isChange: false },
  slot: 'typed',
  command: 'COPY',
  params: Type.Object({ call: Type.String({ [DOCUMENTED]: { enum: [...CALLS.keys()] } }) }),
  token: keyOf,
  tokenInBody: true,
  body: wire.TrackBody,
  rawBody: 'any',
  bodyBytes: LIMITS.eventsBytes,
  example: {
    batch: [{ type: 'track', event: 'Order Completed', userId: 'u1', messageId: 'm1', properties: { total: 12.5 } }],
  },
  success: { status: 200, response: wire.TrackResponse, example: { success: true, accepted: 1, quarantined: 0 } },
  errors: ['not_found', 'table_not_found', 'constraint_violation', ...GROWING_ERRORS],
  failure: forSdks,
  async handle(call) {
    const { request, engine, caller, settings, signal } = call;
    const { call: name } = request.params as { call: string };
    const type = CALLS.get(name);
    if (type === undefined) throw new EngineError('not_found', `There is no call "${name}"`, { hint: HINT });
    const project = ownProject(call);
    const events = await settingsOf(call, project);
    const { context } = request;
    const body = context.body.length > 0 ? context.body : await decodeBody(request);
    const hasOrigins = caller.limits?.origins != null;
    const { tableCache, eventQueues: queues, throttle, quarantineDays } = engine.services;
    const tracked = await track(project, body, {
      ...{ type, settings: events, tableCache, queues, throttle, quarantineDays, signal },
      address: events.ip ? context.address : null,
      mayWrite: (table) => mayInsertInto(caller, table),
      mayShape: !hasOrigins || events.schema === 'open',
      changesPeople: (caller.limits?.users ?? 'on') === 'on',
      count: (rows) => engine.appendRates.count(caller, 'rows', rows),
      counts: engine.eventCounts,
      schemaHoldMs: settings.schemaHoldMs,
    }).catch(sayWhenThereMayBeRoom);
    const { wrong, refused, duplicates } = tracked;
    // What a table refuses may depend on what is stored.
    const quarantined = wrong + (appendsOnly(caller) ? 0 : refused);
    const accepted = tracked.events - quarantined;
    const mayRead = caller.scopes.has('sql:read') || caller.scopes.has('sql:write');
    return {
      body: { success: true, accepted, quarantined, ...(mayRead && { duplicates }) },
      rows: tracked.events - wrong - refused - duplicates,
    };
  },
};

/** After so many seconds an SDK tries again if there is no room: somebody has to make it, and SDKs count their attempts. */
const ROOM_S = 30;

/** @throws EngineError */
function sayWhenThereMayBeRoom(error: unknown): never {
  const lacksRoom = error instanceof EngineError && ['quota_exceeded', 'disk_full'].includes(error.code);
  throw lacksRoom ? error.with({ retryAfter: ROOM_S }) : error;
}

const HINT = `POST /v1/batch, or ${CALL_TYPES.join(', ')}.`;

/** @throws EngineError not_found */
async function settingsOf({ engine }: Call, { row: { events, name } }: Project): Promise<wire.EventSettings> {
  // They may have been turned on since the token was looked up, and an SDK would drop these for ever.
  const current = events ?? (await engine.projects.get(name)).events;
  if (current !== null) return current;
  throw new EngineError('not_found', `The project "${name}" takes no events`, {
    hint: 'Turn them on: PUT /api/cdp/events {}, or `cdp events on`.',
  });
}

/** @throws EngineError unauthorized */
async function keyOf(request: FastifyRequest): Promise<string> {
  const { headers, context } = request;
  const { authorization } = headers;
  const basic = /^basic +([A-Za-z0-9+/=_-]+) *$/i.exec(authorization ?? '')?.[1];
  // SDKs send the key as the user, without a password (RFC 7617).
  if (basic !== undefined) return asToken(Buffer.from(basic, 'base64').toString('latin1').split(':', 1)[0] ?? '');
  if (authorization !== undefined) return bearerToken(headers);
  context.body = await decodeBody(request);
  const key = writeKeyIn(context.body);
  if (key !== null) return asToken(key);
  throw new HttpError('unauthorized', 'The key must be the user of Basic, a bearer token, or writeKey in the body', {
    'www-authenticate': 'Bearer realm="cdp"',
  });
}

/** null: the body has none, or cannot be read. */
function writeKeyIn(body: Buffer): string | null {
  try {
    const key = memberOf(readEventsBody(body, LIMITS.valuesOfEvents), 'writeKey');
    return key?.kind === 'string' ? key.value : null;
  } catch (error) {
    if (error instanceof EngineError) return null;
    throw error;
  }
}

/** The same syntax applies as for bearer tokens. @throws EngineError unauthorized */
const asToken = (key: string): string => bearerToken({ authorization: `Bearer ${key}` });

/** What an SDK can only drop: a body that nobody can read, and a key with which nothing can be stored. */
const FINAL: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'invalid_json',
  'invalid_request',
  'payload_too_large',
  'unsupported_media_type',
  'unauthorized',
  'token_expired',
  'insufficient_scope',
  'origin_not_allowed',
  'cdp_inactive',
  'not_found',
]);

/** SDKs wait as long as a 429 says, and not all of them after a 503. */
const BUSY: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'disk_full',
  'overloaded',
  'quota_exceeded',
  'rate_limited',
  'table_busy',
]);

/** Everything else may succeed later, and the SDK has to send it again. */
function forSdks({ code }: EngineError, body: ErrorBody): ErrorBody {
  if (FINAL.has(code)) return body;
  return { ...body, status: BUSY.has(code) ? 429 : 503 };
}

/**
 * What the SDK takes at most. By itself it gives an event up after ten refusals: a quota that is full for half a minute would lose
 * the events of all pages that are open.
 */
const PATIENCE = { rateLimitConfig: { maxRetryCount: 100 }, backoffConfig: { maxRetryCount: 100 } };

const SDK_SETTINGS: Operation = {
  method: 'GET',
  url: '/v1/projects/:key/settings',
  access: ['data:append', 'data:write'],
  fromPages: true,
  operationId: 'readSdkSettings',
  summary: "Tell Segment's browser SDK where to send events",
  tag: 'data',
  audit: { operation: 'read_sdk_settings', isChange: false, isPolled: true },
  slot: null,
  params: Type.Object({ key: Type.String() }),
  token: ({ headers, params }) =>
    headers.authorization === undefined ? asToken((params as { key: string }).key) : bearerToken(headers),
  success: {
    status: 200,
    response: wire.SdkSettingsResponse,
    example: {
      integrations: { 'Segment.io': { apiKey: 'cdp_…', apiHost: 'cdp.example.com/v1', protocol: 'https' } },
    },
  },
  errors: ['not_found'],
  failure: forSdks,
  async handle(call) {
    const { request } = call;
    await settingsOf(call, projectOf(call));
    const { key } = request.params as { key: string };
    const integration = {
      apiKey: key,
      apiHost: `${request.host}/v1`,
      protocol: protocolOf(request),
      httpConfig: PATIENCE,
    };
    return { body: { integrations: { 'Segment.io': integration } } };
  },
};

/**
 * Behind a proxy that does not say that it was asked by HTTPS, the page still does: browsers let one of HTTPS ask no other host
 * than its own machine by HTTP, and its events would be lost without a word.
 */
function protocolOf({ headers: { origin = '' }, protocol, hostname }: FastifyRequest): string {
  const isLocal = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
  return origin.startsWith('https:') && !isLocal ? 'https' : protocol;
}

export const EVENTS: readonly Operation[] = [SET_EVENTS, READ_EVENTS, DROP_EVENTS, TRACK, SDK_SETTINGS];
