/** Helpers of handlers: they read a call's path, query and headers, and build answers. */
import type { FastifyRequest } from 'fastify';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { NAME_PATTERN, PROJECT_NAME_PATTERN } from '../../contract/names.js';
import { DOCUMENTED, Type } from '../../contract/schema.js';
import type { NowQuery } from '../../contract/wire/projects.js';
import { type IdempotencyKey, idempotencyKey } from '../../engine/write/idempotency.js';
import type { Project } from '../../engine/project.js';
import type { Rehearsal } from '../../engine/database/rehearsal.js';
import { checkTableInPath } from '../../engine/schema/definition.js';
import type { Answer, Call } from './route.js';

/** The project of the caller, on routes that need a scope, which no admin token has. */
export function projectOf({ request }: Call): Project {
  const { project: found } = request.context;
  if (found === null) throw new Error('The route needs a project and its access is admin');
  return found;
}

/**
 * The Idempotency-Key of a request with a JSON body, or without a body; null: no key.
 * @throws EngineError invalid_request
 */
export function keyInHeader(call: Call): IdempotencyKey | null {
  const { request } = call;
  const [path] = request.url.split('?');
  return keyOver(call, `${request.method} ${path}`, '', request.context.body);
}

/**
 * The same over a path, a query and a body that its fingerprint is made of.
 * @throws EngineError invalid_request
 */
export function keyOver(
  { request, settings }: Call,
  path: string,
  query: string,
  body: FastifyRequest['context']['body'],
): IdempotencyKey | null {
  const { 'idempotency-key': header } = request.headers;
  return header === undefined ? null : idempotencyKey(String(header), path, query, body, settings.receiptDays);
}

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

/** @param field of the request, for the message. @throws EngineError payload_too_large */
export function requireSqlSize(sql: string, field = '"sql"'): void {
  if (Buffer.byteLength(sql) <= LIMITS.sqlBytes) return;
  throw new EngineError('payload_too_large', `${field} is larger than ${LIMITS.sqlBytes} bytes`);
}

/** The project that an administrator names. */
export const projectInPath = ({ request }: Call): string => (request.params as { project: string }).project;

/** Whether to cancel running requests. */
export const endsNow = ({ query }: FastifyRequest): boolean => (query as NowQuery).now === 'true';

/**
 * Parses a time that a schema has validated as RFC 3339. That allows leap seconds, which JavaScript and Postgres do not
 * have.
 * @param field its name, for the message
 * @throws EngineError invalid_request
 */
export function timeOf(field: string, text: string): Date {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) throw new EngineError('invalid_request', `"${field}" is not a valid time`);
  return time;
}

/** @param replayed the answer is that of an earlier request with the same Idempotency-Key */
export const answered = (body: NonNullable<Answer['body']>, replayed: boolean): Answer =>
  replayed ? { body, headers: { 'idempotency-replayed': 'true' } } : { body };

/** The answer, with a report of what the request would have done. */
export function rehearsedAnswer(answer: Answer, { impact }: Rehearsal): Answer {
  const { body } = answer;
  const more = { dry_run: true, impact };
  if (body === null) throw new Error('A rehearsal cannot be streamed');
  if (typeof body === 'object' && !Array.isArray(body)) return { ...answer, body: { ...body, ...more } };
  // The answer of free SQL is one JSON object, as text or in pieces.
  const pieces = typeof body === 'string' ? [Buffer.from(body)] : (body as readonly Buffer[]);
  const last = pieces.at(-1)?.subarray(0, -1) ?? Buffer.alloc(0);
  return { ...answer, body: [...pieces.slice(0, -1), last, Buffer.from(`,${JSON.stringify(more).slice(1)}`)] };
}
