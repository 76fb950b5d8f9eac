/** The OpenAPI document (contract C17.4): valid, complete and true: its examples run, and it lists every error. */
import Schema from 'typebox/schema';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { COLUMN_TYPES } from '../../../src/contract/column-types.js';
import { ERROR_CODES, type ErrorCode } from '../../../src/contract/errors.js';
import { LIMITS } from '../../../src/contract/limits.js';
import { NAME_PATTERN, SCOPES } from '../../../src/contract/names.js';
import type { Operation } from '../../../src/http/api/operation.js';
import { OPERATIONS } from '../../../src/http/api/operations.js';
import { STREAM_TYPES } from '../../../src/http/body.js';
import { pathOf, titled } from '../../support/routes.js';
import {
  type Call,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

type Json = Record<string, unknown>;

interface Media {
  schema: Json;
  example?: unknown;
  examples?: Record<string, { value: unknown }>;
}

interface DescribedOperation {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  parameters?: { in: string; name: string; required: boolean; schema: Json }[];
  requestBody?: { required: boolean; content: Record<string, Media> };
  responses: Record<string, { description: string; headers?: Json; content: Record<string, Media> }>;
}

interface OpenApi {
  openapi: string;
  info: { title: string; version: string; description: string; license: Json };
  tags: { name: string }[];
  security: Json[];
  paths: Record<string, Record<string, DescribedOperation>>;
  components: { securitySchemes: Record<string, Json>; schemas: Record<string, Json> };
}

let service: TestService;
let project: TestProject;
let admin: string;
let document: OpenApi;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  admin = (await service.engine.tokens.create(null)).token;
  document = (await service.call('GET', '/openapi.json')).body as unknown as OpenApi;
});
afterAll(() => service.close());

const operationOf = ({ url, method }: Operation): DescribedOperation => {
  const operation = document.paths[url.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()];
  if (operation === undefined) throw new Error(`${method} ${url} is not in the document`);
  return operation;
};

/** Throws unless the value is as the schema of the document says. Its references lead into the components. */
function fits(schema: Json, value: unknown): void {
  const [right, errors] = Schema.Compile({ ...schema, components: document.components }).Errors(value);
  if (!right) throw new Error(`${JSON.stringify(value)?.slice(0, 500)}: ${JSON.stringify(errors)}`);
}

const codesOf = (operation: DescribedOperation): string[] =>
  Object.values(operation.responses).flatMap(({ content }) => Object.keys(content['application/json']?.examples ?? {}));

/** Every object in a value, for rules that hold anywhere in the document. */
function* objectsIn(value: unknown): Generator<Json> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield value as Json;
  for (const child of Object.values(value)) yield* objectsIn(child);
}

