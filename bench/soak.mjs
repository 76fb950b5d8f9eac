/**
 * A long day in a few minutes: schema changes, inserts, SQL, disconnects and cancellations; then it checks whether
 * memory, connections and file descriptors are back to what they were.
 *
 *     node bench/soak.mjs --minutes 10
 *
 * Runs the built program with an embedded Postgres in a folder of its own. Exits with 1 if anything has grown.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '10' } } });
const MS = Number(values.minutes) * 60_000;
const program = fileURLToPath(new URL('../dist/cli/bin.js', import.meta.url));
const folder = mkdtempSync('/tmp/cdp-soak-');
chmodSync(folder, 0o711);
const dataDir = join(folder, 'data');
const { PATH, HOME } = process.env;
const service = spawn(process.execPath, [program, 'serve', '--port', '0', '--data-dir', dataDir], {
  env: { PATH, HOME },
  stdio: ['ignore', 'pipe', 'inherit'],
});
const url = await new Promise((resolve) => {
  createInterface({ input: service.stdout }).on('line', (line) => {
    const { msg, url: where } = JSON.parse(line);
    if (msg === 'listening') resolve(where);
  });
});
await sleep(500);
const token = readFileSync(join(dataDir, 'first-token'), 'utf8').trim();
const counts = {};
let ending = false;

async function ask(method, path, body, { leaveAfter, accept } = {}) {
  const left = new AbortController();
  const timer = leaveAfter === undefined ? undefined : setTimeout(() => left.abort(), leaveAfter);
  let outcome;
  try {
    const response = await fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        ...(accept === undefined ? {} : { accept }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: left.signal,
    });
    outcome = String(response.status);
    await response.arrayBuffer();
  } catch {
    outcome = left.signal.aborted ? 'left' : 'broken';
  }
  clearTimeout(timer);
  counts[outcome] = (counts[outcome] ?? 0) + 1;
}

const sql = (text, options) => ask('POST', '/api/cdp/sql', { sql: text }, options);
const random = (n) => Math.floor(Math.random() * n);

const WORKS = [
  async (n) => {
    const table = `t${n % 50}`;
    await ask('POST', '/api/cdp/schema/table', { table_name: table, columns: [{ name: 'a', type: 'TEXT' }] });
    await ask('POST', `/api/cdp/schema/table/${table}/column`, { name: `c${n}`, type: 'INTEGER' });
    await ask('POST', `/api/cdp/data/${table}`, [{ a: 'x', [`c${n}`]: n }]);
    if (n % 3 === 0) await ask('DELETE', `/api/cdp/schema/table/${table}`);
  },
  (n) =>
    ask(
      'POST',
      '/api/cdp/data/kept',
      Array.from({ length: 1 + random(250) }, (_, i) => ({ a: `${n}`, b: i })),
    ),
  (n) => ask('POST', '/api/cdp/data/kept', [{ a: `${n}`, nothing: 1 }]),
  () => sql('SELECT count(*), max(b) FROM kept'),
  () => sql('SELECT pg_sleep(10)', { leaveAfter: random(300) }),
  () =>
    sql('SELECT g FROM generate_series(1, 10000000) g', { accept: 'application/x-ndjson', leaveAfter: random(300) }),
  () => sql('SELECT nothing FROM nowhere'),
  () => sql('DELETE FROM kept WHERE b < 100'),
  () => ask('POST', '/api/cdp/data/kept', [{ a: 'x'.repeat(1_000_000) }], { leaveAfter: random(20) }),
];

async function measured() {
  const text = await (await fetch(`${url}/metrics`)).text();
  /** The sum over its labels. */
  const metric = (name) =>
    [...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (.+)$`, 'gm'))].reduce((sum, [, n]) => sum + Number(n), 0);
  const status = readFileSync(`/proc/${service.pid}/status`, 'utf8');
  return {
    rssMib: Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024),
    heapMib: Math.round(metric('nodejs_heap_size_used_bytes') / 2 ** 20),
    handles: readdirSync(`/proc/${service.pid}/fd`).length,
    connections: metric('cdp_project_connections'),
    running: metric('cdp_requests_running') + metric('cdp_requests_waiting'),
  };
}

/** Idle connections are closed after their time; what is left then counts. */
async function rested() {
  await sleep(Math.min(35_000, MS / 6));
  return measured();
}

async function work(ms) {
  ending = false;
  setTimeout(() => (ending = true), ms);
  await Promise.all(
    Array.from({ length: 16 }, async (_, client) => {
      for (let n = client; !ending; n += 16) await WORKS[random(WORKS.length)](n);
    }),
  );
}

try {
  await ask('POST', '/api/cdp/schema/table', {
    table_name: 'kept',
    columns: [
      { name: 'a', type: 'TEXT' },
      { name: 'b', type: 'INTEGER' },
    ],
  });
  await work(MS / 5);
  const before = await rested();
  await work((MS * 4) / 5);
  const after = await rested();
  console.log(JSON.stringify({ minutes: Number(values.minutes), before, after, counts }, null, 2));
  const grown = [
    after.rssMib > before.rssMib * 1.5 + 50 && 'memory',
    after.handles > before.handles + 10 && 'file handles',
    after.connections > before.connections + 2 && 'connections',
    after.running > 0 && 'places',
    counts.broken > 0 && 'broken responses',
    counts['500'] > 0 && 'internal errors',
  ].filter(Boolean);
  if (grown.length > 0) console.log(`GROWN: ${grown.join(', ')}`);
  process.exitCode = grown.length > 0 ? 1 : 0;
} finally {
  service.kill('SIGTERM');
  await once(service, 'exit');
  rmSync(folder, { recursive: true, force: true });
}
