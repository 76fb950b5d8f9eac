/**
 * What one more Postgres server costs: the service's CPU for a request with 1, 2 and 4 servers, their joint throughput
 * if each commit takes 5 ms, and what projects on the other servers notice while one server is dead.
 *
 *     node bench/many-servers.mjs [--seconds N] [--rounds N]
 */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { build } from '../scripts/build.mjs';
import { loadAverage, machine } from './cpu.mjs';
import { call } from './http.mjs';
import { Generator } from './load/generator.mjs';
import { COMMON } from './records.mjs';
import { factsTable } from './report.mjs';
import { ratio } from './rounds.mjs';

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '4' }, rounds: { type: 'string', default: '5' } },
});
const [seconds, rounds] = [Number(values.seconds), Number(values.rounds)];

/** How many servers take part. */
const COUNTS = [1, 2, 4];
const MAX_SERVERS = 4;
const TABLE = 'customers';
const RECORD = [COMMON.record(0)];

/** Connections of each measurement of CPU, and of each server with slow commits, which must not be bound by the CPU. */
const [CONNECTIONS, SLOW_CONNECTIONS] = [8, 2];
const COMMIT_MS = 5;
const GOALS = { cpu: 1.05, throughput: 0.9, p99: 1.2 };

const say = (text) => process.stderr.write(`${text}\n`);

build();
const { Service } = await import('./servers/service.mjs');
const { Postgres } = await import('./servers/postgres.mjs');
const folder = await mkdtemp(join(tmpdir(), 'cdp-servers-'));
await chmod(folder, 0o711);
const service = new Service(join(folder, 'service'));
const generator = new Generator('load.mjs');
const servers = [];
async function main() {
  const load = loadAverage();
  say(`${MAX_SERVERS} servers are started …`);
  await service.start();
  const admin = await service.command('token', 'create', '--admin');
  const manage = (path, body) =>
    call(`${service.url}/api/cdp/admin/${path}`, { headers: service.headers(admin), body });
  for (let i = 0; i < MAX_SERVERS; i++) {
    const server = new Postgres(join(folder, `s${i}`));
    servers.push(server);
    await server.start();
    await server.prepare();
    const file = join(folder, `s${i}.url`);
    await writeFile(file, server.url);
    await manage('servers', { name: `s${i}`, url_reference: `file:${file}` });
  }
  /** Tokens of four projects on the first n servers: the number of projects does not depend on n. */
  const tokens = new Map();
  for (const count of COUNTS) {
    const own = [];
    for (let i = 0; i < MAX_SERVERS; i++) own.push(await makeProject(manage, `p${count}-${i}`, `s${i % count}`));
    tokens.set(count, own);
  }
  const requestsOf = (count) => tokens.get(count).map((token) => service.request(`/data/${TABLE}`, RECORD, { token }));

  say('CPU of a request …');
  const cpu = await interleave(async (count) => {
    const before = service.cpu;
    const { responses } = await run({ requests: requestsOf(count), connections: CONNECTIONS });
    return { perRequest: ((service.cpu - before) / responses) * 1e6 };
  });

  say('Reads of the others while one server is dead …');
  const [alive, dead] = await besideTheDead(tokens.get(MAX_SERVERS));

  say(`Commits that take ${COMMIT_MS} ms …`);
  for (const server of servers) {
    const slow = `ALTER SYSTEM SET commit_delay = ${COMMIT_MS * 1_000}`;
    // The delay does not depend on other active transactions.
    await server.sql(slow, 'ALTER SYSTEM SET commit_siblings = 0', 'SELECT pg_reload_conf()');
  }
  const slow = await interleave(async (count) => {
    const counted = await run({ requests: requestsOf(count), connections: SLOW_CONNECTIONS * count });
    return { perServer: counted.responses / counted.seconds / count };
  });

  const facts = COUNTS.slice(1).flatMap((count) => [
    fact(`CPU of the service for a request with ${count} servers, times that with 1`, cpu, count, 'perRequest', {
      goal: `≤ ${GOALS.cpu}`,
      isMet: (median) => median <= GOALS.cpu,
    }),
    fact(
      `requests of each of ${count} servers with commits of ${COMMIT_MS} ms, of those of 1 alone`,
      slow,
      count,
      'perServer',
      {
        goal: `≥ ${GOALS.throughput}`,
        isMet: (median) => median >= GOALS.throughput,
      },
    ),
  ]);
  const p99 = ratio(dead, alive, ({ p99 }) => p99);
  facts.push({
    title: 'p99 of the projects on 3 servers while the 4th is dead and asked, times that while it lives',
    figure: figureOf(p99),
    goal: `≤ ${GOALS.p99}`,
    met: p99.median <= GOALS.p99,
  });
  const head = `${machine()}; ${rounds} rounds of ${seconds} s; load average before ${load}, after ${loadAverage()}`;
  const perRequest = cpu
    .get(1)
    .map(({ perRequest }) => perRequest.toFixed(0))
    .join(', ');
  const alone = slow
    .get(1)
    .map(({ perServer }) => perServer.toFixed(0))
    .join(', ');
  process.stdout.write(
    `\n${head}\n\nWith 1 server: ${perRequest} µs of CPU a request; ${alone} requests/s with slow commits\n\n${factsTable(facts)}\n`,
  );
}

