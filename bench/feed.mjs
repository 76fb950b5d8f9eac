/**
 * The feed of changes: how soon a reader has a change beside LISTEN/NOTIFY, how fast it reads a backlog beside pg_recvlogical, what
 * inserts cost with it, how much WAL it holds, and what a hundred readers cost beside one. Prints ratios.
 *
 *     node bench/feed.mjs [--only latency,backlog,inserts,pinned,readers] [--seconds N] [--rounds N] [--changes N]
 *
 * It needs pg_recvlogical of Debian's postgresql-client.
 */
import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import pg from 'pg';
import { build } from '../scripts/build.mjs';
import { cpuOfTree, loadAverage, machine } from './cpu.mjs';
import { call } from './http.mjs';
import { Generator } from './load/generator.mjs';
import { COMMON, recordsOf } from './records.mjs';
import { table } from './report.mjs';
import { median } from './rounds.mjs';

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: 'latency,backlog,inserts,pinned,readers' },
    seconds: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '3' },
    changes: { type: 'string', default: '1000000' },
  },
});
const [seconds, rounds, changes] = [values.seconds, values.rounds, values.changes].map(Number);

/** Changes a second for `latency` and `readers`, over as many connections. */
const PER_SECOND = 500;
const WRITERS = 4;
/** Batches of 250 records a second for `pinned`: slower than the decoder. */
const BATCHES_A_SECOND = 20;
const READERS = 100;

const say = (text) => process.stderr.write(`${text}\n`);
const p50 = (list) => median(list);
const p99 = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length * 0.99)];
const ms = (value) => `${value.toFixed(2)} ms`;

let service;
let superuser;
let postmaster;
const generator = new Generator('load.mjs');

const facts = [];
const fact = (title, figure, goal) => facts.push([title, figure, goal]);

async function main() {
  build();
  const { Service } = await import('./servers/service.mjs');
  const folder = await mkdtemp(join(tmpdir(), 'cdp-bench-'));
  await chmod(folder, 0o711); // Postgres may run as another user
  service = new Service(folder);
  try {
    await service.start();
    for (const name of ['customers', 'warm']) await service.createTable(name, COMMON.columns);
    superuser = await service.superuser();
    const works = { latency, backlog, pinned, readers };
    const chosen = values.only.split(',');
    // The others need the feed, which `inserts` turns on and off.
    if (chosen.includes('inserts')) await inserts();
    await turn('on');
    for (const name of ['latency', 'backlog', 'pinned', 'readers']) {
      if (!chosen.includes(name)) continue;
      say(`${name} …`);
      await works[name](folder);
      await service.call('/sql', { sql: 'TRUNCATE customers' });
    }
    console.log(`${machine()}, load ${loadAverage()}; ${rounds} rounds of ${seconds} s\n`);
    console.log(table(['what', 'measured', 'goal'], facts));
  } catch (error) {
    // What the service's end causes comes after it.
    console.error(error);
    throw error;
  } finally {
    generator.stop();
    await service.remove();
  }
}

async function turn(to) {
  await call(`${service.url}/api/cdp/feed`, {
    method: to === 'on' ? 'PUT' : 'DELETE',
    headers: service.headers(),
    body: to === 'on' ? {} : undefined,
  });
  await service.call('/sql', { sql: 'SELECT 1' });
  postmaster = await service.postmaster();
}

const get = (path) => call(`${service.url}/api/cdp${path}`, { method: 'GET', headers: service.headers() });

/** The cursor after all that is committed; waits until it is in the log. */
async function now() {
  for (;;) {
    try {
      return (await get('/changes')).cursor;
    } catch (error) {
      if (!String(error).includes(': 503 ')) throw error;
    }
  }
}

const cpus = () => ({ service: service.cpu, postgres: cpuOfTree(postmaster) });
const since = (before) => {
  const after = cpus();
  return { service: after.service - before.service, postgres: after.postgres - before.postgres };
};

/** Batches of 250 records by 8 connections. @returns rows, and seconds until the last is stored, in the feed too if that is on */
async function batches(time, isFed) {
  const requests = Array.from({ length: 16 }, (_, i) =>
    service.request('/data/customers', recordsOf(COMMON, i * 250, 250)),
  );
  const began = performance.now();
  const { responses } = await generator.run({ requests, connections: 8, seconds: time, port: service.port });
  if (isFed) await now();
  return { rows: responses * 250, seconds: (performance.now() - began) / 1_000 };
}

