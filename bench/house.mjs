/** Everything that runs during the benchmark: started in order, and always stopped in reverse order. */
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpuOfMachine, cpuOfTree } from './cpu.mjs';
import { Database } from './database.mjs';
import { Generator } from './load/generator.mjs';
import { Naive, NAIVE_ROLE } from './servers/naive.mjs';
import { AUTHENTICATOR, PostgRest, SETUP } from './servers/postgrest.mjs';
import { Service } from './servers/service.mjs';
import { NaiveTarget } from './targets/naive.mjs';
import { PostgRestTarget } from './targets/postgrest.mjs';
import { RAW_ROLE, RawWire, UNPREPARED_ROLE, UnpreparedWire } from './targets/raw-wire.mjs';
import { ServiceTarget } from './targets/service.mjs';

/** How long each target works before it is measured, so that everything is compiled, cached and connected. */
const WARM_UP_SECONDS = 1;

export class House {
  /** @type {(() => unknown)[]} */
  #closers = [];
  #closed = false;
  #measurements = 0;

  /** @param {ReturnType<import('./options.mjs').readOptions>} options */
  constructor(options) {
    this.options = options;
  }

  /** The folder for CPU profiles of the service; null: there are none. @type {string | null} */
  profiles = null;

  async open() {
    const folder = await mkdtemp(join(tmpdir(), 'cdp-bench-'));
    await chmod(folder, 0o711); // Postgres may run as another user
    const http = new Generator('load.mjs');
    this.#later(() => http.stop());
    const service = await this.#serviceTarget(folder, 'service', http);
    this.service = service.service;
    const superuser = await this.service.superuser();
    // The `dist` of another version of the project, on a Postgres of its own.
    const before =
      this.options.before === undefined
        ? {}
        : { before: await this.#serviceTarget(join(folder, 'b'), 'before', http, this.options.before) };
    if (this.options.profile) {
      this.profiles = await mkdtemp(join(tmpdir(), 'cdp-profile-'));
      this.targets = { service };
      return;
    }

    const password = randomBytes(16).toString('hex');
    for (const role of [RAW_ROLE, UNPREPARED_ROLE, AUTHENTICATOR, NAIVE_ROLE]) {
      await service.database.client.query(`CREATE ROLE ${role} LOGIN NOINHERIT PASSWORD '${password}'`);
      await service.database.client.query(`CREATE DATABASE ${role} OWNER ${role}`);
    }
    const loginOf = (role) => ({ ...superuser, user: role, database: role, password });
    const wire = async (Target, role) => {
      const target = new Target(loginOf(role), await this.#database(superuser, role, 'public'));
      this.#later(() => target.generator.stop());
      return target;
    };
    const raw = await wire(RawWire, RAW_ROLE);

    this.targets = { raw, service, ...before };
    this.httpGenerator = http;
    if (this.options.naive) {
      this.targets.unprepared = await wire(UnpreparedWire, UNPREPARED_ROLE);
      const naive = new Naive(folder);
      this.#later(() => naive.stop());
      await naive.start(loginOf(NAIVE_ROLE));
      this.targets.naive = new NaiveTarget(naive, await this.#database(superuser, NAIVE_ROLE, 'public'), http);
    }
    if (this.options.postgrest === false) return;
    const rest = await this.#database(superuser, AUTHENTICATOR, 'public');
    for (const statement of SETUP) await rest.client.query(statement);
    const server = new PostgRest(folder);
    this.#later(() => server.stop());
    await server.start(superuser, password);
    this.targets.postgrest = new PostgRestTarget(server, rest, http);
  }

  /** A service with an embedded Postgres of its own. */
  async #serviceTarget(folder, name, http, dist) {
    await mkdir(folder, { recursive: true, mode: 0o711 });
    const service = new Service(folder);
    if (dist !== undefined) service.program = join(dist, 'cli/bin.js');
    this.#later(() => service.remove());
    await service.start();
    const { rows } = await service.call('/sql', {
      sql: 'SELECT current_database() AS name, current_schema() AS schema',
    });
    const project = await this.#database(await service.superuser(), rows[0].name, rows[0].schema);
    return Object.assign(new ServiceTarget(service, project, http), { name, postmaster: await service.postmaster() });
  }

  /** Closes it at the end, or now if the end came while it was being opened. */
  #later(close) {
    if (this.#closed) void close();
    else this.#closers.push(close);
  }

  async #database(superuser, name, schema) {
    const database = await Database.open(superuser, name, schema);
    this.#later(() => database.close());
    return database;
  }

  /**
   * Runs a target's work once.
   * @param {{ name: string, serverCpu: number, generator: Generator, run(order: object): Promise<object> }} target
   * @param {number} unitsPerAnswer rows, requests or tables for each response
   * @returns the counts with the speed in units per second, CPU seconds for a million units, and how many cores
   *   processes outside the benchmark have used meanwhile
   */
  async measure(target, order, unitsPerResponse) {
    if (this.profiles !== null) await this.service.ask('startProfile');
    const before = this.#cpu(target);
    const started = performance.now();
    const counted = await target.run({ seconds: this.options.seconds, ...order });
    const elapsed = (performance.now() - started) / 1000;
    const after = this.#cpu(target);
    if (this.profiles !== null) {
      await this.service.ask('stopProfile', join(this.profiles, `${++this.#measurements}.cpuprofile`));
    }
    const used = (name) => after[name] - before[name];
    const units = counted.responses * unitsPerResponse;
    return {
      ...counted,
      perSecond: units / counted.seconds,
      postgresCpu: (used('postgres') / units) * 1e6,
      serverCpu: (used('server') / units) * 1e6,
      others: Math.max(0, used('machine') - used('postgres') - used('server') - used('own')) / elapsed,
    };
  }

  /** The same, short and not measured. */
  async warmUp(target, order) {
    return target.run({ ...order, seconds: Math.min(WARM_UP_SECONDS, this.options.seconds) });
  }

  #cpu(target) {
    const { user, system } = process.cpuUsage();
    return {
      postgres: cpuOfTree(target.postmaster ?? this.targets.service.postmaster),
      server: target.serverCpu,
      own: (user + system) / 1e6 + target.generator.cpu,
      machine: cpuOfMachine(),
    };
  }

  async close() {
    this.#closed = true;
    for (const close of this.#closers.splice(0).reverse()) {
      try {
        await close();
      } catch (error) {
        process.stderr.write(`bench: while closing: ${error}\n`);
      }
    }
  }
}
