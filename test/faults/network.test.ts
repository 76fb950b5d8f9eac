/**
 * A faulty network between the service and Postgres: time limits hold, no connection leaks, and service resumes soon
 * after.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { endEverything, eventually, type RunningService } from '../support/program.js';
import { call } from '../support/service.js';
import { type Clients, send, startClients } from './support/clients.js';
import { UNTRUE } from './support/ledger.js';
import { type Network, startNetwork } from './support/network.js';
import { createLedger, type ServerStage, serverStage } from './support/stage.js';

/**
 * From the end of the fault to a success of every kind of request: some seconds, with room for a busy machine. TCP
 * itself would give a dead connection up after a quarter of an hour.
 */
const BACK_MS = 40_000;

let stage: ServerStage;
let network: Network;
let service: RunningService;
let admin: string;
beforeAll(async () => {
  stage = await serverStage();
  const { host, port } = stage.server().connection;
  network = await startNetwork(join(host, `.s.PGSQL.${port}`));
  admin = await stage.cdp('token', 'create', '--admin');
  service = await stage.start(network.address);
  await createLedger(service.url, stage.token);
});
afterAll(async () => {
  const { code } = await service.end();
  await endEverything();
  await network.close();
  await stage.close();
  expect(code).toBe(0);
});

let clients: Clients;
let phase = 0;
beforeEach(async () => {
  const { token, ledger } = stage;
  const answered = ledger.replies.length;
  clients = startClients({
    url: () => service.url,
    token,
    ledger,
    count: 12,
    name: `n${phase++}-`,
    patienceMs: 40_000,
  });
  await eventually('requests are answered', () => Promise.resolve(ledger.replies.length > answered + 40));
});
afterEach(async () => {
  network.set('clear');
  await clients.stop();
  // What `asks` has inserted is in nobody's ledger.
  await stage.query('DELETE FROM data.ledger WHERE batch IS NULL', [], await projectDatabase());
  const verdict = await stage.compare();
  console.log('network:', verdict, stage.ledger.codes);
  expect(verdict.wrong, UNTRUE).toEqual([]);
  expect(stage.ledger.codes.hung).toBeUndefined();
});

const insert = () => send(`${service.url}/api/cdp/data/ledger`, stage.token, '[{"batch":null}]', null);
const select = () => send(`${service.url}/api/cdp/sql`, stage.token, '{"sql":"SELECT 1"}', null);

/** The ways to Postgres: free SQL, insert, schema, control database by token and by readiness, and the metrics. */
const asks: Record<string, () => Promise<number>> = {
  sql: async () => (await select()).status,
  insert: async () => (await insert()).status,
  schema: async () => (await call(service.url, 'GET', '/api/cdp/schema', { token: stage.token })).status,
  ready: async () => (await call(service.url, 'GET', '/readyz')).status,
  admin: async () => (await call(service.url, 'GET', '/api/cdp/admin/projects', { token: admin })).status,
};

async function comesBack(): Promise<void> {
  const before = performance.now();
  await Promise.all(
    Object.entries(asks).map(async ([what, ask]) => {
      await eventually(`${what} succeeds`, async () => [200, 201].includes(await ask()));
      expect(performance.now() - before, what).toBeLessThan(BACK_MS);
    }),
  );
}

const projectDatabase = async () =>
  (await stage.query<{ name: string }>('SELECT database_name AS name FROM cdp.projects'))[0]?.name ?? '';

/** Connections on both sides: those of the service, and those that Postgres knows. */
async function noneLeaks(): Promise<void> {
  await clients.stop();
  await eventually('Postgres holds no more connections than the service', async () => {
    const [row] = await stage.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name LIKE 'cdp%'`,
    );
    return (row?.n ?? 0) <= network.open() && network.open() <= 24;
  });
  // The service's own rounds use one for a moment.
  await eventually('none of them is at work', async () => {
    const [row] = await stage.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name LIKE 'cdp%' AND state <> 'idle'`,
    );
    return row?.n === 0;
  });
}

