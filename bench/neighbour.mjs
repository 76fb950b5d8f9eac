/**
 * What a hostile project costs its neighbor: the neighbor's times alone and under each attack, alternating, on one
 * service. Prints ratios. Exits with 1 if the service or its Postgres failed, not if a ratio is bad.
 *
 *     node bench/neighbour.mjs [--only NAME,NAME] [--seconds N] [--rounds N] [--together]
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { build } from '../scripts/build.mjs';
import { loadAverage, machine, memoryOf, resetMost } from './cpu.mjs';
import { call } from './http.mjs';
import { ATTACKS } from './neighbour/attacks.mjs';
import { COMMON, recordsOf } from './records.mjs';
import { table } from './report.mjs';
import { median } from './rounds.mjs';

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '1' },
    together: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
    set: { type: 'string', multiple: true, default: [] },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);

/** Default number of connections of an attack. */
const CONNECTIONS = 64;

/** Time for the attack to take effect before the neighbor is measured. */
const SETTLE_MS = 700;

const say = (text) => process.stderr.write(`${text}\n`);

/** The neighbor: four connections, each at a fixed rate. */
const KINDS = [
  {
    name: '250 records',
    perSecond: 5,
    path: '/api/cdp/data/customers',
    bodies: [JSON.stringify(recordsOf(COMMON, 0, 250))],
  },
  { name: '1 record', perSecond: 20, path: '/api/cdp/data/customers', bodies: [JSON.stringify([COMMON.record(1)])] },
  {
    name: 'SELECT',
    perSecond: 20,
    path: '/api/cdp/sql',
    bodies: [JSON.stringify({ sql: 'SELECT n, email FROM places WHERE n = 42' })],
  },
  {
    name: 'create table',
    perSecond: 1,
    path: '/api/cdp/schema/table',
    bodies: [
      JSON.stringify({
        table_name: 't_#N',
        columns: [
          { name: 'a', type: 'TEXT' },
          { name: 'b', type: 'INTEGER' },
        ],
      }),
    ],
  },
];

class Neighbour {
  #from = 0;

  constructor(service, token) {
    this.service = service;
    this.token = token;
    this.child = fork(new URL('./neighbour/load.mjs', import.meta.url), { serialization: 'advanced' });
  }

  async prepare() {
    await this.service.createTable('customers', COMMON.columns, this.token);
    await this.service.createTable('places', COMMON.columns, this.token);
    await this.service.call('/data/places', recordsOf(COMMON, 0, 250), this.token);
  }

