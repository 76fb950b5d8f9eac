/** The type of a row in the route tables. The tables define the API: validation, OpenAPI and dispatch read them. */
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AuditOperation } from '../../contract/audit.js';
import type { EngineError, ErrorCode } from '../../contract/errors.js';
import type { Scope } from '../../contract/names.js';
import { type Schema, Type } from '../../contract/schema.js';
import type { ErrorBody } from '../../contract/wire/failure.js';
import type { WorkKind } from '../../engine/limits/slots.js';
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

/** What the service needs to know of a route to serve its requests. */
export interface ServedRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly url: string;
  readonly access: Access;
  /** Name in the audit log; free SQL as the reader is called `sql_read`. */
  readonly audit: AuditOperation;
  /** On success, the handler writes the audit entry together with the change (`withEntry` in tenancy/control/audit-log.ts). */
  readonly writesEntry?: true;
  /** Kind of work in the project's database; null: none. */
  readonly work: WorkKind | null;
  /** SQL command, if there is a single one; names the span. */
  readonly command?: string;
  readonly query?: Schema;
  /** Accepts `dry_run`. */
  readonly hasDryRun?: true;
  /** What happens to an Idempotency-Key. Default: it is rejected, except in a GET. */
  readonly key?: 'taken' | 'ignored';
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
  /** Field of the body with data, in which keys may repeat. */
  readonly dataField?: string;
  readonly success: { readonly status: number };
  handle(call: Call): Promise<RouteResponse>;
  /** Adapts the body of an error to what the clients of this route expect. */
  failure?(error: EngineError, body: ErrorBody): ErrorBody;
}

/** A route of the API, with what the OpenAPI document says about it. */
export interface Route extends ServedRoute {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly tag: 'schema' | 'data' | 'sql' | 'token' | 'admin';
  readonly params?: Schema;
  readonly success: ServedRoute['success'] & { readonly response: Schema; readonly example: unknown };
  /** Example of a body. */
  readonly example?: unknown;
  /** Codes in addition to those that every route can return. */
  readonly errors: readonly ErrorCode[];
}

/** A route as its file defines it; the tables add the rest. */
export type Operation = Omit<Route, 'method' | 'url' | 'access'>;

const DryRun = Type.Literal('true', {
  description: 'Run the request in a transaction that is rolled back, and report what it would do.',
});

export function queryOf({ query, hasDryRun }: Pick<ServedRoute, 'query' | 'hasDryRun'>): Schema | undefined {
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
export const ADMIN = { tag: 'admin', work: null, failure: nameServer } as const;