describe('the document', () => {
  it('is OpenAPI 3.1 with a title, a version and a bearer scheme that applies everywhere', () => {
    expect(document.openapi).toMatch(/^3\.1\.\d+$/);
    expect(document.info.title).toBeTruthy();
    expect(document.info.version).toBe('1.0.0');
    expect(document.info.description).toContain('cdp --version');
    const [[name] = []] = document.security.map((requirement) => Object.keys(requirement));
    expect(document.components.securitySchemes[name ?? '']).toMatchObject({ type: 'http', scheme: 'bearer' });
  });

  it('has exactly the routes of the route tables', () => {
    const listed = Object.entries(document.paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(listed.sort()).toEqual(OPERATIONS.map((r) => `${r.method} ${r.url.replace(/:(\w+)/g, '{$1}')}`).sort());
  });

  it('has the paths and methods of the five basic operations', () => {
    for (const [method, path] of [
      ['post', '/api/cdp/schema/table'],
      ['post', '/api/cdp/schema/table/{table_name}/column'],
      ['put', '/api/cdp/schema/table/{table_name}/column/{column_name}'],
      ['post', '/api/cdp/data/{table_name}'],
      ['post', '/api/cdp/sql'],
    ] as const) {
      expect(document.paths[path]).toHaveProperty(method);
    }
  });

  it('says success and a message, except for free SQL and receipts', () => {
    // Neon's driver and SDKs of events read bodies of their own, and a snapshot is lines.
    const own = [
      'runSql',
      'runQuery',
      'readMembers',
      'readReceipt',
      'readReceipts',
      'runQueries',
      'track',
      'readSdkSettings',
      'readSnapshot',
      'exportSubject',
    ];
    for (const route of OPERATIONS) {
      const content = operationOf(route).responses[route.success.status]?.content['application/json'];
      const example = { ...(content?.example as object) };
      const $ref = String(content?.schema?.$ref).split('/').at(-1) ?? '';
      const schema = document.components.schemas[$ref] as { required?: string[] } | undefined;
      const message = own.includes(route.operationId) ? [] : ['message'];
      expect({ $ref, says: Object.keys(example).filter((key) => key === 'message') }).toEqual({ $ref, says: message });
      if (message.length > 0) expect(schema?.required).toEqual(expect.arrayContaining(['success', 'message']));
    }
  });

  it('succeeds with 201 if it creates something, with 202 if it takes longer, and otherwise with 200', () => {
    const others = OPERATIONS.filter(({ success }) => success.status !== 200);
    expect(Object.fromEntries(others.map(({ operationId, success }) => [operationId, success.status]))).toEqual({
      createTable: 201,
      addColumn: 201,
      createIndex: 201,
      createRole: 201,
      insertRecords: 201,
      createWebhook: 201,
      createProject: 201,
      createToken: 201,
      addServer: 201,
      moveProject: 202,
      cancelMove: 202,
    });
  });

  it('names every operation uniquely', () => {
    const ids = OPERATIONS.map((route) => operationOf(route).operationId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^[a-z][A-Za-z]+$/);
  });

  it('contains nothing unknown to OpenAPI 3.1, and no broken reference', () => {
    for (const object of objectsIn(document)) {
      expect(Object.keys(object).filter((key) => key.startsWith('~') || key === 'nullable')).toEqual([]);
      const { $ref } = object;
      if (typeof $ref === 'string') expect(document.components.schemas).toHaveProperty($ref.split('/').at(-1) ?? '');
    }
  });

  it('has shapes, types, scopes and codes as named components, each of which is used', () => {
    const { schemas } = document.components;
    expect(schemas.ColumnType?.enum).toEqual(COLUMN_TYPES);
    expect(schemas.Scope?.enum).toEqual(SCOPES);
    expect(schemas.ErrorCode?.enum).toEqual(Object.keys(ERROR_CODES));
    for (const route of OPERATIONS) {
      const { requestBody, responses } = operationOf(route);
      for (const { content } of [...(requestBody === undefined ? [] : [requestBody]), ...Object.values(responses)]) {
        // Most generators take the first type, and ignore the others.
        const streams = content === requestBody?.content && route.streams === true ? STREAM_TYPES : [];
        expect(Object.keys(content)).toEqual(['application/json', ...streams]);
        for (const { schema } of Object.values(content)) expect(Object.keys(schema)).toEqual(['$ref']);
      }
    }
    const used = new Set([...objectsIn(document)].flatMap(({ $ref }) => (typeof $ref === 'string' ? [$ref] : [])));
    expect([...used].sort()).toEqual(
      Object.keys(schemas)
        .map((name) => `#/components/schemas/${name}`)
        .sort(),
    );
  });

  it('includes patterns and defaults', () => {
    const { schemas, paths } = { ...document.components, ...document } as OpenApi & OpenApi['components'];
    const sql = schemas.SqlBody?.properties as Record<string, Json>;
    expect(sql.timeout_ms).toMatchObject({
      maximum: LIMITS.timeoutMsMax,
      description: `Default: ${LIMITS.timeoutMsDefault}.`,
    });
    const column = schemas.AddColumnBody?.properties as Record<string, Json>;
    expect(column.name?.pattern).toBe(NAME_PATTERN);
    const insert = paths['/api/cdp/data/{table_name}']?.post?.parameters;
    expect(insert).toContainEqual(
      expect.objectContaining({ name: 'table_name', schema: { type: 'string', pattern: NAME_PATTERN } }),
    );
    expect(document.info.license).toEqual({ name: 'Apache License 2.0', identifier: 'Apache-2.0' });
  });

  it('is what the documentation page shows', async () => {
    expect((await service.call('GET', '/docs/json')).body).toEqual(document);
  });
});

describe('the documentation page', () => {
  const text = async (path: string) => (await service.call('GET', path)).text;

  it('has our title and icon, no third-party logos, and lets readers try each operation', async () => {
    const page = await text('/docs');
    expect(page).toContain('<title>CDP Data Engine</title>');
    expect(page).not.toContain('favicon-32x32.png');
    const [, icon = ''] = /href="(\S+\.svg)"/.exec(page) ?? [];
    expect(await text(icon)).toContain('<svg');
    const initializer = await text('/docs/static/swagger-initializer.js');
    expect(initializer).toContain('BaseLayout');
    expect(initializer).not.toContain('supportedSubmitMethods');
    expect(initializer).toContain(Buffer.from(await text(icon)).toString('base64'));
  });
});

describe.each(titled(OPERATIONS))('%s', (_title, route) => {
  it('has a summary, scope, parameters and a tag', () => {
    const operation = operationOf(route);
    expect(operation.summary.length).toBeGreaterThan(5);
    const access = typeof route.access === 'string' ? [route.access] : route.access;
    for (const scope of access) expect(operation.description).toContain(scope);
    expect(document.tags.map(({ name }) => name)).toEqual(expect.arrayContaining(operation.tags));
    const inPath = [...route.url.matchAll(/:(\w+)/g)].map(([, name]) => name);
    const declared = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path');
    expect(declared.map(({ name }) => name)).toEqual(inPath);
    for (const parameter of operation.parameters ?? []) {
      expect(parameter.schema.type ?? parameter.schema.const).toBeTruthy();
      if (parameter.in === 'path') expect(parameter.required).toBe(true);
    }
  });

  it('has examples of its body and its response that match their schemas', () => {
    const { requestBody, responses } = operationOf(route);
    expect(requestBody !== undefined).toBe(route.body !== undefined);
    for (const media of Object.values(requestBody?.content ?? {})) {
      expect(media.example).toBeDefined();
      fits(media.schema, media.example);
    }
    const success = responses[route.success.status];
    const media = success?.content['application/json'];
    expect(success?.headers).toHaveProperty('X-Request-Id');
    // The driver of Neon and SDKs of events expect bodies of their own.
    if (route.failure === undefined && typeof media?.example === 'object' && route.operationId !== 'exportSubject')
      expect(media.example).toMatchObject({ success: true });
    fits(media?.schema ?? {}, media?.example);
  });

  it('has its errors under their statuses, each with its meaning and an example that matches the schema', () => {
    const { responses } = operationOf(route);
    for (const [status, { description, content }] of Object.entries(responses)) {
      if (Number(status) < 400) continue;
      const { schema = {}, examples = {} } = content['application/json'] ?? {};
      expect(Object.keys(examples).length).toBeGreaterThan(0);
      for (const [code, { value }] of Object.entries(examples)) {
        expect(ERROR_CODES[code as ErrorCode].status).toBe(Number(status));
        expect(description).toContain(`\`${code}\``);
        expect(value).toMatchObject({ success: false, error: code, status: Number(status) });
        fits(schema, value);
      }
    }
    expect(codesOf(operationOf(route))).toEqual(expect.arrayContaining(EVERYWHERE));
    if (route.access !== 'admin') expect(codesOf(operationOf(route))).toEqual(expect.arrayContaining(IN_PROJECTS));
    if (route.body !== undefined) expect(codesOf(operationOf(route))).toEqual(expect.arrayContaining(WITH_BODY));
  });
});

const EVERYWHERE: ErrorCode[] = [
  'invalid_request',
  'unauthorized',
  'token_expired',
  'insufficient_scope',
  'request_timeout',
  'database_unavailable',
  'internal',
];
const IN_PROJECTS: ErrorCode[] = ['cdp_inactive', 'overloaded', 'rate_limited', 'query_timeout'];
const WITH_BODY: ErrorCode[] = ['invalid_json', 'payload_too_large', 'unsupported_media_type'];

describe('the examples', () => {
  /** Calls the route, as the document tells, and holds the response against its schema. */
  async function run(id: string, names: Record<string, string>, call: Call): Promise<TestResponse> {
    const route = OPERATIONS.find(({ operationId }) => operationId === id) as Operation;
    const { requestBody, responses } = operationOf(route);
    const body = requestBody?.content['application/json']?.example;
    const response = await service.call(route.method, pathOf(route, names) + (names.query ?? ''), { body, ...call });
    if (response.status !== route.success.status) throw new Error(`${id}: ${response.text}`);
    fits(responses[response.status]?.content['application/json']?.schema ?? {}, response.body);
    return response;
  }
  const example = (id: string): unknown => {
    const route = OPERATIONS.find(({ operationId }) => operationId === id) as Operation;
    return operationOf(route).responses[route.success.status]?.content['application/json']?.example;
  };

  it('run one after the other and return what they say', async () => {
    // One of its own, so that a retry begins with an empty one.
    const { token } = await service.project();
    const index_name = 'customers_email_idx';
    const ids = ['createTable', 'createIndex', 'readIndexes', 'dropIndex', 'addColumn', 'insertRecords', 'runSql'];
    for (const id of ids) expect((await run(id, { index_name }, { token })).body).toEqual(example(id));
    const withIds = await run('insertRecords', { query: '?return=ids' }, { token });
    expect(withIds.body.ids).toHaveLength(2);
    const insert = OPERATIONS.find(({ operationId }) => operationId === 'insertRecords') as Operation;
    for (const type of STREAM_TYPES) {
      const body = operationOf(insert).requestBody?.content[type]?.example;
      const streamed = await run('insertRecords', {}, { token, body, headers: { 'content-type': type } });
      expect(streamed.body).toMatchObject({ inserted_rows: 2, chunks: 1 });
    }
    expect((await run('alterColumn', {}, { token })).body).toEqual(example('alterColumn'));

    const schema = await run('readSchema', {}, { token });
    const table = await run('readTable', {}, { token });
    // The list of all tables leaves the indexes out, and Postgres counts rows some time after they are stored.
    const { indexes, ...listed } = table.body.table as { indexes: unknown };
    expect((schema.body.tables as unknown[])[0]).toEqual({ ...listed, approximate_rows: expect.any(Number) as number });
    expect(indexes).toMatchObject([{ name: 'customers_pkey', columns: ['id'] }]);
    for (const [response, id] of [
      [schema, 'readSchema'],
      [table, 'readTable'],
    ] as const) {
      expect(response.body.message).toBe((example(id) as Json).message);
      expect(Object.keys(response.body)).toEqual(Object.keys(example(id) as Json));
    }
    const shown = (example('readSchema') as { tables: unknown[]; message: string }).tables.length;
    expect((example('readSchema') as Json).message).toBe(`${shown} ${shown === 1 ? 'table' : 'tables'}`);

    await service.call('POST', '/api/cdp/schema/table/customers/column', {
      token,
      body: { name: 'country', type: 'TEXT' },
    });
    expect((await run('alterTable', {}, { token })).body).toEqual(example('alterTable'));
    await service.call('PUT', '/api/cdp/schema/table/buyers', { token, body: { new_name: 'customers' } });
    expect((await run('dropColumn', {}, { token })).body).toEqual(example('dropColumn'));
    expect((await run('dropTable', {}, { token })).body).toEqual(example('dropTable'));
  });

  it('of the admin API do so too', async () => {
    const created = await run('createProject', {}, { token: admin });
    const { name } = created.body.project as { name: string };
    expect(Object.keys(created.body.project as Json)).toEqual(
      Object.keys((example('createProject') as Json).project as Json),
    );
    const made = await run('createToken', { project: name }, { token: admin });
    expect(Object.keys(made.body)).toEqual(Object.keys(example('createToken') as Json));
    expect(Object.keys(made.body.details as Json)).toEqual(
      Object.keys((example('createToken') as Json).details as Json),
    );
    await run('listProjects', {}, { token: admin });
    await run('listTokens', { project: name }, { token: admin });
    await run('revokeToken', { project: name, token_id: (made.body.details as { id: string }).id }, { token: admin });
    await run('deactivateProject', { project: name }, { token: admin });
    await run('activateProject', { project: name }, { token: admin });
    await run('repairProject', { project: name }, { token: admin });
    await run('deleteProject', { project: name, query: `?confirm=${name}` }, { token: admin });
  });

  it('of statements and streams match the schema in all their forms', async () => {
    for (const body of [
      { sql: 'CREATE TABLE forms (a integer); INSERT INTO forms VALUES (1), (2); SELECT * FROM forms' },
      { sql: 'UPDATE forms SET a = 3 RETURNING a' },
      { sql: 'DELETE FROM forms' },
      {
        sql: 'SELECT 1 AS a, 2 AS a',
        row_mode: 'array',
        numbers: 'raw',
        read_only: true,
        max_rows: 1,
        timeout_ms: 1_000,
      },
      { sql: 'VACUUM forms' },
    ]) {
      await run('runSql', {}, { token: project.token, body });
    }
  });
});

describe('the errors', () => {
  /** Statements that set the stage, the call, and what it is refused with. `{ sql: … }` is the body of free SQL. */
  type Provocation = [operation: string, code: ErrorCode, call: [path: string, body?: unknown], stage?: string];
  const TABLE = '/api/cdp/schema/table';
  const table = { table_name: 'fresh', columns: [{ name: 'a', type: 'TEXT' }] };
  const text = { name: 'b', type: 'TEXT' };
  const t = 'CREATE TABLE t (id uuid PRIMARY KEY DEFAULT _cdp.uuid_v7(), a text, n jsonb);';
  const trap = `CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap'; END $$;
    CREATE TRIGGER trap BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION trap();`;

  const CHANGES = OPERATIONS.filter(({ key }) => key === 'accepted').map(({ operationId }) => operationId);

  const PROVOCATIONS: Provocation[] = [
    ['createTable', 'invalid_name', [TABLE, { ...table, table_name: '1' }]],
    ['createTable', 'reserved_name', [TABLE, { ...table, table_name: '_cdp_x' }]],
    ['createTable', 'unknown_type', [TABLE, { ...table, columns: [{ name: 'a', type: 'X' }] }]],
    ['createTable', 'table_exists', [TABLE, { ...table, table_name: 't' }], t],
    ['alterTable', 'invalid_name', [`${TABLE}/t`, { new_name: '' }], t],
    ['alterTable', 'reserved_name', [`${TABLE}/t`, { new_name: '_cdp_x' }], t],
    ['alterTable', 'table_not_found', [`${TABLE}/none`, { comment: '' }]],
    ['alterTable', 'table_exists', [`${TABLE}/t`, { new_name: 't_PKEY' }], t],
    ['addColumn', 'invalid_name', [`${TABLE}/t/column`, { ...text, name: '' }], t],
    ['addColumn', 'reserved_name', [`${TABLE}/t/column`, { ...text, name: 'id' }], t],
    ['addColumn', 'unknown_type', [`${TABLE}/t/column`, { ...text, type: 'X' }], t],
    ['addColumn', 'table_not_found', [`${TABLE}/none/column`, text]],
    ['addColumn', 'column_exists', [`${TABLE}/t/column`, { ...text, name: 'A' }], t],
    ['alterColumn', 'invalid_name', [`${TABLE}/t/column/a`, { new_name: '' }], t],
    ['alterColumn', 'reserved_name', [`${TABLE}/t/column/id`, { new_type: 'TEXT' }], t],
    ['alterColumn', 'unknown_type', [`${TABLE}/t/column/a`, { new_type: 'X' }], t],
    ['alterColumn', 'table_not_found', [`${TABLE}/none/column/a`, { comment: '' }]],
    ['alterColumn', 'column_not_found', [`${TABLE}/t/column/none`, { comment: '' }], t],
    ['alterColumn', 'column_exists', [`${TABLE}/t/column/a`, { new_name: 'n' }], t],
    [
      'alterColumn',
      'not_convertible',
      [`${TABLE}/t/column/a`, { new_type: 'FLOAT' }],
      `${t} INSERT INTO t (a) VALUES ('x')`,
    ],
    [
      'alterColumn',
      'dependent_objects',
      [`${TABLE}/t/column/a`, { new_type: 'FLOAT' }],
      `${t} CREATE VIEW v AS SELECT a FROM t`,
    ],
    [
      'alterColumn',
      'unique_violation',
      [`${TABLE}/t/column/a`, { new_type: 'FLOAT' }],
      `${t} CREATE UNIQUE INDEX ON t (a); INSERT INTO t (a) VALUES ('1'), ('1.0')`,
    ],
    [
      'alterColumn',
      'constraint_violation',
      [`${TABLE}/t/column/n`, { new_type: 'TEXT' }],
      `${t} ALTER TABLE t ALTER n SET NOT NULL; INSERT INTO t (n) VALUES ('null')`,
    ],
    ['alterColumn', 'invalid_value', [`${TABLE}/t/column/a`, { default: {} }], t],
    ['alterColumn', 'invalid_value', [`${TABLE}/t/column/a`, { new_type: 'FLOAT', map: { x: 'y' } }], t],
    [
      'alterColumn',
      'not_convertible',
      [`${TABLE}/t/column/a?return=values`, { new_type: 'FLOAT' }],
      `${t} INSERT INTO t (a) VALUES ('x')`,
    ],
    ['readTable', 'table_not_found', [`${TABLE}/none`]],
    ['dropTable', 'table_not_found', [`${TABLE}/none`]],
    ['dropTable', 'dependent_objects', [`${TABLE}/t`], `${t} CREATE VIEW v AS SELECT a FROM t`],
    ['dropColumn', 'reserved_name', [`${TABLE}/t/column/id`], t],
    ['dropColumn', 'table_not_found', [`${TABLE}/none/column/a`]],
    ['dropColumn', 'column_not_found', [`${TABLE}/t/column/none`], t],
    ['dropColumn', 'dependent_objects', [`${TABLE}/t/column/a`], `${t} CREATE VIEW v AS SELECT a FROM t`],
    ['createIndex', 'invalid_name', [`${TABLE}/t/index`, { columns: ['a'], name: '' }], t],
    ['createIndex', 'reserved_name', [`${TABLE}/t/index`, { columns: ['a'], name: '_cdp_x' }], t],
    ['createIndex', 'unknown_column', [`${TABLE}/t/index`, { columns: ['b'] }], t],
    ['createIndex', 'table_not_found', [`${TABLE}/none/index`, { columns: ['a'] }]],
    ['createIndex', 'table_exists', [`${TABLE}/t/index`, { columns: ['a'], name: 'T' }], t],
    [
      'createIndex',
      'unique_violation',
      [`${TABLE}/t/index`, { columns: ['a'], unique: true }],
      `${t} INSERT INTO t (a) VALUES ('x'), ('x')`,
    ],
    ['readIndexes', 'table_not_found', [`${TABLE}/none/index`]],
    ['dropIndex', 'reserved_name', [`${TABLE}/t/index/t_pkey`], t],
    ['dropIndex', 'table_not_found', [`${TABLE}/none/index/x`]],
    ['dropIndex', 'index_not_found', [`${TABLE}/t/index/x`], t],
    [
      'dropIndex',
      'dependent_objects',
      [`${TABLE}/t/index/t_n_key`],
      `${t} ALTER TABLE t ADD UNIQUE (n); CREATE TABLE u (n jsonb REFERENCES t (n))`,
    ],
    ['insertRecords', 'empty_batch', ['/api/cdp/data/t', []], t],
    ['insertRecords', 'too_many_records', ['/api/cdp/data/t', Array.from({ length: 251 }, () => ({}))], t],
    ['insertRecords', 'unknown_column', ['/api/cdp/data/t', [{ b: 1 }]], t],
    ['insertRecords', 'invalid_value', ['/api/cdp/data/t', [{ id: 1 }]], t],
    ['insertRecords', 'table_not_found', ['/api/cdp/data/none', [{}]]],
    [
      'insertRecords',
      'constraint_violation',
      ['/api/cdp/data/t', [{ a: '' }]],
      `${t} ALTER TABLE t ADD CHECK (a <> '')`,
    ],
    [
      'insertRecords',
      'unique_violation',
      ['/api/cdp/data/t', [{ a: 'x' }, { a: 'x' }]],
      `${t} CREATE UNIQUE INDEX ON t (a)`,
    ],
    ['insertRecords', 'constraint_violation', ['/api/cdp/data/t', [{}]], `${t} ${trap}`],
    ['insertRecords', 'permission_denied', ['/api/cdp/data/t', [{}]], `${t} REVOKE INSERT ON t FROM current_user`],
    ['runSql', 'sql_error', ['/api/cdp/sql', { sql: 'SELEC 1' }]],
    ['runSql', 'statement_not_allowed', ['/api/cdp/sql', { sql: 'BEGIN' }]],
    ['runSql', 'constraint_violation', ['/api/cdp/sql', { sql: 'INSERT INTO t VALUES (NULL)' }], t],
    [
      'runSql',
      'unique_violation',
      ['/api/cdp/sql', { sql: 'CREATE UNIQUE INDEX ON t ((1))' }],
      `${t} INSERT INTO t (a) VALUES ('x'), ('y')`,
    ],
    ['runSql', 'table_exists', ['/api/cdp/sql', { sql: 'CREATE TABLE t ()' }], t],
    ['runSql', 'column_exists', ['/api/cdp/sql', { sql: 'ALTER TABLE t ADD a text' }], t],
    ['runSql', 'dependent_objects', ['/api/cdp/sql', { sql: 'DROP TABLE t' }], `${t} CREATE VIEW v AS SELECT a FROM t`],
    ['runSql', 'permission_denied', ['/api/cdp/sql', { sql: 'CREATE ROLE other' }]],
    ['runSql', 'query_timeout', ['/api/cdp/sql', { sql: 'SELECT pg_sleep(5)', timeout_ms: 50 }]],
    [
      'runSql',
      'row_too_large',
      [
        '/api/cdp/sql',
        { sql: `INSERT INTO t (a) SELECT string_agg(md5(i::text), '') FROM generate_series(1, 1000) i` },
      ],
      `${t} CREATE INDEX ON t (a)`,
    ],
    ['runSql', 'payload_too_large', ['/api/cdp/sql', { sql: `SELECT '${'x'.repeat(1024 * 1024)}'` }]],
  ];

  it.each(PROVOCATIONS)('of %s include %s', async (operationId, code, [path, body], stage) => {
    const route = OPERATIONS.find((candidate) => candidate.operationId === operationId) as Operation;
    await project.rows('DROP TABLE IF EXISTS t CASCADE; DROP FUNCTION IF EXISTS trap CASCADE');
    if (stage !== undefined) await project.rows(stage);
    const response = await project.call(route.method, path, { body });
    expect(response.body).toMatchObject({ error: code, status: response.status });
    expect(codesOf(operationOf(route))).toContain(code);
    fits(document.components.schemas.ErrorBody ?? {}, response.body);
  });

  it.each(OPERATIONS.filter(({ url }) => url.includes(':project')).map((route) => [route.operationId, route] as const))(
    'of %s include not_found',
    (_id, route) => {
      expect(codesOf(operationOf(route))).toContain('not_found');
    },
  );

  it.each(CHANGES)('of %s include table_busy and outcome_unknown', (operationId) => {
    const operation = operationOf(OPERATIONS.find((route) => route.operationId === operationId) as Operation);
    expect(codesOf(operation)).toEqual(expect.arrayContaining(['table_busy', 'outcome_unknown']));
  });

  it.each([
    ...['createProject', 'activateProject', 'deactivateProject', 'setProjectQuota', 'deleteProject'],
    ...['createToken', 'revokeToken'],
  ])('of %s include outcome_unknown', (operationId) => {
    const route = OPERATIONS.find((candidate) => candidate.operationId === operationId) as Operation;
    expect(codesOf(operationOf(route))).toContain('outcome_unknown');
  });

  it.each(CHANGES)('of %s include those of its Idempotency-Key, and the header is described', (operationId) => {
    const operation = operationOf(OPERATIONS.find((route) => route.operationId === operationId) as Operation);
    expect(codesOf(operation)).toEqual(expect.arrayContaining(['idempotency_key_reused', 'request_in_flight']));
    expect(operation.parameters).toContainEqual(
      expect.objectContaining({ in: 'header', name: 'Idempotency-Key', required: false }),
    );
  });

  it('are all those of the table, except for codes that belong to no operation', () => {
    const documented = new Set(OPERATIONS.flatMap((route) => codesOf(operationOf(route))));
    const missing = Object.keys(ERROR_CODES).filter((code) => !documented.has(code));
    expect(missing).toEqual(['method_not_allowed', 'misdirected_request']);
  });
});