/** W1 with the feed keeping up, and without. */
async function inserts() {
  const ratios = [];
  const costs = [];
  await batches(1, false);
  for (let round = 0; round < rounds; round++) {
    say(`inserts ${round + 1} …`);
    const rates = {};
    for (const mode of ['off', 'on']) {
      if (mode === 'on') await turn('on');
      await service.call('/sql', { sql: 'TRUNCATE customers' });
      await batches(1, mode === 'on');
      const before = cpus();
      const { rows, seconds: took } = await batches(seconds, mode === 'on');
      const used = since(before);
      rates[mode] = { perSecond: rows / took, service: (used.service / rows) * 1e6 };
    }
    await turn('off');
    ratios.push(rates.on.perSecond / rates.off.perSecond);
    costs.push(rates.on.service - rates.off.service);
    say(`without ${Math.round(rates.off.perSecond)} rows/s, with ${Math.round(rates.on.perSecond)}`);
  }
  fact('W1 with the feed keeping up, of W1 without', median(ratios).toFixed(2), '≥ 0.5');
  fact(
    'storing the changes: CPU of the service for a million',
    `${median(costs).toFixed(2)} s`,
    '< 1.5 s with reading',
  );
}

/** Writes at a fixed rate, evenly. @param write gets the number of the change; what it returns is awaited at the end */
async function atRate(perSecond, time, write) {
  const began = performance.now();
  const total = perSecond * time;
  const open = [];
  for (let n = 0; n < total;) {
    const due = Math.min(total, Math.floor(((performance.now() - began) / 1_000) * perSecond));
    for (; n < due; n++) open.push(write(n));
    await sleep(1);
  }
  await Promise.all(open);
}

async function connected(count) {
  const clients = Array.from({ length: count }, () => new pg.Client({ ...superuser, database: 'project' }));
  // What ends a connection fails its next query, too.
  for (const client of clients) client.on('error', () => {});
  await Promise.all(clients.map((client) => client.connect()));
  return clients;
}

/**
 * From sending a commit to the answer of a request that waits, to the notification of the same commit, and to its message at a
 * slot of the bench, before which no service can know of it.
 */
async function latency() {
  const writers = await connected(WRITERS);
  const [listener] = await connected(1);
  await listener.query('LISTEN changed');
  const sent = new Map();
  const times = { acknowledged: [], notified: [], decoded: [], told: [] };
  listener.on('notification', ({ payload }) => times.notified.push(performance.now() - sent.get(Number(payload))));
  const endSlot = await ownSlot((n) => times.decoded.push(performance.now() - sent.get(n)));
  let isOver = false;
  const read = async () => {
    for (let cursor = await now(); !isOver;) {
      const answer = await get(`/changes?after=${cursor}&wait=1`);
      const at = performance.now();
      for (const { record } of answer.changes) {
        const n = Number(record.n);
        if (sent.has(n)) times.told.push(at - sent.get(n));
      }
      ({ cursor } = answer);
    }
  };
  const reading = read();
  const write = async (n) => {
    const client = writers[n % WRITERS];
    sent.set(n, performance.now());
    const insert = `WITH told AS (SELECT pg_notify('changed', '${n}'))
      INSERT INTO data.customers (n, email) SELECT ${n}, 'customer@example.com' FROM told`;
    await client.query(insert);
    times.acknowledged.push(performance.now() - sent.get(n));
  };
  await atRate(PER_SECOND, 2, write);
  await sleep(500);
  for (const list of Object.values(times)) list.length = 0;
  const before = service.cpu;
  await atRate(PER_SECOND, seconds, write);
  const used = (service.cpu - before) / seconds;
  await sleep(1_500);
  isOver = true;
  await reading;
  await endSlot(listener);
  for (const client of [...writers, listener]) await client.end();
  const { acknowledged, notified, decoded, told } = times;
  if (told.length !== PER_SECOND * seconds) throw new Error(`${told.length} changes were told`);
  fact(
    `a change to a request that waits, of NOTIFY, p50 at ${PER_SECOND}/s`,
    (p50(told) / p50(notified)).toFixed(2),
    '≤ 1.5',
  );
  const both = (list) => `${ms(p50(list))}, p99 ${ms(p99(list))}`;
  fact('… from sending the commit', both(told), '');
  fact('… its notification', both(notified), '');
  fact('… its message at a slot', both(decoded), '');
  fact("… the service's own part, of NOTIFY", ((p50(told) - p50(decoded)) / p50(notified)).toFixed(2), '');
  fact('… its acknowledgment to the writer', both(acknowledged), '');
  fact('… the service meanwhile', `${(100 * used).toFixed(0)} % of a core`, '');
}

