/** Stopping the service: running requests finish, new ones are refused, and no process is left (contract C17.7). */
import { access } from 'node:fs/promises';
import { Agent, get } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openStage } from '../embedded/stage.js';
import {
  endEverything,
  eventually,
  firstToken,
  newDataDir,
  postmasterOf,
  postmastersIn,
  preparedDataDir,
  startProgram,
  startServe,
  superuserOfProject,
} from '../support/program.js';
import { connected } from '../support/postgres.js';
import { call } from '../support/service.js';

/** One folder for all tests, except where the start itself is what is tested. */
let dataDir: string;
beforeAll(async () => {
  dataDir = await preparedDataDir();
});
afterAll(endEverything);

async function start(...args: string[]) {
  const service = await startServe(['--data-dir', dataDir, ...args]);
  const token = await firstToken(dataDir);
  const post = (path: string, body: unknown) => call(service.url, 'POST', path, { token, body });
  return { service, post };
}

/** Until so many statements of projects are asleep in Postgres. */
async function untilAsleep(count: number): Promise<void> {
  const settings = await superuserOfProject(dataDir);
  const text = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
  await eventually(`${count} statements are running`, () =>
    connected(settings, async (client) => (await client.query<{ n: number }>(text)).rows[0]?.n === count).catch(
      () => false, // the server is still starting
    ),
  );
}

/** A table whose inserts take two seconds. */
const SLOW_TABLE = `
  DROP TABLE IF EXISTS slow;
  CREATE TABLE slow (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), note text);
  CREATE OR REPLACE FUNCTION sleepy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RETURN new; END';
  CREATE TRIGGER sleepy BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION sleepy();`;

describe.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('%s', (signal) => {
  it('lets running requests finish, accepts no new ones, stops Postgres and ends with 0', async () => {
    const { service, post } = await start();
    expect((await post('/api/cdp/sql', { sql: SLOW_TABLE })).status).toBe(200);
    const agent = new Agent({ keepAlive: true });
    expect(await statusOf(`${service.url}/healthz`, agent)).toBe(200);

    const insert = post('/api/cdp/data/slow', [{ note: 'kept' }]);
    const select = post('/api/cdp/sql', { sql: 'SELECT pg_sleep(2), 7 AS n' });
    await untilAsleep(2);
    const ended = service.end(signal);
    await eventually('new connections are refused', () =>
      statusOf(`${service.url}/healthz`).then(
        () => false,
        (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED',
      ),
    );
    // A request may have been on its way there; it is answered, and nothing more.
    expect(await statusOf(`${service.url}/healthz`, agent), 'on an idle connection').toBe(200);
    await expect(statusOf(`${service.url}/healthz`, agent), 'and once more').rejects.toThrow();
    agent.destroy();

    expect((await select).body).toMatchObject({ success: true, rows: [{ n: 7 }] });
    expect((await insert).body).toMatchObject({ success: true, inserted_rows: 1 });
    const answered = performance.now();
    expect(await ended).toMatchObject({ code: 0, signal: null });
    // The connections that a client would keep are closed; without that it takes --shutdown-ms, 30 s.
    expect(performance.now() - answered).toBeLessThan(20_000);
    expect(await postmastersIn(dataDir)).toEqual([]);

    const again = await start();
    const kept = await again.post('/api/cdp/sql', { sql: 'SELECT note FROM slow' });
    expect(kept.body.rows).toEqual([{ note: 'kept' }]);
    expect((await again.service.end(signal)).code).toBe(0);
  });
});

describe('during a stop', () => {
  it('a second SIGINT aborts running requests, and Postgres is still stopped', async () => {
    const { service, post } = await start();
    const running = post('/api/cdp/sql', { sql: 'CREATE TABLE half AS SELECT 1 AS n; SELECT pg_sleep(50)' });
    const broken = expect(running).rejects.toThrow();
    await untilAsleep(1);
    service.process.kill('SIGINT');
    await sleep(50);
    service.process.kill('SIGINT'); // npm passes on a Ctrl-C that the terminal has sent already
    await sleep(1_200);
    expect(service.process.exitCode).toBe(null);
    const before = performance.now();
    expect(await service.end('SIGINT')).toMatchObject({ code: 0, signal: null });
    expect(performance.now() - before).toBeLessThan(15_000);
    await broken;
    expect(await postmastersIn(dataDir)).toEqual([]);
  });

  it('SIGTERM during startup leaves no process behind, and the next start works', async () => {
    dataDir = await newDataDir();
    const starting = startProgram(['serve', '--port', '0', '--data-dir', dataDir]);
    await eventually('the start has begun', () => exists(join(dataDir, 'postgres')));
    expect(await starting.end()).toMatchObject({ code: 0, signal: null });
    expect(await postmastersIn(dataDir)).toEqual([]);

    const next = startProgram(['serve', '--port', '0', '--data-dir', dataDir]);
    await eventually('Postgres runs', () => postmasterOf(dataDir));
    expect(await next.end()).toMatchObject({ code: 0, signal: null });
    expect(await postmastersIn(dataDir)).toEqual([]);

    const { service, post } = await start();
    expect((await post('/api/cdp/sql', { sql: 'SELECT 1' })).status).toBe(200);
    expect((await service.end()).code).toBe(0);
  });
});

it('running requests get no longer than --shutdown-ms', async () => {
  const { service, post } = await start('--shutdown-ms', '500');
  const broken = expect(post('/api/cdp/sql', { sql: 'SELECT pg_sleep(50)' })).rejects.toThrow();
  await untilAsleep(1);
  const before = performance.now();
  expect(await service.end()).toMatchObject({ code: 0, signal: null });
  expect(performance.now() - before).toBeLessThan(15_000);
  await broken;
  expect(await postmastersIn(dataDir)).toEqual([]);
});

it('stops Postgres even if an earlier step fails', async () => {
  const stage = await openStage();
  const { engine } = stage.service;
  const close = engine.close.bind(engine);
  vi.spyOn(engine, 'close').mockImplementation(async () => {
    await close();
    throw new Error('It failed at the end');
  });
  await expect(stage.close()).rejects.toThrow('It failed at the end');
  expect(await postmastersIn(stage.dataDir)).toEqual([]);
});

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

/** By `node:http`, which says whether a connection is kept. */
function statusOf(url: string, agent?: Agent): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent: agent ?? false }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode));
    });
    request.on('error', reject);
  });
}
