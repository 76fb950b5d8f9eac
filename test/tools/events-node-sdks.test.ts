/** The SDKs of Segment and RudderStack for Node: what they send arrives in its tables, once, whatever breaks on the way. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedStage, type EmbeddedStage } from '../faults/support/stage.js';
import { NODE_SDKS } from '../support/event-sdks.js';
import { type Fault, startFaultyProxy } from '../support/faulty-proxy.js';
import { endEverything, eventually, type RunningService } from '../support/program.js';
import { call, startTestService, type TestService } from '../support/service.js';

/** What the base model of dbt-labs/segment selects from `pages`. */
const DBT_PAGES = `
  SELECT id AS page_view_id, anonymous_id, user_id, received_at AS received_at_tstamp, sent_at AS sent_at_tstamp,
    timestamp AS tstamp, url AS page_url, path AS page_url_path, title AS page_title, search AS page_url_query,
    referrer, context_campaign_source AS utm_source, context_campaign_medium AS utm_medium,
    context_campaign_name AS utm_campaign, context_campaign_term AS utm_term,
    context_campaign_content AS utm_content, context_ip AS ip, context_user_agent AS user_agent,
    row_number() OVER (PARTITION BY id ORDER BY received_at ASC) AS row_num
  FROM pages`;

describe.each(NODE_SDKS)('%s', (_, open) => {
  describe('with a service that is there', () => {
    let service: TestService;
    beforeAll(async () => {
      service = await startTestService();
    });
    afterAll(() => service.close());

    it('stores each kind of call in the tables and columns of its name', async () => {
      const project = await service.project();
      await project.call('PUT', '/api/cdp/events', { body: {} });
      const sdk = open(service.url, await project.tokenWith('data:append'));
      const timestamp = new Date('2026-11-30T10:00:00Z');
      const userId = 'u1';
      sdk.identify({
        userId,
        anonymousId: 'a1',
        timestamp,
        traits: { email: 'ada@example.com', plan: { name: 'pro' } },
      });
      const items = [{ sku: 'a' }, { sku: 'b' }];
      sdk.track({ userId, timestamp, event: 'Order Completed', properties: { orderId: 'o1', total: 12.5, items } });
      const campaign = { source: 'news', name: 'Spring' };
      const properties = { url: 'https://shop.example.com/a?b', path: '/a', title: 'A', search: '?b', referrer: '' };
      sdk.page({
        anonymousId: 'a1',
        name: 'Home',
        properties,
        context: { campaign, ip: '192.0.2.7', userAgent: 'X/1' },
      });
      sdk.screen({ userId, name: 'Start', properties: { tab: 2 } });
      sdk.group({ userId, groupId: 'g1', traits: { name: 'Acme', seats: 5 } });
      sdk.alias({ userId, previousId: 'a1' });
      const tables = ['identifies', 'tracks', 'order_completed', 'pages', 'screens', 'groups', 'aliases'];
      const counts = tables.map((table) => `(SELECT count(*) FROM ${table}) AS ${table}`).join();
      await eventually('all are stored', async () => {
        const [row] = await project.rows(`SELECT to_regclass('order_completed') AS is_there`);
        if (row?.is_there == null) return false;
        const [counted] = await project.rows(`SELECT ${counts}`);
        return Object.values(counted ?? {}).every((count) => count === 1);
      });
      const one = async (sql: string) => (await project.rows(sql))[0];
      expect(await one('SELECT * FROM identifies')).toMatchObject({
        ...{ user_id: 'u1', anonymous_id: 'a1', email: 'ada@example.com', plan_name: 'pro' },
        unmapped: null,
      });
      expect(await one('SELECT * FROM users')).toMatchObject({ id: 'u1', email: 'ada@example.com', plan_name: 'pro' });
      expect(await one('SELECT * FROM order_completed')).toMatchObject({
        ...{ event: 'order_completed', event_text: 'Order Completed', user_id: 'u1', order_id: 'o1', total: 12.5 },
        ...{ items: '[{"sku":"a"},{"sku":"b"}]', unmapped: null },
      });
      // One sends it with the time of sending, the other as what happened, with its own time besides.
      const { timestamp: stored } = (await one('SELECT timestamp FROM order_completed')) as { timestamp: string };
      expect(Math.abs(Date.parse(stored) - timestamp.getTime())).toBeLessThan(60_000);
      expect(await one('SELECT * FROM screens')).toMatchObject({ name: 'Start', tab: 2 });
      expect(await one('SELECT * FROM groups')).toMatchObject({ group_id: 'g1', name: 'Acme', seats: 5 });
      expect(await one('SELECT * FROM accounts')).toMatchObject({ id: 'g1', name: 'Acme', seats: 5 });
      expect(await one('SELECT * FROM aliases')).toMatchObject({ user_id: 'u1', previous_id: 'a1' });
      expect(await one('SELECT * FROM tracks t JOIN order_completed o ON o.id = t.id')).toMatchObject({
        sent_at: expect.any(String) as string,
        context_library_name: expect.any(String) as string,
      });
      expect(await project.rows(DBT_PAGES)).toEqual([
        expect.objectContaining({
          ...{ anonymous_id: 'a1', page_url: 'https://shop.example.com/a?b', page_url_path: '/a', page_title: 'A' },
          ...{ page_url_query: '?b', utm_source: 'news', utm_campaign: 'Spring', ip: '192.0.2.7', user_agent: 'X/1' },
          row_num: 1,
        }),
      ]);
    });
  });

  describe('with a service that is killed', () => {
    let stage: EmbeddedStage;
    let service: RunningService;
    beforeAll(async () => {
      const started = await embeddedStage();
      [stage, service] = [started, started.first];
    });
    afterAll(async () => {
      await service.end();
      await endEverything();
    });

    it('loses nothing and stores nothing twice, also if responses are lost on the way', async () => {
      const { url, token } = stage;
      const api = (method: string, path: string, body: unknown) => call(url, method, path, { token, body });
      expect((await api('PUT', '/api/cdp/events', {})).status).toBe(200);
      const proxy = await startFaultyProxy(url);
      const faults: Fault[] = ['drop-after', 'bad-gateway', 'drop-before', 'cut', 'rate-limit', 'unavailable'];
      let [requests, faulty] = [0, 0];
      proxy.plan = () => (requests++ % 3 === 1 ? faults[faulty++ % faults.length] : undefined);
      const sdk = open(proxy.url, token);
      const [EVENTS, KILLS] = [600, 3];
      let sent = 0;
      const send = async () => {
        for (; sent < EVENTS; sent++) {
          sdk.track({ userId: `u${sent % 7}`, event: 'Step Taken', properties: { n: sent } });
          await sleep(10);
        }
      };
      const sending = send();
      for (let kill = 1; kill <= KILLS; kill++) {
        await eventually('more are sent', () => Promise.resolve(sent > (EVENTS * kill) / (KILLS + 1)));
        await service.end('SIGKILL');
        ({ service } = await stage.start());
      }
      await sending;
      const count = async () => {
        const sql = `SELECT count(*) AS events, count(DISTINCT n) AS steps, (SELECT count(*) FROM tracks) AS tracks FROM step_taken`;
        const { body } = await api('POST', '/api/cdp/sql', { sql });
        return (body.rows as Record<string, number>[] | undefined)?.[0];
      };
      await eventually('all are stored', async () => (await count())?.['steps'] === EVENTS);
      await eventually('all are answered', async () => {
        const before = requests;
        await sleep(3_000);
        return requests === before;
      });
      expect(await count()).toEqual({ events: EVENTS, steps: EVENTS, tracks: EVENTS });
      expect(faulty).toBeGreaterThan(faults.length);
      await proxy.close();
    });
  });
});