/** Hands over the number of each row that its changes tell. @returns what drops the slot again */
async function ownSlot(take) {
  const { lsnOf, readMessage, ReplicationStream } = await import('../dist/pg/index.js');
  const [client] = await connected(1);
  const name = 'bench_latency';
  const { rows } = await client.query(
    `SELECT lsn::text FROM pg_create_logical_replication_slot('${name}', 'pgoutput')`,
  );
  await client.end();
  const columns = new Map();
  const reader = {
    message(buffer, start, end) {
      const message = readMessage(buffer.subarray(start, end));
      if (message?.type === 'relation')
        columns.set(
          message.id,
          message.relation.columns.findIndex(({ name }) => name === 'n'),
        );
      if (message?.type === 'change') take(Number(message.change.row[columns.get(message.id)]));
    },
    caughtUp() {},
    readEnded() {},
  };
  const source = { slot: name, publications: ['cdp_feed'], from: lsnOf(rows[0].lsn) };
  const login = { ...superuser, database: 'project', connectionTimeoutMillis: 5_000 };
  const stream = await ReplicationStream.open(login, source, reader);
  return async (dropper) => {
    stream.close();
    for (;;) {
      const { rows } = await dropper.query(
        `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '${name}' AND NOT active`,
      );
      if (rows.length > 0) return;
      await sleep(20);
    }
  };
}

/** All changes of many batches, read in pages from the log, and by pg_recvlogical from a slot of its own. */
async function backlog(folder) {
  const program = await recvlogical();
  const { host, port, user } = superuser;
  const login = ['-h', host, '-p', String(port), '-U', user, '-d', 'project', '--slot'];
  execFileSync(program, [...login, 'bench', '--create-slot', '--plugin=pgoutput']);
  const start = await now();
  const before = service.cpu;
  const fill = `INSERT INTO data.customers (n, email, name, score, active, signed_up, profile)
    SELECT n, 'customer.' || n || '@example.com', 'Anna Maria van der Merwe', n / 3.0, n % 3 = 0, now(),
      '{"city": "Lisbon", "plan": "free", "tags": ["new", "mail"], "visits": 7}'
    FROM generate_series($1::int, $2::int) n`;
  const [client] = await connected(1);
  for (let n = 0; n < changes; n += 250) await client.query(fill, [n + 1, Math.min(n + 250, changes)]);
  const { rows } = await client.query('SELECT pg_current_wal_flush_lsn()::text AS lsn');
  await now();
  const stored = service.cpu - before;
  const ratios = [];
  const costs = [];
  for (let round = 0; round < rounds; round++) {
    const file = join(folder, 'changes');
    // It confirms what it reads, so each round has a slot of its own.
    await client.query("SELECT pg_copy_logical_replication_slot('bench', 'round')");
    const began = performance.now();
    const options = ['-o', 'proto_version=1', '-o', 'publication_names=cdp_feed,cdp_feed_inserts'];
    const receive = [
      ...login,
      'round',
      '--start',
      '--endpos',
      rows[0].lsn,
      '-f',
      file,
      '--no-loop',
      '-F',
      '0',
      '-s',
      '0',
    ];
    await promisify(execFile)(program, [...receive, ...options]);
    const direct = (performance.now() - began) / 1_000;
    await client.query("SELECT pg_drop_replication_slot('round')");
    const { count, took, cpu } = await readAll(start);
    if (count !== changes) throw new Error(`${count} changes instead of ${changes}`);
    ratios.push(direct / took);
    costs.push((cpu / count) * 1e6);
    say(`pg_recvlogical ${direct.toFixed(1)} s, the service ${took.toFixed(1)} s`);
  }
  await client.query("SELECT pg_drop_replication_slot('bench')");
  await client.end();
  fact(`reading ${changes} changes, of pg_recvlogical into a file`, median(ratios).toFixed(2), '≥ 0.5');
  fact('… storing them: CPU of the service for a million', `${((stored / changes) * 1e6).toFixed(2)} s`, '');
  fact('… reading them as JSON: CPU of the service for a million', `${median(costs).toFixed(2)} s`, '');
}

