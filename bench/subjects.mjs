/**
 * The erasure of a person from ten indexed tables beside one DELETE of each table by hand, in turn, both over HTTP: each round erases one
 * person and deletes another. Prints the ratio of the times; the goal is at most 20.
 *
 *     node bench/subjects.mjs [--rows N] [--rounds N]
 */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import { build } from '../scripts/build.mjs';
import { loadAverage, machine } from './cpu.mjs';
import { call } from './http.mjs';
import { median } from './rounds.mjs';

const { values } = parseArgs({
  options: { rows: { type: 'string', default: '5000000' }, rounds: { type: 'string', default: '9' } },
});
const [rows, rounds] = [values.rows, values.rounds].map(Number);

const TABLES = Array.from({ length: 10 }, (_, i) => `people_${i}`);
const perTable = Math.ceil(rows / TABLES.length);

const PEOPLE = {
  identifiers: { no: {} },
  tables: Object.fromEntries(TABLES.map((table) => [table, { columns: { no: 'no' }, erase: 'delete' }])),
};

async function main() {
  build();
  const { Service } = await import('./servers/service.mjs');
  const folder = await mkdtemp(join(tmpdir(), 'cdp-bench-'));
  await chmod(folder, 0o711); // Postgres may run as another user
  const service = new Service(folder);
  try {
    await service.start();
    const scopes = 'schema:write,sql:read,sql:write,subjects:erase';
    const create = ['token', 'create', '--project', 'default', '--scopes', scopes, '--data-dir', service.dataDir];
    const { stdout } = await promisify(execFile)(process.execPath, [service.program, ...create, '--json']);
    service.token = /cdp_[A-Za-z0-9]+/.exec(stdout)[0];
    const send = (path, body, method = 'POST') =>
      call(`${service.url}/api/cdp/${path}`, { method, headers: service.headers(), body });
    const sql = (text) => send('sql', { sql: text, timeout_ms: 60_000 });
    for (const table of TABLES) {
      await sql(`CREATE TABLE ${table} (no bigint, note text)`);
      await sql(`INSERT INTO ${table} SELECT n, 'note ' || n FROM generate_series(1, ${perTable}) n`);
      await sql(`CREATE INDEX ON ${table} (no)`);
      await sql(`VACUUM ANALYZE ${table}`);
    }
    await send('subjects', { subjects: { person: PEOPLE } }, 'PUT');

    const timed = async (work) => {
      const before = performance.now();
      const result = await work();
      return { ms: performance.now() - before, result };
    };
    const erase = async (no) => {
      const { ms, result } = await timed(() => send('subjects/erase', { person: { no } }));
      const erased = result.erasure.result?.tables.reduce((sum, { deleted }) => sum + deleted, 0);
      if (erased !== TABLES.length) throw new Error(`Person ${no}: ${erased} rows are erased`);
      // VACUUM follows, and is not to slow down what is measured next.
      for (;;) {
        const { erasure } = await send(result.address.slice('/api/cdp/'.length), undefined, 'GET');
        if (erasure.state === 'done') return ms;
        await sleep(100);
      }
    };
    const byHand = async (no) =>
      (await timed(() => sql(TABLES.map((table) => `DELETE FROM ${table} WHERE no = ${no}`).join(';\n')))).ms;
    // So that plans and connections are there.
    await erase(1);
    await byHand(2);
    const ratios = [];
    for (let round = 1; round <= rounds; round++) {
      const [hand, erasure] = [await byHand(2 * round + 1), await erase(2 * round + 2)];
      ratios.push(erasure / hand);
      process.stderr.write(`by hand ${hand.toFixed(1)} ms, erasure ${erasure.toFixed(1)} ms\n`);
    }
    console.log(`${machine()}, load ${loadAverage()}, ${perTable * TABLES.length} rows`);
    console.log(
      `erasure / by hand: median ${median(ratios).toFixed(1)} (${ratios.map((r) => r.toFixed(1)).join(', ')})`,
    );
  } finally {
    await service.remove();
  }
}

await main();
