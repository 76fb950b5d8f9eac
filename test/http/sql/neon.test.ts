/** `POST /sql` on the wire: what Neon's driver never sends, and what nobody may reach through it. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { LIMITS } from '../../../src/contract/limits.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { auditRows } from '../../support/audit.js';
import { rawResponse } from '../../support/raw.js';
import { checkResponse } from '../../support/routes.js';
import {
  expectFailure,
  isIdle,
  runningRequests,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let project: TestProject;
let other: TestProject;

beforeAll(async () => {
  service = await startTestService();
  project = await service.project('shop');
  other = await service.project('neighbour');
  await other.rows('CREATE TABLE secret AS SELECT 42 AS n');
});
afterAll(() => service.close());

const url = (user = 'writer', token = project.token, database = 'shop') =>
  `postgresql://${user}:${token}@db.example/${database}`;

const AS_DRIVER = {
  'neon-raw-text-output': 'true',
  'neon-array-mode': 'true',
  'content-type': 'text/plain;charset=UTF-8',
};

/** As the driver, but for the headers that are given. */
const send = (body: unknown, headers: Record<string, string> = {}, on = service): Promise<TestResponse> =>
  on.call('POST', '/sql', { body, headers: { 'neon-connection-string': url(), ...AS_DRIVER, ...headers } });

const query = (text: string, headers: Record<string, string> = {}) => send({ query: text }, headers);
const batch = (texts: readonly string[], headers: Record<string, string> = {}) =>
  send({ queries: texts.map((text) => ({ query: text })) }, headers);

const rows = ({ body }: TestResponse): unknown => body.rows;

/** What Postgres says of a query: 400 with its SQLSTATE. */
function refusedByPostgres(response: TestResponse, sqlstate: string): void {
  checkResponse(response);
  expect({ status: response.status, ...response.body }).toMatchObject({ status: 400, success: false, code: sqlstate });
}

beforeEach(() => project.rows('DROP TABLE IF EXISTS t; CREATE TABLE t (n int)'));
const content = () => project.rows('SELECT n FROM t ORDER BY n');

describe('works', () => {
  it("without the driver's headers like free SQL, with rows as objects and values as JSON", async () => {
    const { token } = project;
    const response = await service.call('POST', '/sql', {
      token,
      body: { query: 'SELECT $1::int AS n, true AS b, NULL AS x', params: [7] },
    });
    checkResponse(response);
    expect(response.body).toMatchObject({ command: 'SELECT', rowCount: 1, rowAsArray: false });
    expect(rows(response)).toEqual([{ n: 7, b: true, x: null }]);
    const reader = await project.tokenWith('sql:read');
    const asReader = { token: reader, body: { query: 'SHOW transaction_read_only' } };
    expect(rows(await service.call('POST', '/sql', asReader))).toEqual([{ transaction_read_only: 'on' }]);
  });

  it("with Postgres's own text of every value, or null", async () => {
    const response =
      await query(`SELECT 1, 1.50, 'NaN'::float8, true, '{"a": 1}'::json, ARRAY[1, NULL], '\\x00'::bytea, NULL,
      '2026-01-31 10:30+00'::timestamptz, 'é"\\'::text`);
    expect(rows(response)).toEqual([
      ['1', '1.50', 'NaN', 't', '{"a": 1}', '{1,NULL}', '\\x00', null, '2026-01-31 10:30:00+00', 'é"\\'],
    ]);
  });

  it('with numbers, booleans, arrays and objects as parameters', async () => {
    const params = [12345678901234567890n.toString(), true, [1, null], { a: [1] }, 'x', null];
    const text = `SELECT $1::numeric, $2::bool, $3::int[], $4::jsonb, $5::text, $6::int`;
    const response = await send(
      JSON.stringify({ query: text, params }).replace('"12345678901234567890"', '12345678901234567890'),
    );
    expect(rows(response)).toEqual([['12345678901234567890', 't', '{1,NULL}', '{"a": [1]}', 'x', null]]);
  });

  it('with the token of the Authorization header rather than the password', async () => {
    const headers = { authorization: `Bearer ${project.token}`, 'neon-connection-string': url('writer', 'wrong') };
    expect(rows(await query('SELECT 1', headers))).toEqual([['1']]);
  });

  it('in the modes of the headers, also for one query', async () => {
    const level = { 'neon-batch-isolation-level': 'RepeatableRead', 'neon-batch-read-only': 'true' };
    expect(rows(await query('SHOW transaction_isolation', level))).toEqual([['repeatable read']]);
    refusedByPostgres(await query('INSERT INTO t VALUES (1)', level), '25006');
    // It would run outside of the transaction.
    refusedByPostgres(await query('VACUUM t', level), '25001');
    refusedByPostgres(await batch(['VACUUM t']), '25001');
  });

  it('with an audit entry as free SQL of its role, with all its queries, and counts its rows', async () => {
    await batch(['SELECT 1', 'SELECT 2 UNION SELECT 3'], { 'x-request-id': 'audited' });
    await query('SELECT 1', { 'neon-connection-string': url('reader'), 'x-request-id': 'read' });
    await query('SELEC', { 'x-request-id': 'failed' });
    await query('SELECT 1', { 'neon-connection-string': url('postgres'), 'x-request-id': 'nobody' });
    await query('SELECT 1', { 'neon-connection-string': url('writer', 'x'), 'x-request-id': 'unknown' });
    const entries = (await auditRows(service)).filter(({ request_id: id }) =>
      ['audited', 'read', 'failed', 'nobody', 'unknown'].includes(id ?? ''),
    );
    expect(entries.map(({ operation, outcome, rows: n, status }) => [operation, outcome, n, status])).toEqual([
      ['sql', 'ok', '3', 200],
      ['sql_read', 'ok', '1', 200],
      ['sql', 'sql_error', null, 400],
      ['sql', 'invalid_request', null, 400],
      ['authentication', 'unauthorized', null, 401],
    ]);
    expect(new Set(entries.slice(0, 3).map((entry) => entry.statement_sha256)).size).toBe(3);
  });
});

