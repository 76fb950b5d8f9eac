/** What a row of the route tables says. The tables are the API: validation, OpenAPI and dispatch read them. */
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AuditOperation } from '../../contract/audit.js';
import type { EngineError, ErrorCode } from '../../contract/errors.js';
import type { Scope } from '../../contract/names.js';
import { type Schema, Type } from '../../contract/schema.js';
import { IdempotencyHeaders } from '../../contract/wire/idempotency.js';
import { SqlHeaders } from '../../contract/wire/replicas.js';
import type { ErrorBody } from '../../contract/wire/failure.js';
import type { WorkKind } from '../../engine/limits/slots.js';
import type { Engine } from '../../engine/engine.js';
import type { Caller } from '../../engine/access/tokens.js';

/** What every handler gets. */
export interface Call {
  readonly engine: Engine;
  readonly settings: RouteSettings;
  readonly caller: Caller;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
}

export interface RouteSettings {
  schemaHoldMs: number;
  streamStallMs: number;
  receiptDays: number;
  /** Whether tools of MCP may insert. */
  mcpWrites: boolean;
  /** Origins whose pages may call, or `*` alone; null: none. */
  corsOrigins: readonly string[] | null;
}

/** A success; its status is the route's. */
export interface Answer {
  /** Default: that of the route. */
  status?: number;
  /** An object, JSON as text or in a list of buffers, or null if the handler has answered by itself. */
  body: object | string | readonly Buffer[] | null;
  headers?: Record<string, string>;
}

/** What a route asks of its caller: one of these scopes of the project's token, any token at all, or an admin token. */
export type Access = readonly [Scope, ...Scope[]] | 'any' | 'admin';

/** What a route does, and everything else that differs from one to the next. */
export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly tag: 'schema' | 'data' | 'sql' | 'token' | 'admin';
  /** Its name in the audit log; free SQL as the reader is `sql_read` there. */
  readonly audit: AuditOperation;
  /** Its success writes its entry together with the change (`withEntry` in tenancy/audit-log.ts). */
  readonly writesEntry?: true;
  /** What it does in the project's database; null: nothing. */
  readonly work: WorkKind | null;
  /** The SQL command, if it is one: it names the span. */
  readonly command?: string;
  readonly params?: Schema;
  readonly query?: Schema;
  /** It takes `dry_run`. */
  readonly rehearses?: true;
  /** For the OpenAPI document alone. */
  readonly headers?: Schema;
  /** Where the token of the request is, if not only in the Authorization header. @throws EngineError unauthorized */
  readonly token?: (headers: IncomingHttpHeaders) => string;
  /** Its JSON may come as text/plain, which is what `fetch` calls a text. */
  readonly takesText?: true;
  readonly body?: Schema;
  /** The engine reads the body's bytes itself; the schema is for the OpenAPI document alone. */
  readonly rawBody?: true;
  /** A field of the body that is data, in which keys may repeat. */
  readonly dataField?: string;
  readonly success: {
    readonly status: number;
    readonly answer: Schema;
    readonly example: unknown;
  };
  readonly example?: unknown;
  /** Codes beyond those that every route can answer with. */
  readonly errors: readonly ErrorCode[];
  handle(call: Call): Promise<Answer>;
  /** A failure as its clients expect it, if they do not expect the body of all routes. */
  failure?(error: EngineError, body: ErrorBody): ErrorBody;
}

export interface Route extends Operation {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly url: string;
  readonly access: Access;
}

/** A route that speaks another protocol than the API's, and is not in its OpenAPI document. */
export interface UndocumentedRoute
  extends
    Pick<Route, 'method' | 'url' | 'access' | 'audit' | 'work' | 'body' | 'handle'>,
    Partial<Pick<Route, 'query' | 'rehearses' | 'headers' | 'rawBody' | 'token'>> {
  /** A header of the name Idempotency-Key says nothing to it. */
  readonly ignoresKey?: true;
  readonly success: Pick<Route['success'], 'status'>;
}

const DryRun = Type.Literal('true', {
  description: 'Run the request in a transaction that is rolled back, and report what it would do.',
});

/** The schema of a route's query. */
export function queryOf({ query, rehearses }: Pick<Operation, 'query' | 'rehearses'>): Schema | undefined {
  if (!rehearses) return query;
  const { properties = {}, ...others } = (query ?? Type.Object({})) as Schema & { properties?: object };
  return { ...others, properties: { ...properties, dry_run: DryRun } };
}

/** Whether a request may be sent again under its Idempotency-Key. */
export const takesKey = ({ headers }: Pick<UndocumentedRoute, 'headers'>): boolean =>
  headers === IdempotencyHeaders || headers === SqlHeaders;

/** The success of an operation. @param example what its answer holds besides `success` and `message` */
export const succeeds = (status: number, answer: Schema, message: string, example: object): Operation['success'] => ({
  status,
  answer,
  example: { success: true, message, ...example },
});

/** What all operations of administrators have in common: nothing happens in a project's database. */
export const ADMIN = { tag: 'admin', work: null } as const;
