/** `cdp export` against a real service: values of all types, each format, and what `cdp import` makes of the file. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { parquetMetadata } from 'hyparquet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parameters } from '../properties/run.js';
import { ANY_VALUES, OWN_TYPES } from '../support/any-values.js';
import { person, type Person } from '../support/cdp.js';
import { endEverything } from '../support/program.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { columnTypes } from '../support/tables.js';

let service: TestService;
let project: TestProject;
let ada: Person;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const load = (file: string, table: string, ...more: string[]) => ada.run(['import', file, '--table', table, ...more]);
const types = (table: string) => columnTypes(project, table);

describe('an export', () => {
  it('can be imported again in every format, including ids', async () => {
    await project.table('round', { t: 'TEXT', i: 'INTEGER', f: 'FLOAT', b: 'BOOLEAN', at: 'TIMESTAMP', j: 'JSONB' });
    await project.rows(`INSERT INTO round (t, i, f, b, at, j) VALUES
    ('', 9223372036854775807, 0.1, true, '2026-01-31T09:30:00.123456Z', '{"a": [1.50, null, "x"], "n": 12345678901234567890}'),
    (NULL, -9007199254740993, 'NaN', NULL, NULL, NULL),
    (E'"quotes", commas\\n and\\r\\nbreaks\\t', 0, 1e300, false, '0001-01-01T00:00:00Z', '"text"'),
    ('日本語 😀 \u00ad', NULL, '-Infinity', NULL, NULL, NULL),
    ('007', NULL, NULL, NULL, NULL, '[]'), ('null', NULL, NULL, NULL, NULL, '{}')`);
    const all = (table: string) =>
      project.rows(`SELECT id, t, i::text, f::text, b, at, j::text FROM ${table} ORDER BY id`);
    for (const file of ['round.csv', 'round.ndjson', 'round.json', 'round.csv.gz', 'round.ndjson.gz']) {
      const table = file.replaceAll('.', '_');
      await ada.output('export', '--table', 'round', '-o', file);
      await project.table(table, { t: 'TEXT', i: 'INTEGER', f: 'FLOAT', b: 'BOOLEAN', at: 'TIMESTAMP', j: 'JSONB' });
      expect(await load(file, table), file).toMatchObject({ code: 0 });
      expect(await all(table), file).toEqual(await all('round'));
    }
    expect(await ada.output('export', 'SELECT i FROM round WHERE false', '-o', 'nothing.json', '--json')).toContain(
      '"rows":0',
    );
    expect(await ada.read('nothing.json')).toBe('[]\n');
  });

  it('restores the same table with --create: the six types, each with NULL and its extremes, and arrays as JSONB', async () => {
    const columns = `id uuid PRIMARY KEY DEFAULT gen_random_uuid(), t text, i bigint, f float8, b boolean, at timestamptz, j jsonb`;
    await project.rows(`CREATE TABLE typed (${columns}, whole float8, digits text, list text[], nothing boolean)`);
    await project.rows(`INSERT INTO typed (t, i, f, b, at, j, whole, digits, list) VALUES
    ('', 9223372036854775807, 0.1, true, '2026-01-31T09:30:00.123456Z', '{"a": [1.50, null], "n": 12345678901234567890}', 1, '12', '{a,NULL}'),
    (E'"a",\n\\ 😀', -9223372036854775808, 'NaN', NULL, '0001-01-01T00:00:00Z', '[]', -2, '34', '{}'),
    ('007', 5, -1e300, false, '9999-12-31T23:59:59.999999Z', '{}', 0, '5', NULL),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`);
    const all = (table: string) =>
      project.rows(
        `SELECT id, t, i::text, f::text, b, at, j::text, whole, digits::text, to_jsonb(list) AS list FROM ${table} ORDER BY id`,
      );
    const wanted: Record<string, unknown> = { ...(await types('typed')), list: 'jsonb' };
    for (const file of ['typed.parquet', 'typed.ndjson', 'typed.csv']) {
      const table = file.replace('.', '_');
      await ada.output('export', '--table', 'typed', '-o', file);
      expect(await load(file, table, '--create'), file).toMatchObject({ code: 0 });
      expect(await all(table), file).toEqual(await all('typed'));
      // What the values do not show, only Parquet says.
      const unknown = { nothing: 'text', whole: 'bigint', ...(file === 'typed.csv' ? { digits: 'bigint' } : {}) };
      expect(await types(table), file).toEqual(file === 'typed.parquet' ? wanted : { ...wanted, ...unknown });
    }
    const exported = await ada.output('export', '--table', 'typed', '--with-types', '-o', 'declared.ndjson.gz');
    expect(exported).toMatch(/^4 rows in /);
    expect(await load('declared.ndjson.gz', 'declared', '--create')).toMatchObject({ code: 0 });
    expect(await all('declared')).toEqual(await all('typed'));
    expect(await types('declared')).toEqual(wanted);
    await ada.output('export', 'SELECT id, whole, at FROM typed WHERE false', '--with-types', '-o', 'empty.ndjson');
    expect(await load('empty.ndjson', 'empty', '--create')).toMatchObject({ code: 0 });
    expect(await types('empty')).toEqual({ id: wanted.id, whole: wanted.whole, at: wanted.at });
    expect((await ada.run(['export', '--table', 'typed', '--with-types', '-o', 'typed.json'])).code).toBe(2);
    await ada.write('record.ndjson', '{"columns":[{"name":"a","type":"TEXT","width":3}]}\n');
    expect(await load('record.ndjson', 'record', '--create', '--types', 'columns=JSONB')).toMatchObject({ code: 0 });
    expect(await types('record')).toEqual({ id: 'uuid', columns: 'jsonb' });
  });

  it('can be imported again with columns of other types: arrays, JSON, enums, numerics, times', async () => {
    await project.rows("CREATE TYPE mood AS ENUM ('sad', 'ok')");
    const columns = `i integer[], b bigint[], t text[], matrix text[], j jsonb[], at timestamptz[], m mood, moods mood[],
    plain json, n numeric, d date, span interval, bytes bytea, r int4range`;
    await project.rows(`CREATE TABLE lists (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), ${columns})`);
    await project.rows(`CREATE TABLE lists_again (LIKE lists INCLUDING ALL)`);
    await project.rows(`INSERT INTO lists (i, b, t, matrix, j, at, m, moods, plain, n, d, span, bytes, r) VALUES
    ('{1,NULL,3}', '{9223372036854775807}', ARRAY['a,b', '"x"', '\\', 'NULL', NULL, E'\\n', '{}'],
     '{{a,b},{c,d}}', ARRAY['{"a": [1.50]}', NULL]::jsonb[],
     '{2026-01-31T09:30:00.123456Z}', 'ok', '{sad,ok}', '{"a":  1}', 12345678901234567890.10, '2026-01-31',
     '1 day 02:00', '\\x00ff', '[1,5)'),
    ('{}', NULL, '{}', '{}', NULL, NULL, NULL, NULL, '[1]', 'NaN', 'infinity', NULL, '', 'empty')`);
    const names = 'id, i, b, t, matrix, j, at, m, moods, plain, n, d, span, bytes, r';
    const all = (table: string) => project.rows(`SELECT l::text AS row FROM ${table} AS l ORDER BY id`);
    for (const file of ['lists.csv', 'lists.ndjson', 'lists.parquet']) {
      await project.rows('TRUNCATE lists_again');
      // Parquet has no infinite dates.
      const selected = names.replace(/\bd\b/, file.endsWith('.parquet') ? 'd::text AS d' : 'd');
      await ada.output('export', `SELECT ${selected} FROM lists`, '-o', file);
      expect(await load(file, 'lists_again'), file).toMatchObject({ code: 0 });
      expect(await all('lists_again'), file).toEqual(await all('lists'));
    }
  });

  it('can be imported again with any values of any types', async () => {
    const columns = Object.entries(ANY_VALUES).map(([type, values], n) => ({ name: `c${n}`, type, values }));
    const names = columns.map(({ name }) => name).join(', ');
    const list = columns.map(({ name, type }) => `${name} ${type}`).join(', ');
    await project.rows(`${OWN_TYPES};
    CREATE TABLE any_values (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), ${list});
    CREATE TABLE any_again (LIKE any_values INCLUDING ALL)`);
    const literal = (value: string | null) => (value === null ? 'NULL' : `'${value.replaceAll("'", "''")}'`);
    const rows = fc.sample(fc.tuple(...columns.map(({ values }) => values)), { ...parameters(0), numRuns: 120 });
    const values = rows.map((row) => `(${row.map(literal).join(', ')})`).join(',\n');
    await project.rows(`INSERT INTO any_values (${names}) VALUES ${values}`);
    // JSON null is NULL.
    const shown = columns.map(({ name, type }) =>
      /^jsonb?$/.test(type) ? `nullif(${name}::text, 'null')` : `${name}::text`,
    );
    const all = (table: string) => project.rows(`SELECT id, ARRAY[${shown.join(', ')}] AS v FROM ${table} ORDER BY id`);
    // Parquet has no infinite dates and no NaN among its decimals.
    const forParquet = columns.map(({ name, type }) =>
      /^(timestamp|date|numeric\(12,3\))$/.test(type) ? `${name}::text AS ${name}` : name,
    );
    for (const [file, selected] of [
      ['any-values.csv', names],
      ['any-values.ndjson', names],
      ['any-values.parquet', forParquet.join(', ')],
    ] as const) {
      await project.rows('TRUNCATE any_again');
      await ada.output('export', `SELECT id, ${selected} FROM any_values`, '-o', file);
      const { code, stderr } = await load(file, 'any_again');
      expect([file, code, stderr]).toEqual([file, 0, stderr]);
      expect(await all('any_again'), file).toEqual(await all('any_values'));
    }
  });

  it('can be imported again into a table that numbers and computes columns itself', async () => {
    await project.rows(`CREATE TABLE made (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    seq bigint GENERATED ALWAYS AS IDENTITY, own bigint GENERATED BY DEFAULT AS IDENTITY, nm text,
    up text GENERATED ALWAYS AS (upper(nm)) STORED)`);
    await project.rows('CREATE TABLE made_again (LIKE made INCLUDING ALL)');
    await project.rows("INSERT INTO made (own, nm) VALUES (7, 'a'), (8, 'b')");
    const all = (table: string) =>
      project.rows(`SELECT id, own, nm, up, seq > 0 AS numbered FROM ${table} ORDER BY id`);
    for (const file of ['made.csv', 'made.ndjson', 'made.parquet']) {
      await project.rows('TRUNCATE made_again');
      await ada.output('export', 'SELECT * FROM made ORDER BY seq', '-o', file);
      const { code, stderr } = await load(file, 'made_again');
      expect([code, stderr], file).toEqual([
        0,
        expect.stringMatching(/up +\| \(left out\) \| +\| the table generates it/),
      ]);
      expect(await all('made_again'), file).toEqual(await all('made'));
    }
  });

  it('as Parquet has decimals for numeric results, if their digits fit', async () => {
    const sql = `SELECT sum(n) AS total, avg(n) AS mean, max(CASE WHEN n > 2 THEN 'NaN' ELSE n END) AS odd, 1e37::numeric + 0.5 AS large
    FROM (VALUES (1.5), (2.25), (2.5)) AS v (n) -- the end`;
    await ada.output('export', sql, '-o', 'sums.parquet');
    const { schema } = parquetMetadata(new Uint8Array(readFileSync(join(ada.folder, 'sums.parquet'))).buffer);
    expect(
      schema.slice(1).map(({ name, converted_type, precision, scale }) => [name, converted_type, precision, scale]),
    ).toEqual([
      ['total', 'DECIMAL', 38, 9],
      ['mean', 'DECIMAL', 38, 16],
      ['odd', 'UTF8', undefined, undefined],
      ['large', 'UTF8', undefined, undefined],
    ]);
    await project.rows(
      'CREATE TABLE sums (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), total numeric, mean numeric)',
    );
    expect(await load('sums.parquet', 'sums', '--skip', 'odd,large')).toMatchObject({ code: 0 });
    const again = await project.rows('SELECT total = 6.25 AS total, mean = 2.0833333333333333 AS mean FROM sums');
    expect(again).toEqual([{ total: true, mean: true }]);
  });

  it('of many rows is complete, and one that fails leaves no file', async () => {
    const query = "SELECT n, repeat('x', 100) AS x FROM generate_series(1, $1::int) AS n";
    await ada.output('export', query, '--param', '100000', '-o', 'many.ndjson.gz');
    const file = gunzipSync(readFileSync(join(ada.folder, 'many.ndjson.gz'))).toString();
    expect(file.split('\n')).toHaveLength(100_001);
    const broken = await ada.run([
      'export',
      `SELECT 1 / (50000 - n) AS x FROM generate_series(1, 100000) AS n`,
      '-o',
      'half.csv',
    ]);
    expect(broken.code).not.toBe(0);
    expect(await ada.exists('half.csv')).toBe(false);
    const refused = await ada.run(['export', 'SELECT nothing', '-o', 'half.csv']);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('sql_error')]);
    const slow = await ada.run(['export', 'SELECT pg_sleep(60)', '-o', 'half.csv', '--timeout', '200ms']);
    expect([slow.code, slow.stderr]).toEqual([1, expect.stringContaining('200 ms')]);
    expect((await ada.run(['export', 'SELECT 1', '-o', 'what.xlsx'])).code).toBe(2);
    expect((await ada.run(['export', 'SELECT 1', '-o', 'what.parquet.gz'])).stderr).toContain('Leave out .gz');
    const infinite = await ada.run(['export', `SELECT timestamptz 'infinity' AS at`, '-o', 'what.parquet']);
    expect([infinite.code, infinite.stderr]).toEqual([
      2,
      expect.stringContaining('cannot represent "infinity" in the column "at"'),
    ]);
    expect(await ada.exists('what.parquet')).toBe(false);
  });
});
