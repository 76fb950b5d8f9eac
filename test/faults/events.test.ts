/**
 * Events while services and Postgres are killed: each that was answered with 200 is stored once, in the table of all and in
 * that of its name, and so is each that two instances got at once.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { endEverything, eventually, freePort, type RunningService } from '../support/program.js';
import { call } from '../support/service.js';
import { UNTRUE } from './support/ledger.js';
import { databaseOf, onDatabase, OF_REQUESTS, type ServerStage, serverStage } from './support/stage.js';

interface Instance {
  service: RunningService;
  readonly port: string;
}

let stage: ServerStage;
let instances: Instance[];
let database: string;
beforeAll(async () => {
  stage = await serverStage();
  instances = await Promise.all(
    [1, 2].map(async () => {
      const port = String(await freePort());
      return { port, service: await stage.start(undefined, '--port', port) };
    }),
  );
  const on = await call(urlOf(0), 'PUT', '/api/cdp/events', { token: stage.token, body: {} });
  expect(on.status, on.text).toBe(200);
  database = await onDatabase({ ...stage.server().connection, database: 'cdp' }, databaseOf('shop'));
});
afterAll(async () => {
  await Promise.all(instances.map(({ service }) => service.end()));
  await endEverything();
  await stage.close();
});

const urlOf = (n: number): string => `http://127.0.0.1:${instances[n % instances.length]?.port}`;

const NAMES = ['Step Taken', 'Order Completed', 'Left'];

const eventsOf = (batch: string, size: number) =>
  Array.from({ length: size }, (_, n) => ({
    ...{ type: 'track', messageId: `${batch}-${n}`, userId: `u${n % 5}`, event: NAMES[n % NAMES.length] },
    properties: { n, batch },
  }));

/** @returns 0: no response came */
const attempt = (url: string, body: object): Promise<number> =>
  call(url, 'POST', '/v1/batch', { token: stage.token, body }).then(
    ({ status }) => status,
    () => 0,
  );

interface Sent {
  readonly ids: readonly string[];
  isAnswered: boolean;
}

/** Each of them sends batch after batch, each to any instance until it is answered with 200, as SDKs do. */
function startSenders(name: string, count: number) {
  const sent: Sent[] = [];
  const statuses: Record<string, number> = {};
  let [isOver, n] = [false, 0];
  const loop = async (sender: number): Promise<void> => {
    while (!isOver) {
      const batch = `${name}${sender}-${n++}`;
      const events = eventsOf(batch, 1 + (n % 20));
      const entry: Sent = { ids: events.map(({ messageId }) => messageId), isAnswered: false };
      sent.push(entry);
      for (let tries = 0; !entry.isAnswered; tries++) {
        const status = await attempt(urlOf(sender + tries), { batch: events });
        statuses[status] = (statuses[status] ?? 0) + 1;
        entry.isAnswered = status === 200;
        // What an SDK would drop for ever must not come.
        expect([0, 200, 429, 503], String(status)).toContain(status);
        // Some leave before they are answered, as pages do.
        if (isOver || (tries > 3 && sender === 0)) break;
        if (!entry.isAnswered) await sleep(50);
      }
    }
  };
  const loops = Promise.all(Array.from({ length: count }, (_, sender) => loop(sender)));
  return {
    sent,
    statuses,
    stop: async () => {
      isOver = true;
      await loops;
    },
  };
}

const TABLES = ['tracks', 'step_taken', 'order_completed', '"left"'];

async function compare(sent: readonly Sent[], name: string): Promise<void> {
  const rows = (table: string) =>
    stage.query<{ id: string; n: number }>(
      `SELECT id, count(*)::int AS n FROM data.${table} WHERE id LIKE '${name}%' GROUP BY id`,
      [],
      database,
    );
  const [tracks = [], ...named] = await Promise.all(TABLES.map(rows));
  const ofNames = named.flat();
  const stored = new Set(tracks.map(({ id }) => id));
  const storedByName = new Set(ofNames.map(({ id }) => id));
  const answered = sent.filter(({ isAnswered }) => isAnswered).flatMap(({ ids }) => ids);
  const wrong = [
    ...answered.filter((id) => !stored.has(id)).map((id) => `${id} is lost`),
    ...tracks.filter(({ n }) => n > 1).map(({ id }) => `${id} is there twice`),
    ...tracks.filter(({ id }) => !storedByName.has(id)).map(({ id }) => `${id} is in tracks alone`),
    ...ofNames
      .filter(({ id, n }) => n > 1 || !stored.has(id))
      .map(({ id }) => `${id} is in the table of its name alone`),
  ];
  // A batch is a transaction.
  for (const { ids } of sent) {
    const there = ids.filter((id) => stored.has(id)).length;
    if (there !== 0 && there !== ids.length) wrong.push(`${ids[0]} and its batch: ${there} of ${ids.length}`);
  }
  expect(wrong, UNTRUE).toEqual([]);
  expect(answered.length).toBeGreaterThan(200);
}

it('services killed 8 times in turn: what was answered is stored once', async () => {
  const senders = startSenders('kill', 8);
  await Promise.all(
    instances.map(async (instance, i) => {
      await sleep(i * 400);
      for (let kill = 0; kill < 4; kill++) {
        const before = senders.statuses['200'] ?? 0;
        await eventually('more are answered', () => Promise.resolve((senders.statuses['200'] ?? 0) > before + 10));
        await sleep(Math.random() * 100);
        await instance.service.end('SIGKILL');
        instance.service = await stage.start(undefined, '--port', instance.port);
      }
    }),
  );
  await senders.stop();
  console.log('8 kills of two instances:', senders.statuses, senders.sent.length, 'batches');
  expect(senders.statuses['0']).toBeGreaterThan(0);
  await compare(senders.sent, 'kill');
});

it('backends killed, and then all of Postgres: what was answered is stored once', async () => {
  const senders = startSenders('postgres', 8);
  for (let kill = 0; kill < 5; kill++) {
    await sleep(300);
    const pids = await stage.query<{ pid: number }>(`SELECT pid FROM pg_stat_activity WHERE ${OF_REQUESTS} LIMIT 3`);
    for (const { pid } of pids) await stage.query('SELECT pg_terminate_backend($1)', [pid]);
  }
  await stage.server().stop();
  await sleep(500);
  await stage.restart();
  const before = senders.statuses['200'] ?? 0;
  await eventually('events are taken again', () => Promise.resolve((senders.statuses['200'] ?? 0) > before + 20));
  await senders.stop();
  console.log('Postgres killed:', senders.statuses, senders.sent.length, 'batches');
  await compare(senders.sent, 'postgres');
});

it('the same events sent twice to each of two instances at once are stored once', async () => {
  const sent: Sent[] = [];
  for (let round = 0; round < 10; round++) {
    await Promise.all(
      Array.from({ length: 6 }, async (_, i) => {
        const events = eventsOf(`twin${round}-${i}`, 10);
        // Some overlap without being the same.
        const batches = [events, events, events.slice(3), [...events.slice(5), ...events.slice(0, 7)]];
        const settle = async (batch: object[], n: number): Promise<void> => {
          for (;;) {
            const status = await attempt(urlOf(n), { batch });
            if (status === 200) return;
            expect([429, 503]).toContain(status);
            await sleep(20);
          }
        };
        await Promise.all(batches.map(settle));
        sent.push({ ids: events.map(({ messageId }) => messageId), isAnswered: true });
      }),
    );
  }
  await compare(sent, 'twin');
});
