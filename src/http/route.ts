/** A route: what it declares, and what its handler gets and returns. */
import type { FastifyRequest, FastifyReply } from 'fastify';
import type { Caller } from '../engine/access/tokens.js';
import type { Engine } from '../engine/engine.js';
import type { Scope } from '../contract/names.js';
import type { EngineError } from '../contract/errors.js';
import type { Schema } from '../contract/schema.js';
import type { ErrorBody } from '../contract/wire/failure.js';
import type { SlotClass } from '../db/slots.js';

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
  /** How long a client may take to send a body, or the next part of a stream. */
  requestTimeoutMs: number;
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
  /** Rows stored and returned, where `rows` does not tell. */
  moved?: { readonly in: number; readonly out: number };
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
  /** Pages may call it with a token that names their origin: preflights are answered. */
  readonly fromPages?: true;
  readonly audit: AuditRule;
  /** On success, the handler writes the audit entry together with the change (`withEntry` in tenancy/control/audit-rows.ts). */
  readonly writesEntry?: true;
  /** The slot that its work in the project's database takes; null: it does none. */
  readonly slot: SlotClass | null;
  /** It may take long without the project's database: it is listed, and ends with its token. */
  readonly waits?: true;
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
  readonly token?: (request: FastifyRequest) => string | Promise<string>;
  /** Without an Authorization header, the token is in the body, which is read first. */
  readonly tokenInBody?: true;
  readonly body?: Schema;
  /**
   * The handler or the engine reads the bytes of the body, and the schema is only for the OpenAPI document.
   * `json-or-text`: the body may also be sent as text/plain, the default of `fetch` for strings. `any`: whatever its content
   * type says.
   */
  readonly rawBody?: 'json' | 'json-or-text' | 'any';
  /** Also takes bodies of the types of streams, which the handler reads. */
  readonly streams?: true;
  /** The limit for the bytes of its body. Default: `LIMITS.bodyBytes`. */
  readonly bodyBytes?: number;
  /** Field of the body with data, in which keys may repeat. */
  readonly dataField?: string;
  readonly success: { readonly status: number };
  handle(call: Call): Promise<RouteResponse>;
  /** Adapts the body of an error to what the clients of this route expect. */
  failure?(error: EngineError, body: ErrorBody): ErrorBody;
}
