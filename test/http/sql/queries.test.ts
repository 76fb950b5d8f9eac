/** Saved queries over HTTP: saved, listed, run with values by their names; and who may do what. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Query } from '../../../src/contract/wire/queries.js';
import { entriesOf } from '../../support/audit.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
/** Runs saved queries and nothing else. */
let runner: string;
let reader: string;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.rows(
    `CREATE TABLE orders (id int PRIMARY KEY, country text, total float8);
     INSERT INTO orders VALUES (1, 'DE', 10), (2, 'DE', 2.5), (3, 'FR', 7)`,
  );
  runner = await project.tokenWith('queries:run');
  reader = await project.tokenWith('sql:read');
});
afterAll(() => service.close());

const path = (name: string, rest = '') => `/api/cdp/queries/${name}${rest}`;

async function save(name: string, body: object, token = project.token): Promise<Query> {
  const response = await project.call('PUT', path(name), { body, token });
  expect(response.status, response.text).toBe(200);
  return response.body.query as Query;
}

const run = (name: string, parameters: object = {}, more: object = {}, token = runner) =>
  project.call('POST', path(name, '/run'), { body: { parameters, ...more }, token });

const BY_COUNTRY = {
  sql: 'SELECT count(*) AS n, sum(total) AS total FROM orders WHERE country = $1 AND total > $2',
  parameters: [
    { name: 'country', type: 'TEXT' },
    { name: 'more_than', type: 'FLOAT' },
  ],
};

describe('works', () => {
  it('a query is saved with who saved it, listed, read, replaced and deleted', async () => {
    const chart = { kind: 'bar', x: 'country' };
    const saved = await save('by-country', { ...BY_COUNTRY, chart, description: 'For Monday' });
    expect(saved).toMatchObject({ ...BY_COUNTRY, chart, description: 'For Monday', writes: false });
    expect(saved).toMatchObject({ name: 'by-country', created_by: 'token default', updated_by: 'token default' });
    expect((await project.call('GET', path('by-country'))).body.query).toEqual(saved);
    expect((await project.call('GET', '/api/cdp/queries')).body.queries).toContainEqual(saved);
    await save('passing', { sql: 'SELECT 1' });
    const replaced = await save('passing', { sql: 'SELECT 2' }, reader);
    expect(replaced).toMatchObject({ sql: 'SELECT 2', parameters: [], chart: null, created_by: 'token default' });
    expect((await project.call('DELETE', path('passing'), { token: reader })).status).toBe(200);
    expectFailure(await project.call('GET', path('passing')), 404, 'not_found');
  });

  it('it runs with values by name, and answers as free SQL does', async () => {
    const answer = await run('by-country', { more_than: 5, country: 'DE' });
    expect(answer.status, answer.text).toBe(200);
    const free = await project.call('POST', '/api/cdp/sql', { body: { sql: BY_COUNTRY.sql, params: ['DE', 5] } });
    expect(answer.text).toBe(free.text);
    expect(answer.body).toMatchObject({ rows: [{ n: 1, total: 10 }], row_count: 1, truncated: false });
    expect((await run('by-country', { more_than: 0, country: null })).body).toMatchObject({ rows: [{ n: 0 }] });
  });

  it('in the formats and with the options of free SQL', async () => {
    await save('all', { sql: 'SELECT id, country FROM orders ORDER BY id' });
    expect((await run('all', {}, { row_mode: 'array', max_rows: 1 })).body).toMatchObject({
      ...{ rows: [[1, 'DE']], truncated: true },
    });
    const call = { body: {}, token: runner, headers: { accept: 'text/csv' } };
    expect((await project.call('POST', path('all', '/run'), call)).text).toBe('id,country\n1,DE\n2,DE\n3,FR\n');
    await save('slow', { sql: 'SELECT pg_sleep(60)' });
    expectFailure(await run('slow', {}, { timeout_ms: 50 }), 504, 'query_timeout');
  });

  it('large numbers keep their digits', async () => {
    await save('exact', { sql: 'SELECT $1::numeric::text AS n', parameters: [{ name: 'n', type: 'FLOAT' }] });
    const body = '{"parameters": {"n": 12345678901234567890.123456789}}';
    const { body: answer } = await project.call('POST', path('exact', '/run'), { body, token: runner });
    expect(answer).toMatchObject({ rows: [{ n: '12345678901234567890.123456789' }] });
  });

  it('one that writes runs as the writer, once under a key, and has a dry run', async () => {
    const sql = 'INSERT INTO orders VALUES ($1, $2, 0) RETURNING id';
    const parameters = [
      { name: 'id', type: 'INTEGER' },
      { name: 'country', type: 'TEXT' },
    ];
    await save('add', { sql, parameters, writes: true });
    const body = { parameters: { id: 100, country: 'IT' } };
    const dry = await project.call('POST', path('add', '/run?dry_run=true'), { body, token: runner });
    expect(dry.body, dry.text).toMatchObject({ dry_run: true, rows: [{ id: 100 }] });
    for (let time = 1; time <= 2; time++) {
      const call = { body, token: runner, headers: { 'idempotency-key': 'k1' } };
      expect((await project.call('POST', path('add', '/run'), call)).body).toMatchObject({ rows: [{ id: 100 }] });
    }
    expect(await project.rows('SELECT id FROM orders WHERE id >= 100')).toEqual([{ id: 100 }]);
    await project.rows('DELETE FROM orders WHERE id >= 100');
  });

  it('a run has an entry in the audit log, with the SQL', async () => {
    const { headers } = await run('by-country', { more_than: 5, country: 'DE' });
    const [entry] = await entriesOf(service, headers.get('x-request-id') ?? '');
    expect(entry).toMatchObject({ operation: 'run_query', object: 'by-country', outcome: 'ok', rows: '1' });
    expect(entry?.statement_sha256).not.toBeNull();
  });
});

