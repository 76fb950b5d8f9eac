/** The program on an operator's own Postgres: `DATABASE_URL` with `CDP_SECRET` (contract C3.17). */
import { access } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { endEverything, newDataDir, runProgram, startServe, type Surroundings } from '../support/program.js';
import { createDatabase, embeddedServer, type TestDatabase } from '../support/postgres.js';
import { call, expectFailure, onServer } from '../support/service.js';

let control: TestDatabase;
let operator: Surroundings;
let dataDir: string;

beforeAll(async () => {
  control = await createDatabase();
  dataDir = await newDataDir();
  const { host, port, user, password, database } = control.connection;
  const url = `postgres://${user}:${password}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;
  operator = { env: { DATABASE_URL: url, CDP_SECRET: 's'.repeat(32), CDP_DATA_DIR: dataDir } };
});

afterAll(async () => {
  await endEverything();
  const { rows } = await inControl('SELECT id FROM cdp.instance');
  await onServer(embeddedServer(), (client) => client.query(`DROP DATABASE cdp_template_${String(rows[0]?.id)}`));
  await control.drop();
});

/** The level of pino's `warn`. */
const WARN = 40;

const inControl = (text: string) =>
  onServer(embeddedServer(), (client) => client.query<Record<string, unknown>>(text), control.name);

const cdp = async (...args: string[]): Promise<Record<string, string>> => {
  const { code, stdout, stderr } = await runProgram([...args, '--json'], operator);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout) as Record<string, string>;
};

describe('works', () => {
  it('prints no token, creates no project and no data folder, and serves what the commands create', async () => {
    const service = await startServe([], { env: { ...operator.env, CDP_NPM_START: '1' } });
    expect(await cdp('project', 'list')).toEqual([]);
    expect(await cdp('project', 'create', 'shop')).toMatchObject({ name: 'shop', status: 'active' });
    const { token } = await cdp('token', 'create', '--project', 'shop');
    const body = { sql: 'SELECT 1 AS n' };
    const response = await call(service.url, 'POST', '/api/cdp/sql', { token: token as string, body });
    expect(response.body).toMatchObject({ success: true, rows: [{ n: 1 }] });
    const { code, stdout } = await service.end();
    expect(code).toBe(0);
    expect(stdout).not.toMatch(/cdp_\w{49}|curl/);
    await expect(access(dataDir)).rejects.toThrow('ENOENT');
  });

  it('serves from two instances at once, and stopping one does not affect the server and the other', async () => {
    const { token } = await cdp('token', 'create', '--project', 'shop', '--scopes', 'sql:read');
    const [one, other] = await Promise.all([startServe([], operator), startServe([], operator)]);
    const status = async (url: string) =>
      (await call(url, 'POST', '/api/cdp/sql', { token: token as string, body: { sql: 'SELECT 1' } })).status;
    expect([await status(one.url), await status(other.url)]).toEqual([200, 200]);
    expect((await one.end()).code).toBe(0);
    expect(await status(other.url)).toBe(200);
    expect((await other.end()).code).toBe(0);
    expect((await inControl('SELECT 1 FROM cdp.projects')).rowCount).toBe(1);
  });

  it('warns at startup if several projects share the server, and not if only one uses it', async () => {
    const warnings = async () => {
      const service = await startServe([], operator);
      await service.end();
      return service.log().filter(({ level, projects }) => level === WARN && projects !== undefined);
    };
    expect(await warnings()).toEqual([]);
    await cdp('project', 'create', 'second');
    expect(await warnings()).toMatchObject([
      { projects: 2, msg: expect.stringContaining('share one Postgres server') as string },
    ]);
    await cdp('project', 'delete', 'second', '--yes');
  });
});

describe('refuses', () => {
  it('a secret other than the one that the control database was created with', async () => {
    const { code, stderr } = await runProgram(['serve', '--port', '0'], {
      env: { ...operator.env, CDP_SECRET: 'another secret of more than 32 characters' },
    });
    expect(code).toBe(1);
    expect(stderr).toContain('CDP_SECRET is not the secret that this control database was created with');
    expect(stderr).not.toMatch(/more than 32|^ +at /m);
  });

  it('to start on a schema that a newer program has created', async () => {
    await inControl("INSERT INTO cdp.migrations (version, name) VALUES (999, 'of the future')");
    const { code, stderr } = await runProgram(['serve', '--port', '0'], operator);
    await inControl('DELETE FROM cdp.migrations WHERE version = 999');
    expect(code).toBe(1);
    expect(stderr).toMatch(/version 999 .*start a newer program/);
    expect(stderr).not.toMatch(/^ +at /m);
  });

  it.each([
    ['a server that is not there', 'postgres://me:hidden@127.0.0.1:1/cdp', /ECONNREFUSED|not available/],
    ['a URL of another kind', 'https://me:hidden@example.com/cdp', /DATABASE_URL/],
    ['a URL without a database', 'postgres://me:hidden@127.0.0.1', /DATABASE_URL must name/],
  ])('%s, without repeating the password', async (_what, url, message) => {
    const { code, stdout, stderr } = await runProgram(['serve', '--port', '0'], {
      env: { ...operator.env, DATABASE_URL: url },
    });
    expect(code).toBeGreaterThan(0);
    expect(stderr).toMatch(message);
    expect(stdout + stderr).not.toMatch(/hidden|^ +at /m);
  });
});

describe('protects', () => {
  it('the remains of a deleted project: its database and roles are gone, and its token is refused', async () => {
    const { token } = await cdp('token', 'create', '--project', 'shop');
    const { rows } = await inControl('SELECT database_name, writer_role, reader_role FROM cdp.projects');
    const names = Object.values(rows[0] ?? {});
    const service = await startServe([], operator);
    expect((await call(service.url, 'GET', '/api/cdp/schema', { token: token as string })).status).toBe(200);
    expect(await cdp('project', 'delete', 'shop', '--yes')).toMatchObject({ name: 'shop' });
    const left = await onServer(embeddedServer(), (client) =>
      client.query(
        'SELECT datname FROM pg_database WHERE datname = ANY ($1) UNION SELECT rolname FROM pg_roles WHERE rolname = ANY ($1)',
        [names],
      ),
    );
    expect(left.rows).toEqual([]);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expectFailure(await call(service.url, 'GET', '/api/cdp/schema', { token: token as string }), 401, 'unauthorized');
    expect((await service.end()).code).toBe(0);
  });
});
