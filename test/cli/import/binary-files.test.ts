/**
 * `cdp import` of Parquet files and Excel workbooks that other programs wrote: pyarrow 25 (Zstandard) and openpyxl 3.1.
 */
import { copyFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openSource } from '../../../src/cli/import/open-source.js';
import { person, type Person } from '../../support/cdp.js';
import { endEverything } from '../../support/program.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

const files = join(import.meta.dirname, 'files');

let service: TestService;
let project: TestProject;
let ada: Person;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
  for (const name of await readdir(files)) await copyFile(join(files, name), join(ada.folder, name));
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const load = (...args: string[]) => ada.run(['import', ...args, '--create']);
const schemaOf = async (table: string): Promise<Record<string, string>> => {
  const { columns } = JSON.parse(await ada.output('describe', table, '--json')) as {
    columns: { name: string; type: string }[];
  };
  return Object.fromEntries(columns.map(({ name, type }) => [name, type]));
};

it('keeps every digit and the types of a Parquet schema', async () => {
  expect(await load('pyarrow.parquet', '--table', 'arrow')).toMatchObject({ code: 0 });
  expect(await schemaOf('arrow')).toEqual({
    ...{
      id: 'uuid',
      i64: 'INTEGER',
      u64: 'TEXT',
      u32: 'INTEGER',
      i8: 'INTEGER',
      d: 'FLOAT',
      whole: 'FLOAT',
      f32: 'FLOAT',
    },
    ...{ b: 'BOOLEAN', s: 'TEXT', ls: 'TEXT', dec: 'TEXT', dec9: 'FLOAT', dec0: 'INTEGER' },
    ...{
      ts: 'TIMESTAMP',
      tsn: 'TIMESTAMP',
      tsms: 'TIMESTAMP',
      date: 'TIMESTAMP',
      time: 'TEXT',
      bin: 'TEXT',
      fbin: 'TEXT',
    },
    ...{
      list: 'JSONB',
      ldec: 'JSONB',
      struct: 'JSONB',
      map: 'JSONB',
      ldate: 'JSONB',
      lstruct: 'JSONB',
      nulls: 'TEXT',
      dict: 'TEXT',
    },
  });
  const rows = await project.rows(`SELECT to_jsonb(arrow)::text AS row FROM arrow ORDER BY id`);
  const values = rows.map(({ row }) => String(row).replace(/"id": "[^"]+"/, '"id": 0'));
  expect(values[0]).toBe(
    '{"b": true, "d": 0.1, "s": "007", "i8": -128, "id": 0, "ls": "2026-01-31T00:00:00Z", "ts": "2026-01-31T09:30:00.123456+00:00", ' +
      '"bin": "\\\\x00ff", "dec": "12345678901234567890.12", "f32": 0.5, "i64": 9223372036854775807, "map": {"a": 1.5, "b": null}, ' +
      '"tsn": "2023-11-14T22:13:20.123457+00:00", "u32": 4294967295, "u64": "18446744073709551615", "date": "2026-01-31T00:00:00+00:00", ' +
      '"dec0": 5, "dec9": 1.5, "dict": "x", "fbin": "\\\\x61626364", "ldec": [1.10], "list": [1, null, 9223372036854775807], ' +
      '"time": "09:30:00.000005", "tsms": "2023-11-14T22:13:20.123+00:00", "ldate": ["2026-01-31"], "nulls": null, "whole": 1, ' +
      '"struct": {"geo": {"lat": 1.50}, "city": "Bonn"}, "lstruct": [{"t": "01:02:03"}, null]}',
  );
  expect(values[1]).toContain('"dec": "-0.05"');
  expect(values[1]).toContain('"tsms": "1969-12-31T23:59:59.999+00:00"');
  expect(values[2]?.match(/: null/g)).toHaveLength(28);
});

it('makes the members of Parquet structs columns with --flatten', async () => {
  const loaded = await load('pyarrow.parquet', '--table', 'flat', '--flatten', '--rename', 'struct_city=town');
  expect(loaded).toMatchObject({ code: 0 });
  expect(await schemaOf('flat')).toMatchObject({ town: 'TEXT', struct_geo_lat: 'FLOAT', list: 'JSONB' });
  expect(await schemaOf('flat')).not.toHaveProperty('struct');
});

it('reads the parts of a large Parquet row group in order, and creates the columns of a file without rows', async () => {
  const [rows, columns] = [6_000, 200];
  const names = Array.from({ length: columns }, (_, i) => `c${i}`);
  const element = (name: string) => ({ name, type: 'INT32' as const, repetition_type: 'REQUIRED' as const });
  const parquet = (count: number): Uint8Array => {
    const writer = new ByteWriter();
    const file = new ParquetWriter({
      writer,
      schema: [{ name: 'root', num_children: columns }, ...names.map(element)],
    });
    const columnData = names.map((name, i) => ({
      name,
      data: Int32Array.from({ length: count }, (_, n) => n * columns + i),
    }));
    if (count > 0) void file.write({ columnData, rowGroupSize: [500, count] });
    void file.finish();
    return writer.getBytes();
  };
  const path = join(ada.folder, 'wide.parquet');
  await writeFile(path, parquet(rows));
  const { records } = await openSource(path, { quotes: true, skipLines: 0, decimal: '.' });
  let n = 0;
  for await (const { line, text = '' } of records) {
    const values = Object.values(JSON.parse(text) as Record<string, number>);
    if (line !== n + 1 || values.some((value, i) => value !== n * columns + i)) throw new Error(`row ${n}: ${text}`);
    n++;
  }
  expect(n).toBe(rows);
  await project.table('hollow', { a: 'INTEGER' });
  await ada.output('export', '--table', 'hollow', '-o', 'hollow.parquet');
  expect(await load('hollow.parquet', '--table', 'hollow_again')).toMatchObject({ code: 0 });
  expect(await schemaOf('hollow_again')).toEqual({ id: 'uuid', a: 'INTEGER' });
  await ada.write('none.parquet', parquet(0));
  expect(await load('none.parquet', '--table', 'none')).toMatchObject({ code: 0 });
  expect(await schemaOf('none')).toMatchObject({ c0: 'INTEGER', c199: 'INTEGER' });
});

it('reads the first sheet of a workbook, or the one that --sheet names', async () => {
  expect(await load('openpyxl.xlsx', '--table', 'people')).toMatchObject({ code: 0 });
  expect(await schemaOf('people')).toEqual({
    ...{
      id: 'uuid',
      customer_id: 'TEXT',
      name: 'TEXT',
      score: 'FLOAT',
      since: 'TIMESTAMP',
      at: 'TIMESTAMP',
      t: 'TEXT',
    },
    ...{ active: 'BOOLEAN', big: 'FLOAT', text_num: 'INTEGER', err: 'TEXT' },
  });
  const people = await project.rows('SELECT * FROM people ORDER BY customer_id');
  expect(people).toMatchObject([
    {
      ...{ customer_id: '007', name: 'Ada', score: 9.5, since: '2026-01-31T00:00:00Z', at: '2026-01-31T09:30:00Z' },
      ...{ t: '09:30:00', active: true, err: '#N/A' },
    },
    { name: 'Grace & <b>', since: '1900-03-01T00:00:00Z', at: '2026-01-31T09:30:00.123Z', t: null, active: false },
    { name: null, score: -1e300, at: '2026-01-31T23:59:59.999Z', err: null },
  ]);
  const second = ['openpyxl.xlsx', '--table', 'second', '--sheet', 'Second Sheet'];
  expect((await load(...second)).stderr).toContain('If line 3 is the header: --skip-lines 2');
  expect(await load(...second, '--skip-lines', '2', '--add-columns')).toMatchObject({ code: 0 });
  expect(await project.rows('SELECT a, b FROM second ORDER BY a')).toEqual([
    { a: 1, b: 2 },
    { a: 3, b: null },
  ]);
  await copyFile(join(ada.folder, 'openpyxl.xlsx'), join(ada.folder, 'sheet.csv'));
  const named = ['sheet.csv', '--table', 'second', '--sheet', 'Second Sheet', '--skip-lines', '2'];
  expect(await load(...named)).toMatchObject({ code: 0 });
  for (const [options, said] of [
    [['openpyxl.xlsx', '--sheet', 'Third'], 'has no sheet "Third"\nIts sheets are '],
    [['openpyxl.xlsx', '--sheet', 'Third', '--columns', 'a,b'], 'has no sheet "Third"\nIts sheets are '],
    [['pyarrow.parquet', '--sheet', 'Third'], 'pyarrow.parquet is not an Excel workbook'],
    [['openpyxl.xlsx', '--flatten'], 'an Excel workbook; --flatten is for JSON'],
    [['-', '--format', 'parquet'], 'standard input: Parquet must be a regular file'],
  ] as const) {
    const { code, stderr } = await load(...options, '--table', 'refused');
    expect([code, stderr]).toEqual([2, expect.stringContaining(said)]);
  }
});

it('reads durations of a workbook as long as they are, and dates before 1900 with their day', async () => {
  expect(await load('durations.xlsx', '--table', 'durations')).toMatchObject({ code: 0 });
  expect(await project.rows('SELECT who, hours, lap FROM durations ORDER BY who')).toEqual([
    { who: 'A', hours: '08:00:00', lap: '00:00:49' },
    { who: 'B', hours: '36:00:00', lap: '28:48:00' },
    { who: 'C', hours: '40:00:00', lap: '00:25:00' },
  ]);
  expect(await load('old-dates.xlsx', '--table', 'old_dates')).toMatchObject({ code: 0 });
  expect(await project.rows('SELECT d FROM old_dates ORDER BY d')).toEqual([
    { d: '1899-12-29T00:00:00Z' },
    { d: '2024-03-17T00:00:00Z' },
  ]);
});

it('warns of formulas that no program has calculated', async () => {
  const { code, stderr } = await load('uncalculated.xlsx', '--table', 'uncalculated');
  expect([code, stderr]).toEqual([0, expect.stringContaining('2 formulas without a stored value are read as NULL')]);
  expect(await project.rows('SELECT item, total FROM uncalculated ORDER BY item')).toEqual([
    { item: 'a', total: null },
    { item: 'b', total: null },
    { item: 'c', total: 5 },
  ]);
});

it.each([
  ['empty-first.xlsx', 'is empty'],
  ['chart-first.xlsx', 'has no cells, as a chart does'],
])('names the sheets if the first one has no rows: %s', async (file, said) => {
  const { code, stderr } = await load(file, '--table', 'first_sheet');
  expect([code, stderr]).toEqual([2, expect.stringMatching(new RegExp(`${said}\nIts sheets are .*--sheet NAME`))]);
});

it('reads intervals of Parquet as text, and refuses far dates with the date in the record', async () => {
  expect(await load('interval.parquet', '--table', 'intervals')).toMatchObject({ code: 0 });
  expect(await project.rows('SELECT iv, iv::interval::text AS read FROM intervals WHERE iv IS NOT NULL')).toEqual([
    { iv: expect.stringMatching(/^\d+ months \d+ days [\d.]+ seconds$/) as string, read: expect.any(String) as string },
  ]);
  expect(await load('far-dates.parquet', '--table', 'far_dates')).toMatchObject({ code: 4 });
  const { record } = JSON.parse(await ada.read('far-dates.parquet.refused.ndjson')) as { record: object };
  expect(record).toEqual({
    ...{ ts: 'infinity', t2: '+294247-01-10T04:00:54.775806Z' },
    ...{ d: '-infinity', d2: expect.stringMatching(/^\+58\d{5}-\d\d-\d\d$/) as string, d3: '+010000-01-01' },
  });
});

it('reads a Parquet file without the columns that --skip names, even if they are damaged', async () => {
  const bytes = new ByteWriter();
  const columns = ['good', 'bad'].map((name) => ({
    name,
    data: [1, 2, 3],
    type: 'INT32' as const,
    codec: 'UNCOMPRESSED' as const,
  }));
  const writer = new ParquetWriter({
    writer: bytes,
    schema: [
      { name: 'root', num_children: 2 },
      ...columns.map(({ name }) => ({ name, type: 'INT32' as const, repetition_type: 'REQUIRED' as const })),
    ],
    codec: 'UNCOMPRESSED',
  });
  void writer.write({ columnData: columns.map(({ name, data }) => ({ name, data })) });
  void writer.finish();
  const file = Buffer.from(bytes.getBytes());
  const { parquetMetadata } = await import('hyparquet');
  const bad = parquetMetadata(file.buffer.slice(file.byteOffset, file.byteOffset + file.length)).row_groups[0]
    ?.columns[1];
  file.fill(0xff, Number(bad?.meta_data?.data_page_offset), Number(bad?.meta_data?.data_page_offset) + 8);
  await writeFile(join(ada.folder, 'damaged.parquet'), file);
  const { code, stderr } = await load('damaged.parquet', '--table', 'damaged');
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(/the column "bad" cannot be read: .*\nLeave it out with --skip bad/),
  ]);
  expect(await load('damaged.parquet', '--table', 'damaged', '--skip', 'bad')).toMatchObject({ code: 0 });
  expect(await project.rows('SELECT good FROM damaged ORDER BY good')).toEqual([{ good: 1 }, { good: 2 }, { good: 3 }]);
});
