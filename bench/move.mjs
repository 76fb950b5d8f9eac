/**
 * Moves a large project under load: how long it takes, how long a write waits, and how much memory the service needs.
 *
 *     node bench/move.mjs [--rows N] [--mode stream|copy]
 */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { build } from '../scripts/build.mjs';
import { loadAverage, machine, memoryOf, resetMost } from './cpu.mjs';
import { call } from './http.mjs';

const { values } = parseArgs({
  options: { rows: { type: 'string', default: '1000000' }, mode: { type: 'string', default: 'stream' } },
});
const rows = Number(values.rows);
const { mode } = values;

const GOAL_ROWS = 10_000_000;
const GOAL_PAUSE_MS = 2_000;

/** Clients that write single records all the time, and repeat refused ones. */
const WRITERS = 4;
const EVERY_MS = 20;

const FILL = 100_000;
const LOOK_MS = 250;

build();
const { Service } = await import('./servers/service.mjs');
const { Postgres } = await import('./servers/postgres.mjs');
const folder = await mkdtemp(join(tmpdir(), 'cdp-move-'));
await chmod(folder, 0o711);
const service = new Service(join(folder, 'service'));
const servers = [];

async function main() {
  await service.start();
  const admin = await service.command('token', 'create', '--admin');
  const manage = (path, body) =>
    call(`${service.url}/api/cdp/admin/${path}`, {
      headers: service.headers(admin),
      ...(body === undefined ? { method: 'GET' } : { body }),
    });
  for (const name of ['from', 'to']) {
    const server = new Postgres(join(folder, name), ['wal_level=logical', 'max_wal_size=2GB']);
    servers.push(server);
    await server.start();
    await server.prepare();
    await server.sql('ALTER ROLE cdp REPLICATION');
    const file = join(folder, `${name}.url`);
    await writeFile(file, server.url);
    await manage('servers', { name, url_reference: `file:${file}` });
  }
  await manage('projects', { name: 'large', server: 'from' });
  const { token } = await manage('projects/large/tokens', { name: 'bench' });
  const columns = ['n INTEGER', 'name TEXT', 'amount FLOAT', 'at TIMESTAMP'].map((column) => {
    const [name, type] = column.split(' ');
    return { name, type };
  });
  await service.createTable('events', columns, token);
  process.stderr.write(`${rows} rows are made …\n`);
  for (let from = 0; from < rows; from += FILL) {
    const sql = `INSERT INTO events (n, name, amount, at)
      SELECT n, 'name of ' || n, n / 100.0, now() FROM generate_series($1::bigint, $2::bigint) n`;
    await service.call('/sql', { sql, params: [from, Math.min(rows, from + FILL) - 1] }, token);
  }

  const load = loadAverage();
  const writing = new AbortController();
  const writers = Array.from({ length: WRITERS }, () => write(token, writing.signal));
  const before = memoryOf(service.pid).now;
  resetMost(service.pid);
  const started = performance.now();
  const { move } = await manage('projects/large/move', { to: 'to', mode });
  let ended = move;
  while (ended.ended_at === null) {
    await sleep(LOOK_MS);
    ({ move: ended } = await manage(`moves/${move.id}`));
  }
  const seconds = (performance.now() - started) / 1_000;
  const { most } = memoryOf(service.pid);
  await sleep(1_000);
  writing.abort();
  const written = await Promise.all(writers);
  const stored = written.reduce((sum, { count }) => sum + count, 0);
  const longest = Math.max(...written.map(({ longestMs }) => longestMs));

  const sql = 'SELECT count(*)::bigint AS rows FROM events';
  const [{ rows: found }] = (await service.call('/sql', { sql }, token)).rows;
  if (ended.state !== 'done') throw new Error(`The move is ${ended.state}: ${ended.reason}`);
  const judge = rows < GOAL_ROWS || mode === 'copy' ? '' : longest <= GOAL_PAUSE_MS ? ' (met)' : ' (MISSED)';
  process.stdout.write(
    `${machine()}; load average before ${load}, after ${loadAverage()}\n` +
      `${rows} rows moved by ${ended.fallback === null ? mode : 'copy'} in ${seconds.toFixed(1)} s, while ${stored} were written\n` +
      `${ended.fallback === null ? '' : `not streamed: ${ended.fallback}\n`}` +
      `writes were refused for ${ended.pause_ms} ms; the longest that a client waited for one: ${longest.toFixed(0)} ms, goal ${GOAL_PAUSE_MS} with ${GOAL_ROWS} rows${judge}\n` +
      `memory of the service: ${before.toFixed(0)} MiB before, ${most.toFixed(0)} MiB at most\n`,
  );
  if (found === rows + stored) return;
  process.stderr.write(`The project has ${found} rows instead of ${rows + stored}\n`);
  process.exitCode = 1;
}

/** Stores each record exactly once, with as many attempts as it takes: a key makes sure of that. */
async function write(token, signal) {
  let [count, longestMs] = [0, 0];
  while (!signal.aborted) {
    const headers = { ...service.headers(token), 'Idempotency-Key': crypto.randomUUID() };
    const body = [{ n: -1, name: 'meanwhile', amount: 1, at: new Date().toISOString() }];
    const started = performance.now();
    // 409: an attempt whose response was lost is still under way.
    while (
      !(await call(`${service.url}/api/cdp/data/events`, { headers, body }).then(
        () => true,
        (error) => {
          if (!/: (503|409) /.test(String(error)) && !(error instanceof TypeError)) throw error;
          return false;
        },
      ))
    )
      await sleep(EVERY_MS);
    longestMs = Math.max(longestMs, performance.now() - started);
    count++;
    await sleep(EVERY_MS);
  }
  return { count, longestMs };
}

try {
  await main();
} finally {
  await service.remove();
  for (const server of servers) await server.remove();
  await rm(folder, { recursive: true, force: true });
}
