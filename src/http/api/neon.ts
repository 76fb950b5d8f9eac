/** Free SQL for the driver `@neondatabase/serverless` (docs/decisions/0040-neon.md). */
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { type JsonNode, readDataBody } from '../../codec/index.js';
import { EngineError, ERROR_CODES, type ErrorCode } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import type { ErrorBody } from '../../contract/wire/failure.js';
import * as wire from '../../contract/wire/neon.js';
import { type Caller, usersOf } from '../../engine/access/tokens.js';
import { sqlstateOf } from '../../engine/sessions/session-error.js';
import { MODIFYING } from '../../engine/parser/keywords.js';
import { type Query, type QueryResult, runQueries, saidByPostgres } from '../../engine/sql/run-queries.js';
import { bearerToken, requireScope, runsAsReader } from '../admission.js';
import { decodeBody } from '../body.js';
import { HttpError } from '../response/error-exit.js';
import { joinedParts, type Part, withoutFirstComma } from '../response/sql-response.js';
import { projectOf } from './call-inputs.js';
import { type Operation, SQL_ERRORS } from './operation.js';

export const RUN_QUERIES: Operation = {
  method: 'POST',
  url: '/sql',
  access: ['sql:read', 'sql:write'],
  operationId: 'runQueries',
  summary: "Run SQL for Neon's driver",
  description:
    'For `@neondatabase/serverless` and the libraries on top of it. One request is one transaction: a query, or ' +
    'a batch with `queries`. An error of Postgres is a 400 whose `code` is the SQLSTATE, in addition to the other ' +
    'fields of Postgres (`detail`, `position`, `constraint` and so on).',
  tag: 'sql',
  audit: { operation: 'sql', isChange: true },
  slot: 'sql',
  headers: wire.NeonHeaders,
  token: neonToken,
  body: wire.NeonBody,
  rawBody: 'json-or-text',
  example: { query: 'SELECT email FROM customers WHERE age > $1', params: [30] },
  success: {
    status: 200,
    response: wire.NeonResponse,
    example: {
      command: 'SELECT',
      rowCount: 1,
      fields: [
        {
          name: 'email',
          dataTypeID: 25,
          tableID: 16_459,
          columnID: 2,
          dataTypeSize: -1,
          dataTypeModifier: -1,
          format: 'text',
        },
      ],
      rowAsArray: false,
      rows: [{ email: 'ada@example.com' }],
    },
  },
  errors: SQL_ERRORS,
  async handle(call) {
    const { caller, request, signal } = call;
    const { context, headers } = request;
    const readOnly = runsAsNeonReader(caller, headers);
    const bytes = await decodeBody(request);
    const project = projectOf(call);
    const { queries, isBatch } = await call.engine.services.throttle.run(project.id, () => readNeonBody(bytes));
    context.sql = { text: queries.map(({ text }) => text).join(';\n'), readOnly };
    const asksForModes = isBatch || Object.keys(headers).some((name) => name.startsWith('neon-batch-'));
    const asArrays = booleanHeader(headers, 'Neon-Array-Mode') ?? false;
    const results = await runQueries(call.engine.services, project, {
      queries,
      readOnly,
      rowMode: asArrays ? 'array' : 'object',
      asText: booleanHeader(headers, 'Neon-Raw-Text-Output') ?? false,
      // The driver cannot ask for a time limit, but it can disconnect.
      timeoutMs: LIMITS.timeoutMsMax,
      signal,
      ...(asksForModes ? { transactionModes: modesOf(headers, readOnly) } : {}),
    });
    for (const { rows } of results) context.freeWhenSent(rows);
    const rows = results.reduce((sum, { rowCount }) => sum + (rowCount ?? 0), 0);
    const sumOf = (counts: (one: QueryResult) => boolean) =>
      results.reduce((sum, one) => sum + (counts(one) ? (one.rowCount ?? 0) : 0), 0);
    const moved = { in: sumOf(({ type }) => MODIFYING.has(type)), out: sumOf(({ fields }) => fields.length > 0) };
    return { body: neonResponse(results, isBatch, asArrays), rows, moved };
  },
  failure: neonFailure,
};

// The header Neon-Connection-String: the caller's token, the project and the user.

const FORM = 'postgresql://writer:<token>@<host>/<project>';

