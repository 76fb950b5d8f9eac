/**
 * Files beside DuckDB, which reads and writes them by code of its own: what it writes is imported as it reads it, and what is
 * exported it reads as Postgres shows it.
 */
import { join } from 'node:path';
import { createRequire } from 'node:module';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { person, type Person } from '../support/cdp.js';
import { endEverything } from '../support/program.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';

interface Connection {
  run(sql: string): Promise<unknown>;
  runAndReadAll(sql: string): Promise<{ getRowObjectsJson(): Record<string, string | null>[] }>;
}
interface Duck {
  DuckDBInstance: { create(path: string): Promise<{ connect(): Promise<Connection> }> };
}

let duck: Connection;
let service: TestService;
let project: TestProject;
let ada: Person;
beforeAll(async () => {
  const clients = createRequire(join(import.meta.dirname, 'clients/package.json'));
  const { DuckDBInstance } = clients('@duckdb/node-api') as Duck;
  duck = await (await DuckDBInstance.create(':memory:')).connect();
  await duck.run(`SET TimeZone = 'UTC'`);
  service = await startTestService();
  project = await service.project();
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
});
afterAll(async () => {
  await endEverything();
  await service?.close();
});

/** Brings what two programs write for the same value into one form. */
const FORMS = {
  text: (text: string) => text,
  exact: (text: string) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text),
  double: (text: string) => String(Number(text)),
  // Stored as a double, without rounding.
  single: (text: string) => String(Math.fround(Number(text))),
  time: (text: string) =>
    text
      .replace(' ', 'T')
      .replace(/(Z|\+00(:00)?)$/, '')
      .replace(/(\.\d*?)0+$/, '$1')
      .replace(/\.$/, '')
      .replace(/^(-?\d+-\d\d-\d\d)$/, '$1T00:00:00'),
  json: (text: string) => JSON.stringify(JSON.parse(text)),
};
type Form = keyof typeof FORMS;

const COLUMNS: readonly { name: string; type: string; form: Form; values: readonly string[] }[] = [
  { name: 'whole', type: 'INTEGER', form: 'exact', values: ['-2147483648', '2147483647', '0', 'NULL'] },
  { name: 'big', type: 'BIGINT', form: 'exact', values: ['9007199254740993', '-9223372036854775808', 'NULL', '7'] },
  { name: 'huge', type: 'UBIGINT', form: 'exact', values: ['18446744073709551615', '0', '1', 'NULL'] },
  { name: 'money', type: 'DECIMAL(18,4)', form: 'exact', values: ['12345678901234.5678', '-0.0001', '10', 'NULL'] },
  {
    name: 'precise',
    type: 'DECIMAL(38,10)',
    form: 'exact',
    values: ["'1234567890123456789012345678.0123456789'", '0.1', 'NULL', '5'],
  },
  { name: 'double', type: 'DOUBLE', form: 'double', values: ['0.1', '1e300', '-5e-324', '9007199254740993'] },
  { name: 'single', type: 'REAL', form: 'single', values: ['0.1', '16777217', '3.4e38', 'NULL'] },
  { name: 'yes', type: 'BOOLEAN', form: 'text', values: ['true', 'false', 'NULL', 'true'] },
  {
    name: 'words',
    type: 'VARCHAR',
    form: 'text',
    values: [`'a "quoted", line' || chr(10) || 'and more'`, `''`, 'NULL', `'é漢😀' || chr(9)`],
  },
  { name: 'code', type: 'VARCHAR', form: 'text', values: [`'007'`, `'1e5'`, `'NULL'`, `' x '`] },
  { name: 'day', type: 'DATE', form: 'time', values: [`'2024-02-29'`, `'1969-12-31'`, `'9999-12-31'`, 'NULL'] },
  {
    name: 'moment',
    type: 'TIMESTAMP',
    form: 'time',
    values: [`'2024-02-29 12:34:56.123456'`, `'1900-01-01 00:00:00'`, 'NULL', `'0001-01-01 00:00:00.000001'`],
  },
  {
    name: 'instant',
    type: 'TIMESTAMPTZ',
    form: 'time',
    values: [`'2024-02-29 12:34:56.5+02'`, `'1969-12-31 23:59:59.999999+00'`, 'NULL', `'9999-12-31 23:59:59+00'`],
  },
  {
    name: 'ident',
    type: 'UUID',
    form: 'text',
    values: [`'01a1fd4a-ba32-726b-b7d9-cf4374f5ddde'`, 'NULL', `'ffffffff-ffff-ffff-ffff-ffffffffffff'`, 'NULL'],
  },
  { name: 'list', type: 'INTEGER[]', form: 'json', values: ['[1, 2, NULL]', '[]', 'NULL', '[3]'] },
  {
    name: 'pair',
    type: 'STRUCT(a INTEGER, b VARCHAR)',
    form: 'json',
    values: [`{'a': 1, 'b': 'x,"y'}`, `{'a': NULL, 'b': ''}`, 'NULL', `{'a': 2, 'b': 'z'}`],
  },
];