describe('under load', () => {
  it('a delay of 40 ms each way slows requests down but fails none', async () => {
    const { ledger } = stage;
    const before = ledger.replies.length;
    network.set({ delayMs: 40 });
    await sleep(2_000);
    network.set('clear');
    expect(ledger.replies.slice(before).filter(({ status }) => status >= 400)).toEqual([]);
    await comesBack();
    await noneLeaks();
  });

  it('a cut connection causes 503 at once, and requests succeed after it', async () => {
    network.set('cut');
    await sleep(500);
    const { status, code, retryAfter, ms } = await select();
    expect([status, code, Number(retryAfter) > 0]).toEqual([503, 'database_unavailable', true]);
    expect(ms).toBeLessThan(BACK_MS);
    await sleep(1_000);
    network.set('clear');
    await comesBack();
    await noneLeaks();
  });

  it('a black hole for 8 s: every request is answered within its limits, and /healthz at once', async () => {
    network.set('black hole');
    await sleep(1_000);
    const timed = async (path: string, token?: string) => {
      const before = performance.now();
      const { status } = await call(service.url, 'GET', path, token === undefined ? {} : { token });
      return { status, ms: performance.now() - before };
    };
    const [ready, healthy, metrics, projects] = await Promise.all([
      timed('/readyz'),
      timed('/healthz'),
      timed('/metrics'),
      timed('/api/cdp/admin/projects', admin),
    ]);
    expect([ready.status, healthy.status, metrics.status, projects.status]).toEqual([503, 200, 200, 503]);
    // It asks nobody; the others wait for Postgres until their limits.
    expect(healthy.ms).toBeLessThan(ready.ms);
    expect(Math.max(ready.ms, metrics.ms, projects.ms)).toBeLessThan(BACK_MS);
    await sleep(3_000);
    network.set('clear');
    await comesBack();
    await noneLeaks();
  });

  it('half-open connections, active and idle, are replaced', async () => {
    for (let round = 0; round < 2; round++) {
      network.halfOpen();
      await comesBack();
      await sleep(500);
    }
    await noneLeaks();
    // Idle ones as well: nothing is asked until they are all dead.
    network.halfOpen();
    await comesBack();
  });
});

it('uploads whose tail was lost do not block the project', async () => {
  const body = JSON.stringify(Array.from({ length: 250 }, () => ({ batch: null, note: 'x'.repeat(2_000) })));
  const upload = () => send(`${service.url}/api/cdp/data/ledger`, stage.token, body, null);
  // As many connections as may insert at a time.
  expect((await Promise.all(Array.from({ length: 8 }, upload))).map(({ status }) => status)).toEqual(
    Array(8).fill(201),
  );
  network.halfOpenAfter(200_000);
  const lost = Promise.all(Array.from({ length: 8 }, upload));
  await comesBack();
  for (const { status, code } of await lost) expect([201, 503], code).toContain(status);
});

it('a client without a key gets outcome_unknown for an insert whose response was lost', async () => {
  await clients.stop();
  const stored = async () => {
    const counting = 'SELECT count(*)::int AS n FROM data.ledger WHERE batch IS NULL';
    return (await stage.query<{ n: number }>(counting, [], await projectDatabase()))[0]?.n;
  };
  for (let attempt = 1; ; attempt++) {
    await eventually('an insert is stored', async () => (await insert()).status === 201);
    const before = (await stored()) ?? 0;
    network.swallowResponses();
    const { status, code, retryAfter } = await insert();
    // A connection that was open may have ended meanwhile: of a login that nobody answers it is known that nothing was
    // stored.
    if (code === 'database_unavailable' && attempt < 5) {
      expect(await stored(), 'responses that the tables contradict').toBe(before);
      network.set('clear');
      await comesBack();
      continue;
    }
    expect([status, code, retryAfter]).toEqual([503, 'outcome_unknown', null]);
    expect(await stored(), 'responses that the tables contradict').toBe(before + 1);
    break;
  }
  await comesBack();
});
