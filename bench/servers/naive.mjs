/** `naive-program.mjs` as a process, on a database of its own on the same server. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { call } from '../http.mjs';
import { freePort, ready, start, stop } from './process.mjs';

const PROGRAM = fileURLToPath(new URL('naive-program.mjs', import.meta.url));

/** The number of connections of most loads here; no other size was measured. */
const POOL = 8;

/** Role, and database: the embedded server lets a role only into the database of its own name. */
export const NAIVE_ROLE = 'bench_naive';

export class Naive {
  constructor(folder) {
    this.log = join(folder, 'naive.log');
    this.folder = folder;
  }

  /** @param {object} login what the driver takes */
  async start(login) {
    this.port = await freePort();
    const env = {
      PATH: process.env.PATH,
      LOGIN: JSON.stringify(login),
      POOL: String(POOL),
      PORT: String(this.port),
    };
    this.child = start(process.execPath, [PROGRAM], this.log, { cwd: this.folder, env });
    const url = `http://127.0.0.1:${this.port}/sql`;
    await ready(this.child, this.log, () => call(url, { body: { sql: 'SELECT 1' } }));
  }

  get pid() {
    return this.child.pid;
  }

  async stop() {
    if (this.child !== undefined) await stop(this.child);
  }
}
