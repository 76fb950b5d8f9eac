/** Random and damaged requests to every route: each gets a clear response, never a 500, and none hangs. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { OPERATIONS } from '../../src/http/api/operations.js';
import { pathOf } from '../support/routes.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { checkClear, parameters } from './run.js';

let service: TestService;
let project: TestProject;
let admin: string;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('customers', {
    email: 'TEXT',
    age: 'INTEGER',
    country: 'TEXT',
    seen: 'TIMESTAMP',
    more: 'JSONB',
  });
  admin = (await service.engine.tokens.create(null)).token;
});
afterAll(() => service.close());

const WITH_BODY = OPERATIONS.filter(({ body }) => body !== undefined);
const route = fc.constantFrom(...WITH_BODY);
const hostile = fc.constantFrom(
  'null',
  '[]',
  '{}',
  '""',
  '-0',
  '1e999',
  '"\\u0000"',
  '"\\ud800"',
  '[[[[[[]]]]]]',
  '{"__proto__":{"a":1}}',
  '{"constructor":{"prototype":{}}}',
  '"'.padEnd(3_000, 'x') + '"',
  '9007199254740993',
  '[{}]',
);

/** A valid body with a few places changed: bytes, or whole values. */
const damaged = (example: unknown) => {
  const text = JSON.stringify(example);
  const values = [...text.matchAll(/"(?:[^"\\]|\\.)*"|-?\d+|true|false|null/g)].map(({ index, 0: match }) => ({
    index,
    length: match.length,
  }));
  const swap = fc
    .tuple(fc.constantFrom(...values), hostile)
    .map(([{ index, length }, value]) => Buffer.from(text.slice(0, index) + value + text.slice(index + length)));
  const bytes = fc
    .array(
      fc.tuple(
        fc.nat({ max: text.length - 1 }),
        fc.integer({ min: 0, max: 255 }),
        fc.constantFrom('set', 'insert', 'cut'),
      ),
      { minLength: 1, maxLength: 4 },
    )
    .map((changes) => {
      let body = Buffer.from(text);
      for (const [at, byte, how] of changes) {
        const tail = body.subarray(how === 'insert' ? at : at + 1);
        body = Buffer.concat([body.subarray(0, at), how === 'cut' ? Buffer.alloc(0) : Buffer.of(byte), tail]);
      }
      return body;
    });
  return fc.oneof(swap, bytes);
};

const anyBody = route.chain((of) =>
  fc.tuple(
    fc.constant(of),
    fc.oneof(
      { weight: 4, arbitrary: damaged(of.example) },
      fc.uint8Array({ maxLength: 200 }),
      fc.json({ stringUnit: 'binary' }).map((text) => Buffer.from(text)),
      fc.object().map((value) => Buffer.from(JSON.stringify(value))),
    ),
  ),
);

it('any body gets a clear response', async () => {
  await fc.assert(
    fc.asyncProperty(anyBody, async ([{ method, url, access }, body]) => {
      const path = pathOf({ method, url } as never, { table_name: 'customers' });
      checkClear(
        await service.call(method, path, {
          token: access === 'admin' ? admin : project.token,
          body: new Uint8Array(body),
        }),
      );
    }),
    parameters(250),
  );
});

it('any headers and query string get a clear response', async () => {
  const latin = fc
    .string({ unit: fc.integer({ min: 0x20, max: 0xff }).map((code) => String.fromCharCode(code)), maxLength: 60 })
    .filter((text) => !text.includes('\x7f') && text.trim() === text);
  const header = fc.tuple(
    fc.constantFrom(
      'idempotency-key',
      'x-request-id',
      'accept',
      'content-type',
      'content-encoding',
      'authorization',
      'expect-ct',
      'x-forwarded-for',
      'if-match',
      'range',
      'prefer',
    ),
    latin,
  );
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...OPERATIONS),
      fc.array(header, { maxLength: 4 }),
      fc.webQueryParameters(),
      async (of, headers, query) => {
        const token = of.access === 'admin' ? admin : project.token;
        const path = pathOf(of, { table_name: 'customers', column_name: 'nothing' });
        const response = await service.call(
          of.method === 'DELETE' ? 'GET' : of.method,
          `${path}${path.includes('?') ? '&' : '?'}${query}`,
          {
            token,
            headers: Object.fromEntries(headers),
            ...(of.body === undefined || of.method === 'DELETE'
              ? {}
              : { body: of.operationId === 'createTable' ? '{}' : JSON.stringify(of.example) }),
          },
        );
        if (response.text.startsWith('{')) checkClear(response);
        else expect(response.status).toBe(200);
      },
    ),
    parameters(200),
  );
});

