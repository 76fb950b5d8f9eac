/** The same file as a stream, by the client, in batches and by `cdp import` is the same table. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CdpClient } from '../../../src/client/index.js';
import { person, type Person } from '../../support/cdp.js';
import { endEverything } from '../../support/program.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let ada: Person;
let cdp: CdpClient;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  cdp = new CdpClient({ url: service.url, token: project.token });
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const COLUMNS = { k: 'INTEGER', word: 'TEXT', amount: 'FLOAT', ok: 'BOOLEAN', at: 'TIMESTAMP', more: 'JSONB' };

/** Cells that are valid, as text and as the JSON value that they mean. */
const among = <T>(...values: readonly (readonly [cell: string, value: T])[]) => fc.constantFrom(...values);
const row = fc.tuple(
  fc.oneof(
    among<string | null>(
      ['', null],
      ['""', ''],
      ['"a ""b"""', 'a "b"'],
      ['"x\ny"', 'x\ny'],
      ['é 漢 😀', 'é 漢 😀'],
      ['NULL', 'NULL'],
    ),
    fc.stringMatching(/^[a-z]{1,9}$/).map((text) => [text, text] as const),
  ),
  among<number | null>(['', null], ['1.50', 1.5], ['-.5', -0.5], [' 7 ', 7], ['1e3', 1000]),
  among<boolean | null>(['', null], ['true', true], ['NO', false], ['1', true], ['f', false]),
  among<string | null>(
    ['', null],
    ['2026-01-31', '2026-01-31'],
    ['2026-01-31 09:30:00+02:00', '2026-01-31T09:30:00+02:00'],
  ),
  among<unknown>(['', null], ['{}', {}], ['"{""a"":\n[1,null]}"', { a: [1, null] }], ['"""text"""', 'text'], ['0', 0]),
);

it('for any valid rows', async () => {
  let tables = 0;
  const rowsOf = (table: string) => project.rows(`SELECT ${Object.keys(COLUMNS).join()} FROM ${table} ORDER BY k`);
  const property = fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 40 }), async (rows) => {
    const names = ['stream', 'lines', 'batch', 'import', 'records', 'text'].map((way) => `${way}_${tables}`) as [
      string,
      string,
      string,
      string,
      string,
      string,
    ];
    tables++;
    for (const name of names) await project.table(name, COLUMNS);
    const [stream, inLines, batch, imported, asRecords, asText] = names;
    const csv = `k,word,amount,ok,at,more\n${rows.map((cells, k) => `${k},${cells.map(([cell]) => cell).join()}\n`).join('')}`;
    const records = rows.map(([word, amount, ok, at, more], k) => {
      return { k, word: word[1], amount: amount[1], ok: ok[1], at: at[1], more: more[1] };
    });
    const post = async (table: string, body: unknown, type = 'application/json') => {
      const response = await project.call('POST', `/api/cdp/data/${table}`, {
        body,
        headers: { 'content-type': type },
      });
      expect(response.status, response.text).toBe(201);
    };
    await post(stream, csv, 'text/csv');
    await post(inLines, records.map((record) => `${JSON.stringify(record)}\n`).join(''), 'application/x-ndjson');
    await post(batch, records);
    await cdp.insertStream(asRecords, records);
    await cdp.insertStream(asText, csv, { contentType: 'text/csv' });
    const file = `${imported}.csv`;
    await ada.write(file, csv);
    expect(await ada.run(['import', file, '--table', imported])).toMatchObject({ code: 0 });
    const expected = await rowsOf(batch);
    for (const table of [stream, inLines, imported, asRecords, asText]) expect(await rowsOf(table)).toEqual(expected);
  });
  await fc.assert(property, { numRuns: 8 });
});