describe('refuses', () => {
  it('wrong declarations, with every wrong place, and saves nothing', async () => {
    const refused = (body: object, name = 'bad') => project.call('PUT', path(name), { body });
    const twice = [BY_COUNTRY.parameters[0], BY_COUNTRY.parameters[0]];
    const chart = { text: 'x'.repeat(16_384) };
    const all = expectFailure(await refused({ sql: 'SELECT 1', parameters: twice, chart }, '1'), 400, 'invalid_name');
    expect(all.errors).toHaveLength(3);
    expectFailure(
      await refused({ sql: 'SELECT 1', parameters: [{ name: 'a', type: 'MONEY' }] }),
      400,
      'invalid_request',
    );
    expectFailure(await refused({ sql: 'SELECT 1', read_only: true }), 400, 'invalid_request');
    expectFailure(await refused({ sql: 'COMMIT' }), 400, 'statement_not_allowed');
    expectFailure(await project.call('GET', path('bad')), 404, 'not_found');
  });

  it('SQL that Postgres cannot parse, names that it does not find, and another number of parameters', async () => {
    const refused = async (sql: string, parameters: object[] = []) =>
      expectFailure(await project.call('PUT', path('bad'), { body: { sql, parameters } }), 400, 'sql_error');
    expect((await refused('SELECT 1 FORM orders')).postgres).toMatchObject({ sqlstate: '42601', position: 15 });
    expect((await refused('SELECT * FROM ordrs')).message).toContain('"ordrs" does not exist');
    expect((await refused('SELECT totl FROM orders')).hint).toContain('orders.total');
    const counted = await project.call('PUT', path('bad'), { body: { ...BY_COUNTRY, parameters: [] } });
    expect(expectFailure(counted, 400, 'invalid_request').message).toBe(
      'The SQL uses the parameters up to $2, and "parameters" names 0',
    );
    expectFailure(await project.call('GET', path('bad')), 404, 'not_found');
    // A later statement may use what an earlier one makes.
    await save('several', { sql: 'CREATE TABLE made (a int); INSERT INTO made VALUES (1)', writes: true });
    await refused('SELECT 1; SELEC 2');
  });

  it('missing, unknown and wrong values, each named, and runs nothing', async () => {
    const response = await run('by-country', { countri: 'DE', more_than: '5' });
    const { errors } = expectFailure(response, 400, 'invalid_request');
    expect(errors?.map(({ message }) => message)).toEqual([
      'The query has no parameter "countri"',
      'The parameter "country" is missing',
      'The parameter "more_than" must be a number',
    ]);
    await save('typed', {
      sql: 'SELECT $1::int, $2::boolean, $3::timestamptz, $4::jsonb',
      parameters: ['INTEGER', 'BOOLEAN', 'TIMESTAMP', 'JSONB'].map((type, i) => ({ name: `p${i}`, type })),
    });
    const wrong = await run('typed', { p0: 1.5, p1: 'yes', p2: 3, p3: [] });
    expect(expectFailure(wrong, 400, 'invalid_request').errors).toHaveLength(3);
    expect((await run('typed', { p0: 1, p1: true, p2: '2026-01-01T00:00:00Z', p3: [{ a: 1 }] })).status).toBe(200);
  });
});

