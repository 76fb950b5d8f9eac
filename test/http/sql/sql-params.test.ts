/** `params` of free SQL: every kind of JSON value for many Postgres types, with all digits (contract C5, C13.5). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  expectFailure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
});
afterAll(() => service.close());

/** `params` is JSON text, so that digits and escapes go out as they stand here. */
const sql = (text: string, params: string): Promise<TestResponse> =>
  project.call('POST', '/api/cdp/sql', { body: `{"sql":${JSON.stringify(text)},"params":${params}}` });

describe('works', () => {
  // A JSON value, the Postgres type it goes into, and the JSON text of the response.
  const CASES: [value: string, type: string, response: string][] = [
    ['null', 'int', 'null'],
    ['null', 'text', 'null'],
    ['null', 'jsonb', 'null'],
    ['1', 'int', '1'],
    ['-7', 'smallint', '-7'],
    ['9007199254740993', 'bigint', '"9007199254740993"'],
    ['"9007199254740993"', 'bigint', '"9007199254740993"'],
    ['9223372036854775807', 'numeric', '"9223372036854775807"'],
    ['0.1234567890123456789012345', 'numeric', '0.1234567890123456789012345'],
    ['1e-7', 'numeric', '0.0000001'],
    ['1.50', 'text', '"1.50"'],
    ['12345678901234567890.5', 'text', '"12345678901234567890.5"'],
    ['0.1', 'float8', '0.1'],
    ['1e300', 'float8', '1e+300'],
    ['"NaN"', 'float8', '"NaN"'],
    ['true', 'boolean', 'true'],
    ['false', 'boolean', 'false'],
    ['true', 'text', '"true"'],
    ['"t"', 'boolean', 'true'],
    ['"é€😀\\n\\"\\\\"', 'text', '"é€😀\\n\\"\\\\"'],
    ['"\\u00e9"', 'varchar', '"é"'],
    ['""', 'text', '""'],
    ['"0190a0b0-0000-7000-8000-000000000000"', 'uuid', '"0190a0b0-0000-7000-8000-000000000000"'],
    ['"2024-02-30T00:00:00"', 'text', '"2024-02-30T00:00:00"'],
    ['"2024-02-03T04:05:06+02:00"', 'timestamptz', '"2024-02-03T02:05:06Z"'],
    ['"2024-02-03"', 'date', '"2024-02-03"'],
    ['"1 day 02:00"', 'interval', '"1 day 02:00:00"'],
    ['"\\\\x00ff"', 'bytea', '"\\\\x00ff"'],
    ['"10.0.0.1"', 'inet', '"10.0.0.1"'],
    ['{"a": 1.00, "b": [9007199254740993, null]}', 'jsonb', '{"a": 1.00, "b": [9007199254740993, null]}'],
    ['{"b": 1, "a": 2, "b": 3}', 'json', '{"b": 1, "a": 2, "b": 3}'],
    ['[1, {"x": []}]', 'jsonb', '[1, {"x": []}]'],
    ['[]', 'jsonb', '[]'],
    ['"\\"quoted\\""', 'jsonb', '"quoted"'],
    ['5', 'jsonb', '5'],
    ['true', 'jsonb', 'true'],
    ['{"a": 1}', 'text', '"{\\"a\\": 1}"'],
    ['[1, null, 3]', 'int[]', '[1,null,3]'],
    ['[[1, 2], [3, 4]]', 'int[]', '[[1,2],[3,4]]'],
    ['[]', 'int[]', '[]'],
    ['["a,b", "c\\"d", "e\\\\f", "", "NULL", null, " {}"]', 'text[]', '["a,b","c\\"d","e\\\\f","","NULL",null," {}"]'],
    ['[9007199254740993]', 'bigint[]', '["9007199254740993"]'],
    ['[0.10]', 'numeric[]', '[0.10]'],
    ['[true, false]', 'boolean[]', '[true,false]'],
    ['"[1, 2]"', 'text', '"[1, 2]"'],
    ['[{"a": 1}, [2]]', 'json', '[{"a": 1}, [2]]'],
    ['[{"a": 1.0}]', 'jsonb[]', '[{"a": 1.0}]'],
    ['["2024-02-03"]', 'date[]', '["2024-02-03"]'],
  ];

  it.each(CASES)('with %s as %s', async (value, type, expected) => {
    const response = await sql(`SELECT $1::${type} AS v`, `[${value}]`);
    expect(response.text).toMatch(/^\{"success":true/);
    expect(response.text).toContain(`"rows":[{"v":${expected}}]`);
  });

  it('with types from the statement, in any order and however often a parameter is used', async () => {
    await project.table('people', { name: 'TEXT', age: 'INTEGER', at: 'TIMESTAMP', more: 'JSONB' });
    const text =
      'INSERT INTO people (name, age, at, more) VALUES ($2, $1, $3, $4) RETURNING name, age, at, more, $1 + 1 AS next';
    const response = await sql(text, '[41, "Ada", "2024-01-01", {"k": [1.10]}]');
    expect(response.text).toContain(
      '"rows":[{"name":"Ada","age":41,"at":"2024-01-01T00:00:00Z","more":{"k": [1.10]},"next":42}]',
    );
    const among = await sql(
      'SELECT count(*) AS n FROM people WHERE age = ANY ($1) AND name <> ALL ($2)',
      '[[41, 7], []]',
    );
    expect(among.body.rows).toEqual([{ n: 1 }]);
  });

  it('with as many parameters as the protocol allows', async () => {
    const list = (most: number) => Array.from({ length: most }, (_, i) => i + 1);
    const text = (most: number) =>
      `SELECT cardinality(ARRAY[${list(most)
        .map((i) => `$${i}::int`)
        .join()}]) AS n`;
    const most = 65_535;
    expect((await sql(text(most), JSON.stringify(list(most)))).body.rows).toEqual([{ n: most }]);
    expectFailure(await sql(text(most + 1), JSON.stringify(list(most + 1))), 400, 'invalid_request');
  });

  it('with a value that looks like the end of a string', async () => {
    await project.rows('CREATE TABLE safe (s text)');
    const nasty = `'); DROP TABLE safe; --`;
    await project.rows('INSERT INTO safe VALUES ($1)', [nasty]);
    expect(await project.rows('SELECT s FROM safe')).toEqual([{ s: nasty }]);
  });
});

describe('refuses', () => {
  it('too few, too many, and params with several statements', async () => {
    expect(expectFailure(await sql('SELECT $1::int, $2::int', '[1]'), 400, 'invalid_request').message).toMatch(
      /2 .*1 /,
    );
    expect(expectFailure(await sql('SELECT 1', '[1]'), 400, 'invalid_request').message).toMatch(/0 .*1 /);
    expectFailure(await sql('SELECT $1::int', '[]'), 400, 'invalid_request');
    expectFailure(await sql('SELECT $1::int; SELECT 2', '[1]'), 400, 'invalid_request');
  });

  it('values that the type does not take, and counts nothing as done', async () => {
    await project.rows('CREATE TABLE numbers (n int, m int)');
    for (const value of ['"x"', '1.5', '3000000000', 'true', '{}']) {
      const response = await sql('INSERT INTO numbers VALUES ($1, $2)', `[1, ${value}]`);
      const { postgres, hint } = expectFailure(response, 400, 'sql_error');
      expect(['22P02', '22003']).toContain(postgres?.sqlstate);
      expect(hint).toBe('This is the value of $2 in "params".');
    }
    expect(await project.rows('SELECT * FROM numbers')).toEqual([]);
  });

  it.each([
    ['bigint', 'SELECT * FROM generate_series(1::bigint, 3) AS n WHERE n IN ($1)', '[[1, 2]]'],
    ['text', `SELECT 'a' AS v WHERE 'a' IN ($1)`, '[["a"]]'],
    ['character varying', `SELECT $1::varchar`, '[[]]'],
    ['uuid', 'SELECT $1::uuid', '[["0190a0b0-0000-7000-8000-000000000000"]]'],
  ])('an array for a parameter of type %s, and says what to write instead', async (type, text, params) => {
    const body = expectFailure(await sql(text, params), 400, 'invalid_value');
    expect(body.errors).toMatchObject([{ column: '$1' }]);
    expect(body.message).toBe(`Parameter $1: an array cannot be a value of type ${type}`);
    expect(body.hint).toContain('= ANY($1)');
  });

  it('an array for a parameter of a type that accepts its text, because it would match nothing', async () => {
    await project.rows(`CREATE DOMAIN code AS text; CREATE TYPE mood AS ENUM ('sad', 'ok');
      CREATE TABLE own (c code, m mood, cs code[]); INSERT INTO own VALUES ('a', 'ok', '{a}')`);
    for (const [column, type] of [
      ['c::code', 'code'],
      ['m', 'mood'],
    ] as const) {
      const [name] = column.split('::');
      const text = `SELECT * FROM own WHERE ${name} IN ($1${column === 'm' ? '' : '::code'})`;
      const body = expectFailure(await sql(text, '[["a", "ok"]]'), 400, 'invalid_value');
      expect(body.errors).toMatchObject([{ column: '$1' }]);
      expect(body.message).toBe(`Parameter $1: an array cannot be a value of type ${type}`);
      expect(body.hint).toContain('= ANY($1)');
    }
    // What the look-up has come between goes on.
    const any = await sql('SELECT c FROM own WHERE m = ANY ($1) AND cs = $2 AND c = $3', '[["ok"], ["a"], "a"]');
    expect([any.status, any.body.rows]).toEqual([200, [{ c: 'a' }]]);
  });

  it('an array for a column that has become text, and stores it as JSON once the column has that type', async () => {
    await project.rows('CREATE TABLE lists (v int[])');
    const insert = 'INSERT INTO lists VALUES ($1)';
    for (let i = 0; i < 2; i++) expect((await sql(insert, '[[1, 2]]')).status).toBe(200);
    await project.rows('ALTER TABLE lists ALTER v TYPE text');
    expectFailure(await sql(insert, '[[3]]'), 400, 'invalid_value');
    await project.rows('ALTER TABLE lists ALTER v TYPE jsonb USING to_jsonb(v)');
    await sql(insert, '[[4]]');
    expect(await project.rows('SELECT v FROM lists')).toEqual([{ v: '{1,2}' }, { v: '{1,2}' }, { v: [4] }]);
  });

  it('U+0000 and lone surrogates, and names the parameter', async () => {
    const cases = ['"a\\u0000"', '"\\ud800"', '["ok", "\\u0000"]', '{"a": "\\udc00"}', '{"\\u0000": 1}'];
    for (const value of cases) {
      const body = expectFailure(
        await sql('SELECT $1::text, $2::jsonb::text', `["fine", ${value}]`),
        400,
        'invalid_value',
      );
      expect(body.errors).toMatchObject([{ column: '$2', error: 'invalid_value' }]);
      const typed = value.startsWith('[') ? 'text[]' : 'text';
      expectFailure(await sql(`SELECT $1::${typed}`, `[${value}]`), 400, 'invalid_value');
    }
  });

  it('every bad value in one response', async () => {
    const response = await sql('SELECT $1::text, $2::text, $3::text', String.raw`["\u0000", "fine", "\ud800"]`);
    const body = expectFailure(response, 400, 'invalid_value');
    expect(body.errors?.map(({ column }) => column)).toEqual(['$1', '$3']);
    expect(body.message).toMatch(/^Parameter \$1: .* \(and 1 more error\)$/);
  });
});
