/**
 * The type of an operation: one value from which its route, its checks, its part of the OpenAPI document, its entry in the
 * audit log and the sweeps of the tests follow.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { EngineError, ErrorCode } from '../../contract/errors.js';
import type { Scope } from '../../contract/names.js';
import { type Schema, Type } from '../../contract/schema.js';
import type { ErrorBody } from '../../contract/wire/failure.js';
import type { SlotClass } from '../../db/slots.js';
import type { Engine } from '../../engine/engine.js';
import type { Caller } from '../../engine/access/tokens.js';

/** The argument of every handler. */
export interface Call {
  readonly engine: Engine;
  readonly settings: RouteSettings;
  readonly caller: Caller;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Aborted when the client disconnects, or with the EngineError that ends the request. */
  readonly signal: AbortSignal;
}

export interface RouteSettings {
  schemaHoldMs: number;
  receiptDays: number;
  /** Whether MCP tools may insert. */
  mcpWrites: boolean;
  /** Origins whose pages may call the API, or only `*`; null: none. */
  corsOrigins: readonly string[] | null;
}

/** A successful response. */
export interface RouteResponse {
  /** Default: the status of the route. */
  status?: number;
  /** An object, JSON as text or as a list of buffers, or null if the handler has sent the response itself. */
  body: object | string | readonly Buffer[] | null;
  headers?: Record<string, string>;
  /** The response is that of an earlier request with the same Idempotency-Key. */
  replayed?: boolean;
  /** Rows stored or returned; those of the earlier request, if it is replayed. */
  rows?: number;
}

/** The token that a route requires: a project token with one of these scopes, any token, or an admin token. */
export type Access = readonly [Scope, ...Scope[]] | 'any' | 'admin';

/** How the audit log records the requests of a route. */
export interface AuditRule {
  /** Free SQL as the reader is recorded as `sql_read` instead, a dry run as `dry_run`. */
  readonly operation: string;
  /** Whether the setting `changes` records it: it omits inserts, and what changes nothing. */
  readonly isChange: boolean;
  /** A list that screens and scripts read again and again: within a minute, repeats become one entry with a count. */
  readonly isPolled?: true;
  /** Field of the body that names the object: a table, a server, or a column of the table in the path. */
  readonly object?: string;
  /** Field of the body that names the project. */
  readonly project?: string;
}

/** What the service needs to know to serve the requests of a route. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly url: string;
  readonly access: Access;
  readonly audit: AuditRule;
  /** On success, the handler writes the audit entry together with the change (`withEntry` in tenancy/control/audit-rows.ts). */
  readonly writesEntry?: true;
  /** The slot that its work in the project's database takes; null: it does none. */
  readonly slot: SlotClass | null;
  /** SQL command, if there is a single one; names the span. */
  readonly command?: string;
  readonly query?: Schema;
  /** Accepts `dry_run`. */
  readonly hasDryRun?: true;
  /** What happens to an Idempotency-Key. Default: it is rejected, except in a GET. */
  readonly key?: 'accepted' | 'ignored';
  /** Other headers; they are not validated. */
  readonly headers?: Schema;
  /** Finds the token, if it may be outside the Authorization header. @throws EngineError unauthorized */
  readonly token?: (headers: IncomingHttpHeaders) => string;
  readonly body?: Schema;
  /**
   * The handler or the engine reads the bytes of the body, and the schema is only for the OpenAPI document.
   * `json-or-text`: the body may also be sent as text/plain, the default of `fetch` for strings.
   */
  readonly rawBody?: 'json' | 'json-or-text';
  /** The limit for the bytes of its body. Default: `LIMITS.bodyBytes`. */
  readonly bodyBytes?: number;
  /** Field of the body with data, in which keys may repeat. */
  readonly dataField?: string;
  readonly success: { readonly status: number };
  handle(call: Call): Promise<RouteResponse>;
  /** Adapts the body of an error to what the clients of this route expect. */
  failure?(error: EngineError, body: ErrorBody): ErrorBody;
}

/** A route with what the OpenAPI document says about it. */
export interface Operation extends Route {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly tag: 'schema' | 'data' | 'sql' | 'token' | 'admin';
  readonly params?: Schema;
  readonly success: Route['success'] & { readonly response: Schema; readonly example: unknown };
  /** Example of a body. */
  readonly example?: unknown;
  /** Codes in addition to the common ones, which `codesOf` adds. */
  readonly errors: readonly ErrorCode[];
}

/** Errors that every operation can return. */
const EVERYWHERE: readonly ErrorCode[] = [
  'invalid_request',
  'unauthorized',
  'token_expired',
  'insufficient_scope',
  'cdp_inactive',
  'request_timeout',
  'rate_limited',
  'overloaded',
  'database_unavailable',
  'data_corrupted',
  'query_timeout',
  'internal',
];

/** Also where no body is expected, since a client may send one. */
const WITH_BODY: readonly ErrorCode[] = ['payload_too_large', 'unsupported_media_type'];

const WITH_KEY: readonly ErrorCode[] = ['request_in_flight', 'idempotency_key_reused', 'key_settled'];

/** Errors of what locks a table and commits. */
export const RECORD_ERRORS = ['permission_denied', 'table_busy', 'outcome_unknown'] as const;

/** `sql_error`: code that Postgres ran for the change refused it, such as an event trigger or a function in a default. */
export const SCHEMA_ERRORS = [...RECORD_ERRORS, 'citus_limit', 'sql_error'] as const;

export const GROWING_ERRORS = ['quota_exceeded', ...SCHEMA_ERRORS] as const;

/** Errors of every operation that runs a caller's statements. */
export const SQL_ERRORS = [
  'sql_error',
  'citus_limit',
  'statement_not_allowed',
  'invalid_value',
  'result_too_large',
  'row_too_large',
  'constraint_violation',
  'unique_violation',
  'table_exists',
  'column_exists',
  'dependent_objects',
  'quota_exceeded',
  ...RECORD_ERRORS,
] as const;

/** Every code that the operation can return. The tests fail if the service answers with another one. */
export const codesOf = ({ method, body, key, errors }: Operation): ReadonlySet<ErrorCode> =>
  new Set([
    ...EVERYWHERE,
    ...(method === 'GET' ? [] : WITH_BODY),
    ...(body === undefined ? [] : ['invalid_json' as const]),
    ...(key === 'accepted' ? WITH_KEY : []),
    ...errors,
  ]);

const DryRun = Type.Literal('true', {
  description: 'Run the request in a transaction that is rolled back, and report what it would do.',
});

export function queryOf({ query, hasDryRun }: Pick<Route, 'query' | 'hasDryRun'>): Schema | undefined {
  if (!hasDryRun) return query;
  const { properties = {}, ...others } = (query ?? Type.Object({})) as Schema & { properties?: object };
  return { ...others, properties: { ...properties, dry_run: DryRun } };
}

/** The success of an operation. @param example the fields of its response besides `success` and `message` */
export const succeeds = (status: number, response: Schema, message: string, example: object): Operation['success'] => ({
  status,
  response,
  example: { success: true, message, ...example },
});

/** An operator may know which server does not respond; a project's token may not. */
function nameServer({ code, dependency }: EngineError, body: ErrorBody): ErrorBody {
  const server = code === 'database_unavailable' && dependency?.startsWith('server ') ? dependency : null;
  return server === null ? body : { ...body, message: `The ${server} does not respond at the moment` };
}

/** Common to all admin operations: they do no work in a project's database. */
export const ADMIN = { access: 'admin', tag: 'admin', slot: null, failure: nameServer } as const;