describe('refuses', () => {
  it.each<[string, unknown, RegExp]>([
    ['nothing', {}, /body\.query must be a string/],
    ['the body of free SQL', { sql: 'SELECT 1' }, /body\.sql is body\.query here; POST \/api\/cdp\/sql takes/],
    ['a query that is no string', { query: 1 }, /body\.query must be a string/],
    ['parameters that are no array', { query: 'SELECT 1', params: {} }, /body\.params must be an array/],
    ['both', { query: 'SELECT 1', queries: [] }, /unknown field "query"/],
    ['a batch that is none', { queries: {} }, /body\.queries must be an array/],
    ['a query in a batch that is none', { queries: [{ query: 'SELECT 1' }, 'x'] }, /queries\.1 must be an object/],
    [
      'an unknown field in a batch',
      { queries: [{ query: 'SELECT 1', limit: 1 }] },
      /queries\.0 has an unknown field "limit"/,
    ],
    ['too many queries', { queries: Array(LIMITS.queriesPerBatch + 1).fill({ query: 'SELECT 1' }) }, /at most 1000/],
    ['no statement', { query: ' -- nothing' }, /^body\.query contains no statement/],
    ['too few parameters', { query: 'SELECT $1::int', params: [] }, /has 1 parameter/],
    [
      'U+0000',
      { queries: [{ query: 'SELECT 1' }, { query: 'SELECT $$\0$$' }] },
      /^body\.queries\.1\.query contains U\+0000/,
    ],
  ])('%s', async (_what, body, message) => {
    const response = await send(body);
    checkResponse(response);
    expect(expectFailure(response, 400, 'invalid_request').message).toMatch(message);
  });

  it('a duplicate key in a query, and a query of more than 1 MiB', async () => {
    const { token } = project;
    expectFailure(await send(`{"queries":[{"query":"SELECT 1","query":"SELECT 2"}]}`), 400, 'invalid_json');
    const long = `SELECT ${' '.repeat(LIMITS.sqlBytes)}1`;
    const alone = await service.call('POST', '/sql', { token, body: { query: long } });
    expect(expectFailure(alone, 413, 'payload_too_large').message).toMatch(/^body\.query is larger/);
    const last = expectFailure(await batch(['INSERT INTO t VALUES (1)', long]), 413, 'payload_too_large');
    expect(last.message).toMatch(/^body\.queries\.1\.query is larger/);
    expect(await content()).toEqual([]);
  });

  it.each([
    ['neon-batch-isolation-level', 'Chaos'],
    ['neon-batch-isolation-level', 'Serializable; DROP TABLE t'],
    ['neon-batch-isolation-level', 'Serializable, Serializable'],
    ['neon-batch-isolation-level', 'constructor'],
    ['neon-batch-read-only', 'yes'],
    ['neon-batch-read-only', ''],
    ['neon-batch-deferrable', 'true; COMMIT'],
    ['neon-array-mode', '1'],
    ['neon-raw-text-output', 'TRUE'],
  ])('the header %s: %s', async (name, value) => {
    expectFailure(await batch(['INSERT INTO t VALUES (1)'], { [name]: value }), 400, 'invalid_request');
    expect(await content()).toEqual([]);
  });

  it.each([
    ['', 401],
    ['x', 401],
    ['postgresql://', 401],
    ['http://writer:TOKEN@db.example/shop', 401],
    ['mysql://writer:TOKEN@db.example/shop', 401],
    ['host=db user=writer password=TOKEN dbname=shop', 401],
    ['postgresql://writer@db.example/shop', 401],
    ['postgresql://writer:%E0%A4%A@db.example/shop', 401],
    ['postgresql://writer:TOKEN%00@db.example/shop', 401],
    ['postgresql://writer:TOKEN%0d%0aX-Evil:1@db.example/shop', 401],
    [`postgresql://writer:' OR 1=1 --@db.example/shop`, 401],
    [`postgresql://writer:${'x'.repeat(8_000)}@db.example/shop`, 401],
    ['postgresql://TOKEN:writer@db.example/shop', 401],
    ['postgresql://postgres:TOKEN@db.example/shop', 400],
    ['postgresql://Writer:TOKEN@db.example/shop', 400],
    ['postgresql://writer%00:TOKEN@db.example/shop', 400],
    ['postgresql://writer:TOKEN@db.example/neighbour', 400],
    ['postgresql://writer:TOKEN@db.example/postgres', 400],
    ['postgresql://writer:TOKEN@db.example/shop/neighbour', 400],
    ['postgresql://writer:TOKEN@db.example/SHOP', 400],
    ['postgresql://writer:TOKEN@db.example/shop%00', 400],
    ['postgresql://writer:TOKEN@db.example/shop, postgresql://writer:TOKEN@db.example/shop', 400],
  ])('the connection string %s', async (text, status) => {
    const response = await query('SELECT 1', { 'neon-connection-string': text.replaceAll('TOKEN', project.token) });
    checkResponse(response);
    expectFailure(response, status, status === 401 ? 'unauthorized' : 'invalid_request');
    expect(response.body.code).toBe(status === 401 ? '28P01' : '08P01');
    expect(response.text).not.toContain(project.token);
  });

  it('an invalid Authorization header next to a valid password', async () => {
    const headers = { authorization: `Bearer ${project.token}`, 'neon-connection-string': 'garbage' };
    expectFailure(await query('SELECT 1', headers), 400, 'invalid_request');
  });

  it('an Idempotency-Key, because it could not be honored', async () => {
    expectFailure(await query('INSERT INTO t VALUES (1)', { 'idempotency-key': 'k' }), 400, 'invalid_request');
    expect(await content()).toEqual([]);
  });

  it('two connection strings', async () => {
    const line = `Neon-Connection-String: ${url()}\r\n`;
    const body = '{"query":"SELECT 1"}';
    const head = `POST /sql HTTP/1.1\r\nHost: x\r\n${line}${line}Content-Type: text/plain\r\nConnection: close\r\n`;
    expectFailure(
      await rawResponse(service.url, `${head}Content-Length: ${body.length}\r\n\r\n${body}`),
      400,
      'invalid_request',
    );
  });

  it('users that the scopes do not allow', async () => {
    const reading = await project.tokenWith('sql:read');
    const writing = await project.tokenWith('sql:write');
    const inserting = await project.tokenWith('data:write');
    for (const [user, token] of [
      ['writer', reading],
      ['reader', writing],
      ['writer', inserting],
      ['reader', inserting],
    ] as const) {
      expectFailure(await query('SELECT 1', { 'neon-connection-string': url(user, token) }), 403, 'insufficient_scope');
    }
    const admin = (await service.engine.tokens.create(null)).token;
    expectFailure(
      await query('SELECT 1', { 'neon-connection-string': url('writer', admin) }),
      403,
      'insufficient_scope',
    );
  });
});

