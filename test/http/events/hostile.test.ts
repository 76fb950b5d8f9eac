/** What no SDK sends, but somebody may: a clear answer, bounded work, and other projects are served meanwhile. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LIMITS } from '../../../src/contract/limits.js';
import { limitsOf } from '../../../src/engine/access/append-keys.js';
import { connect, exchange, received, responsesIn } from '../../support/raw.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

const SHOP = 'https://shop.example.com';
const TIMEOUT_MS = 2_000;

let service: TestService;
let project: TestProject;
/** Nothing is sent to its project but what asks whether it is served. */
let neighbor: TestProject;
let pageKey: string;
beforeAll(async () => {
  service = await startTestService({ 'request-timeout-ms': String(TIMEOUT_MS) });
  [project, neighbor] = await Promise.all([projectWith({}), projectWith({})]);
  pageKey = await keyOf(project);
});
afterAll(() => service.close());

async function projectWith(settings: object): Promise<TestProject> {
  const made = await service.project();
  expect((await made.call('PUT', '/api/cdp/events', { body: settings })).status).toBe(200);
  return made.seenAnew();
}

/** A key that a web page may have. */
async function keyOf({ id }: TestProject): Promise<string> {
  const limits = limitsOf(['data:append'], { origins: [SHOP] });
  return (await service.engine.tokens.create(id, { scopes: ['data:append'], limits })).token;
}

const track = (body: unknown, token: string | null = pageKey, headers: Record<string, string> = {}, name = 'batch') =>
  project.call('POST', `/v1/${name}`, { body, token, headers });

const event = (more: object = {}) => ({ type: 'track', event: 'E', userId: 'u', messageId: randomUUID(), ...more });

const counted = async (of = project, table = 'tracks') =>
  (await of.rows(`SELECT count(*) AS n FROM ${table}`))[0]?.['n'] as number;

/** @returns ms of the slowest response to the neighbor while the work goes on */
async function meanwhile(work: () => Promise<unknown>): Promise<number> {
  let isOver = false;
  let slowest = 0;
  const asking = (async () => {
    while (!isOver) {
      const before = performance.now();
      const { status, text } = await neighbor.call('POST', '/v1/track', { body: event() });
      expect(status, text).toBe(200);
      slowest = Math.max(slowest, performance.now() - before);
      await sleep(5);
    }
  })();
  await work().finally(() => (isOver = true));
  await asking;
  return slowest;
}

/** Long beside a turn, also on a busy machine. */
const UNNOTICED_MS = 5_000;

/** A batch of one event with such properties, as text. */
const withProperties = (properties: string, more = {}): string =>
  `{"batch":[${JSON.stringify(event(more)).slice(0, -1)},"properties":${properties}}]}`;

const members = (count: number): string => `{${Array.from({ length: count }, (_, i) => `"k${i}":1`).join()}}`;

const gzip = { 'content-encoding': 'gzip' };