/** @returns how many changes came after the cursor */
async function readAll(start) {
  const before = service.cpu;
  const began = performance.now();
  let total = 0;
  for (let cursor = start; ;) {
    const page = await pageAfter(cursor, 'limit=10000');
    if (page.count === 0) break;
    total += page.count;
    ({ cursor } = page);
  }
  return { count: total, took: (performance.now() - began) / 1_000, cpu: service.cpu - before };
}

const agent = new Agent({ keepAlive: true });

/** An answer, not parsed as JSON: that would take longer than making it. */
async function pageAfter(cursor, query) {
  const asked = request(`${service.url}/api/cdp/changes?after=${cursor}&${query}`, {
    agent,
    headers: service.headers(),
  }).end();
  const [response] = await once(asked, 'response');
  const answer = await text(response);
  const [, count] = /^\{"success":true,"message":"(\d+) change/.exec(answer) ?? [];
  if (count === undefined) throw new Error(answer.slice(0, 500));
  return { count: Number(count), cursor: /"cursor":"([^"]+)"\}$/.exec(answer.slice(-200))[1] };
}

async function recvlogical() {
  const versions = (await readdir('/usr/lib/postgresql')).map(Number).sort((a, b) => a - b);
  return `/usr/lib/postgresql/${versions.at(-1)}/bin/pg_recvlogical`;
}

/** WAL that the server keeps for the feed while records come in and a reader reads nothing of its stream. */
async function pinned() {
  const silent = new AbortController();
  const stream = await fetch(`${service.url}/api/cdp/changes?after=${await now()}`, {
    headers: { ...service.headers(), accept: 'text/event-stream' },
    signal: silent.signal,
  });
  const body = recordsOf(COMMON, 0, 250);
  const most = [];
  let isOver = false;
  const watching = (async () => {
    while (!isOver) {
      most.push((await get('/feed')).feed.behind_bytes);
      await sleep(100);
    }
  })();
  await atRate(BATCHES_A_SECOND, 4 * seconds, () => service.call('/data/customers', body));
  isOver = true;
  await watching;
  silent.abort();
  await stream.body.cancel().catch(() => {});
  fact(
    'WAL kept for the feed at most, beside a reader that does not read',
    `${(Math.max(...most) / 2 ** 20).toFixed(0)} MiB`,
    '≤ 64 MiB',
  );
}

/** The same changes for one reader, and for a hundred. */
async function readers() {
  const writers = await connected(WRITERS);
  const cost = async (count, accept) => {
    const start = await now();
    const left = new AbortController();
    let isOver = false;
    const received = new Array(count).fill(0);
    const poll = async (i) => {
      for (let cursor = start; !isOver;) {
        const page = await pageAfter(cursor, 'wait=1');
        received[i] += page.count;
        ({ cursor } = page);
      }
    };
    const stream = async (i) => {
      const headers = { ...service.headers(), accept };
      const response = await fetch(`${service.url}/api/cdp/changes?after=${start}`, { headers, signal: left.signal });
      for await (const part of response.body)
        received[i] += Buffer.from(part).toString('latin1').split('\ndata: ').length - 1;
    };
    const reading = received.map((_, i) => (accept === undefined ? poll(i) : stream(i).catch(() => {})));
    await sleep(500);
    const before = cpus();
    await atRate(PER_SECOND, seconds, (n) =>
      writers[n % WRITERS].query(`INSERT INTO data.customers (n, email) VALUES (${n}, 'customer@example.com')`),
    );
    await sleep(1_500);
    const used = since(before);
    isOver = true;
    left.abort();
    await Promise.all(reading);
    const least = Math.min(...received);
    if (least !== PER_SECOND * seconds)
      throw new Error(`a reader has ${least} changes instead of ${PER_SECOND * seconds}`);
    return used;
  };
  for (const [name, accept] of [
    ['requests that wait', undefined],
    ['event streams', 'text/event-stream'],
  ]) {
    const ratios = [];
    for (let round = 0; round < rounds; round++) {
      const one = await cost(1, accept);
      const many = await cost(READERS, accept);
      ratios.push((many.service + many.postgres) / (one.service + one.postgres));
      say(`${name}: one ${JSON.stringify(one)}, ${READERS} ${JSON.stringify(many)}`);
    }
    fact(
      `${READERS} readers of one project, of one: CPU of service and Postgres, ${name}`,
      median(ratios).toFixed(2),
      '< 2',
    );
  }
  for (const client of writers) await client.end();
}

await main();