const shown = (form: Form, text: string | null): string | null => (text === null ? null : FORMS[form](text));

it.each(['parquet', 'csv', 'ndjson'])('imports the values that DuckDB writes as %s', async (format) => {
  const rows = [0, 1, 2, 3].map(
    (i) => `(${i}, ${COLUMNS.map(({ values, type }) => `(${values[i]})::${type}`).join()})`,
  );
  const names = COLUMNS.map(({ name }) => `"${name}"`).join();
  await duck.run(`CREATE OR REPLACE TABLE written AS SELECT * FROM (VALUES ${rows.join()}) AS v (n, ${names})`);
  const file = join(ada.folder, `written.${format}`);
  const options = { parquet: 'FORMAT parquet', csv: 'FORMAT csv', ndjson: 'FORMAT json' }[format];
  await duck.run(`COPY (FROM written ORDER BY n) TO '${file}' (${options})`);
  expect(await ada.run(['import', file, '--table', `from_${format}`, '--create'])).toMatchObject({ code: 0 });
  // CSV has no lists: they stay text as DuckDB writes it.
  const isJson = (form: Form) => form === 'json' && format !== 'csv';
  const asText = COLUMNS.map(({ name, form }) => (isJson(form) ? `to_json("${name}")::VARCHAR` : `"${name}"::VARCHAR`));
  const read = await duck.runAndReadAll(
    `SELECT ${asText.map((text, i) => `${text} AS "${COLUMNS[i]?.name}"`).join()} FROM written ORDER BY n`,
  );
  const stored = await project.rows(
    `SELECT ${COLUMNS.map(({ name }) => `"${name}"::text`).join()} FROM from_${format} ORDER BY n`,
  );
  for (const [i, row] of read.getRowObjectsJson().entries()) {
    for (const { name, form } of COLUMNS) {
      const text = (stored[i] as Record<string, string | null>)[name] ?? null;
      const as = isJson(form) || form !== 'json' ? form : 'text';
      expect.soft([name, shown(as, text)]).toEqual([name, shown(as, row[name] ?? null)]);
    }
  }
});

