/**
 * The type of an operation: one value from which its route, its checks, its part of the OpenAPI document, its entry in the
 * audit log and the sweeps of the tests follow.
 */
import type { EngineError, ErrorCode } from '../../contract/errors.js';
import { type Schema, Type } from '../../contract/schema.js';
import type { ErrorBody } from '../../contract/wire/failure.js';
import type { Route } from '../route.js';

type Success = Route['success'] & { readonly response: Schema; readonly example: unknown };

/** A route with what the OpenAPI document says about it. */
export interface Operation extends Route {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly tag: 'schema' | 'data' | 'sql' | 'subjects' | 'token' | 'admin';
  readonly params?: Schema;
  readonly success: Success;
  /** Another success, which some callers get. */
  readonly otherSuccess?: Success;
  /** Example of a body. */
  readonly example?: unknown;
  /** What the document says of bodies of the types of streams. */
  readonly streamBodies?: Readonly<Record<string, { readonly schema: Schema; readonly example: string }>>;
  /** Codes in addition to the common ones, which `codesOf` adds. */
  readonly errors: readonly ErrorCode[];
}

/** Errors that every operation can return. */
const EVERYWHERE: readonly ErrorCode[] = [
  'invalid_request',
  'unauthorized',
  'token_expired',
  'insufficient_scope',
  'origin_not_allowed',
  'cdp_inactive',
  'request_timeout',
  'rate_limited',
  'overloaded',
  'database_unavailable',
  'disk_full',
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
