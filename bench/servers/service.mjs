/**
 * The service as a user runs it: `cdp serve` with embedded Postgres servers in a data folder of its own. The server of
 * the project `default` also serves the other targets, so all of them share one server, one disk and one configuration.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { PORT, SUPERUSER } from '../../dist/embedded/postgres-config.js';
import { cpuOf } from '../cpu.mjs';
import { call, httpRequest } from '../http.mjs';
import { freePort, ready, start, stop } from './process.mjs';

export const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PROGRAM = join(ROOT, 'dist/cli/bin.js');
const PROBE = new URL('./probe.mjs', import.meta.url).href;

/** The environment without variables that would configure the service. */
const ENVIRONMENT = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(CDP_|DATABASE_URL$|NODE_OPTIONS$)/.test(name)),
);

export class Service {
  removed = false;

  /** Flags in addition to the defaults, for a benchmark of a setting. @type {string[]} */
  settings = [];

  /** Another version of the project can be measured too. */
  program = PROGRAM;

  /** @param {string} folder for its data and its log */
  constructor(folder) {
    this.dataDir = join(folder, 'data');
    this.log = join(folder, 'service.log');
    this.folder = folder;
  }

  async start() {
    // Room for the connections of all targets.
    await mkdir(join(this.dataDir, 'postgres'), { recursive: true, mode: 0o711 });
    await writeFile(join(this.dataDir, 'postgres', 'local.conf'), 'max_connections = 200\n');
    const args = ['--expose-gc', '--import', PROBE, this.program, 'serve'];
    await this.launch(process.execPath, args, { ipc: true, cwd: this.folder });
    // The first start writes it just after it has begun to listen.
    const file = join(this.dataDir, 'first-token');
    this.token ??= await ready(this.child, this.log, async () => {
      const token = (await readFile(file, 'utf8')).trim();
      if (token === '') throw new Error('the token is still being written');
      return token;
    });
  }

  /** Any command that becomes the service. @returns once it is ready */
  async launch(program, args, { ipc = false, cwd, env = ENVIRONMENT }) {
    this.port = await freePort();
    if (this.removed) throw new Error('the benchmark is being stopped');
    const all = [...args, '--port', String(this.port), '--data-dir', this.dataDir, ...this.settings];
    this.child = start(program, all, this.log, { env, cwd, ipc });
    this.url = `http://127.0.0.1:${this.port}`;
    await ready(this.child, this.log, () => call(`${this.url}/readyz`, { method: 'GET' }), 5);
  }

  get pid() {
    return this.child.pid;
  }

  get cpu() {
    return cpuOf(this.pid);
  }

  headers(token = this.token) {
    return { Authorization: `Bearer ${token}` };
  }

  call(path, body, token) {
    return call(`${this.url}/api/cdp${path}`, { headers: this.headers(token), body });
  }

  /** A request in bytes, for the load generator. */
  /** @param path below `/api/cdp`, or `/mcp` */
  request(path, body, { token, headers = {} } = {}) {
    return httpRequest({
      path: path === '/mcp' ? path : `/api/cdp${path}`,
      headers: { ...this.headers(token), ...headers },
      body,
    });
  }

  createTable(name, columns, token) {
    return this.call('/schema/table', { table_name: name, columns }, token);
  }

  /** `cdp …` on this data folder, while the service runs. @returns what it prints */
  async command(...args) {
    const all = [PROGRAM, ...args, '--data-dir', this.dataDir];
    const { stdout } = await promisify(execFile)(process.execPath, all, { env: ENVIRONMENT, cwd: this.folder });
    return stdout.trim();
  }

  /** The folder of the server of the project `default`, which at first is the only one. */
  async server() {
    if (this.defaultServer === undefined) {
      const projects = await realpath(join(this.dataDir, 'postgres', 'projects'));
      const [id] = await readdir(projects);
      this.defaultServer = join(projects, id);
    }
    return this.defaultServer;
  }

  /** How the superuser of that server logs in. @returns what the driver takes, without a database */
  async superuser() {
    // The server starts with the first request.
    await this.call('/sql', { sql: 'SELECT 1' });
    const host = join(await this.server(), 'socket');
    return { host, port: PORT, user: SUPERUSER, password: '', connectionTimeoutMillis: 5_000 };
  }

  async postmaster() {
    const lock = join(await this.server(), 'data', 'postmaster.pid');
    return Number((await readFile(lock, 'utf8')).split('\n', 1)[0]);
  }

  /** Asks the probe inside the service. */
  async ask(question, argument) {
    this.child.send({ question, argument });
    const [{ response }] = await once(this.child, 'message');
    return response;
  }

  /** Stops the service, which stops its Postgres. */
  async stop() {
    if (this.child !== undefined) await stop(this.child);
  }

  /** Stops what a crashed service has left running, and removes everything. */
  async remove() {
    this.removed = true;
    await this.stop();
    const postmaster = await this.postmaster().catch(() => undefined);
    if (postmaster !== undefined) {
      process.kill(postmaster, 'SIGINT');
      for (let i = 0; i < 300 && (await this.postmaster().catch(() => undefined)) !== undefined; i++) await sleep(100);
    }
    // If the server cannot reach the data folder, its cluster is elsewhere, behind a link.
    for (const place of [realpathOf(join(this.dataDir, 'postgres')), this.folder]) {
      if (place !== null) await rm(place, { recursive: true, force: true });
    }
  }
}

function realpathOf(path) {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}
