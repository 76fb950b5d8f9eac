/**
 * kill -9 of Postgres under load, all of it or a single backend: responses are true, nothing hangs, and service resumes
 * without a restart.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  endEverything,
  eventually,
  postmasterOf,
  projectPostmaster,
  type RunningService,
  superuserOfProject,
} from '../support/program.js';
import { type Clients, send, startClients } from './support/clients.js';
import { isOpen, type Ledger, UNTRUE } from './support/ledger.js';
import {
  createLedger,
  type EmbeddedStage,
  embeddedStage,
  OF_REQUESTS,
  onDatabase,
  serverStage,
} from './support/stage.js';

/** What a client may be told while Postgres is away or on its way back. */
const TRUE_RESPONSES = ['200', '201', 'database_unavailable', 'outcome_unknown', 'overloaded', 'request_in_flight'];

/** From the kill to the next success. */
const BACK_MS = 40_000;

let stage: EmbeddedStage;
let service: RunningService;
beforeAll(async () => {
  const opened = await embeddedStage();
  stage = opened;
  service = opened.first;
});
afterAll(async () => {
  const { code, stderr } = await service.end();
  await endEverything();
  expect(code, stderr).toBe(0);
});

async function loaded(work: () => Promise<void>, ledger: Ledger, name: string): Promise<void> {
  const clients: Clients = startClients({ url: () => stage.url, token: stage.token, ledger, count: 16, name });
  try {
    await eventually('inserts are answered', () => Promise.resolve((ledger.codes['201'] ?? 0) > 20));
    await work();
  } finally {
    await clients.stop();
  }
}

/** @returns ms until inserts succeed again that were sent after the fault */
async function backAfter(): Promise<number> {
  const before = performance.now();
  await eventually('it serves again', async () => {
    const { status } = await send(`${stage.url}/api/cdp/sql`, stage.token, '{"sql":"SELECT 1"}', null);
    return status === 200;
  });
  return performance.now() - before;
}

const asSuperuser = <T>(work: (client: pg.Client) => Promise<T>): Promise<T> =>
  superuserOfProject(stage.dataDir).then((settings) => onDatabase(settings, work));

/** Process ids of the connections that are logged in as projects. */
const backends = (client: pg.Client): Promise<number[]> =>
  client
    .query<{ pid: number }>(`SELECT pid FROM pg_stat_activity WHERE ${OF_REQUESTS} ORDER BY random()`)
    .then(({ rows }) => rows.map(({ pid }) => pid));

async function check(name: string, slowest: number): Promise<void> {
  const { ledger } = stage;
  // The service may answer before the control server accepts connections, from what it knows.
  await eventually('both servers accept connections', () =>
    asSuperuser(() => Promise.resolve(true)).catch(() => false),
  );
  const verdict = await stage.compare();
  console.log(name, { ...verdict, slowestBackMs: Math.round(slowest) }, ledger.codes);
  expect(verdict.wrong, UNTRUE).toEqual([]);
  expect(Object.keys(ledger.codes).filter((code) => !TRUE_RESPONSES.includes(code))).toEqual([]);
  for (const batch of ledger.batches) {
    for (const reply of batch.replies.filter(({ status }) => status === 503)) {
      // A batch without a key whose outcome is open must not be repeated blindly.
      const repeatable = !(isOpen(reply) && batch.key === null);
      expect(Number(reply.retryAfter) > 0, `${reply.code} of ${batch.name}: Retry-After`).toBe(repeatable);
    }
  }
  expect(slowest).toBeLessThan(BACK_MS);
}

const KILLS = 3;