  /** Times and failures by kind, and the delay of the service's event loop. */
  async measure() {
    await this.service.ask('loopDelay');
    resetMost(this.service.pid);
    const { port } = this.service;
    this.#from += 1_000;
    this.child.send({ port, token: this.token, seconds, kinds: KINDS.map((kind) => ({ ...kind, from: this.#from })) });
    const [kinds] = await once(this.child, 'message');
    const loop = await this.service.ask('loopDelay');
    return { kinds, loop, memory: memoryOf(this.service.pid).most };
  }
}

/** A project of its own for each attack, so that none finds what another has left behind. */
class Hostile {
  constructor(service, admin) {
    this.service = service;
    this.manage = (path, options = {}) =>
      call(`${service.url}/api/cdp/admin/projects${path}`, { headers: service.headers(admin), ...options });
  }

  async begin(name, attacks) {
    this.name = name;
    await this.manage('', { body: { name } });
    const { token } = await this.manage(`/${name}/tokens`, { body: { name: 'hostile' } });
    for (const { before = [] } of attacks) for (const sql of before) await this.service.call('/sql', { sql }, token);
    const request = (path, body, options = {}) => this.service.request(path, body, { ...options, token });
    this.child = fork(new URL('./neighbour/attacker.mjs', import.meta.url), {
      serialization: 'advanced',
      detached: true,
    });
    const begun = once(this.child, 'message');
    const share = attacks.length === 1 ? 1 : 0.25;
    this.child.send({
      port: this.service.port,
      attacks: attacks.map(({ connections = CONNECTIONS, manner = 'repeat', requests = [], raw = () => [] }) => ({
        connections: Math.ceil(connections * share),
        manner,
        requests: [...requests.map((body) => request('/sql', body)), ...raw(request)],
      })),
    });
    await begun;
  }

  /** @returns what the attacker saw */
  async end() {
    this.child.send('report');
    const [counts] = await once(this.child, 'message');
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
    await this.manage(`/${this.name}?confirm=${this.name}`, { method: 'DELETE' });
    return counts;
  }
}

const percentile = (times, share) => {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)];
};

const figures = (measurements) =>
  Object.fromEntries(
    KINDS.map(({ name }) => {
      const times = measurements.flatMap(({ kinds }) => kinds[name].times);
      return [name, { p50: percentile(times, 0.5), p99: percentile(times, 0.99), max: Math.max(...times) }];
    }),
  );

function failuresOf(measurements) {
  const all = {};
  for (const { kinds } of measurements) {
    for (const { failures } of Object.values(kinds))
      for (const [what, n] of Object.entries(failures)) all[what] = (all[what] ?? 0) + n;
  }
  return (
    Object.entries(all)
      .map(([what, n]) => `${n} × ${what}`)
      .join(', ') || '0'
  );
}

const ms = (value) => (value < 10 ? value.toFixed(1) : Math.round(value).toString());
const ratio = (of, to) => (of / to).toFixed(1);

/** Ends the measuring, so that everything that was started is stopped. */
let stop = (_error) => {};

async function main() {
  build();
  const { Service } = await import('./servers/service.mjs');
  const folder = await mkdtemp(join(tmpdir(), 'cdp-neighbour-'));
  await chmod(folder, 0o711);
  const service = new Service(folder);
  service.settings = values.set.flatMap((pair) => [`--${pair.split('=')[0]}`, pair.split('=')[1]]);
  const load = loadAverage();
  const stopped = new Promise((_, reject) => (stop = reject));
  const children = [];
  try {
    await Promise.race([stopped, measure(service, children, load)]);
  } finally {
    for (const child of children) child.kill('SIGKILL');
    await service.remove();
  }
}

async function measure(service, children, load) {
  await service.start();
  const admin = await service.command('token', 'create', '--admin');
  const neighbour = new Neighbour(service, service.token);
  children.push(neighbour.child);
  await neighbour.prepare();
  const postmaster = await service.postmaster();
  await neighbour.measure();
  const rows = [];
  const wanted = values.only.split(',').filter(Boolean);
  const chosen = ATTACKS.filter(({ name }) => wanted.length === 0 || wanted.some((part) => name.includes(part)));
  const runs = chosen.map((attack) => [attack.name, [attack]]);
  if (values.together || wanted.length === 0) runs.push(['all at once', chosen]);
  let counter = 0;
  for (const [name, attacks] of runs) {
    say(`${name} …`);
    const quiet = [];
    const under = [];
    let counts;
    for (let round = 0; round < rounds; round++) {
      quiet.push(await neighbour.measure());
      const hostile = new Hostile(service, admin);
      await hostile.begin(`hostile-${++counter}`, attacks);
      children.push(hostile.child);
      await sleep(SETTLE_MS);
      under.push(await neighbour.measure());
      counts = await hostile.end();
      await sleep(SETTLE_MS);
    }
    quiet.push(await neighbour.measure());
    const before = figures(quiet);
    const after = figures(under);
    rows.push([
      name,
      ...KINDS.flatMap(({ name: kind }) => [
        `${ms(before[kind].p50)} → ${ms(after[kind].p50)}`,
        `${ms(before[kind].p99)} → ${ms(after[kind].p99)}`,
        ratio(after[kind].p99, before[kind].p99),
      ]),
      ms(Math.max(...KINDS.map(({ name: kind }) => after[kind].max))),
      failuresOf(under),
      ms(Math.max(...under.map(({ loop }) => loop.max))),
      ms(Math.max(...under.map(({ memory }) => memory))),
    ]);
    say(`  ${rows.at(-1).slice(1).join(' | ')}\n  attacker: ${JSON.stringify(counts)}`);
    if ((await service.postmaster()) !== postmaster) throw new Error(`${name}: Postgres was restarted`);
  }
  const head = [
    'attack',
    ...KINDS.flatMap(({ name }) => [`${name}: p50 ms`, 'p99 ms', '×']),
    'max ms',
    'failures',
    'loop max ms',
    'MiB',
  ];
  process.stdout.write(
    `\n${machine()}; ${rounds} rounds of ${seconds} s; load average before ${load}, after ${loadAverage()}\n\n${table(head, rows)}\n`,
  );
  const factors = rows.map((row) => Number(row[6]));
  process.stdout.write(
    `\nmedian factor of the p99 of single inserts: ${median(factors).toFixed(1)}, largest ${Math.max(...factors).toFixed(1)}\n`,
  );
}

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop(new Error(`stopped by ${signal}`)));

main().catch((error) => {
  process.stderr.write(`bench: ${error?.stack ?? error}\n`);
  process.exitCode = 1;
});