describe('protects', () => {
  it('a token of queries:run may do nothing else', async () => {
    for (const [method, url, body] of [
      ['GET', '/api/cdp/queries'],
      ['GET', path('by-country')],
      ['PUT', path('by-country'), { sql: 'SELECT 1' }],
      ['DELETE', path('by-country')],
      ['POST', '/api/cdp/sql', { sql: 'SELECT 1' }],
      ['GET', '/api/cdp/schema'],
      ['POST', '/api/cdp/data/orders', [{ id: 9 }]],
      ['GET', '/api/cdp/schedules'],
      ['GET', '/api/cdp/quarantine'],
    ] as const) {
      const given = { token: runner, ...(body === undefined ? {} : { body }) };
      expectFailure(await project.call(method, url, given), 403, 'insufficient_scope');
    }
  });

  it('a query that was not saved as one that writes cannot write, whoever runs it', async () => {
    await save('sneaky', { sql: "INSERT INTO orders VALUES (200, 'XX', 0)" });
    for (const token of [runner, reader, project.token])
      expectFailure(await run('sneaky', {}, {}, token), 403, 'permission_denied');
    expect(await project.rows('SELECT FROM orders WHERE id = 200')).toEqual([]);
  });

  it('who may only read can neither save, replace, run nor delete one that writes', async () => {
    const declaration = { sql: 'DELETE FROM orders', writes: true };
    await save('dangerous', declaration);
    const as = (token: string) => ({
      save: () => project.call('PUT', path('mine'), { body: declaration, token }),
      replace: () => project.call('PUT', path('dangerous'), { body: { sql: 'SELECT 1' }, token }),
      remove: () => project.call('DELETE', path('dangerous'), { token }),
      run: () => run('dangerous', {}, {}, token),
    });
    for (const attempt of Object.values(as(reader))) expectFailure(await attempt(), 403, 'insufficient_scope');
    expectFailure(await project.call('GET', path('mine')), 404, 'not_found');
    expect((await project.call('GET', path('dangerous'))).body.query).toMatchObject(declaration);
    expect(await project.rows('SELECT count(*) AS n FROM orders')).toEqual([{ n: 3 }]);
  });

  it('a token of a role runs as the role, and saves nothing', async () => {
    await project.call('POST', '/api/cdp/schema/role', { body: { name: 'intern' } });
    const intern = await project.tokenAs('intern', 'queries:run', 'sql:read');
    expectFailure(await run('all', {}, {}, intern), 403, 'permission_denied');
    expectFailure(
      await project.call('PUT', path('all'), { body: { sql: 'SELECT 1' }, token: intern }),
      403,
      'insufficient_scope',
    );
  });

  it('another project has none of them', async () => {
    const other = await service.project();
    expectFailure(await other.call('POST', path('all', '/run'), { body: {} }), 404, 'not_found');
    expect((await other.call('GET', '/api/cdp/queries')).body.queries).toEqual([]);
  });

  it('errors quote no stored values to whom runs them only', async () => {
    await project.rows("CREATE TABLE secrets (v text); INSERT INTO secrets VALUES ('ada@example.com')");
    await save('casting', { sql: 'SELECT v::int FROM secrets' });
    const answer = await run('casting');
    expectFailure(answer, 400, 'sql_error');
    expect(answer.text).not.toContain('ada@');
    expect((await run('casting', {}, {}, reader)).text).toContain('ada@');
  });
});
