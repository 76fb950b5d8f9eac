/** When the servers of projects start and stop: on requests, within the limit, and for no other reason. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { sizesOf } from '../../src/engine/projects/choose-server.js';
import { endEverything, eventually, serverOf } from '../support/program.js';
import { call, expectFailure } from '../support/service.js';
import { controlRows, openStage, processesOf, type Stage } from './stage.js';

let stage: Stage;
afterEach(async () => {
  vi.useRealTimers();
  await stage.close();
});
afterAll(endEverything);

const IDLE_STOP = { 'idle-stop-ms': '1000' };

const untilStopped = (count = 0) =>
  eventually(`${count} servers run`, () => Promise.resolve(stage.running() === count));

async function sizes(): Promise<Record<string, number | undefined>> {
  const { engine } = stage.service;
  const projects = await engine.projects.list();
  const bytes = await sizesOf(engine.servers, projects);
  return Object.fromEntries(projects.map(({ id, name }) => [name, bytes.get(id)]));
}

describe('works', () => {
  it('a request starts the server of its project, once for all concurrent requests; an idle second stops it', async () => {
    stage = await openStage(IDLE_STOP);
    const shop = await stage.project('shop');
    const other = await stage.project('other');
    expect([await shop.pid(), await other.pid()]).toEqual([undefined, undefined]);

    const responses = await Promise.all(Array.from({ length: 8 }, (_, n) => shop.sql(`SELECT ${n} AS n`)));
    expect(responses.map(({ body }) => body.rows)).toEqual(responses.map((_, n) => [{ n }]));
    expect(await shop.pid()).toBeGreaterThan(0);
    expect(await other.pid()).toBeUndefined();

    await untilStopped();
    expect(await processesOf(stage.dataDir, shop.server)).toHaveLength(1); // the control server
    expect((await shop.sql('SELECT 1 AS n')).body.rows).toEqual([{ n: 1 }]);
  });

  it('a server in use is not stopped, however long it is used', async () => {
    stage = await openStage(IDLE_STOP);
    const shop = await stage.project('shop');
    expect((await shop.sql('SELECT pg_sleep(3), 7 AS n')).body).toMatchObject({ rows: [{ n: 7 }] });
  });

  it('requests that arrive while it is being stopped are still answered', async () => {
    stage = await openStage(IDLE_STOP);
    const shop = await stage.project('shop');
    await shop.sql('SELECT 1');
    await eventually('it is being stopped, or just was', async () => {
      const status = (await readFile(join(shop.folder, 'data/postmaster.pid'), 'utf8').catch(() => '')).split('\n')[7];
      return status?.trim() !== 'ready';
    });
    const responses = await Promise.all([shop.sql('SELECT 1'), shop.sql('SELECT 2')]);
    expect(responses.map(({ status }) => status)).toEqual([200, 200]);
  });

  it('it starts with a page cache for its data, and parallel workers run only while they help', async () => {
    stage = await openStage({ ...IDLE_STOP, 'parallel-workers': '2' });
    const shop = await stage.project('shop');
    const asked = `SELECT setting::int / 128 AS mib FROM pg_settings WHERE name = 'shared_buffers'`;
    const buffers = async () => ((await shop.sql(asked)).body.rows as { mib: number }[])[0]?.mib;
    expect(await buffers()).toBe(32);
    await shop.sql("CREATE TABLE t AS SELECT n, repeat('x', 1000) AS s FROM generate_series(1, 60000) AS n");
    const workers = async () =>
      (await processesOf(stage.dataDir, shop.server)).filter((command) => command.includes('parallel worker'));
    const explained = await shop.sql(`SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0;
      SET LOCAL min_parallel_table_scan_size = 0; EXPLAIN (ANALYZE, FORMAT JSON) SELECT count(*) FROM t`);
    expect(explained.text).toMatch(/Workers Launched\W+[12]\b/);
    expect(await workers()).toEqual([]);
    await untilStopped();
    const mib = await buffers();
    expect(mib).toBeGreaterThan(60);
    expect(mib).toBeLessThan(100);
  });

  it('the size of a stopped server stays known, also to the next service', async () => {
    stage = await openStage(IDLE_STOP);
    const shop = await stage.project('shop');
    await shop.sql("CREATE TABLE t AS SELECT n, repeat('x', 100) AS s FROM generate_series(1, 20000) AS n");
    const { shop: whileRunning = 0 } = await sizes();
    expect(whileRunning).toBeGreaterThan(2_000_000);
    await untilStopped();
    const { shop: stopped = 0 } = await sizes();
    expect(Math.abs(stopped - whileRunning)).toBeLessThan(500_000);

    await shop.sql("INSERT INTO t SELECT n, repeat('x', 100) AS s FROM generate_series(1, 100000) AS n");
    await stage.close();
    stage = await openStage(IDLE_STOP, stage.dataDir);
    expect(stage.running()).toBe(0);
    expect((await sizes()).shop).toBeGreaterThan(whileRunning + 8_000_000);
  });
});

describe('nothing but a request', () => {
  it('wakes a server: an hour of background work, lists, sizes, quotas, tokens, metrics', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    stage = await openStage();
    const { engine, url } = stage.service;
    const servers: string[] = [];
    for (let n = 0; n < 3; n++) servers.push((await stage.project(`idle-${n}`)).server);
    const admin = await engine.tokens.create(null);
    const get = (path: string) => call(url, 'GET', path, { token: admin.token });

    for (let minute = 0; minute < 60; minute++) {
      await vi.advanceTimersByTimeAsync(60_000);
      expect(stage.running()).toBe(0);
    }
    expect((await get('/api/cdp/admin/projects')).status).toBe(200);
    expect((await get('/metrics')).status).toBe(200);
    expect((await get('/readyz')).status).toBe(200);
    await sizes();
    await engine.projects.setQuota('idle-0', 10_000_000, BY_ITSELF);
    await engine.projects.setActive('idle-1', false, BY_ITSELF);
    expect(stage.running()).toBe(0);
    for (const server of servers) expect(await processesOf(`/${server}/`, server)).toEqual([]);
    expect(stage.log().filter(({ level }) => Number(level) >= 50)).toEqual([]);
  });
});

describe('at the limit of servers', () => {
  it('the server that has been idle longest is stopped to make room for the next', async () => {
    stage = await openStage({ 'max-servers': '2' });
    const [a, b, c] = [await stage.project('a'), await stage.project('b'), await stage.project('c')];
    await a.sql('CREATE TABLE t AS SELECT n FROM generate_series(1, 100000) AS n');
    await b.sql('SELECT 1');
    await c.sql('SELECT 1');
    expect([await a.pid(), stage.running()]).toEqual([undefined, 2]);
    expect(await b.pid()).toBeGreaterThan(0);
    expect((await sizes()).a, 'its size is noted').toBeGreaterThan(3_000_000);
    await a.sql('SELECT 1');
    expect([await b.pid(), stage.running()]).toEqual([undefined, 2]);
  });

  it('a project gets 503 if all servers are in use, and is served once one is free', async () => {
    stage = await openStage({ 'max-servers': '2' });
    const [a, b, c] = [await stage.project('a'), await stage.project('b'), await stage.project('c')];
    await Promise.all([a.sql('SELECT 1'), b.sql('SELECT 1')]);
    const busy = [a, b].map(({ sql }) => sql('SELECT pg_sleep(4)'));
    const refused = await eventually('both are in use', async () => {
      const response = await c.sql('SELECT 1');
      return response.status !== 200 && response;
    }).catch(() => null);
    if (refused === null) throw new Error('A third server was started');
    expectFailure(refused, 503, 'overloaded');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await Promise.all(busy)).map(({ status }) => status)).toEqual([200, 200]);
    expect((await c.sql('SELECT 1')).status).toBe(200);
  });

  it('no more servers than the limit run if many start at once, and each request is answered truthfully', async () => {
    stage = await openStage({ 'max-servers': '3' });
    const projects = await Promise.all(Array.from({ length: 8 }, (_, n) => stage.project(`p${n}`)));
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, stage.running())), 1);
    const responses = await Promise.all(projects.map(({ sql }) => sql('SELECT 1')));
    clearInterval(watch);
    expect(most).toBeLessThanOrEqual(3);
    for (const response of responses) if (response.status !== 200) expectFailure(response, 503, 'overloaded');
    expect(responses.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(3);
  });
});

describe('deleting a project', () => {
  it('removes its server and folder and frees its slot, even if a statement is running there', async () => {
    stage = await openStage();
    const shop = await stage.project('shop');
    await shop.sql('SELECT 1');
    const pid = await shop.pid();
    const running = shop.sql('SELECT pg_sleep(100)');
    await stage.service.engine.projects.delete('shop', BY_ITSELF);
    expect((await running).status).not.toBe(200);
    expect(pid).toBeGreaterThan(0);
    expect(stage.running()).toBe(0);
    expect(await processesOf(shop.folder, shop.server)).toEqual([]);
    expect(await serverOf(stage.dataDir, 'shop')).toBe('');
    expect(await controlRows(stage.dataDir, 'SELECT 1 FROM cdp.projects WHERE name = $$shop$$')).toEqual([]);
  });
});