/** Decoded; '' for a missing part. */
interface ConnectionString {
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

/** undefined: the text is not a connection string. */
function readConnectionString(text: string): ConnectionString | undefined {
  try {
    const { protocol, username, password, pathname } = new URL(text);
    if (!/^postgres(?:ql)?:$/.test(protocol)) return undefined;
    const [user = '', secret = '', database = ''] = [username, password, pathname.slice(1)].map(decodeURIComponent);
    return { user, password: secret, database };
  } catch {
    return undefined;
  }
}

const headerOf = ({ 'neon-connection-string': header }: IncomingHttpHeaders): string | undefined =>
  header === undefined ? undefined : String(header);

/**
 * The token in the Authorization header (the driver's `authToken`), otherwise the password. @throws EngineError
 * unauthorized
 */
function neonToken({ headers }: FastifyRequest): string {
  if (headers.authorization !== undefined) return bearerToken(headers);
  const { password = '' } = readConnectionString(headerOf(headers) ?? '') ?? {};
  if (password === '') {
    throw new HttpError('unauthorized', `The connection string must be ${FORM}`, {
      'www-authenticate': 'Bearer realm="cdp"',
    });
  }
  // The same syntax applies as in the other header.
  return bearerToken({ authorization: `Bearer ${password}` });
}

/**
 * Whether the request runs as the reader: as the user says, or if there is none, as for free SQL.
 * @throws EngineError invalid_request for an unknown user or another project; insufficient_scope
 */
function runsAsNeonReader(caller: Caller, headers: IncomingHttpHeaders): boolean {
  const header = headerOf(headers);
  const connection = header === undefined ? { user: '', database: '' } : readConnectionString(header);
  if (connection === undefined) throw wrong(`The connection string must be ${FORM}`);
  const { user, database } = connection;
  const project = caller.project?.name ?? '';
  if (database !== '' && database !== project) {
    throw wrong(`The token is not for the database ${quoted(database)}, but for ${quoted(project)}`);
  }
  if (user !== '' && !usersOf(caller).includes(user)) {
    const users = caller.role === null ? '"writer", or "reader" for READ ONLY transactions' : quoted(caller.role);
    throw wrong(`There is no user ${quoted(user)}: use ${users}`);
  }
  const isReader = runsAsReader(caller, user === '' || user === caller.role ? undefined : user === 'reader');
  requireScope(caller, isReader ? 'sql:read' : 'sql:write');
  return isReader;
}

/** The driver shows the message of a 400, but no hint. */
const wrong = (message: string) => new EngineError('invalid_request', message);

// The body of a request of Neon's driver: one query, or a batch of them.

interface NeonBody {
  readonly queries: readonly Query[];
  readonly isBatch: boolean;
}

/** @throws EngineError invalid_json, invalid_request */
function readNeonBody(bytes: Uint8Array): NeonBody {
  const body = readDataBody(bytes);
  const { queries } = membersOf(body, 'body', ['query', 'params', 'queries']);
  if (queries === undefined) return { queries: [readQuery(body, 'body')], isBatch: false };
  membersOf(body, 'body', ['queries']);
  if (queries.kind !== 'array') throw wrong('body.queries must be an array');
  const { length } = queries.items;
  if (length > LIMITS.queriesPerBatch) {
    throw wrong(`body.queries has ${length} items; a batch has at most ${LIMITS.queriesPerBatch}`);
  }
  const read = queries.items.map((item, i) => {
    const place = `body.queries.${i}`;
    // Parsed again by itself, so that its parameters may be nested as deeply as in a request of one query.
    return readQuery(item.kind === 'object' ? readDataBody(Buffer.from(item.text)) : item, place);
  });
  return { queries: read, isBatch: true };
}

function readQuery(node: JsonNode, place: string): Query {
  const { query, params } = membersOf(node, place, ['query', 'params']);
  if (query?.kind !== 'string') throw wrong(`${place}.query must be a string`);
  if (params !== undefined && params.kind !== 'array') throw wrong(`${place}.params must be an array`);
  return { text: query.value, field: `${place}.query`, params: params?.items ?? [] };
}

/** @throws EngineError invalid_request for anything but an object whose keys are all in the list */
function membersOf(node: JsonNode, place: string, keys: readonly string[]): Partial<Record<string, JsonNode>> {
  if (node.kind !== 'object') throw wrong(`${place} must be an object`);
  const unknown = node.members.find(([key]) => !keys.includes(key));
  if (unknown?.[0] === 'sql') throw wrong(`${place}.sql is ${place}.query here; ${FREE_SQL} takes the field sql`);
  if (unknown !== undefined) throw wrong(`${place} has an unknown field ${quoted(unknown[0])}`);
  return Object.fromEntries(node.members);
}

const FREE_SQL = 'POST /api/cdp/sql';

// The options in the headers of Neon's driver.

/** The driver's names, and Postgres's. */
const ISOLATION_LEVELS: ReadonlyMap<string, string> = new Map([
  ['ReadUncommitted', 'READ UNCOMMITTED'],
  ['ReadCommitted', 'READ COMMITTED'],
  ['RepeatableRead', 'REPEATABLE READ'],
  ['Serializable', 'SERIALIZABLE'],
]);

/** `true` or `false`; undefined: not given. @throws EngineError invalid_request */
function booleanHeader(headers: IncomingHttpHeaders, name: string): boolean | undefined {
  const value = headers[name.toLowerCase()];
  if (value === undefined || value === 'true' || value === 'false') return value && value === 'true';
  throw new EngineError('invalid_request', `The header ${name} must be true or false`);
}

/**
 * The modes of the transaction, as BEGIN takes them (Postgres manual, BEGIN).
 * @param isReader READ ONLY, regardless of the headers
 * @throws EngineError invalid_request
 */
function modesOf(headers: IncomingHttpHeaders, isReader: boolean): string[] {
  const level = headers['neon-batch-isolation-level'];
  const isolation = level === undefined ? undefined : ISOLATION_LEVELS.get(String(level));
  if (level !== undefined && isolation === undefined) {
    const levels = [...ISOLATION_LEVELS.keys()].join(', ');
    throw new EngineError(
      'invalid_request',
      `The header Neon-Batch-Isolation-Level must be one of ${levels}, not ${quoted(String(level))}`,
    );
  }
  const readOnly = booleanHeader(headers, 'Neon-Batch-Read-Only') === true || isReader;
  return [
    ...(isolation === undefined ? [] : [`ISOLATION LEVEL ${isolation}`]),
    ...(readOnly ? ['READ ONLY'] : []),
    ...(booleanHeader(headers, 'Neon-Batch-Deferrable') ? ['DEFERRABLE'] : []),
  ];
}

// Responses for Neon's driver: results with fields as in node-postgres, and errors with the fields of Postgres.

/** @param isBatch an array `results`; otherwise the result of the only query */
function neonResponse(
  results: readonly QueryResult[],
  isBatch: boolean,
  rowAsArray: boolean,
): string | readonly Buffer[] {
  const all = results.map((result) => partsOf(result, rowAsArray));
  if (!isBatch) return joinedParts(all.flat());
  return joinedParts(['{"results":[', ...all.flatMap((parts, i) => (i === 0 ? parts : [',', ...parts])), ']}']);
}

function partsOf({ type, rowCount, fields, rows }: QueryResult, rowAsArray: boolean): Part[] {
  const fieldList = fields.map(({ name, tableOid, columnNumber, typeOid, typeSize, typeModifier }) => ({
    name,
    dataTypeID: typeOid,
    tableID: tableOid,
    columnID: columnNumber,
    dataTypeSize: typeSize,
    dataTypeModifier: typeModifier,
    format: 'text',
  }));
  // As in node-postgres: only the first word of CREATE TABLE.
  const command = type.split(' ', 1)[0];
  const head = JSON.stringify({ command, rowCount, fields: fieldList, rowAsArray });
  return [`${head.slice(0, -1)},"rows":[`, ...withoutFirstComma(rows), ']}'];
}

/** Errors that do not concern the statement: they keep their status, and the driver shows their text. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  'data_corrupted',
  'database_unavailable',
  'disk_full',
  'internal',
  'outcome_unknown',
  'overloaded',
  'quota_exceeded',
]);

/**
 * An error of Postgres about a statement is a 400 with its own fields (Postgres manual, Error and Notice Message
 * Fields) in addition to those of every failure, but without its place in Postgres's sources (contract C2.6). Other
 * errors get the SQLSTATE that Postgres would use.
 */
function neonFailure(error: EngineError, body: ErrorBody): ErrorBody {
  const { code, postgres } = error;
  const cause = saidByPostgres(error);
  if (REFUSALS.has(code) || cause === null || postgres === undefined) {
    // The time may run out before Postgres reports it.
    const { status } = code === 'query_timeout' ? ERROR_CODES.sql_error : body;
    return { ...body, status, ...{ severity: 'ERROR', code: sqlstateOf(code) } };
  }
  const { detail, internalPosition, internalQuery, where, schema, table, column, dataType, constraint } = cause.fields;
  // The position in the query that was sent.
  const { position } = postgres;
  return {
    ...body,
    status: ERROR_CODES.sql_error.status,
    severity: cause.severity,
    code: postgres.sqlstate,
    detail,
    position: position === undefined ? undefined : String(position),
    internalPosition: internalPosition === undefined ? undefined : String(internalPosition),
    internalQuery,
    where,
    schema,
    table,
    column,
    dataType,
    constraint,
  } as ErrorBody;
}