describe('a body', () => {
  it('of gzip that ends too early, or becomes too large, is refused', async () => {
    const before = await counted();
    const packed = gzipSync(JSON.stringify({ batch: [event()] }));
    expectFailure(await track(packed.subarray(0, -10), pageKey, gzip), 400, 'invalid_request');
    expectFailure(await track(gzipSync(Buffer.alloc(50_000_000, 32)), pageKey, gzip), 413, 'payload_too_large');
    expectFailure(await track(packed, pageKey), 400, 'invalid_json');
    expectFailure(await track(packed, pageKey, { 'content-encoding': 'br' }), 415, 'unsupported_media_type');
    expect(await counted()).toBe(before);
  });

  it('of a million members is refused before they are read', async () => {
    const text = withProperties(members(1_000_000));
    const slowest = await meanwhile(async () => {
      expectFailure(await track(text), 413, 'payload_too_large');
      expectFailure(await track(gzipSync(text), pageKey, gzip), 413, 'payload_too_large');
      const values = `{"batch":[],"filler":[${'1,'.repeat(LIMITS.valuesOfEvents)}1]}`;
      expectFailure(await track(values), 400, 'invalid_request');
    });
    expect(slowest).toBeLessThan(UNNOTICED_MS);
  });

  it('of deep properties is stored down to the limit of all bodies, at their place', async () => {
    const deep = (levels: number): string => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
    const messageId = randomUUID();
    // Around them are the body, the batch and the event.
    const most = LIMITS.jsonDepth - 3;
    expect((await track(withProperties(deep(most), { messageId }))).body).toMatchObject({ accepted: 1 });
    const [row] = await project.rows(`SELECT unmapped->>'properties' AS text FROM tracks WHERE id = '${messageId}'`);
    expect(String(row?.['text']).replaceAll(' ', '')).toBe(deep(most));
    expectFailure(await track(withProperties(deep(most + 1))), 400, 'invalid_json');
    const slowest = await meanwhile(async () => {
      expectFailure(await track(withProperties(deep(200_000))), 400, 'invalid_json');
      // Objects below a few levels are read again at each access.
      const long = `${'{"a":'.repeat(90)}"${'x'.repeat(1_900_000)}"${'}'.repeat(90)}`;
      expect((await track(withProperties(long))).body).toMatchObject({ accepted: 1 });
    });
    expect(slowest).toBeLessThan(UNNOTICED_MS);
  });

  it('without a key is refused, also if it is large, and its values are not stored', async () => {
    const before = await counted();
    const slowest = await meanwhile(async () => {
      expectFailure(await track('x'.repeat(2_000_000), null), 401, 'unauthorized');
      expectFailure(await track(withProperties(members(150_000)), null), 401, 'unauthorized');
      expectFailure(await track({ batch: [event()], writeKey: 'x'.repeat(1_000_000) }, null), 401, 'unauthorized');
      expectFailure(await track({ batch: [event()], writeKey: { a: 1 } }, null), 401, 'unauthorized');
      const basic = { authorization: `Basic ${Buffer.from('nobody:').toString('base64')}` };
      expectFailure(await track({ batch: [event()], writeKey: pageKey }, null, basic), 401, 'unauthorized');
      expectFailure(await track({ batch: [event()] }, null, { authorization: 'Basic ???' }), 401, 'unauthorized');
    });
    expect(slowest).toBeLessThan(UNNOTICED_MS);
    expect(await counted()).toBe(before);
  });

  it('that comes a byte a second, or shorter than its Content-Length, is answered with 408, with a key and without', async () => {
    const before = await counted();
    const body = JSON.stringify({ batch: [event()], writeKey: pageKey });
    const head = (length: number, key: boolean): string =>
      [
        ...['POST /v1/batch HTTP/1.1', 'Host: x', 'Content-Type: text/plain', `Content-Length: ${length}`],
        ...(key ? [`Authorization: Bearer ${pageKey}`] : []),
        ...['', ''],
      ].join('\r\n');
    const slow = async (key: boolean): Promise<string> => {
      const socket = await connect(service.url);
      socket.write(head(body.length, key));
      const timer = setInterval(() => socket.writable && socket.write('{'), 1_000);
      const text = await received(socket, 20_000);
      clearInterval(timer);
      return text;
    };
    const answers = await Promise.all([
      ...[slow(true), slow(false)],
      ...[true, false].map((key) => exchange(service.url, head(body.length + 5, key) + body, 20_000)),
    ]);
    for (const answer of answers) expect(responsesIn(answer).map(({ status }) => status)).toEqual([408]);
    // What is longer than it says is another request, which is none.
    const longer = await exchange(service.url, head(body.length - 5, true) + body, 20_000);
    expect(responsesIn(longer).map(({ status }) => status)).toEqual([400, 400]);
    expect(await counted()).toBe(before);
  });
});

