/** The tracking API: what SDKs send, as rows, each event once. */
import { randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NewTokenLimits } from '../../../src/contract/wire/token-limits.js';
import { limitsOf } from '../../../src/engine/access/append-keys.js';
import { testServers } from '../../support/postgres.js';
import { exchange, responsesIn } from '../../support/raw.js';
import {
  type Call,
  expectFailure,
  startTestService,
  type TestProject,
  type TestResponse,
  type TestService,
} from '../../support/service.js';

const SHOP = 'https://shop.example.com';

type Event = Record<string, unknown>;

describe.each(testServers())('on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  let browserKey: string;

  const projectWith = async (settings: object = {}): Promise<TestProject> => {
    const made = await service.project();
    expect((await made.call('PUT', '/api/cdp/events', { body: settings })).status).toBe(200);
    return made.seenAnew();
  };
  const keyWith = async (limits?: NewTokenLimits, of = project): Promise<string> => {
    const narrowed = { limits: limitsOf(['data:append'], limits) };
    return (await service.engine.tokens.create(of.id, { scopes: ['data:append'], ...narrowed })).token;
  };
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await projectWith();
    browserKey = await keyWith({ origins: [SHOP] });
  });
  afterAll(() => service.close());

  const track = (name: string, body: unknown, call: Call & { of?: TestProject } = {}): Promise<TestResponse> =>
    (call.of ?? project).call('POST', `/v1/${name}`, { body, ...call });
  /** Sends a batch that must be accepted. */
  const send = async (
    events: readonly Event[],
    call: Call & { of?: TestProject } = {},
  ): Promise<Record<string, unknown>> => {
    const response = await track('batch', { batch: events }, call);
    expect(response.text).toMatch(/^\{"success":true/);
    return response.body;
  };
  const event = (more: Event = {}): Event => ({
    type: 'track',
    event: 'Clicked',
    userId: 'u1',
    messageId: randomUUID(),
    ...more,
  });
  const one = async (sql: string, of = project): Promise<Record<string, unknown> | undefined> =>
    (await of.rows(sql))[0];

  describe('works', () => {
    it('stores an event in the table of all and in that of its name, with columns of its own', async () => {
      const id = randomUUID();
      const response = await track('track', {
        ...{ messageId: id, event: 'Order Completed', userId: 'u1', anonymousId: 'a1' },
        ...{ timestamp: '2026-11-30T10:00:00.000Z', sentAt: '2026-11-30T10:00:05Z', integrations: {}, _metadata: {} },
        context: { library: { name: 'js', version: '1' }, page: { url: 'https://x/y' }, device: { isNew: true } },
        properties: {
          Total: 12.5,
          items: 3,
          coupon: null,
          paid: true,
          products: [{ sku: 'a' }],
          shipTo: { City: 'Köln' },
          id: 'o1',
        },
      });
      expect(response.status).toBe(200);
      expect(response.body).toEqual({ success: true, accepted: 1, quarantined: 0, duplicates: 0 });
      const all = await one(`SELECT * FROM tracks WHERE id = '${id}'`);
      expect(all).toMatchObject({
        ...{
          event: 'order_completed',
          event_text: 'Order Completed',
          user_id: 'u1',
          anonymous_id: 'a1',
          unmapped: null,
        },
        ...{ context_library_name: 'js', context_page_url: 'https://x/y', context_device_is_new: true },
        ...{ original_timestamp: '2026-11-30T10:00:00Z', sent_at: '2026-11-30T10:00:05Z' },
      });
      const { received_at: receivedAt, timestamp } = all as Record<string, string>;
      // The sender's clock was right if the event happened five seconds before it arrived.
      expect(Date.parse(receivedAt ?? '') - Date.parse(timestamp ?? '')).toBe(5_000);
      expect(await one(`SELECT * FROM order_completed WHERE id = '${id}'`)).toMatchObject({
        ...{ event: 'order_completed', total: 12.5, items: 3, paid: true, products: '[{"sku":"a"}]' },
        ...{ ship_to_city: 'Köln', _id: 'o1', context_device_is_new: true, unmapped: null },
      });
    });

    it('takes each kind of call, by its long and its short name', async () => {
      const kinds = {
        track: { event: 'E' },
        identify: {},
        page: { name: 'Home' },
        screen: {},
        group: { groupId: 'g' },
        alias: { previousId: 'p' },
      };
      const tables = ['tracks', 'identifies', 'pages', 'screens', 'groups', 'aliases'];
      for (const [i, [kind, more]] of Object.entries(kinds).entries()) {
        for (const name of [kind, kind[0] ?? '']) {
          const id = randomUUID();
          const response = await track(name, { messageId: id, userId: 'u2', ...more });
          expect(response.body).toMatchObject({ accepted: 1, quarantined: 0 });
          expect(await one(`SELECT user_id FROM ${tables[i]} WHERE id = '${id}'`)).toEqual({ user_id: 'u2' });
        }
      }
    });

    it('stores an event once, however often it is sent, also within a batch and at once', async () => {
      const ids = [randomUUID(), randomUUID(), randomUUID()];
      const batch = ids.map((messageId) => event({ messageId, event: 'Once' }));
      const answers = await Promise.all([send(batch), send(batch), send([...batch, ...batch]), send(batch.slice(1))]);
      expect(answers.map(({ accepted }) => accepted)).toEqual([3, 3, 6, 2]);
      expect(answers.reduce((sum, { duplicates }) => sum + Number(duplicates), 0)).toBe(14 - 3);
      for (const table of ['tracks', 'once']) {
        expect(await one(`SELECT count(*) AS n FROM ${table} WHERE id IN ('${ids.join("','")}')`)).toEqual({ n: 3 });
      }
    });

    it('stores what is new of a batch that repeats some', async () => {
      const [old, ...fresh] = [event({ event: 'Mixed' }), event({ event: 'Mixed' }), event({ event: 'Mixed Too' })];
      await send([old]);
      expect(await send([old, ...fresh])).toMatchObject({ accepted: 3, duplicates: 1 });
      expect(await one('SELECT count(*) AS n FROM mixed')).toEqual({ n: 2 });
      expect(await one('SELECT count(*) AS n FROM mixed_too')).toEqual({ n: 1 });
    });

    it('keeps the latest traits of users and groups by the time of the event', async () => {
      const identify = (timestamp: string, traits: Event, userId = 'latest') =>
        event({ type: 'identify', userId, timestamp, traits });
      await send([
        identify('2026-01-02T00:00:00Z', { plan: 'pro', email: 'new@x' }),
        identify('2026-01-01T00:00:00Z', { plan: 'free', city: 'Rome' }),
      ]);
      await send([identify('2026-01-01T12:00:00Z', { plan: 'trial', age: 41 })]);
      const user = `SELECT plan, email, city, age, timestamp FROM users WHERE id = 'latest'`;
      expect(await one(user)).toEqual({
        plan: 'pro',
        email: 'new@x',
        city: 'Rome',
        age: 41,
        timestamp: '2026-01-02T00:00:00Z',
      });
      await send([identify('2026-01-03T00:00:00Z', { plan: 'team' })]);
      expect(await one(user)).toMatchObject({ plan: 'team', email: 'new@x' });
      await send([event({ type: 'group', groupId: 'g7', traits: { name: 'Acme' } })]);
      expect(await one(`SELECT name FROM accounts WHERE id = 'g7'`)).toEqual({ name: 'Acme' });
    });

    it('does not change traits again when an event is repeated', async () => {
      const identify = event({ type: 'identify', userId: 'again', traits: { plan: 'pro' } });
      await send([identify]);
      await project.rows(`UPDATE users SET plan = 'corrected' WHERE id = 'again'`);
      await send([identify]);
      expect(await one(`SELECT plan FROM users WHERE id = 'again'`)).toEqual({ plan: 'corrected' });
    });

    it('keeps what does not fit its column at its place in the event, with every digit', async () => {
      await send([event({ event: 'Fit', properties: { n: 1, s: 'x', b: true } })]);
      const id = randomUUID();
      await send([
        event({
          event: 'Fit',
          messageId: id,
          properties: { n: 'many', s: 12, b: 'no', big: { deep: 12345678901234567000 } },
        }),
      ]);
      expect(await one(`SELECT n, s, b, unmapped::text AS unmapped FROM fit WHERE id = '${id}'`)).toEqual({
        ...{ n: null, s: '12', b: null },
        unmapped: '{"properties": {"b": "no", "n": "many", "big": {"deep": 12345678901234567000}}}',
      });
    });

    it('keeps what is for a column that Postgres computes, and stores the others', async () => {
      const own = await projectWith();
      await send([event({ event: 'Computed', properties: { x: 1 } })], { of: own });
      await own.rows('ALTER TABLE computed ADD g int GENERATED ALWAYS AS (x * 2) STORED');
      await own.rows('ALTER TABLE users ADD email_lower text GENERATED ALWAYS AS (lower(id)) STORED');
      const sent = [
        event({ event: 'Computed', properties: { x: 4, g: 9 } }),
        event({ type: 'identify', userId: 'Ada', traits: { emailLower: 'x' } }),
        event({ event: 'Other' }),
      ];
      expect(await send(sent, { of: own })).toMatchObject({ accepted: 3, quarantined: 0 });
      expect(await own.rows('SELECT g, unmapped FROM computed ORDER BY g')).toEqual([
        { g: 2, unmapped: null },
        { g: 8, unmapped: { properties: { g: 9 } } },
      ]);
      expect(await own.rows('SELECT email_lower, unmapped FROM users')).toEqual([
        { email_lower: 'ada', unmapped: { traits: { emailLower: 'x' } } },
      ]);
      expect(await own.rows('SELECT count(*) FROM other')).toEqual([{ count: 1 }]);
    });

    it('makes a table anew that was dropped, with all its columns', async () => {
      const own = await projectWith();
      for (const dropped of [[], ['dropped_once', 'tracks'], ['dropped_once'], ['dropped_once']]) {
        for (const table of dropped) await own.rows(`DROP TABLE ${table}`);
        await send([event({ event: 'Dropped Once', properties: { total: 1 } })], { of: own });
        expect(await own.rows('SELECT total, event, user_id FROM dropped_once')).toEqual([
          { total: 1, event: 'dropped_once', user_id: 'u1' },
        ]);
      }
    });

    it('makes an INTEGER column one of FLOAT when a fraction arrives, if nothing is lost', async () => {
      await send([event({ event: 'Widened', properties: { price: 10 } })]);
      await send([event({ event: 'Widened', properties: { price: 9.99 } })]);
      expect(await project.rows('SELECT price FROM widened ORDER BY price')).toEqual([{ price: 9.99 }, { price: 10 }]);
      await send([event({ event: 'Kept', properties: { big: '1' } }), event({ event: 'Exact', properties: { n: 1 } })]);
      await project.rows('INSERT INTO exact (id, n) VALUES ($1, 9007199254740993)', ['precise']);
      const id = randomUUID();
      await send([event({ event: 'Exact', messageId: id, properties: { n: 0.5 } })]);
      expect(await one(`SELECT n, unmapped FROM exact WHERE id = '${id}'`)).toEqual({
        n: null,
        unmapped: { properties: { n: 0.5 } },
      });
    });

    it('reads the body as JSON whatever its content type says, with the key in each place', async () => {
      const key = await keyWith();
      const basic = { authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` };
      const form = { 'content-type': 'application/x-www-form-urlencoded' };
      const ways: Call[] = [
        { token: key },
        { token: null, headers: { ...basic, 'content-type': 'text/plain' } },
        { token: null, headers: { ...basic, ...form, 'content-encoding': 'gzip' } },
        { token: null, headers: { 'content-type': 'text/plain' } },
        { token: null, headers: { ...form, 'content-encoding': 'gzip' } },
      ];
      for (const way of ways) {
        const text = JSON.stringify({ ...event({ event: 'Ways' }), writeKey: key });
        const body = way.headers?.['content-encoding'] === 'gzip' ? gzipSync(text) : text;
        const response = await track('t', body, way);
        expect([response.status, response.body]).toEqual([200, { success: true, accepted: 1, quarantined: 0 }]);
      }
      expect(await one('SELECT count(*) AS n FROM ways')).toEqual({ n: ways.length });
    });

    it('keeps properties, traits and context together in the mode json', async () => {
      const json = await projectWith({ mode: 'json', ip: false });
      await send(
        [event({ messageId: 'j1', context: { page: { url: '/a' }, other: 1 }, properties: { a: { b: 1.5 } } })],
        { of: json },
      );
      expect(
        await one(
          `SELECT event, properties::text, context::text, context_page_url, context_ip, unmapped FROM tracks`,
          json,
        ),
      ).toEqual({
        ...{ event: 'clicked', properties: '{"a": {"b": 1.5}}', context: '{"page": {"url": "/a"}, "other": 1}' },
        ...{ context_page_url: '/a', context_ip: null, unmapped: null },
      });
      const identify = (timestamp: string, traits: Event) =>
        event({ type: 'identify', userId: 'u', timestamp, traits });
      await send([identify('2026-01-02T00:00:00Z', { a: 2 }), identify('2026-01-01T00:00:00Z', { a: 1, b: 1 })], {
        of: json,
      });
      await send([identify('2026-01-03T00:00:00Z', { c: 3 })], { of: json });
      expect(await one('SELECT traits FROM users', json)).toEqual({ traits: { a: 2, b: 1, c: 3 } });
      expect(await one(`SELECT to_regclass('clicked') AS t`, json)).toEqual({ t: null });
    });

    it('takes an address from the connection, unless the event has one', async () => {
      const ids = [randomUUID(), randomUUID()];
      await send([event({ messageId: ids[0] }), event({ messageId: ids[1], context: { ip: '192.0.2.1' } })]);
      expect(await project.rows(`SELECT context_ip FROM tracks WHERE id = ANY($1) ORDER BY context_ip`, [ids])).toEqual(
        [{ context_ip: '127.0.0.1' }, { context_ip: '192.0.2.1' }],
      );
    });

    it('believes a sender that says when it happened besides what its own clock showed', async () => {
      const id = randomUUID();
      // As RudderStack's SDKs send an event of the past.
      const times = { originalTimestamp: '2026-11-30T10:00:00Z', sentAt: '2026-11-30T10:00:05Z' };
      await send([event({ messageId: id, ...times, timestamp: '2020-01-01T00:00:00Z' })]);
      expect(await one(`SELECT timestamp, original_timestamp FROM tracks WHERE id = '${id}'`)).toEqual({
        ...{ timestamp: '2020-01-01T00:00:00Z', original_timestamp: '2026-11-30T10:00:00Z' },
      });
    });

    it('gives an event context of its batch', async () => {
      const id = randomUUID();
      const body = {
        context: { locale: 'de', timezone: 'UTC' },
        batch: [event({ messageId: id, context: { locale: 'fr' } })],
      };
      expect((await track('batch', body)).status).toBe(200);
      expect(await one(`SELECT context_locale, context_timezone FROM tracks WHERE id = '${id}'`)).toEqual({
        ...{ context_locale: 'fr', context_timezone: 'UTC' },
      });
    });

    it('shows, changes and turns off the settings', async () => {
      const other = await service.project();
      expect((await other.call('GET', '/api/cdp/events')).body).toMatchObject({ events: null });
      expectFailure(await track('track', event(), { of: other }), 404, 'not_found');
      const on = await other.call('PUT', '/api/cdp/events', { body: { schema: 'open' } });
      expect(on.body).toMatchObject({ events: { mode: 'columns', schema: 'open', ip: true } });
      expect((await track('track', event(), { of: other })).status).toBe(200);
      expect((await other.call('DELETE', '/api/cdp/events')).body).toMatchObject({ events: null });
      expectFailure(await track('track', event(), { of: await other.seenAnew() }), 404, 'not_found');
      expect(await other.rows('SELECT event FROM tracks')).toEqual([{ event: 'clicked' }]);
    });
  });

  describe('refuses', () => {
    const quarantined = async (
      table: string,
      of = project,
    ): Promise<{ record: string; errors: { column?: string; message: string }[] }[]> =>
      (await of.call('GET', `/api/cdp/quarantine?table=${table}`)).body.records as never;

    it('only the wrong events of a batch, which the quarantine keeps with all that is wrong', async () => {
      const own = await projectWith();
      const wrong: [Event | string, string[]][] = [
        ['text', ['The event is not an object']],
        [{ userId: 'u', messageId: 'x1' }, ['type: "" is none of track, identify, page, screen, group, alias']],
        [event({ userId: undefined, messageId: 'x2' }), ['userId or anonymousId is needed']],
        [event({ messageId: 'm'.repeat(256) }), ['messageId is longer than 255 characters']],
        [
          event({ event: '', timestamp: 'now' }),
          ['event, the name of what happened, is needed', 'timestamp is not a time'],
        ],
        [event({ timestamp: '+020000-01-01T00:00:00Z' }), ['timestamp is not a time']],
        [event({ properties: 'none', context: [] }), ['context is not an object', 'properties is not an object']],
        [event({ properties: { a: 'x\0' } }), ['properties.a: ']],
        [event({ type: 'group' }), ['groupId is needed']],
        [event({ type: 'alias' }), ['previousId is needed']],
      ];
      const good = event({ messageId: 'good' });
      const response = await track('batch', { batch: [...wrong.map(([one]) => one), good] }, { of: own });
      expect(response.body).toMatchObject({ accepted: 1, quarantined: wrong.length });
      const kept = (await Promise.all(['tracks', 'groups', 'aliases'].map((table) => quarantined(table, own)))).flat();
      for (const [sent, messages] of wrong) {
        const found = kept.find(({ record }) => record === JSON.stringify(sent));
        for (const message of messages)
          expect(found?.errors.map((error) => error.message).join('; ')).toContain(message);
      }
      expect(await own.rows('SELECT id FROM tracks')).toEqual([{ id: 'good' }]);
    });

    it('what a table refuses, and keeps the row so that it can be replayed', async () => {
      const own = await projectWith();
      await send([event({ event: 'Checked', properties: { n: 1 } })], { of: own });
      await own.rows('ALTER TABLE checked ADD CHECK (n < 100)');
      const id = randomUUID();
      expect(
        await send(
          [
            event({ event: 'Checked', messageId: id, properties: { n: 200 } }),
            event({ event: 'Checked', properties: { n: 2 } }),
          ],
          { of: own },
        ),
      ).toEqual(expect.objectContaining({ accepted: 2, quarantined: 0 }));
      expect(await own.rows('SELECT n FROM checked ORDER BY n')).toEqual([{ n: 1 }, { n: 2 }]);
      expect(await quarantined('checked', own)).toHaveLength(1);
      await own.rows('ALTER TABLE checked DROP CONSTRAINT checked_n_check');
      await own.call('POST', '/api/cdp/quarantine/replay', { body: { table: 'checked' } });
      expect(await own.rows(`SELECT n FROM checked WHERE id = '${id}'`)).toEqual([{ n: 200 }]);
    });

    it('what the table of its kind refuses, and keeps all rows of the event so that they can be replayed', async () => {
      const own = await projectWith();
      await send([event({ event: 'Bought', properties: { total: 1 } })], { of: own });
      await own.rows(`ALTER TABLE tracks ADD CONSTRAINT no_bob CHECK (user_id <> 'bob')`);
      await own.rows(`ALTER TABLE identifies ADD CONSTRAINT no_bob CHECK (user_id <> 'bob')`);
      const bob = [
        event({ event: 'Bought', userId: 'bob', properties: { total: 77 } }),
        event({ type: 'identify', userId: 'bob', traits: { plan: 'gold' } }),
      ];
      expect(await send(bob, { of: own })).toMatchObject({ accepted: 0, quarantined: 2 });
      expect(await own.rows('SELECT total FROM bought')).toEqual([{ total: 1 }]);
      expect((await quarantined('bought', own))[0]?.errors[0]?.message).toContain('"tracks" has refused the event');
      for (const table of ['tracks', 'identifies']) await own.rows(`ALTER TABLE ${table} DROP CONSTRAINT no_bob`);
      for (const table of ['tracks', 'bought', 'identifies', 'users'])
        expect((await own.call('POST', '/api/cdp/quarantine/replay', { body: { table } })).status).toBe(200);
      expect(
        await own.rows(`SELECT t.event, total FROM tracks t JOIN bought USING (id) WHERE t.user_id = 'bob'`),
      ).toEqual([{ event: 'bought', total: 77 }]);
      expect(await own.rows(`SELECT u.id, u.plan FROM users u, identifies`)).toEqual([{ id: 'bob', plan: 'gold' }]);
    });

    it('names that JSONB cannot hold, as it refuses such values', async () => {
      const own = await projectWith();
      const event = String.raw`{"userId":"u","event":"Named","messageId":"n1","properties":{"\ud800":1}}`;
      const response = await track('track', event, { of: own, headers: { 'content-type': 'application/json' } });
      expect(response.body).toMatchObject({ accepted: 0, quarantined: 1 });
      expect(await own.rows('SELECT id FROM tracks')).toEqual([]);
    });

    it('a body that nobody can read, and a key with which nothing can be stored', async () => {
      expectFailure(await track('batch', '{"batch": ['), 400, 'invalid_json');
      expectFailure(await track('batch', { events: [] }), 400, 'invalid_request');
      expectFailure(await track('track', [event()]), 400, 'invalid_request');
      expectFailure(await track('track', '{}', { headers: { 'content-encoding': 'gzip' } }), 400, 'invalid_request');
      expectFailure(await track('everything', event()), 404, 'not_found');
      expectFailure(await track('track', event(), { token: null }), 401, 'unauthorized');
      expectFailure(await track('track', { ...event(), writeKey: 'wrong' }, { token: null }), 401, 'unauthorized');
      expectFailure(
        await track('track', event(), { token: await project.tokenWith('sql:write') }),
        403,
        'insufficient_scope',
      );
      expectFailure(await track('batch', { batch: [], filler: 'x'.repeat(3_000_000) }), 413, 'payload_too_large');
    });

    it('to take over tables of the project that are others', async () => {
      const other = await service.project();
      await other.table('users', { email: 'TEXT' });
      await other.rows('CREATE TABLE tracks (id text PRIMARY KEY, received_at text)');
      const response = await other.call('PUT', '/api/cdp/events', { body: {} });
      expectFailure(response, 409, 'table_exists');
      expect(response.body.errors).toHaveLength(2);
      expect(await other.rows(`SELECT to_regclass('pages') AS t`)).toEqual([{ t: null }]);
      await other.rows('DROP TABLE users; DROP TABLE tracks; CREATE TABLE signed_up (id text PRIMARY KEY, note text)');
      await other.call('PUT', '/api/cdp/events', { body: {} });
      await send([event({ event: 'Signed Up', properties: { plan: 'pro' } })], { of: await other.seenAnew() });
      expect(await other.rows('SELECT count(*) AS n FROM signed_up')).toEqual([{ n: 0 }]);
      expect(await other.rows('SELECT unmapped FROM tracks')).toEqual([{ unmapped: { properties: { plan: 'pro' } } }]);
    });

    it('to write into what is no table for events, and stores the event nevertheless', async () => {
      const other = await service.project();
      await other.rows('CREATE VIEW pages AS SELECT 1 AS a; CREATE TABLE tracks (id text, received_at timestamptz)');
      const refused = await other.call('PUT', '/api/cdp/events', { body: {} });
      expectFailure(refused, 409, 'table_exists');
      expect((refused.body.errors as { message: string }[]).map(({ message }) => message)).toEqual([
        '"pages" is a view, and events need a table of that name',
        'Table "tracks": column "id" is no primary key, and events need one',
      ]);
      await other.rows('DROP VIEW pages; DROP TABLE tracks');
      await other.call('PUT', '/api/cdp/events', { body: {} });
      await other.rows(`CREATE VIEW "Viewed" AS SELECT 1 AS a; CREATE SEQUENCE counted; CREATE TYPE typed AS (a int)`);
      const names = ['Viewed', 'Counted', 'Typed'];
      expect(
        await send(
          names.map((name) => event({ event: name, properties: { a: 1 } })),
          { of: await other.seenAnew() },
        ),
      ).toMatchObject({
        ...{ accepted: 3, quarantined: 0 },
      });
      expect(await other.rows('SELECT event, unmapped FROM tracks ORDER BY event')).toEqual(
        names
          .map((name) => ({ event: name.toLowerCase(), unmapped: { properties: { a: 1 } } }))
          .sort((a, b) => (a.event < b.event ? -1 : 1)),
      );
      await other.rows(
        'ALTER TABLE tracks DROP CONSTRAINT tracks_pkey; ALTER TABLE tracks ADD CHECK (false) NOT VALID',
      );
      const response = await track('track', event(), { of: other });
      expectFailure(response, 503, 'table_not_found');
      expect(response.headers.get('retry-after')).toBe('1');
    });

    it('with a status that makes SDKs send it again what may succeed later', async () => {
      const full = await projectWith();
      await service.engine.projects.setQuota(full.name, 1, { actor: 'service', actorId: null } as never);
      const response = await track('track', event(), { of: await full.seenAnew() });
      expectFailure(response, 429, 'quota_exceeded');
      expect(response.headers.get('retry-after')).toBe('30');
      const gone = await projectWith();
      await gone.rows('DROP TABLE pages');
      const key = await keyWith({ origins: [SHOP] }, gone);
      const missing = await track('page', { userId: 'u' }, { token: key });
      expectFailure(missing, 503, 'table_not_found');
      expect(missing.headers.get('retry-after')).toBe('1');
    });
  });

  describe('protects', () => {
    it('the service from a small body that would cost much', async () => {
      const own = await projectWith();
      const many = Object.fromEntries(Array.from({ length: 1_601 }, (_, i) => [`p${i}`, i]));
      expect(await send([event({ properties: many }), event({ properties: { p: 1 } })], { of: own })).toMatchObject({
        ...{ accepted: 1, quarantined: 1 },
      });
      const events = (count: number) => Array.from({ length: count }, () => ({ type: 'page', userId: 'u' }));
      expectFailure(await track('batch', { batch: events(5_001) }, { of: own }), 413, 'payload_too_large');
      const context = { text: 'x'.repeat(20_000) };
      expectFailure(await track('batch', { context, batch: events(600) }, { of: own }), 413, 'payload_too_large');
      expect(await one('SELECT count(*) AS n FROM pages', own)).toEqual({ n: 0 });
      // The rest of their names have none of their own, until another request.
      const named = Array.from({ length: 60 }, (_, i) => event({ event: `Name ${i}` }));
      expect(await send(named, { of: own })).toMatchObject({ accepted: 60, quarantined: 0 });
      const tables = `SELECT count(*) AS n FROM pg_tables WHERE schemaname = 'data' AND tablename LIKE 'name_%'`;
      expect(await one(tables, own)).toEqual({ n: 50 });
      expect(await one(`SELECT count(*) AS n FROM tracks WHERE event LIKE 'name_%'`, own)).toEqual({ n: 60 });
    });

    it('the schema from keys of web pages', async () => {
      await send([event({ event: 'Known', properties: { a: 1 } })]);
      const before = await project.rows(
        `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'data'`,
      );
      const id = randomUUID();
      const events = [
        event({ event: 'Invented', messageId: id, properties: { x: { y: 1 } }, context: { evil: 1 } }),
        event({ event: 'Known', messageId: `${id}2`, properties: { a: 2, b: 0.5, __proto__: 1 } }),
      ];
      expect(await send(events, { token: browserKey })).toEqual({ success: true, accepted: 2, quarantined: 0 });
      expect(
        await project.rows(
          `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'data'`,
        ),
      ).toEqual(before);
      expect(await one(`SELECT unmapped FROM tracks WHERE id = '${id}'`)).toEqual({
        unmapped: { context: { evil: 1 }, properties: { x: { y: 1 } } },
      });
      expect(await one(`SELECT a, unmapped FROM known WHERE id = '${id}2'`)).toEqual({
        a: 2,
        unmapped: { properties: { b: 0.5 } },
      });
      const open = await projectWith({ schema: 'open' });
      const key = await keyWith({ origins: [SHOP] }, open);
      await send(events.slice(0, 1), { token: key });
      expect(await open.rows('SELECT x_y FROM invented')).toEqual([{ x_y: 1 }]);
    });

    it('the traits of others from keys of web pages, unless they may change them', async () => {
      await send([event({ type: 'identify', userId: 'victim', traits: { plan: 'pro' } })]);
      const attack = () => event({ type: 'identify', userId: 'victim', traits: { plan: 'free' } });
      await send([attack()], { token: browserKey });
      expect(await one(`SELECT plan FROM users WHERE id = 'victim'`)).toEqual({ plan: 'pro' });
      await send([attack()], { token: await keyWith({ origins: [SHOP], users: 'on' }) });
      expect(await one(`SELECT plan FROM users WHERE id = 'victim'`)).toEqual({ plan: 'free' });
      const { body } = await project.call('GET', '/api/cdp/token', { token: browserKey });
      expect(body).toMatchObject({ token: { limits: { users: 'off' } } });
    });

    it('tables that a key does not name', async () => {
      const key = await keyWith({ tables: ['tracks'] });
      const ids = [randomUUID(), randomUUID()];
      const events = [event({ event: 'Narrow', messageId: ids[0] }), event({ type: 'page', messageId: ids[1] })];
      expect(await send(events, { token: key })).toEqual({ success: true, accepted: 1, quarantined: 1 });
      expect(await one(`SELECT to_regclass('narrow') AS t`)).toEqual({ t: null });
      expect(await one(`SELECT count(*) AS n FROM tracks WHERE id = '${ids[0]}'`)).toEqual({ n: 1 });
    });

    it('what is stored from keys that may only append', async () => {
      const repeated = event();
      await send([repeated]);
      const first = await track('track', event(), { token: browserKey });
      const second = await track('track', repeated, { token: browserKey });
      expect(second.text).toBe(first.text);
      expect([...second.headers.keys()].sort()).toEqual([...first.headers.keys()].sort());
    });

    it('pages of other origins, and answers those of its own', async () => {
      const page = (origin: string, headers: Record<string, string> = {}) => ({
        token: browserKey,
        headers: { origin, ...headers },
      });
      const allowed = await track('t', event(), page(SHOP));
      expect(allowed.headers.get('access-control-allow-origin')).toBe(SHOP);
      expect(allowed.headers.get('access-control-expose-headers')).toContain('Retry-After');
      expectFailure(await track('t', event(), page('https://evil.example')), 403, 'origin_not_allowed');
      const preflight = await fetch(`${service.url}/v1/t`, {
        method: 'OPTIONS',
        headers: {
          ...{ origin: SHOP, 'access-control-request-method': 'POST' },
          'access-control-request-headers': 'authorization,content-type,x-retry-count',
        },
      });
      expect(preflight.status).toBe(204);
      const names = preflight.headers.get('access-control-allow-headers')?.toLowerCase() ?? '';
      for (const name of ['authorization', 'content-type', 'x-retry-count']) expect(names).toContain(name);
      const settings = await fetch(`${service.url}/v1/projects/${browserKey}/settings`, { headers: { origin: SHOP } });
      expect(settings.headers.get('access-control-allow-origin')).toBe(SHOP);
      expect(await settings.json()).toEqual({
        integrations: {
          'Segment.io': {
            ...{ apiKey: browserKey, apiHost: `${new URL(service.url).host}/v1`, protocol: 'http' },
            httpConfig: { rateLimitConfig: { maxRetryCount: 100 }, backoffConfig: { maxRetryCount: 100 } },
          },
        },
      });
    });

    it('events of a page of HTTPS from being sent by HTTP, if the proxy does not say how it was asked', async () => {
      const settings = async (host: string, origin: string) => {
        const text = await exchange(
          service.url,
          `GET /v1/projects/${await keyWith()}/settings HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${origin}\r\nConnection: close\r\n\r\n`,
        );
        const { integrations } = responsesIn(text)[0]?.body as { integrations: Record<string, object> };
        return integrations['Segment.io'];
      };
      const at = (apiHost: string, protocol: string) => expect.objectContaining({ apiHost, protocol }) as unknown;
      expect(await settings('cdp.example.com', SHOP)).toEqual(at('cdp.example.com/v1', 'https'));
      expect(await settings('cdp.example.com', 'http://shop')).toEqual(at('cdp.example.com/v1', 'http'));
      expect(await settings('localhost:8080', SHOP)).toEqual(at('localhost:8080/v1', 'http'));
    });

    it('the limits of a key: requests and events', async () => {
      const key = await keyWith({ rows_per_day: 3 });
      expect((await track('batch', { batch: [event(), event()] }, { token: key })).status).toBe(200);
      const refused = await track('batch', { batch: [event(), event()] }, { token: key });
      expectFailure(refused, 429, 'rate_limited');
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    });

    it('rights: a token that acts as a role writes no events', async () => {
      await project.call('POST', '/api/cdp/schema/role', { body: { name: 'intern' } });
      const key = await project.tokenAs('intern', 'data:append');
      expectFailure(await track('track', event(), { token: key }), 403, 'insufficient_scope');
    });
  });
});