const TOKENS = (
  'SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE VIEW TEMP DROP ALTER ADD COLUMN AS AND OR NOT NULL IN ( ) , ; . * + - / = <> < > || :: ' +
  "'x' '' \"q\" $1 $2 $$ $a$ -- /* */ E'\\\\' U&'\\0061' B'1' 1 0 -1 1e400 NaN customers email age id pg_class pg_sleep(0.01) now() random() count(*) " +
  'generate_series(1,3) WITH RECURSIVE r LIMIT OFFSET ORDER BY GROUP HAVING UNION ALL JOIN ON LATERAL CASE WHEN THEN ELSE END CAST int text jsonb json[] ' +
  'EXPLAIN ANALYZE COPY TO FROM STDIN STDOUT PREPARE EXECUTE DECLARE CURSOR WITH HOLD FETCH CLOSE BEGIN COMMIT ROLLBACK SAVEPOINT SET RESET SHOW LOCK VACUUM LISTEN NOTIFY ' +
  'GRANT REVOKE DO CALL DISCARD COMMENT IS RETURNING DEFAULT ARRAY[1] ROW(1) {"a":1} \\ é 💥 \t \n'
).split(' ');
const sqlText = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.array(fc.constantFrom(...TOKENS), { minLength: 1, maxLength: 14 }).map((tokens) => tokens.join(' ')),
  },
  fc.array(fc.constantFrom(...TOKENS), { minLength: 1, maxLength: 6 }).map((tokens) => `SELECT ${tokens.join(' ')}`),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 80 }),
);

it('any SQL with any params gets a clear response', async () => {
  const option = fc.oneof(fc.nat({ max: 20 }), fc.constantFrom(-1, 1.5, '1', null, true, 1e9, 'array', 'object'));
  const request = fc.record(
    {
      params: fc.array(fc.jsonValue(), { maxLength: 3 }),
      read_only: fc.boolean(),
      max_rows: option,
      row_mode: option,
      numbers: fc.constantFrom('raw', 'string', 1),
      timeout_ms: fc.constantFrom(1_000, 5_000),
    },
    { requiredKeys: ['timeout_ms'] },
  );
  const accept = fc.constantFrom('application/json', 'application/x-ndjson', 'text/csv');
  await fc.assert(
    fc.asyncProperty(sqlText, request, accept, async (sql, rest, wanted) => {
      const response = await project.call('POST', '/api/cdp/sql', {
        body: { sql, ...rest },
        headers: { accept: wanted },
      });
      if (response.status === 200) return;
      checkClear(response);
    }),
    parameters(250),
  );
  expect(await project.rows('SELECT 1 AS n')).toEqual([{ n: 1 }]);
});

it('a query with params of any type gets a clear response', async () => {
  const type = fc.constantFrom(
    'text',
    'int',
    'bigint',
    'float8',
    'numeric',
    'bool',
    'timestamptz',
    'jsonb',
    'json',
    'uuid',
    'bytea',
    'text[]',
    'int[]',
    'interval',
    'inet',
    'point',
    'int4range',
    'xml',
    'regclass',
    '"char"',
    'bit(3)',
    'money',
    'tsvector',
    'record',
  );
  await fc.assert(
    fc.asyncProperty(
      type,
      fc.oneof(
        fc.jsonValue({ stringUnit: 'binary' }),
        fc.constantFrom('infinity', '2024-01-01', '{}', '{1,NULL}', '(1,2)', '[1,2)', '\\x00'),
      ),
      async (of, param) => {
        const response = await project.call('POST', '/api/cdp/sql', {
          body: { sql: `SELECT $1::${of} AS v, ARRAY[$1::${of}] AS a, ROW($1::${of}) AS r`, params: [param] },
        });
        checkClear(response);
      },
    ),
    parameters(150),
  );
});

it('an error with any SQLSTATE is answered clearly, in free SQL and in an insert', async () => {
  await project.table('raising', { state: 'TEXT' });
  await project.rows(`CREATE FUNCTION raise_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      RAISE EXCEPTION 'told' USING ERRCODE = NEW.state; END $$;
    CREATE TRIGGER raise_it BEFORE INSERT ON raising FOR EACH ROW EXECUTE FUNCTION raise_it()`);
  const state = fc.oneof(
    fc.stringMatching(/^[0-9A-Z]{5}$/),
    fc
      .tuple(
        fc.constantFrom(
          '08',
          '0A',
          '22',
          '23',
          '25',
          '28',
          '2B',
          '40',
          '42',
          '53',
          '54',
          '55',
          '57',
          '58',
          'F0',
          'P0',
          'XX',
        ),
        fc.stringMatching(/^[0-9A-Z]{2}[1-9]$/),
      )
      .map((parts) => parts.join('')),
    fc.constantFrom(
      '00000',
      '25001',
      '25P02',
      '25P03',
      '28P01',
      '42P07',
      '42701',
      '2BP01',
      '2D000',
      '40001',
      '40P01',
      '42P01',
      '42809',
      '57014',
      '57P01',
      '57P02',
      '57P03',
      'XX000',
      'XX001',
    ),
  );
  await fc.assert(
    fc.asyncProperty(state, async (code) => {
      const sql = `DO $$ BEGIN RAISE EXCEPTION 'told' USING ERRCODE = '${code}', TABLE = 't', COLUMN = E'\\n', CONSTRAINT = '', DETAIL = 'é'; END $$`;
      const told = [
        await project.call('POST', '/api/cdp/sql', { body: { sql } }),
        await project.call('POST', '/api/cdp/data/raising', { body: [{ state: code }] }),
      ];
      for (const response of told) {
        expect(response.status).toBeGreaterThanOrEqual(400);
        checkClear(response);
      }
    }),
    parameters(80),
  );
});
