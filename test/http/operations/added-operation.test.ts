/**
 * An operation is one declaration: of one that only this test adds, the service serves the route, checks the scope, honors
 * the dry run and the key, writes the audit log, and describes it in OpenAPI.
 */
import type { FastifyInstance } from 'fastify';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EngineError } from '../../../src/contract/errors.js';
import { STRICT, type Static, Type } from '../../../src/contract/schema.js';
import { success } from '../../../src/contract/wire/fields.js';
import type { Replayable } from '../../../src/db/idempotency.js';
import type { Project } from '../../../src/db/project.js';
import { planCommit } from '../../../src/db/transaction.js';
import { lockForChange } from '../../../src/engine/catalog/find-table.js';
import { type ChangeOptions, schemaChange } from '../../../src/engine/schema/schema-change.js';
import { changeOptions, projectOf, TableInPath, tableInPath } from '../../../src/http/api/call-inputs.js';
import { type Operation, SCHEMA_ERRORS, succeeds } from '../../../src/http/api/operation.js';
import { operationsWith } from '../../../src/http/api/operations.js';
import { httpServer } from '../../../src/http/http-server.js';
import { ident, sql } from '../../../src/pg/index.js';
import { entriesOf } from '../../support/audit.js';
import { takeUndeclared } from '../../support/declared-errors.js';
import { checkResponse } from '../../support/routes.js';
import {
  call as callRoute,
  type Call,
  expectFailure,
  startTestService,
  type TestProject,
  type TestResponse,
  type TestService,
} from '../../support/service.js';

const TruncateBody = Type.Object({ restart: Type.Optional(Type.Boolean()) }, STRICT);
type TruncateBody = Static<typeof TruncateBody>;

/** @throws EngineError table_not_found, table_busy */
function truncateTable(
  project: Project,
  name: string,
  { restart = false }: TruncateBody,
  options: ChangeOptions,
): Promise<Replayable<null>> {
  return schemaChange(project, options, Type.Null(), 'none', async (db) => {
    await lockForChange(db, project.schema, name);
    const table = ident(project.schema, name);
    return planCommit(null, [restart ? sql`TRUNCATE ${table} RESTART IDENTITY` : sql`TRUNCATE ${table}`]);
  });
}

const TRUNCATE_TABLE: Operation = {
  method: 'POST',
  url: '/api/cdp/schema/table/:table_name/truncate',
  access: ['schema:write'],
  operationId: 'truncateTable',
  summary: 'Delete all rows of a table',
  tag: 'schema',
  audit: { operation: 'truncate_table', isChange: true },
  slot: 'typed',
  command: 'TRUNCATE',
  hasDryRun: true,
  key: 'accepted',
  params: TableInPath,
  body: TruncateBody,
  example: { restart: true },
  success: succeeds(200, Type.Object({ ...success, table: Type.String() }), 'table truncated', { table: 'customers' }),
  errors: ['table_not_found', ...SCHEMA_ERRORS],
  async handle(call) {
    const table = tableInPath(call);
    const body = call.request.body as TruncateBody;
    const { replayed } = await truncateTable(projectOf(call), table, body, changeOptions(call));
    return { body: { success: true, message: 'table truncated', table }, replayed };
  },
};

/** One that reads, and whose errors are declared wrongly. */
const COUNT_TABLES: Operation = {
  method: 'GET',
  url: '/api/cdp/schema/count',
  access: ['schema:read'],
  operationId: 'countTables',
  summary: 'Count the tables',
  tag: 'schema',
  audit: { operation: 'count_tables', isChange: false },
  slot: 'typed',
  query: Type.Object({ fails: Type.Optional(Type.Literal('true')) }),
  success: succeeds(200, Type.Object({ ...success, count: Type.Integer() }), '1 table', { count: 1 }),
  errors: ['result_too_large'],
  handle({ request }) {
    const { fails } = request.query as { fails?: 'true' };
    if (fails !== undefined) throw new EngineError('unknown_type', 'Tables of this type cannot be counted');
    return Promise.resolve({ body: { success: true, message: '0 tables', count: 0 } });
  },
};

let service: TestService;
let project: TestProject;
let admin: string;
let app: FastifyInstance;
let url: string;

beforeAll(async () => {
  service = await startTestService({ audit: 'changes' });
  project = await service.project();
  admin = (await service.engine.tokens.create(null)).token;
  const settings = { ...service.config, separateMetrics: false, showsFirstToken: false };
  const operations = operationsWith(TRUNCATE_TABLE, COUNT_TABLES);
  ({ app } = await httpServer(service.engine, settings, pino({ level: 'silent' }), null, operations));
  url = await app.listen({ host: '127.0.0.1', port: 0 });
  await project.table('t', { a: 'TEXT' });
});
afterAll(async () => {
  await app.close();
  await service.close();
});

const send = async (given: Call = {}, table = 't', query = ''): Promise<TestResponse> => {
  const path = `/api/cdp/schema/table/${table}/truncate${query}`;
  const response = await callRoute(url, 'POST', path, { token: project.token, body: {}, ...given });
  checkResponse(response);
  return response;
};

const fill = () => project.rows(`INSERT INTO t (a) VALUES ('x'), ('y')`);

const rows = () => project.rows('SELECT a FROM t ORDER BY a');