describe('protects', () => {
  it('the inside of Postgres: no error names a file, a line or a routine of it', async () => {
    const response = await query('SELECT 1 / 0');
    refusedByPostgres(response, '22012');
    for (const field of ['file', 'line', 'routine', 'source']) expect(response.body).not.toHaveProperty(field);
  });

  it('a project from the tokens of others', async () => {
    const theirs = { 'neon-connection-string': url('writer', other.token) };
    expectFailure(await query('SELECT * FROM secret', theirs), 400, 'invalid_request');
    refusedByPostgres(await query('SELECT * FROM secret'), '42P01');
  });

  it.each([
    'COMMIT',
    'END',
    'ROLLBACK',
    'BEGIN',
    'SAVEPOINT s',
    'PREPARE TRANSACTION $$x$$',
    '/* x */ commit;',
    'ABORT',
  ])('the transaction from %s, alone and in a batch', async (text) => {
    expect(expectFailure(await query(text), 400, 'statement_not_allowed').message).toContain('by sql.transaction([…])');
    expectFailure(await batch(['INSERT INTO t VALUES (1)', text, 'SELECT 1 / 0']), 400, 'statement_not_allowed');
    expect(await content()).toEqual([]);
  });

  it.each([
    'INSERT INTO t VALUES (1); COMMIT',
    'SELECT 1; INSERT INTO t VALUES (1)',
    ';COMMIT; INSERT INTO t VALUES (1)',
    'DO $$ BEGIN INSERT INTO t VALUES (1); COMMIT; END $$',
    'CALL commits()',
  ])('the transaction from multiple statements: %s', async (text) => {
    await project.rows(`CREATE OR REPLACE PROCEDURE commits() LANGUAGE plpgsql AS
      'BEGIN INSERT INTO t VALUES (1); COMMIT; END'`);
    expect((await query(text)).status).toBe(400);
    expect((await batch(['SELECT 1', text])).status).toBe(400);
    expect(await content()).toEqual([]);
  });

  it.each([
    ['SET TRANSACTION READ WRITE', 'INSERT INTO t VALUES (1)'],
    ['SET transaction_read_only = off', 'INSERT INTO t VALUES (1)'],
    [`SELECT set_config('transaction_read_only', 'off', false)`, 'INSERT INTO t VALUES (1)'],
    ['SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE', 'INSERT INTO t VALUES (1)'],
    ['SET ROLE writer', 'INSERT INTO t VALUES (1)'],
    ['RESET ALL', 'INSERT INTO t VALUES (1)'],
    ['SELECT 1', 'WITH x AS (INSERT INTO t VALUES (1) RETURNING n) SELECT * FROM x'],
    ['SELECT 1', 'SELECT inserts()'],
  ])('READ ONLY from %s and %s', async (first, second) => {
    await project.rows(`CREATE OR REPLACE FUNCTION inserts() RETURNS int LANGUAGE sql SECURITY DEFINER AS
      'INSERT INTO t VALUES (1) RETURNING n'`);
    const asReader = { 'neon-connection-string': url('reader') };
    for (const headers of [asReader, { ...asReader, 'neon-batch-read-only': 'false' }]) {
      expect((await batch([first, second], headers)).status).toBe(400);
    }
    // A writer that asked for READ ONLY keeps to it, too.
    expect((await batch([second], { 'neon-batch-read-only': 'true' })).status).toBe(400);
    expect(await content()).toEqual([]);
  });

  it('the next request from settings, temporary tables, prepared statements and locks of the previous one', async () => {
    const LEAVING = [
      ['SET search_path = pg_catalog', 'SET work_mem = $$1MB$$', "SET TimeZone = 'Asia/Tokyo'"],
      ['CREATE TEMP TABLE left_behind AS SELECT 1', 'PREPARE left_behind AS SELECT 1'],
      ['SELECT pg_advisory_lock(77)', 'DECLARE left_behind CURSOR WITH HOLD FOR SELECT 1'],
      ['SET default_transaction_read_only = on', 'SET statement_timeout = 1'],
      ["SET DateStyle = 'German'", "SET client_encoding = 'LATIN1'"],
      ['SET work_mem = $$1MB$$', 'SELECT 1 / 0'],
    ];
    const TRACES = `SELECT current_setting('search_path'), current_setting('work_mem'), current_setting('TimeZone'),
      current_setting('default_transaction_read_only'), current_setting('statement_timeout'), current_setting('DateStyle'),
      current_setting('client_encoding'), to_regclass('pg_temp.left_behind'), pg_try_advisory_xact_lock(77),
      (SELECT count(*) FROM pg_prepared_statements WHERE name = 'left_behind'), (SELECT count(*) FROM pg_cursors WHERE is_holdable)`;
    const clean = rows(await query(TRACES));
    for (const texts of LEAVING) {
      await batch(texts);
      expect({ texts, found: rows(await query(TRACES)) }).toEqual({ texts, found: clean });
    }
  });

  it('memory: results beyond the limit are refused, and what they did is rolled back', async () => {
    const big = `SELECT repeat('x', 1000000) FROM generate_series(1, 20)`;
    const response = await query(big);
    expectFailure(response, 400, 'result_too_large');
    const half = `SELECT repeat('x', 1000000) FROM generate_series(1, 9)`;
    expect((await query(half)).status).toBe(200);
    expectFailure(await batch(['INSERT INTO t VALUES (1)', half, half]), 400, 'result_too_large');
    expectFailure(
      await query(`INSERT INTO t SELECT g FROM generate_series(1, 20) g RETURNING repeat('x', 1000000)`),
      400,
      'result_too_large',
    );
    const wide = `SELECT ${Array.from({ length: 1_600 }, (_, i) => `1 AS c${i}`).join()}`;
    expectFailure(await batch(Array<string>(200).fill(wide)), 400, 'result_too_large');
    expect(await content()).toEqual([]);
  });

  it('the encoding of responses', async () => {
    const response = await query(`SELECT set_config('client_encoding', 'LATIN1', false), 'é'`);
    expect([response.status, response.body.error]).toEqual([400, 'statement_not_allowed']);
  });

  it('the slot in Postgres: if the client leaves, the query ends', async () => {
    const controller = new AbortController();
    const headers = { 'neon-connection-string': url(), ...AS_DRIVER };
    const body = { query: 'SELECT pg_sleep(50)' };
    const running = service.call('POST', '/sql', { body, headers, signal: controller.signal }).catch(() => null);
    await expect.poll(() => runningRequests(service), { timeout: 60_000 }).toBe(1);
    controller.abort();
    await running;
    await expect.poll(() => isIdle(service), { timeout: 20_000 }).toBe(true);
  });

  it('the quota, with a status of its own', async () => {
    const made = await service.project('small');
    await made.rows(`CREATE TABLE ballast AS SELECT repeat('x', 1000) AS s FROM generate_series(1, 20000)`);
    await service.engine.projects.setQuota('small', 16_000_000, BY_ITSELF);
    const small = await made.seenAnew();
    const headers = { 'neon-connection-string': url('writer', small.token, 'small') };
    const queries = [{ query: 'SELECT 1' }, { query: "INSERT INTO ballast VALUES ('1')" }];
    expectFailure(await send({ queries }, headers), 403, 'quota_exceeded');
    expect((await send({ query: 'DELETE FROM ballast' }, headers)).body).toMatchObject({ command: 'DELETE' });
  });

  it('the rate limit of a token', async () => {
    const limited = await startTestService({ 'rate-limit': '1/1h' });
    try {
      const { token } = await limited.project('small');
      const headers = { 'neon-connection-string': url('writer', token, 'small') };
      expect((await send({ query: 'SELECT 1' }, headers, limited)).status).toBe(200);
      expectFailure(await send({ query: 'SELECT 1' }, headers, limited), 429, 'rate_limited');
    } finally {
      await limited.close();
    }
  });
});
