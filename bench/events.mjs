/**
 * Events of the tracking API beside records of the data API, in turn on one service: `/v1/batch` of 100 against batches of 250
 * records, `/v1/track` against single records. Prints ratios; then the same events again, which store nothing.
 *
 *     node bench/events.mjs [--seconds N] [--rounds N] [--events N] [--profile FILE]
 *
 * With `--events`, so many events are stored first, to see whether a large table takes longer.
 */
import { randomUUID } from 'node:crypto';
import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../scripts/build.mjs';
import { cpuOfTree, loadAverage, machine } from './cpu.mjs';
import { httpRequest } from './http.mjs';
import { Generator } from './load/generator.mjs';
import { COMMON, recordsOf } from './records.mjs';
import { table } from './report.mjs';
import { median } from './rounds.mjs';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '3' },
    events: { type: 'string', default: '0' },
    profile: { type: 'string' },
  },
});
const [seconds, rounds, before] = [values.seconds, values.rounds, values.events].map(Number);

/** More than any round sends: each event is sent once. */
const MOST_BATCHES_A_SECOND = 800;
const MOST_TRACKS_A_SECOND = 12_000;

const BATCH = 100;

const say = (text) => process.stderr.write(`${text}\n`);

/** About 350 bytes, as in a server's SDK. */
const event = (n) => ({
  type: 'track',
  event: 'Order Completed',
  userId: `user-${n % 10_000}`,
  messageId: `node-next-${Date.now()}-${randomUUID()}`,
  timestamp: '2026-11-30T06:30:00.000Z',
  context: { library: { name: '@segment/analytics-node', version: '3.1.0' } },
  properties: { order_id: `o${n}`, total: (n % 10_000) / 100, currency: 'EUR', items: n % 9, paid: n % 3 === 0 },
});

const batchOf = (from) =>
  JSON.stringify({ batch: Array.from({ length: BATCH }, (_, i) => event(from + i)), sentAt: '2026-11-30T06:30:01Z' });

async function main() {
  build();
  const { Service } = await import('./servers/service.mjs');
  const folder = await mkdtemp(join(tmpdir(), 'cdp-bench-'));
  await chmod(folder, 0o711); // Postgres may run as another user
  const service = new Service(folder);
  const generator = new Generator('load.mjs');
  try {
    await service.start();
    await service.createTable('records', COMMON.columns);
    const { call } = await import('./http.mjs');
    await call(`${service.url}/api/cdp/events`, { method: 'PUT', headers: service.headers(), body: {} });
    const post = (path, body) => httpRequest({ path, headers: service.headers(), body });
    const run = async ({ requests, connections, units, atMost, repeat }, time) => {
      const own = repeat ?? requests();
      const [node, postgres] = [service.cpu, cpuOfTree(postmaster)];
      const counted = await generator.run({ requests: own, connections, seconds: time, port: service.port, atMost });
      const stored = counted.responses * units;
      const cpu = [service.cpu - node, cpuOfTree(postmaster) - postgres].map((used) => (used / stored) * 1e6);
      return { perSecond: stored / counted.seconds, cpu, own };
    };
    const track = () => Array.from({ length: time * MOST_TRACKS_A_SECOND }, (_, i) => post('/v1/track', event(i)));
    const batches = () =>
      Array.from({ length: time * MOST_BATCHES_A_SECOND }, (_, i) => post('/v1/batch', batchOf(i * BATCH)));
    const records = (size) => () =>
      Array.from({ length: 16 }, (_, i) => post('/api/cdp/data/records', recordsOf(COMMON, i * size, size)));
    const works = {
      w1: { requests: records(250), connections: 8, units: 250 },
      batch: { requests: batches, connections: 8, units: BATCH, atMost: seconds * MOST_BATCHES_A_SECOND },
      w2: { requests: records(1), connections: 32, units: 1 },
      track: { requests: track, connections: 32, units: 1, atMost: seconds * MOST_TRACKS_A_SECOND },
    };
    let time = 1;
    let postmaster = 0;
    await service.call('/sql', { sql: 'SELECT 1' });
    postmaster = await service.postmaster();
    for (const work of Object.values(works)) await run(work, 1);
    for (let stored = 0; stored < before; stored += 50_000) {
      const requests = Array.from({ length: 500 }, (_, i) => post('/v1/batch', batchOf(stored + i * BATCH)));
      await generator.run({ requests, connections: 8, seconds: 600, port: service.port, atMost: 500 });
      if (stored % 1_000_000 === 0) say(`${stored + 50_000} events …`);
    }
    time = seconds;
    const results = [];
    for (let round = 0; round < rounds; round++) {
      say(`round ${round + 1} …`);
      await service.call('/sql', { sql: 'TRUNCATE records' });
      const result = {};
      for (const [name, work] of Object.entries(works)) {
        if (values.profile !== undefined && name === 'batch') await service.ask('startProfile');
        result[name] = await run(work, seconds);
        if (values.profile !== undefined && name === 'batch') await service.ask('stopProfile', values.profile);
      }
      result.again = await run({ ...works.batch, repeat: result.batch.own.slice(0, 100), atMost: 100 }, seconds);
      results.push(result);
    }
    print(results);
  } finally {
    await generator.stop();
    await service.remove();
  }
}

function print(results) {
  const of = (pick) => median(results.map(pick));
  const row = (name, title, to) => [
    title,
    Math.round(of((result) => result[name].perSecond)).toLocaleString('en'),
    to === null ? '' : of((result) => result[name].perSecond / result[to].perSecond).toFixed(2),
    of((result) => result[name].cpu[0]).toFixed(1),
    of((result) => result[name].cpu[1]).toFixed(1),
  ];
  const lines = [
    row('w1', '250 records, 8 connections', null),
    row('batch', '/v1/batch of 100 events', 'w1'),
    row('again', 'the same again', 'w1'),
    row('w2', '1 record, 32 connections', null),
    row('track', '/v1/track', 'w2'),
  ];
  const head = ['work', 'rows/s', 'ratio', 'Node µs', 'Postgres µs'];
  process.stdout.write(`\n${machine()}; load average ${loadAverage()}\n\n${table(head, lines)}\n`);
}

main().catch((error) => {
  process.stderr.write(`bench: ${error?.stack ?? error}\n`);
  process.exitCode = 1;
});
