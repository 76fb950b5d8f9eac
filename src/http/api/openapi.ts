/**
 * Generates the OpenAPI 3.1 document from the operations and the schemas that validate their requests (contract C17.4).
 */
import { ERROR_CODES, type ErrorCode } from '../../contract/errors.js';
import { DOCUMENTED, OPTIONAL, type Schema } from '../../contract/schema.js';
import * as audit from '../../contract/wire/audit.js';
import * as batch from '../../contract/wire/batch.js';
import * as changes from '../../contract/wire/changes.js';
import * as events from '../../contract/wire/events.js';
import * as failure from '../../contract/wire/failure.js';
import * as distribution from '../../contract/wire/distribution.js';
import { IdempotencyHeaders } from '../../contract/wire/fields.js';
import * as indexes from '../../contract/wire/indexes.js';
import * as neon from '../../contract/wire/neon.js';
import { Finding } from '../../contract/wire/findings.js';
import * as projects from '../../contract/wire/projects.js';
import * as quarantine from '../../contract/wire/quarantine.js';
import * as receipts from '../../contract/wire/receipts.js';
import * as dryRun from '../../contract/wire/dry-run.js';
import * as roles from '../../contract/wire/roles.js';
import * as segments from '../../contract/wire/segments.js';
import * as queries from '../../contract/wire/queries.js';
import * as schedules from '../../contract/wire/schedules.js';
import * as requests from '../../contract/wire/requests.js';
import * as moves from '../../contract/wire/moves.js';
import * as servers from '../../contract/wire/servers.js';
import * as sql from '../../contract/wire/sql.js';
import * as subjects from '../../contract/wire/subjects.js';
import * as tables from '../../contract/wire/tables.js';
import * as tokens from '../../contract/wire/tokens.js';
import * as usage from '../../contract/wire/usage.js';
import * as webhooks from '../../contract/wire/webhooks.js';
import { codesOf, type Operation, queryOf } from './operation.js';
import type { Access } from '../route.js';

/** The version of the interface, independent of the program's own (contract C17.4). */
const INTERFACE_VERSION = '1.0.0';

type Json = Record<string, unknown>;

export function openApiDocument(operations: readonly Operation[]): Json {
  const paths: Record<string, Json> = {};
  for (const operation of operations) {
    const path = operation.url.replace(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [operation.method.toLowerCase()]: operationObject(operation) };
  }
  const components = new Components();
  return {
    openapi: '3.1.0',
    info: {
      title: 'CDP Data Engine',
      version: INTERFACE_VERSION,
      description:
        "Tables, columns, records and SQL over JSON/HTTP, in each project's own Postgres.\n\n" +
        `${INTERFACE_VERSION} is the version of this API. The program that serves it has its own, which \`cdp --version\` prints.`,
      contact: { name: 'cdp-data-engine', url: 'https://www.npmjs.com/package/cdp-data-engine' },
      license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }],
    tags: [
      { name: 'schema', description: 'Tables, columns, indexes and roles' },
      { name: 'data', description: 'Records' },
      { name: 'sql', description: 'Free SQL' },
      { name: 'subjects', description: 'Finding, handing over and erasing people' },
      { name: 'token', description: 'The token of a request' },
      { name: 'admin', description: 'Projects, tokens, Postgres servers and moves between them, with an admin token' },
    ],
    paths: components.take(paths),
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: components.schemas,
    },
  };
}

/**
 * The schemas of `contract/wire/` that are named in the document. Responses are called results, since generators use
 * "response".
 */
const NAMES: ReadonlyMap<unknown, string> = new Map(
  [
    tables,
    distribution,
    indexes,
    roles,
    schedules,
    segments,
    queries,
    batch,
    quarantine,
    receipts,
    changes,
    events,
    subjects,
    webhooks,
    dryRun,
    sql,
    neon,
    projects,
    tokens,
    servers,
    moves,
    { Finding },
    requests,
    audit,
    usage,
    failure,
  ]
    .flatMap((words) => Object.entries<unknown>(words))
    // Schemas; others are fields that several share.
    .filter(([name]) => /^[A-Z]/.test(name))
    .map(([name, schema]) => [schema, name.replace(/Response$/, 'Result')]),
);

/** Replaces the named schemas of a document by references, and collects them. */
class Components {
  readonly schemas: Json = {};

  take<T>(value: T): T;
  take(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((item: unknown) => this.take(item));
    const schema = (value as { [OPTIONAL]?: object })[OPTIONAL] ?? value;
    const name = NAMES.get(schema);
    if (name === undefined) return this.#members(schema);
    this.schemas[name] ??= this.#members(schema);
    return { $ref: `#/components/schemas/${name}` };
  }

  #members(schema: object): Json {
    const { [DOCUMENTED]: documented } = schema as Schema;
    return Object.fromEntries(
      Object.entries({ ...schema, ...documented }).map(([key, item]) => [key, this.take(item)]),
    );
  }
}

function needed(access: Access): string {
  if (access === 'admin') return 'an admin token';
  if (access === 'any') return 'any token, no scope is needed';
  return access.map((scope) => `\`${scope}\``).join(' or ');
}

function operationObject(operation: Operation): Json {
  const { success, otherSuccess, params, headers, body } = operation;
  const scopes = needed(operation.access);
  const parameters = [
    ...parametersIn('path', params),
    ...parametersIn('query', queryOf(operation)),
    ...parametersIn('header', operation.key === 'accepted' ? IdempotencyHeaders : undefined),
    ...parametersIn('header', headers),
  ];
  return {
    operationId: operation.operationId,
    tags: [operation.tag],
    summary: operation.summary,
    description: [operation.description, `Needs ${scopes}.`].filter(Boolean).join('\n\n'),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: { 'application/json': { schema: body, example: operation.example }, ...operation.streamBodies },
          },
        }),
    responses: {
      ...successObject(success),
      ...(otherSuccess === undefined ? {} : successObject(otherSuccess)),
      ...errorResponses(operation),
    },
  };
}

const successObject = ({ status, response, example }: Operation['success']): Json => ({
  [status]: {
    description: 'Success',
    headers: { 'X-Request-Id': { schema: { type: 'string' } }, 'Server-Timing': { schema: { type: 'string' } } },
    content: { 'application/json': { schema: response, example } },
  },
});

function parametersIn(place: 'path' | 'query' | 'header', schema: Schema | undefined): Json[] {
  const { properties = {}, required = [] } = (schema ?? {}) as { properties?: Json; required?: string[] };
  return Object.entries(properties).map(([name, property]) => ({
    in: place,
    name,
    required: place === 'path' || required.includes(name),
    schema: property,
  }));
}

/** One response per status, with the meaning of each of its codes and an example. */
function errorResponses(operation: Operation): Json {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of codesOf(operation)) {
    const { status } = ERROR_CODES[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const responses = [...byStatus].map(([status, list]) => [
    status,
    {
      description: list.map((code) => `\`${code}\`: ${ERROR_CODES[code].meaning}`).join('\n\n'),
      content: {
        'application/json': {
          schema: failure.ErrorBody,
          examples: Object.fromEntries(list.map((code) => [code, { value: errorExample(code) }])),
        },
      },
    },
  ]);
  return Object.fromEntries(responses) as Json;
}

const errorExample = (code: ErrorCode) => ({
  success: false,
  error: code,
  message: ERROR_CODES[code].meaning,
  status: ERROR_CODES[code].status,
  request_id: '0b0f8a9c-7d0e-4a5f-9d6e-2f6f0c1c2d3e',
});
