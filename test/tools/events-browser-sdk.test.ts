/**
 * Segment's SDK for pages, in a browser: a page of another origin, which the key names, sends events, and each is stored once,
 * whatever breaks on the way.
 */
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedStage, type EmbeddedStage } from '../faults/support/stage.js';
import { launchBrowser } from '../support/browser.js';
import { browserSdk } from '../support/event-sdks.js';
import { type Fault, startFaultyProxy } from '../support/faulty-proxy.js';
import { endEverything, eventually, runProgram, type RunningService } from '../support/program.js';
import { call } from '../support/service.js';

/** What the SDK leaves in the page. */
interface Analytics {
  page(name?: string): Promise<unknown>;
  track(event: string, properties?: object): Promise<unknown>;
  identify(userId: string, traits?: object): Promise<unknown>;
  group(groupId: string, traits?: object): Promise<unknown>;
  alias(userId: string, previousId?: string): Promise<unknown>;
  screen(name: string, properties?: object): Promise<unknown>;
}
declare const analytics: Analytics;
declare const AnalyticsNext: { AnalyticsBrowser: { load(settings: object): Analytics } };

let stage: EmbeddedStage;
let service: RunningService;
let site: Server;
let browser: Browser;
beforeAll(async () => {
  const started = await embeddedStage();
  [stage, service] = [started, started.first];
  site = createServer(({ url = '' }, response) => {
    if (url === '/analytics.js') return void createReadStream(browserSdk()).pipe(response);
    response.writeHead(200, { 'content-type': 'text/html' });
    response.end('<!doctype html><title>Shop</title><script src="/analytics.js"></script>');
  });
  site.listen(0, '127.0.0.1');
  await once(site, 'listening');
  browser = await launchBrowser();
  expect((await api('PUT', '/api/cdp/events', { schema: 'open' })).status).toBe(200);
});
afterAll(async () => {
  await browser.close();
  site.close();
  await service.end();
  await endEverything();
});

const api = (method: string, path: string, body?: unknown) =>
  call(stage.url, method, path, { token: stage.token, ...(body === undefined ? {} : { body }) });

async function rows(sql: string): Promise<Record<string, unknown>[]> {
  const { body } = await api('POST', '/api/cdp/sql', { sql });
  return body.rows as Record<string, unknown>[];
}

const origin = () => `http://127.0.0.1:${(site.address() as AddressInfo).port}`;

/** A key for the site, as an operator makes it. */
async function keyWith(...limits: string[]): Promise<string> {
  const scopes = ['--scopes', 'data:append', '--origins', origin(), '--users', 'on'];
  const place = ['--project', 'default', '--data-dir', stage.dataDir, '--json'];
  const { stdout, stderr } = await runProgram(['token', 'create', ...scopes, ...place, ...limits]);
  expect(stderr).toBe('');
  return (JSON.parse(stdout) as { token: string }).token;
}

/** A page with the SDK loaded. @param cdnURL where it finds the service */
async function openShop(cdnURL: string, key: string): Promise<{ page: Page; complaints: string[] }> {
  const page = await (await browser.newContext()).newPage();
  const complaints: string[] = [];
  page.on('console', (message) => void complaints.push(message.text()));
  page.on('pageerror', (error) => void complaints.push(String(error)));
  await visit(page, cdnURL, key);
  return { page, complaints };
}

async function visit(page: Page, cdnURL: string, writeKey: string): Promise<void> {
  await page.goto(`${origin()}/shoes?utm_source=news&utm_campaign=Spring`);
  await page.evaluate(
    (settings) => {
      const loaded = AnalyticsNext.AnalyticsBrowser.load(settings);
      Object.assign(globalThis, { analytics: loaded });
    },
    { writeKey, cdnURL },
  );
}