const audited = async ({ headers }: TestResponse) =>
  (await entriesOf(service, headers.get('x-request-id') ?? '')).map(({ operation, object, outcome }) => [
    operation,
    object,
    outcome,
  ]);

describe('works:', () => {
  it('the route runs its function, with the status that is declared, and the audit log has its word', async () => {
    await fill();
    const response = await send();
    expect([response.status, response.body]).toEqual([200, { success: true, message: 'table truncated', table: 't' }]);
    expect(await rows()).toEqual([]);
    expect(await audited(response)).toEqual([['truncate_table', 't', 'ok']]);
    const read = await callRoute(url, 'GET', '/api/cdp/admin/audit?operation=truncate_table', { token: admin });
    expect(read.body.entries).toMatchObject([{ operation: 'truncate_table', object: 't' }]);
  });

  it('with audit at changes, one that is declared as no change is not recorded, unless it is refused', async () => {
    const answers = [
      await callRoute(url, 'GET', '/api/cdp/schema/count', { token: project.token }),
      await callRoute(url, 'GET', '/api/cdp/schema/count', { token: admin }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 403]);
    const refused = answers[1] as TestResponse;
    expect(await audited(refused)).toEqual([['count_tables', null, 'insufficient_scope']]);
    const read = await callRoute(url, 'GET', '/api/cdp/admin/audit?operation=count_tables', { token: admin });
    expect(read.body.entries).toHaveLength(1);
  });

  it('a dry run stores nothing and says what it would have done', async () => {
    await fill();
    const response = await send({}, 't', '?dry_run=true');
    expect(response.body).toMatchObject({ table: 't', dry_run: true, impact: expect.anything() as unknown });
    expect(await rows()).toHaveLength(2);
  });

  it('a key repeats the response and not the work', async () => {
    await fill();
    const headers = { 'idempotency-key': 'once' };
    const first = await send({ headers });
    await fill();
    const again = await send({ headers });
    expect([again.status, again.text]).toEqual([first.status, first.text]);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(await rows()).toHaveLength(2);
    expectFailure(await send({ headers, body: { restart: true } }), 422, 'idempotency_key_reused');
    expect(await rows()).toHaveLength(2);
  });

  it('the OpenAPI document describes it, with the errors that it declares and those of all', async () => {
    const { paths } = (await callRoute(url, 'GET', '/openapi.json')).body as {
      paths: Record<string, Record<string, { responses: Record<string, { content: object }> }>>;
    };
    const { responses, ...described } = paths['/api/cdp/schema/table/{table_name}/truncate']?.post ?? { responses: {} };
    expect(described).toMatchObject({
      operationId: 'truncateTable',
      description: 'Needs `schema:write`.',
      parameters: [{ name: 'table_name' }, { name: 'dry_run' }, { name: 'Idempotency-Key' }],
      requestBody: { content: { 'application/json': { example: { restart: true } } } },
    });
    expect(responses[200]?.content).toMatchObject({ 'application/json': { example: { table: 'customers' } } });
    const shown = JSON.stringify(responses);
    for (const code of ['table_not_found', 'table_busy', 'key_settled', 'invalid_json', 'unauthorized'])
      expect(shown).toContain(`\`${code}\``);
    expect(shown).not.toContain('`unknown_type`');
  });
});

describe('refuses:', () => {
  it('a request without a token, without the scope, in another method or shape', async () => {
    await fill();
    const before = await rows();
    expectFailure(await send({ token: null }), 401, 'unauthorized');
    const weak = await send({ token: await project.tokenWith('schema:read', 'data:write', 'sql:write') });
    expect(expectFailure(weak, 403, 'insufficient_scope').message).toBe('The token lacks the scope schema:write');
    expectFailure(await send({ token: admin }), 403, 'insufficient_scope');
    expectFailure(await send({ body: { no: 1 } }), 400, 'invalid_request');
    const other = await callRoute(url, 'GET', '/api/cdp/schema/table/t/truncate', { token: project.token });
    expectFailure(other, 405, 'method_not_allowed');
    expect(other.headers.get('allow')).toBe('POST');
    expectFailure(await send({}, 'none'), 404, 'table_not_found');
    expect(await rows()).toEqual(before);
  });

  it('and the tests notice an error that is not declared', async () => {
    const response = await callRoute(url, 'GET', '/api/cdp/schema/count?fails=true', { token: project.token });
    expectFailure(response, 400, 'unknown_type');
    // Its handler throws at once, instead of returning a promise.
    expect(service.engine.liveRequests.list()).toEqual([]);
    await expect.poll(() => takeUndeclared()).toEqual(['countTables: unknown_type']);
  });
});

describe('protects:', () => {
  it('the table of the same name in another project', async () => {
    const other = await service.project();
    await other.table('t', { a: 'TEXT' });
    await other.rows(`INSERT INTO t (a) VALUES ('kept')`);
    expect((await send()).status).toBe(200);
    expect(await other.rows('SELECT a FROM t')).toEqual([{ a: 'kept' }]);
  });
});

it('only the server that has the operation knows it', async () => {
  expectFailure(await project.call('GET', '/api/cdp/schema/count'), 404, 'not_found');
  const read = await service.call('GET', '/api/cdp/admin/audit?operation=truncate_table', { token: admin });
  expectFailure(read, 400, 'invalid_request');
});
