/**
 * kill -9 of the service, whose control server keeps running and is adopted, and of either kind of server, which is
 * started again.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  endEverything,
  eventually,
  firstToken,
  preparedDataDir,
  postmasterOf,
  postmastersIn,
  projectPostmaster,
  runProgram,
  type RunningService,
  startServe,
  superuserOf,
} from '../support/program.js';
import { call, expectFailure, type TestResponse } from '../support/service.js';

/** One folder for all tests: each starts a service on what the one before has left. */
let dataDir: string;
beforeAll(async () => {
  dataDir = await preparedDataDir();
});
afterAll(endEverything);

async function start(): Promise<{ service: RunningService; post: Post }> {
  const service = await startServe(['--data-dir', dataDir]);
  const token = await firstToken(dataDir);
  return { service, post: (path, body) => call(service.url, 'POST', path, { token, body }) };
}

type Post = (path: string, body: unknown) => Promise<TestResponse>;

async function numbers(post: Post, table: string): Promise<number[]> {
  const response = await post('/api/cdp/sql', { sql: `SELECT n FROM ${table} ORDER BY n` });
  return (response.body.rows as { n: number }[]).map(({ n }) => n);
}

async function createTables(post: Post, ...names: string[]): Promise<void> {
  for (const table of names) {
    const response = await post('/api/cdp/schema/table', {
      table_name: table,
      columns: [{ name: 'n', type: 'INTEGER' }],
    });
    expect(response.status).toBe(201);
  }
}

/** Inserts pairs until it fails. @returns the first number of each pair that was acknowledged */
async function insertPairs(post: Post): Promise<number[]> {
  const acknowledged: number[] = [];
  for (let n = 0; ; n += 2) {
    const response = await post('/api/cdp/data/pairs', [{ n }, { n: n + 1 }]).catch(() => null);
    if (response?.status !== 201) return acknowledged;
    acknowledged.push(n);
  }
}

describe('kill -9 of the service', () => {
  it('loses no acknowledged row, stores no partial batch, and leaves no lock for the next start', async () => {
    const { service, post } = await start();
    await createTables(post, 'pairs', 'locked');
    const holding = post('/api/cdp/sql', { sql: 'LOCK TABLE locked; SELECT pg_sleep(50)' }).catch(() => null);
    const writers = [insertPairs(post), insertPairs(post), insertPairs(post)];
    await eventually('rows come in', async () => (await numbers(post, 'pairs')).length > 100);
    const postmaster = await postmasterOf(dataDir);
    await service.end('SIGKILL');
    await holding;
    expect(await postmasterOf(dataDir)).toBe(postmaster);

    const next = await start();
    expect(await postmasterOf(dataDir), 'the Postgres is adopted').toBe(postmaster);
    const counts = new Map<number, number>();
    for (const n of await numbers(next.post, 'pairs')) counts.set(n, (counts.get(n) ?? 0) + 1);
    for (const [writer, pairs] of (await Promise.all(writers)).entries()) {
      expect(pairs.length, `writer ${writer}`).toBeGreaterThan(0);
    }
    const acknowledged = new Map<number, number>();
    for (const n of (await Promise.all(writers)).flat()) acknowledged.set(n, (acknowledged.get(n) ?? 0) + 1);
    for (const [n, times] of acknowledged) expect(counts.get(n), `row ${n}`).toBeGreaterThanOrEqual(times);
    for (const [n, times] of counts) expect(counts.get(n ^ 1), `the other of ${n}`).toBe(times);

    await eventually('the lock of the killed request is gone', async () => {
      const response = await next.post('/api/cdp/data/locked', [{ n: 1 }]);
      return response.status === 201;
    });
    const added = await next.post('/api/cdp/schema/table/locked/column', { name: 'more', type: 'TEXT' });
    expect(added.status).toBe(201);
    expect((await next.service.end()).code).toBe(0);
    expect(await postmastersIn(dataDir)).toEqual([]);
  });

  it('leaves a Postgres that a command adopts, uses and stops', async () => {
    const { service } = await start();
    await service.end('SIGKILL');
    const listed = await runProgram(['project', 'list', '--json', '--data-dir', dataDir]);
    expect(JSON.parse(listed.stdout)).toMatchObject([{ name: 'default', status: 'active' }]);
    expect(await postmastersIn(dataDir)).toEqual([]);
  });
});

describe('kill -9', () => {
  it.each([
    ['the control server', 'control', () => postmasterOf(dataDir)],
    ["the project's server", 'project', () => projectPostmaster(dataDir)],
  ] as const)(
    'of %s: requests get 200 or a true 503 until it is back by itself, with every acknowledged row',
    async (_, name, find) => {
      const { service, post } = await start();
      const table = `kept_${name}`;
      await createTables(post, table);
      expect((await post(`/api/cdp/data/${table}`, [{ n: 1 }])).status).toBe(201);
      const postmaster = (await find()) as number;
      process.kill(postmaster, 'SIGKILL');

      await eventually('it is back', async () => {
        const response = await post(`/api/cdp/data/${table}`, [{ n: 2 }]);
        if (response.status !== 201) expectFailure(response, 503, String(response.body.error));
        const now = await find().catch(() => undefined);
        return response.status === 201 && now !== undefined && now !== postmaster;
      });
      await eventually('it is ready', async () => (await call(service.url, 'GET', '/readyz')).status === 200);
      const [one, ...others] = await numbers(post, table);
      expect([one, new Set(others)]).toEqual([1, new Set([2])]);
      const second = await runProgram(['serve', '--port', '0', '--data-dir', dataDir]);
      expect(second.stderr, 'it is still the one service').toContain('Another service is running');
      expect((await service.end()).code).toBe(0);
      expect(await postmastersIn(dataDir)).toEqual([]);
    },
  );

  it('while a project is being created fails that request, not the service, and the name can be used again', async () => {
    const admin = (await runProgram(['token', 'create', '--admin', '--data-dir', dataDir])).stdout.trim();
    const { service } = await start();
    const create = () => call(service.url, 'POST', '/api/cdp/admin/projects', { token: admin, body: { name: 'shop' } });
    const client = new pg.Client(superuserOf(dataDir));
    client.on('error', () => undefined);
    await client.connect();
    const creating = create();
    await eventually('the project is being made', async () => {
      const { rowCount } = await client.query("SELECT 1 FROM cdp.projects WHERE status = 'creating'");
      return rowCount === 1;
    });
    process.kill((await postmasterOf(dataDir)) as number, 'SIGKILL');
    // It may have been made before the end of the server was seen.
    const first = await creating;
    if (first.status !== 201) expectFailure(first, 503, 'database_unavailable');
    else await runProgram(['project', 'delete', 'shop', '--yes', '--data-dir', dataDir]);

    const made = await eventually('it is made after all', async () => {
      const response = await create();
      if (response.status !== 201) expectFailure(response, 503, 'database_unavailable');
      return response.status === 201 && response;
    });
    expect(made.body).toMatchObject({ project: { name: 'shop', status: 'active' } });
    expect((await service.end()).code).toBe(0);
  });

  it('just before SIGTERM leaves no process behind', async () => {
    const { service } = await start();
    process.kill((await postmasterOf(dataDir)) as number, 'SIGKILL');
    expect(await service.end()).toMatchObject({ code: 0, signal: null });
    expect(await postmastersIn(dataDir)).toEqual([]);
  });
});