/** Types of Postgres, as DuckDB reads them from each kind of file. */
const EXPORTED: readonly { name: string; type: string; form: Form; values: readonly string[] }[] = [
  { name: 'whole', type: 'integer', form: 'exact', values: ['-2147483648', '2147483647', 'NULL'] },
  { name: 'big', type: 'bigint', form: 'exact', values: ['9007199254740993', '-9223372036854775808', 'NULL'] },
  { name: 'money', type: 'numeric(18,4)', form: 'exact', values: ['12345678901234.5678', '-0.0001', 'NULL'] },
  { name: 'free', type: 'numeric', form: 'exact', values: ['0.1', '12345678901234567890.5', 'NULL'] },
  { name: 'double', type: 'double precision', form: 'double', values: ['0.1', '1e300', 'NULL'] },
  { name: 'single', type: 'real', form: 'single', values: ['0.1', '16777216', 'NULL'] },
  { name: 'yes', type: 'boolean', form: 'text', values: ['true', 'false', 'NULL'] },
  { name: 'words', type: 'text', form: 'text', values: [`E'a "quoted", line\\nand more'`, `''`, 'NULL'] },
  { name: 'code', type: 'varchar(9)', form: 'text', values: [`'007'`, `'NULL'`, `E' é😀\\t'`] },
  { name: 'day', type: 'date', form: 'time', values: [`'2024-02-29'`, `'0001-01-01'`, 'NULL'] },
  { name: 'moment', type: 'timestamp', form: 'time', values: [`'2024-02-29 12:34:56.123456'`, `'1900-01-01'`, 'NULL'] },
  {
    name: 'instant',
    type: 'timestamptz',
    form: 'time',
    values: [`'2024-02-29 12:34:56.5+02'`, `'9999-12-31 23:59:59.999999+00'`, 'NULL'],
  },
  { name: 'ident', type: 'uuid', form: 'text', values: [`'01a1fd4a-ba32-726b-b7d9-cf4374f5ddde'`, 'NULL', 'NULL'] },
  { name: 'doc', type: 'jsonb', form: 'json', values: [`'{"a": [1, null, "x,\\"y"]}'`, `'"text"'`, 'NULL'] },
  { name: 'list', type: 'integer[]', form: 'json', values: [`'{1,NULL,3}'`, `'{}'`, 'NULL'] },
];

it.each(['parquet', 'csv', 'ndjson'])('exports as %s what DuckDB reads as Postgres shows it', async (format) => {
  const rows = [0, 1, 2].map((i) => `(${i}, ${EXPORTED.map(({ values, type }) => `(${values[i]})::${type}`).join()})`);
  const names = EXPORTED.map(({ name }) => `"${name}"`).join();
  await project.rows(
    `DROP TABLE IF EXISTS exported; CREATE TABLE exported AS SELECT * FROM (VALUES ${rows.join()}) AS v (n, ${names})`,
  );
  const file = join(ada.folder, `exported.${format}`);
  // DuckDB reads the numbers of JSON as doubles.
  const numbers = format === 'ndjson' ? ['--numbers', 'string'] : [];
  await ada.output('export', 'SELECT * FROM exported ORDER BY n', '--output', file, ...numbers);
  const texts = EXPORTED.map(({ name, form }) => `"${name}": '${form === 'json' ? 'JSON' : 'VARCHAR'}'`);
  const reader = {
    parquet: `read_parquet('${file}')`,
    csv: `read_csv('${file}', all_varchar = true, allow_quoted_nulls = false)`,
    ndjson: `read_json('${file}', format = 'newline_delimited', columns = {n: 'INTEGER', ${texts.join()}})`,
  }[format];
  const read = await duck.runAndReadAll(
    `SELECT ${EXPORTED.map(({ name }) => `"${name}"::VARCHAR AS "${name}"`).join()} FROM ${reader} ORDER BY n`,
  );
  const asText = EXPORTED.map(({ name, form }) =>
    form === 'json' ? `to_json("${name}")::text AS "${name}"` : `"${name}"::text`,
  );
  const stored = await project.rows(`SET timezone = 'UTC'; SELECT ${asText.join()} FROM exported ORDER BY n`);
  for (const [i, row] of read.getRowObjectsJson().entries()) {
    for (const { name, form } of EXPORTED) {
      const text = (stored[i] as Record<string, string | null>)[name] ?? null;
      expect.soft([name, shown(form, row[name] ?? null)]).toEqual([name, shown(form, text)]);
    }
  }
});