/** Kills what `find` finds, some times under load. */
async function killed(name: string, find: () => Promise<number | undefined>): Promise<void> {
  let slowest = 0;
  const kills = async () => {
    for (let kill = 0; kill < KILLS; kill++) {
      await sleep(Math.random() * 300);
      // A response that was on its way may have come before the server was started again.
      process.kill(await eventually(`${name} runs`, () => find().catch(() => undefined)), 'SIGKILL');
      slowest = Math.max(slowest, await backAfter());
      await settled();
    }
  };
  await loaded(kills, stage.ledger, name);
  await check(`${name} killed`, slowest);
}

/** Ends the run of crashes, after which the pauses would grow. */
const settled = () => sleep(500);

// A second try would count the rows of the first.
describe('kill -9 of Postgres under load', { retry: 0 }, () => {
  it("of a project's server: it starts again, and every response was true", () =>
    killed('project', () => projectPostmaster(stage.dataDir)));

  it('of the control server: it starts again, and every response was true', () =>
    killed('control', () => postmasterOf(stage.dataDir)));

  it('of one backend, which ends its server: the server starts again, and the control server is not affected', async () => {
    const control = await postmasterOf(stage.dataDir);
    await killed('backend', async () => (await asSuperuser(backends))[0]);
    expect(await postmasterOf(stage.dataDir)).toBe(control);
  });

  it('50 times of one connection, by pg_terminate_backend', async () => {
    await loaded(
      async () => {
        await asSuperuser(async (client) => {
          for (let kill = 0; kill < 50; kill++) {
            const [pid] = await backends(client);
            if (pid !== undefined) await client.query('SELECT pg_terminate_backend($1)', [pid]);
            await sleep(10);
          }
        });
      },
      stage.ledger,
      'ended',
    );
    await check('connections ended', await backAfter());
  });

  it('leaves the pools as they were: idle, clean, and without extra connections', async () => {
    await eventually('all connections are idle', () =>
      asSuperuser(async (client) => {
        const { rows } = await client.query<{ state: string }>(
          `SELECT DISTINCT state FROM pg_stat_activity WHERE application_name LIKE 'cdp%' AND pid <> pg_backend_pid()`,
        );
        return rows.every(({ state }) => state === 'idle');
      }),
    );
    const locks = await asSuperuser(async (client) => {
      const { rows } = await client.query<{ locktype: string; mode: string }>(
        `SELECT locktype, mode FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE ${OF_REQUESTS}`,
      );
      return rows;
    });
    expect(locks).toEqual([]);
  });
});

it("an operator's server that is away for 3 s: requests are refused at once, and succeed soon after its return", async () => {
  const own = await serverStage();
  try {
    const instance = await own.start();
    await createLedger(instance.url, own.token);
    const clients = startClients({ url: () => instance.url, token: own.token, ledger: own.ledger, count: 16 });
    await eventually('inserts are answered', () => Promise.resolve((own.ledger.codes['201'] ?? 0) > 20));
    process.kill(own.server().pid, 'SIGKILL');
    await sleep(3_000);
    const ready = await fetch(`${instance.url}/readyz`);
    expect([ready.status, Number(ready.headers.get('retry-after')) > 0]).toEqual([503, true]);
    expect((await fetch(`${instance.url}/healthz`)).status).toBe(200);
    const restarting = own.restart();
    await restarting;
    const back = Date.now();
    await eventually('inserts succeed', () =>
      Promise.resolve(own.ledger.replies.some(({ status, at }) => status === 201 && at > back)),
    );
    expect(Date.now() - back).toBeLessThan(BACK_MS);
    await clients.stop();
    const verdict = await own.compare();
    console.log('server away', verdict, own.ledger.codes);
    expect(verdict.wrong, UNTRUE).toEqual([]);
    expect(Object.keys(own.ledger.codes).filter((code) => !TRUE_RESPONSES.includes(code))).toEqual([]);
    const slowest = Math.max(...own.ledger.replies.map(({ ms }) => ms));
    expect(slowest, 'the longest that anybody waited').toBeLessThan(20_000);
    expect((await instance.end()).code).toBe(0);
  } finally {
    await own.close();
  }
});