describe('a page of another origin', () => {
  it('stores each kind of call in the tables and columns of its name', async () => {
    const { page, complaints } = await openShop(stage.url, await keyWith());
    await page.evaluate(async () => {
      await analytics.page('Shoes');
      await analytics.identify('u1', { email: 'ada@example.com', plan: { name: 'pro' } });
      await analytics.track('Order Completed', { orderId: 'o1', total: 12.5, items: [{ sku: 'a' }] });
      await analytics.screen('Start', { tab: 2 });
      await analytics.group('g1', { name: 'Acme' });
      await analytics.alias('u2', 'u1');
    });
    const one = async (table: string) => (await rows(`SELECT * FROM ${table}`))[0];
    await eventually('the last one is stored', async () => (await one('aliases')) !== undefined);
    expect(await rows('SELECT * FROM pages')).toEqual([
      expect.objectContaining({
        ...{ name: 'Shoes', path: '/shoes', title: 'Shop', search: '?utm_source=news&utm_campaign=Spring' },
        ...{ url: `${origin()}/shoes?utm_source=news&utm_campaign=Spring`, referrer: '', context_ip: '127.0.0.1' },
        ...{ context_campaign_source: 'news', context_campaign_name: 'Spring', context_page_path: '/shoes' },
        ...{ context_library_name: 'analytics.js', user_id: null, unmapped: null },
      }),
    ]);
    expect(await one('identifies')).toMatchObject({ user_id: 'u1', email: 'ada@example.com', plan_name: 'pro' });
    expect(await one('users')).toMatchObject({ id: 'u1', email: 'ada@example.com', plan_name: 'pro' });
    expect(await one('order_completed')).toMatchObject({
      ...{ event_text: 'Order Completed', user_id: 'u1', order_id: 'o1', total: 12.5, items: '[{"sku":"a"}]' },
    });
    expect(await one('screens')).toMatchObject({ name: 'Start', tab: 2 });
    expect(await one('accounts')).toMatchObject({ id: 'g1', name: 'Acme' });
    // The SDK replaces the userId of the call by that of the user whom it knows.
    expect(await one('aliases')).toMatchObject({ user_id: 'u1', previous_id: 'u1' });
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it('needs no open schema: what browsers say about themselves has columns', async () => {
    const closed = await api('PUT', '/api/cdp/events', { schema: 'closed' });
    expect(closed.status).toBe(200);
    const { page } = await openShop(stage.url, await keyWith());
    await page.evaluate(() => analytics.page('Plain'));
    const plain = `SELECT unmapped FROM pages WHERE name = 'Plain'`;
    await eventually('it is stored', async () => (await rows(plain)).length > 0);
    expect(await rows(plain)).toEqual([{ unmapped: null }]);
    await api('PUT', '/api/cdp/events', { schema: 'open' });
    await page.context().close();
  });

  it('waits after a 429 as long as Retry-After says', async () => {
    const { page } = await openShop(stage.url, await keyWith('--requests-per-second', '1'));
    const sent = new Map<string, { at: number; status: number }[]>();
    page.on('response', (response) => {
      const request = response.request();
      const { event, messageId } = (request.postDataJSON() ?? {}) as { event?: string; messageId?: string };
      if (event !== 'Hurried') return;
      const attempts = sent.get(messageId ?? '') ?? [];
      sent.set(messageId ?? '', attempts.concat({ at: request.timing().startTime, status: response.status() }));
    });
    await page.evaluate(() => {
      for (let n = 0; n < 4; n++) void analytics.track('Hurried', { n });
    });
    const count = async () => (await rows(`SELECT count(*) AS n FROM tracks WHERE event = 'hurried'`))[0]?.n;
    await eventually('all are stored', async () => (await count()) === 4);
    const attempts = [...sent.values()];
    expect(attempts.flat().some(({ status }) => status === 429)).toBe(true);
    for (const ofOne of attempts) {
      for (const [i, { at, status }] of ofOne.entries()) {
        const next = ofOne[i + 1];
        if (status === 429 && next !== undefined) expect(next.at - at).toBeGreaterThan(900);
      }
    }
    await page.context().close();
  });

  it('is refused more often than the SDK takes by itself, and loses nothing', async () => {
    const proxy = await startFaultyProxy(stage.url);
    const { page } = await openShop(proxy.url, await keyWith());
    let refused = 0;
    proxy.plan = ({ method }) => (method === 'POST' && refused++ < 12 ? 'rate-limit' : undefined);
    await page.evaluate(() => void analytics.track('Patient'));
    const count = async () => (await rows(`SELECT count(*) AS n FROM tracks WHERE event = 'patient'`))[0]?.n;
    await eventually('it is stored', async () => (await count()) === 1);
    expect(refused).toBeGreaterThan(12);
    await page.context().close();
    await proxy.close();
  });

  it('loses nothing and stores nothing twice while the service is killed and responses are lost', async () => {
    const proxy = await startFaultyProxy(stage.url);
    const key = await keyWith();
    const { page } = await openShop(proxy.url, key);
    const faults: Fault[] = ['drop-after', 'bad-gateway', 'drop-before', 'cut', 'rate-limit', 'unavailable'];
    let [requests, faulty] = [0, 0];
    proxy.plan = ({ method }) =>
      method === 'POST' && requests++ % 3 === 1 ? faults[faulty++ % faults.length] : undefined;
    const [EVENTS, KILLS] = [120, 3];
    let sent = 0;
    const send = async () => {
      for (; sent < EVENTS; sent++)
        await page.evaluate(async (n) => {
          void analytics.track('Step Taken', { n });
          await new Promise((resolve) => setTimeout(resolve, 50));
        }, sent);
    };
    const sending = send();
    for (let kill = 1; kill <= KILLS; kill++) {
      await eventually('more are sent', () => Promise.resolve(sent > (EVENTS * kill) / (KILLS + 1)));
      await service.end('SIGKILL');
      ({ service } = await stage.start());
    }
    await sending;
    const count = async () =>
      (
        await rows(`SELECT count(*) AS events, count(DISTINCT n) AS steps,
        (SELECT count(*) FROM tracks WHERE event = 'step_taken') AS tracks FROM step_taken`)
      )[0];
    // The SDK sends one event at a time, and waits longer after each refusal.
    await eventually('all are stored', async () => (await count())?.steps === EVENTS, 300);
    expect(await count()).toEqual({ events: EVENTS, steps: EVENTS, tracks: EVENTS });
    expect(faulty).toBeGreaterThan(faults.length);
    await page.context().close();
    await proxy.close();
  });

  it('sends what it could not when it is opened again', async () => {
    const key = await keyWith();
    const { page } = await openShop(stage.url, key);
    await page.evaluate(() => analytics.track('Visited'));
    await service.end('SIGKILL');
    await page.evaluate(() => {
      for (let n = 0; n < 5; n++) void analytics.track('Kept', { n });
    });
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 500)));
    await page.goto('about:blank');
    ({ service } = await stage.start());
    await visit(page, stage.url, key);
    const count = async () => (await rows(`SELECT count(*) AS n FROM tracks WHERE event = 'kept'`))[0]?.n;
    await eventually('all are stored', async () => (await count()) === 5);
    await page.context().close();
  });
});
