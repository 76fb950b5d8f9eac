/** What handlers read from a call: its project, key, path, query and times. */
import type { FastifyRequest } from 'fastify';
import { type JsonNode, memberOf, readDataBody } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { NAME_PATTERN, PROJECT_NAME_PATTERN } from '../../contract/names.js';
import { DOCUMENTED, Type } from '../../contract/schema.js';
import type { NowQuery } from '../../contract/wire/projects.js';
import { type IdempotencyKey, idempotencyKey } from '../../db/idempotency.js';
import type { Project } from '../../db/project.js';
import { checkTableInPath } from '../../engine/schema/definition.js';
import type { Call } from '../route.js';

/** The project of the caller, on routes that need a scope, which no admin token has. */
export function projectOf({ request }: Call): Project {
  const { project } = request.context;
  if (project === null) throw new Error('The route needs a project and its access is admin');
  return project;
}

/**
 * The project of a caller that acts as no role.
 * @param why roles may not do this, after "The token acts as the role "x""
 * @throws EngineError insufficient_scope
 */
export function projectOfOwner(call: Call, why: string): Project {
  const { role } = call.caller;
  if (role === null) return projectOf(call);
  throw new EngineError('insufficient_scope', `The token acts as the role "${role}"${why}`);
}

/**
 * A value in the JSON body with every digit of its numbers, read when it is the project's turn; undefined if there is none.
 * @param path the keys that lead to it
 */
export async function exactValue(call: Call, ...path: readonly string[]): Promise<JsonNode | undefined> {
  const bytes = call.request.context.body;
  // Down to the items of the value, so that nothing is read twice.
  const read = () => path.reduce<JsonNode | undefined>(memberOf, readDataBody(bytes, path.length + 1));
  return call.engine.services.throttle.run(projectOf(call).id, read);
}

/**
 * The Idempotency-Key of a request with a JSON body, or without a body; null: no key.
 * @throws EngineError invalid_request
 */
export function keyOfRequest(call: Call): IdempotencyKey | null {
  const { request } = call;
  const [path] = request.url.split('?');
  return keyFor(call, `${request.method} ${path}`, '', request.context.body);
}

/**
 * The same, in this namespace, with a fingerprint of this query and body.
 * @throws EngineError invalid_request
 */
export function keyFor(
  { request, settings }: Call,
  namespace: string,
  query: string,
  body: Buffer,
): IdempotencyKey | null {
  const { 'idempotency-key': header } = request.headers;
  return header === undefined ? null : idempotencyKey(String(header), namespace, query, body, settings.receiptDays);
}

export const schemaOptions = ({ settings, signal }: Call) => ({ holdMs: settings.schemaHoldMs, signal });

/** How every schema change is made. */
export const changeOptions = (call: Call) => ({ ...schemaOptions(call), key: keyOfRequest(call) });

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
