/** Saved queries: SQL of the project that its members, and tokens that may run nothing else, run by name (docs/queries.md). */
import type { JsonNode } from '../../codec/index.js';
import { counted } from '../../contract/message-text.js';
import * as wire from '../../contract/wire/queries.js';
import { SqlHeaders } from '../../contract/wire/replicas.js';
import { SavedNameInPath } from '../../contract/wire/schedules.js';
import { SqlResponse } from '../../contract/wire/sql.js';
import type { Project } from '../../db/project.js';
import { valuesOf } from '../../engine/queries/queries.js';
import { requireAnyScope } from '../admission.js';
import { auditOriginOf } from '../observability/audit-request.js';
import type { Call } from '../route.js';
import { exactValue, projectOf, projectOfOwner } from './call-inputs.js';
import { type Operation, SQL_ERRORS, succeeds } from './operation.js';
import { answerSql } from './sql.js';

const nameInPath = ({ request }: Call): string => (request.params as { name: string }).name;

/** @throws EngineError insufficient_scope */
const ownProject = (call: Call): Project => projectOfOwner(call, ', and what others run is no matter of roles');

const EXAMPLE: wire.Query = {
  name: 'orders-of-country',
  sql: 'SELECT day, total FROM daily_orders WHERE country = $1',
  parameters: [{ name: 'country', type: 'TEXT' }],
  chart: { kind: 'line' },
  description: 'For the weekly meeting',
  writes: false,
  created_at: '2026-01-30T09:30:00.000Z',
  created_by: 'token ada',
  updated_at: '2026-01-30T09:30:00.000Z',
  updated_by: 'token ada',
};

const SAVE_QUERY: Operation = {
  method: 'PUT',
  url: '/api/cdp/queries/:name',
  access: ['sql:read', 'sql:write'],
  operationId: 'saveQuery',
  summary: 'Save a query, or replace it',
  description: 'One that writes needs `sql:write`, also to be replaced.',
  tag: 'sql',
  audit: { operation: 'save_query', isChange: true },
  writesEntry: true,
  slot: null,
  params: SavedNameInPath,
  body: wire.QueryBody,
  example: { sql: EXAMPLE.sql, parameters: EXAMPLE.parameters },
  success: succeeds(200, wire.QueryResponse, 'query saved', { query: EXAMPLE }),
  errors: ['invalid_name', 'sql_error', 'statement_not_allowed', 'outcome_unknown'],
  async handle(call) {
    const { request, engine, caller, signal } = call;
    const project = ownProject(call);
    const mayWrite = caller.scopes.has('sql:write');
    const options = { by: auditOriginOf(request), mayWrite, signal };
    const query = await engine.queries.save(project, nameInPath(call), request.body as wire.QueryBody, options);
    return { body: { success: true, message: 'query saved', query } };
  },
};

const LIST_QUERIES: Operation = {
  method: 'GET',
  url: '/api/cdp/queries',
  access: ['sql:read', 'sql:write'],
  operationId: 'listQueries',
  summary: 'List the saved queries',
  tag: 'sql',
  audit: { operation: 'list_queries', isChange: false, isPolled: true },
  slot: null,
  success: succeeds(200, wire.QueriesResponse, '1 saved query', { queries: [EXAMPLE] }),
  errors: [],
  async handle(call) {
    const queries = await call.engine.queries.list(ownProject(call));
    return { body: { success: true, message: counted(queries.length, 'saved query', 'saved queries'), queries } };
  },
};

const READ_QUERY: Operation = {
  method: 'GET',
  url: '/api/cdp/queries/:name',
  access: ['sql:read', 'sql:write'],
  operationId: 'readQuery',
  summary: 'Show a saved query',
  tag: 'sql',
  audit: { operation: 'read_query', isChange: false, isPolled: true },
  slot: null,
  params: SavedNameInPath,
  success: succeeds(200, wire.QueryResponse, 'query found', { query: EXAMPLE }),
  errors: ['not_found'],
  async handle(call) {
    const query = await call.engine.queries.find(ownProject(call), nameInPath(call));
    return { body: { success: true, message: 'query found', query } };
  },
};

const DELETE_QUERY: Operation = {
  method: 'DELETE',
  url: '/api/cdp/queries/:name',
  access: ['sql:read', 'sql:write'],
  operationId: 'deleteQuery',
  summary: 'Delete a saved query',
  tag: 'sql',
  audit: { operation: 'delete_query', isChange: true },
  writesEntry: true,
  slot: null,
  params: SavedNameInPath,
  success: succeeds(200, wire.DeleteQueryResponse, 'query deleted', { query: EXAMPLE.name }),
  errors: ['not_found', 'outcome_unknown'],
  async handle(call) {
    const name = nameInPath(call);
    const mayWrite = call.caller.scopes.has('sql:write');
    await call.engine.queries.delete(ownProject(call), name, mayWrite, auditOriginOf(call.request));
    return { body: { success: true, message: 'query deleted', query: name } };
  },
};

const RUN_QUERY: Operation = {
  method: 'POST',
  url: '/api/cdp/queries/:name/run',
  access: ['queries:run', 'sql:read', 'sql:write'],
  operationId: 'runQuery',
  summary: 'Run a saved query',
  description:
    'Answers as `POST /api/cdp/sql` does, in the same formats and within the same limits. It runs as the reader, or if it was saved as one ' +
    'that writes, as the writer, which needs `queries:run` or `sql:write`. A token that acts as a role runs it as that role.',
  tag: 'sql',
  audit: { operation: 'run_query', isChange: true },
  hasDryRun: true,
  slot: 'sql',
  key: 'accepted',
  headers: SqlHeaders,
  params: SavedNameInPath,
  body: wire.RunQueryBody,
  example: { parameters: { country: 'DE' } },
  success: {
    status: 200,
    response: SqlResponse,
    example: {
      success: true,
      type: 'SELECT',
      rows: [{ day: '2026-01-30', total: 1204.5 }],
      row_count: 1,
      columns: [
        { name: 'day', type: 'DATE' },
        { name: 'total', type: 'FLOAT' },
      ],
      truncated: false,
    },
  },
  errors: ['not_found', ...SQL_ERRORS],
  async handle(call) {
    const { engine, caller } = call;
    const query = await engine.queries.find(projectOf(call), nameInPath(call));
    if (query.writes) requireAnyScope(caller, ['queries:run', 'sql:write']);
    const given = (call.request.body as wire.RunQueryBody).parameters;
    const values = given === undefined ? undefined : await exactValue(call, 'parameters');
    const params: readonly JsonNode[] = valuesOf(query, values);
    return answerSql(call, { text: query.sql, params, readOnly: !query.writes });
  },
};

export const QUERIES: readonly Operation[] = [SAVE_QUERY, LIST_QUERIES, READ_QUERY, RUN_QUERY, DELETE_QUERY];