async function makeProject(manage, name, server) {
  await manage('projects', { name, server });
  const { token } = await manage(`projects/${name}/tokens`, { name: 'bench' });
  await service.createTable(TABLE, COMMON.columns, token);
  return token;
}

const run = (order) => generator.run({ port: service.port, seconds, ...order });

/** Each count in turn, in every round. @returns measurements by count */
async function interleave(measure) {
  const measured = new Map(COUNTS.map((count) => [count, []]));
  // The first turn compiles and connects, and is not counted.
  for (let round = -1; round < rounds; round++) {
    for (const count of COUNTS) {
      const result = await measure(count);
      if (round >= 0) measured.get(count).push(result);
    }
  }
  return measured;
}

const ASK_EVERY_MS = 50;

/**
 * @returns measurements of the others while the last server lives, and while it is dead; its project always gets
 *   requests
 */
async function besideTheDead(tokens) {
  const [alive, dead] = [[], []];
  const requests = tokens.slice(0, -1).map((token) => service.request('/sql', { sql: 'SELECT 1' }, { token }));
  const last = servers[MAX_SERVERS - 1];
  let isOver = false;
  const asking = (async () => {
    while (!isOver) {
      await service.call('/sql', { sql: 'SELECT 1' }, tokens[MAX_SERVERS - 1]).catch(() => {});
      await sleep(ASK_EVERY_MS);
    }
  })();
  for (let round = -1; round < rounds; round++) {
    const living = await run({ requests, connections: CONNECTIONS });
    await last.kill();
    const beside = await run({ requests, connections: CONNECTIONS });
    await last.start();
    if (round < 0) continue;
    alive.push(living);
    dead.push(beside);
  }
  isOver = true;
  await asking;
  for (;;) {
    const responses = await service.call('/sql', { sql: 'SELECT 1' }, tokens[MAX_SERVERS - 1]).catch(() => null);
    if (responses !== null) return [alive, dead];
    await sleep(ASK_EVERY_MS);
  }
}

const figureOf = ({ median, min, max }) => `${median.toFixed(2)} (${min.toFixed(2)}-${max.toFixed(2)})`;

function fact(title, measured, count, key, { goal, isMet }) {
  const found = ratio(measured.get(count), measured.get(1), (one) => one[key]);
  return { title, figure: figureOf(found), goal, met: isMet(found.median) };
}

try {
  await main();
} finally {
  generator.stop();
  await service.remove();
  for (const server of servers) await server.remove();
  await rm(folder, { recursive: true, force: true });
}
