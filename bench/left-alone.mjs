/**
 * Upserts of rows that are there already, in turn on one service: all written, equal ones left alone (`unchanged=skip`), only newer
 * ones taken (`resolution=newest`). Then batches with a field that the table lacks (`unknown=…`), beside plain ones. Prints ratios, and
 * the WAL of a row.
 *
 *     node bench/left-alone.mjs [--seconds N] [--rounds N]
 */
import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../scripts/build.mjs';
import { loadAverage, machine } from './cpu.mjs';
import { httpRequest } from './http.mjs';
import { Generator } from './load/generator.mjs';
import { COMMON, recordsOf } from './records.mjs';
import { table } from './report.mjs';
import { median } from './rounds.mjs';

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '3' }, rounds: { type: 'string', default: '3' } },
});
const [seconds, rounds] = [values.seconds, values.rounds].map(Number);

const COLUMNS = [...COMMON.columns, { name: 'extra', type: 'JSONB' }];
const RECORDS = 250;
const BATCHES = Array.from({ length: 64 }, (_, i) => recordsOf(COMMON, i * RECORDS, RECORDS));
/** Any column but the key. */
const LAST = COMMON.columns.at(-1).name;
/** The same rows with another value in each, and with a field that no column has. */
const changed = (records) => records.map((one) => ({ ...one, [LAST]: null }));
const withMore = (records) => records.map((one) => ({ ...one, plan: 'pro', seats: 3 }));

async function main() {
  build();
  const { Service } = await import('./servers/service.mjs');
  const folder = await mkdtemp(join(tmpdir(), 'cdp-bench-'));
  await chmod(folder, 0o711); // Postgres may run as another user
  const service = new Service(folder);
  const generator = new Generator('load.mjs');
  try {
    await service.start();
    await service.createTable('people', COLUMNS);
    await service.createTable('records', COLUMNS);
    await service.call('/sql', { sql: 'CREATE UNIQUE INDEX ON people (n)' });
    const post = (path) => (body) => httpRequest({ path: `/api/cdp/data/${path}`, headers: service.headers(), body });
    const upsert = (query) => BATCHES.map(post(`people?on_conflict=n${query}`));
    const insert = (query, batches = BATCHES) => batches.map(post(`records${query}`));
    const works = {
      'merge, rows are equal': upsert(''),
      'unchanged=skip, rows are equal': upsert('&unchanged=skip'),
      'unchanged=skip, half of the requests change all rows': BATCHES.flatMap((records) => [
        post('people?on_conflict=n&unchanged=skip')(changed(records)),
        post('people?on_conflict=n&unchanged=skip')(records),
      ]),
      'newest, no row is newer': upsert('&resolution=newest&version=signed_up'),
      insert: insert(''),
      'insert, unknown=ignore, nothing is unknown': insert('?unknown=ignore'),
      'insert, unknown=ignore, two fields are': insert('?unknown=ignore', BATCHES.map(withMore)),
      'insert, unknown=into:extra, two fields are': insert('?unknown=into:extra', BATCHES.map(withMore)),
    };
    const wal = async () =>
      Number(
        (await service.call('/sql', { sql: "SELECT pg_current_wal_insert_lsn() - '0/0' AS bytes" })).rows[0].bytes,
      );
    const run = async (requests) => {
      const before = await wal();
      const counted = await generator.run({ requests, connections: 8, seconds, port: service.port });
      const rows = counted.responses * RECORDS;
      return { perSecond: rows / counted.seconds, wal: ((await wal()) - before) / rows };
    };
    await run(works['merge, rows are equal']);
    const results = [];
    for (let round = 0; round < rounds; round++) {
      const result = {};
      for (const [name, requests] of Object.entries(works)) {
        if (name.startsWith('insert')) await service.call('/sql', { sql: 'TRUNCATE records' });
        result[name] = await run(requests);
      }
      results.push(result);
    }
    const of = (name, field) => median(results.map((result) => result[name][field]));
    const ratio = (name, to) => median(results.map((result) => result[name].perSecond / result[to].perSecond));
    const rows = Object.keys(works).map((name) => [
      name,
      Math.round(of(name, 'perSecond')).toLocaleString('en'),
      ratio(name, name.startsWith('insert') ? 'insert' : 'merge, rows are equal').toFixed(2),
      Math.round(of(name, 'wal')).toString(),
    ]);
    process.stdout.write(`${machine()}; load ${loadAverage()}\n\n`);
    process.stdout.write(
      `${table(['250 records, 8 connections', 'rows/s', 'as a ratio', 'WAL bytes of a row'], rows)}\n`,
    );
  } finally {
    await generator.stop();
    await service.remove();
  }
}

await main();
