/**
 * Clients that disconnect in the middle: their statement is canceled long before it would end, its slot is free, and
 * nothing is left.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { endEverything, eventually, type RunningService } from '../support/program.js';
import { call } from '../support/service.js';
import { UNTRUE } from './support/ledger.js';
import { send, startClients } from './support/clients.js';
import { createLedger, OF_REQUESTS, type ServerStage, serverStage } from './support/stage.js';

let stage: ServerStage;
let service: RunningService;
beforeAll(async () => {
  stage = await serverStage();
  service = await stage.start();
  await createLedger(service.url, stage.token);
  const table = `CREATE TABLE slow (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), note text);
    CREATE FUNCTION sleepy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN new; END';
    CREATE TRIGGER sleepy BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION sleepy()`;
  const body = { sql: table };
  expect((await call(service.url, 'POST', '/api/cdp/sql', { token: stage.token, body })).status).toBe(200);
});
afterAll(async () => {
  const { code } = await service.end();
  await endEverything();
  await stage.close();
  expect(code).toBe(0);
});

interface Request {
  readonly path: string;
  readonly body: string;
  readonly headers?: Record<string, string>;
  /** Bytes that the body is said to have beyond those it has. */
  readonly missing?: number;
}

function begin({ path, body, headers = {}, missing = 0 }: Request): Promise<Socket> {
  const { hostname, port } = new URL(service.url);
  const lines = Object.entries({
    host: hostname,
    authorization: `Bearer ${stage.token}`,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body) + missing),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`);
      resolve(socket);
    });
    socket.once('error', reject);
  });
}

const sqlOf = (sql: string): string => JSON.stringify({ sql, max_rows: 100_000 });
const ROWS = `SELECT g, repeat('x', 2000) FROM generate_series(1, 10000000) g`;
const STREAM = (type: string) => ({ accept: type });

const REQUESTS: Record<string, Request> = {
  'a body that is half there': { path: '/api/cdp/data/ledger', body: '[{"batch": "half"}', missing: 1_000 },
  'a statement that sleeps': { path: '/api/cdp/sql', body: sqlOf('SELECT pg_sleep(600)') },
  'a statement that writes': {
    path: '/api/cdp/sql',
    body: sqlOf(
      `INSERT INTO ledger (batch) SELECT 'vanished' FROM generate_series(1, 60000) WHERE pg_sleep(0.01) IS NOT NULL`,
    ),
  },
  'an insert whose trigger sleeps': { path: '/api/cdp/data/slow', body: '[{"note": "vanished"}]' },
  'a stream of lines': { path: '/api/cdp/sql', body: sqlOf(ROWS), headers: STREAM('application/x-ndjson') },
  'a stream of CSV': { path: '/api/cdp/sql', body: sqlOf(ROWS), headers: STREAM('text/csv') },
};

const active = async (): Promise<string[]> => {
  const rows = await stage.query<{ query: string }>(
    `SELECT left(query, 60) AS query FROM pg_stat_activity WHERE ${OF_REQUESTS} AND state <> 'idle'`,
  );
  return rows.map(({ query }) => query);
};

/** Requests that hold a place or wait for one, as the service counts them. */
async function places(): Promise<number> {
  const { text } = await call(service.url, 'GET', '/metrics');
  return [...text.matchAll(/^cdp_requests_(?:running|waiting)\{[^}]*\} (\d+)$/gm)].reduce(
    (sum, [, n]) => sum + Number(n),
    0,
  );
}

it.each(Object.entries(REQUESTS))(
  '%s is canceled, and every slot free again, when 4 clients disconnect',
  async (_what, request) => {
    const sockets = await Promise.all([0, 1, 2, 3].map(() => begin(request)));
    const arrived = sockets.map(
      (socket) => new Promise((resolve) => socket.on('error', () => undefined).once('data', resolve)),
    );
    if (request.headers !== undefined) await Promise.all(arrived);
    else if (request.missing === undefined) await eventually('they run', async () => (await active()).length === 4);
    else await sleep(50);
    // Half of them by a reset, half by an end.
    for (const [i, socket] of sockets.entries()) void (i % 2 === 0 ? socket.resetAndDestroy() : socket.destroy());
    await eventually('nothing runs', async () => (await active()).length === 0);
    await eventually('the places are free', async () => (await places()) === 0);
  },
);

it('150 clients that disconnect at any moment among 8 that stay: nothing of theirs is stored, and all else is', async () => {
  const { token, ledger } = stage;
  const clients = startClients({ url: () => service.url, token, ledger, count: 8 });
  const kinds = Object.values(REQUESTS);
  for (let wave = 0; wave < 15; wave++) {
    const sockets = await Promise.all(
      Array.from({ length: 10 }, (_, i) => begin(kinds[(wave + i) % kinds.length] as Request)),
    );
    for (const socket of sockets) socket.on('error', () => undefined).resume();
    await Promise.all(
      sockets.map(async (socket) => {
        await sleep(Math.random() * 200);
        socket.destroy();
      }),
    );
  }
  await clients.stop();
  await eventually('the places are free', async () => (await places()) === 0);
  expect(await active()).toEqual([]);
  const verdict = await stage.compare();
  console.log('vanished:', verdict, ledger.codes);
  expect(verdict.wrong, UNTRUE).toEqual([]);
  const slow = await call(service.url, 'POST', '/api/cdp/sql', {
    token,
    body: { sql: 'SELECT count(*) AS n FROM slow' },
  });
  expect(slow.body.rows).toEqual([{ n: 0 }]);
  // As many as may run at once do so at once: no place was lost.
  const all = Promise.all(
    Array.from({ length: 6 }, () => send(`${service.url}/api/cdp/sql`, token, '{"sql":"SELECT pg_sleep(3)"}', null)),
  );
  await eventually('all of them run', async () => (await active()).length === 6);
  expect((await all).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200]);
});
