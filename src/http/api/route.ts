/** What a row of the route tables says. The tables are the API: validation, OpenAPI and dispatch read them. */
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AuditOperation } from '../../contract/audit.js';
import { EngineError, type ErrorCode } from '../../contract/errors.js';
import { NAME_PATTERN, PROJECT_NAME_PATTERN, type Scope } from '../../contract/names.js';
import { DOCUMENTED, type Schema, Type } from '../../contract/schema.js';
import { IdempotencyHeaders } from '../../contract/wire/idempotency.js';
import { SqlHeaders } from '../../contract/wire/replicas.js';
import type { NowQuery } from '../../contract/wire/projects.js';
import type { ErrorBody } from '../../contract/wire/failure.js';
import { type IdempotencyKey, idempotencyKey } from '../../engine/write/idempotency.js';
import type { WorkKind } from '../../engine/limits/slots.js';
import type { Engine } from '../../engine/engine.js';
import type { Project } from '../../engine/project.js';
import type { Rehearsal } from '../../engine/write/rehearsal.js';
import { checkTableInPath } from '../../engine/schema/definition.js';
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

/**
 * Begins a rehearsal if the request asks for one.
 * @throws EngineError invalid_request with an Idempotency-Key: the key could not be kept
 */
export function rehearsalOf({ request }: Call, { rehearses }: Pick<Operation, 'rehearses'>): Rehearsal | null {
  const { dry_run: isRehearsal } = request.query as { dry_run?: string };
  const { project: found } = request.context;
  if (!rehearses || isRehearsal === undefined || found === null) return null;
  if (request.headers['idempotency-key'] === undefined) return found.rehearse();
  throw new EngineError('invalid_request', '`dry_run` cannot be combined with an Idempotency-Key', {
    hint: 'Send the request without the key.',
  });
}

/** What was answered, with what the request would have done. */
export function rehearsedAnswer(answer: Answer, { impact }: Rehearsal): Answer {
  const { body } = answer;
  const more = { dry_run: true, impact };
  if (body === null) throw new Error('A rehearsal cannot be streamed');
  if (typeof body === 'object' && !Array.isArray(body)) return { ...answer, body: { ...body, ...more } };
  // Of free SQL: one JSON object as text or in pieces.
  const pieces = typeof body === 'string' ? [Buffer.from(body)] : (body as readonly Buffer[]);
  const last = pieces.at(-1)?.subarray(0, -1) ?? Buffer.alloc(0);
  return { ...answer, body: [...pieces.slice(0, -1), last, Buffer.from(`,${JSON.stringify(more).slice(1)}`)] };
}

/** The project of the caller; its route asks for a scope, which no admin token has. */
export function projectOf({ request }: Call): Project {
  const { project: found } = request.context;
  if (found === null) throw new Error('The route needs a project and its access is admin');
  return found;
}

/**
 * The Idempotency-Key of a request whose body is JSON, or that has none; null: it has no key.
 * @throws EngineError invalid_request
 */
export function keyInHeader({ request, settings }: Call): IdempotencyKey | null {
  const { 'idempotency-key': header } = request.headers;
  if (header === undefined) return null;
  const [path] = request.url.split('?');
  return idempotencyKey(String(header), `${request.method} ${path}`, '', request.context.body, settings.receiptDays);
}

/** Whether a request may be sent again under its Idempotency-Key. */
export const takesKey = ({ headers }: Pick<UndocumentedRoute, 'headers'>): boolean =>
  headers === IdempotencyHeaders || headers === SqlHeaders;

/**
 * A change that would be done again under the same key must not look as if it was done once. A read may be repeated anyway.
 * @throws EngineError invalid_request
 */
export function refuseUnusedKey({ headers }: FastifyRequest, route: UndocumentedRoute): void {
  if (headers['idempotency-key'] === undefined || takesKey(route)) return;
  if (route.method === 'GET' || route.ignoresKey) return;
  throw new EngineError('invalid_request', 'This request does not support an Idempotency-Key', {
    hint: 'Send it without the key. Inserts, deletes of records, schema changes and POST /api/cdp/sql support one.',
  });
}

/** @param replayed it is the answer of an earlier request with the same Idempotency-Key */
export const answered = (body: NonNullable<Answer['body']>, replayed: boolean): Answer =>
  replayed ? { body, headers: { 'idempotency-replayed': 'true' } } : { body };

const NameInPath = Type.String({ [DOCUMENTED]: { pattern: NAME_PATTERN } });
export const TableInPath = Type.Object({ table_name: NameInPath });
export const ColumnInPath = Type.Object({ table_name: NameInPath, column_name: NameInPath });
export const IndexInPath = Type.Object({ table_name: NameInPath, index_name: NameInPath });

/** @throws EngineError table_not_found if no table can have the name */
export function tableInPath({ request }: Call): string {
  const { table_name: name } = request.params as { table_name: string };
  checkTableInPath(name);
  return name;
}

export const columnInPath = ({ request }: Call): string => (request.params as { column_name: string }).column_name;

export const indexInPath = ({ request }: Call): string => (request.params as { index_name: string }).index_name;

export const ProjectInPath = Type.Object({
  project: Type.String({ [DOCUMENTED]: { pattern: PROJECT_NAME_PATTERN } }),
});

/** The project that an administrator names. */
export const projectInPath = ({ request }: Call): string => (request.params as { project: string }).project;

/** Whether requests that are still running are to end. */
export const endsNow = ({ query }: FastifyRequest): boolean => (query as NowQuery).now === 'true';

/** The success of an operation. @param example what its answer holds besides `success` and `message` */
export const succeeds = (status: number, answer: Schema, message: string, example: object): Operation['success'] => ({
  status,
  answer,
  example: { success: true, message, ...example },
});

/** What all operations of administrators have in common: nothing happens in a project's database. */
export const ADMIN = { tag: 'admin', work: null } as const;

/**
 * A text that a schema has found to be RFC 3339, which allows leap seconds: JavaScript and Postgres do not have them.
 * @param field its name, for the message
 * @throws EngineError invalid_request
 */
export function timeOf(field: string, text: string): Date {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) throw new EngineError('invalid_request', `"${field}" is not a valid time`);
  return time;
}