describe('an event', () => {
  it('of too many values goes to the quarantine, alone, and at the limit into its tables', async () => {
    const own = await projectWith({ schema: 'open' });
    const most = LIMITS.valuesOfEvent;
    const texts = [most, most + 1, 150_000].map((count) =>
      withProperties(members(count)).slice('{"batch":['.length, -2),
    );
    const slowest = await meanwhile(async () => {
      const response = await track(`{"batch":[${texts.join()}]}`, own.token);
      expect(response.body).toMatchObject({ accepted: 1, quarantined: 2 });
      // What all events of a batch inherit counts for each.
      const withContext = `${JSON.stringify(event()).slice(0, -1)},"context":${members(600).replaceAll('k', 'own')}}`;
      const inherited = `{"context":${members(1_500)},"batch":[${withContext}]}`;
      expect((await track(inherited, own.token)).body).toMatchObject({ accepted: 0, quarantined: 1 });
    });
    expect(slowest).toBeLessThan(UNNOTICED_MS);
    const columns = await own.rows(
      `SELECT count(*) AS n FROM pg_attribute WHERE attrelid = 'e'::regclass AND attnum > 0 AND NOT attisdropped`,
    );
    expect(columns).toEqual([{ n: LIMITS.columnsPerTable + 1 }]);
    const left = `SELECT count(*) AS n FROM e, jsonb_object_keys(unmapped->'properties')`;
    const [row] = await own.rows(left);
    expect(row?.['n']).toBeGreaterThan(most - LIMITS.columnsPerTable);
  });

  it('with a messageId of a megabyte goes to the quarantine', async () => {
    const sent = [event({ messageId: 'x'.repeat(1_000_000) }), event()];
    expect((await track({ batch: sent })).body).toEqual({ success: true, accepted: 1, quarantined: 1 });
    expect((await track({ batch: [event({ messageId: 'ü'.repeat(255) })] })).body).toMatchObject({ accepted: 1 });
  });

  it('with names that JavaScript knows is stored like others', async () => {
    const own = await projectWith({});
    const properties = '{"__proto__":{"polluted":true},"constructor":"c","toString":1,"hasOwnProperty":null}';
    const traits = '{"__proto__":{"polluted":true},"constructor":"c"}';
    const text = `{"__proto__":{"batch":[]},"batch":[
      {"type":"track","event":"__proto__","userId":"u","messageId":"p1","properties":${properties}},
      {"type":"track","event":"constructor","userId":"__proto__","messageId":"__proto__","__proto__":{"userId":"v"}},
      {"type":"identify","userId":"constructor","messageId":"p2","traits":${traits}},
      {"type":"constructor","userId":"u","messageId":"p3"}]}`;
    expect((await track(text, own.token)).body).toMatchObject({ accepted: 3, quarantined: 1 });
    expect(await own.rows('SELECT event_text, proto_polluted, constructor, to_string FROM proto')).toEqual([
      { event_text: '__proto__', proto_polluted: true, constructor: 'c', to_string: 1 },
    ]);
    expect(await own.rows('SELECT id, user_id FROM constructor')).toEqual([{ id: '__proto__', user_id: '__proto__' }]);
    expect(await own.rows('SELECT id, proto_polluted, constructor FROM users')).toEqual([
      { id: 'constructor', proto_polluted: true, constructor: 'c' },
    ]);
    expect(({} as Record<string, unknown>)['polluted']).toBe(undefined);
    for (const name of ['constructor', '__proto__', 'toString'])
      expectFailure(await track({ batch: [] }, pageKey, {}, name), 404, 'not_found');
  });

  it('with a key that is given twice has the last one, and keeps what has no place', async () => {
    const own = await projectWith({});
    const text = `{"batch":[{"type":"page","type":"track","event":"E","event":"Twice","userId":"u","messageId":"d1","messageId":"d2",
      "properties":{"a":1,"a":2,"A":3}}]}`;
    expect((await track(text, own.token)).body).toMatchObject({ accepted: 1 });
    const [row] = await own.rows('SELECT id, a, unmapped::text FROM twice');
    expect(row).toEqual({ id: 'd2', a: 1, unmapped: '{"properties": {"A": 3, "a": 2}}' });
  });
});

describe('events of 10,000 names', () => {
  const AT_ONCE = 500;
  const names = (from: number) =>
    Array.from({ length: AT_ONCE }, (_, i) => event({ event: `Name ${from + i}`, messageId: `n${from + i}` }));
  const tables = (of: TestProject) =>
    of.rows(`SELECT count(*) AS n FROM pg_class WHERE relkind = 'r' AND relnamespace = 'data'::regnamespace
      AND relname LIKE 'name\\_%'`);
  const sendAll = async (key: string) => {
    for (let from = 0; from < 10_000; from += AT_ONCE) {
      const response = await track({ batch: names(from) }, key);
      expect(response.body, response.text).toEqual({ success: true, accepted: AT_ONCE, quarantined: 0 });
    }
  };

  it('make only some tables in one request', async () => {
    const open = await projectWith({ schema: 'open' });
    expect((await track({ batch: names(0) }, await keyOf(open))).body).toMatchObject({ accepted: AT_ONCE });
    expect(await tables(open)).toEqual([{ n: LIMITS.eventTablesAtOnce }]);
  });

  it('make no tables with a closed schema, and as many as there may be with an open one', async () => {
    const closed = await projectWith({});
    const open = await projectWith({ schema: 'open' });
    const slowest = await meanwhile(async () => {
      await sendAll(await keyOf(closed));
      await sendAll(await keyOf(open));
    });
    expect(slowest).toBeLessThan(UNNOTICED_MS);
    expect(await tables(closed)).toEqual([{ n: 0 }]);
    expect(await tables(open)).toEqual([{ n: LIMITS.eventTables }]);
    for (const of of [closed, open]) expect(await counted(of)).toBe(10_000);
    // The others are in the table of all.
    const [row] = await open.rows(`SELECT count(*) AS n FROM tracks WHERE event = 'name_9999'`);
    expect(row).toEqual({ n: 1 });
  });
});
