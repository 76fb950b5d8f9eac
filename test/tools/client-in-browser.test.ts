/** The client in a real browser: bundled, and run in a page that uses the service that served the page. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type * as client from '../../src/client/index.js';
import { byName, launchBrowser, openPage } from '../support/browser.js';
import { bundleClient } from '../support/client-bundle.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';

/** What the bundle leaves in the page. */
declare const cdp: typeof client;
/** Of the page, for a compiler that knows Node alone. */
declare const location: { origin: string };
declare const isSecureContext: boolean;

let service: TestService;
let project: TestProject;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('clicks', { n: 'INTEGER', big: 'INTEGER' });
  browser = await launchBrowser();
  // No secure context, so no `crypto.randomUUID`.
  const origin = byName(service.url);
  ({ page } = await openPage(browser, origin));
  await page.goto(`${origin}/docs`);
  const { code } = await bundleClient();
  await page.evaluate(`${code}; globalThis.cdp = cdp`);
});
afterAll(async () => {
  await browser.close();
  await service.close();
});

describe('in a page', () => {
  it('inserts in batches, queries, and streams', async () => {
    const seen = await page.evaluate(async (token) => {
      const api = new cdp.CdpClient({ url: location.origin, token });
      const records = Array.from({ length: 1_000 }, (_, n) => ({ n, big: 9007199254740993n }));
      const { inserted, batches } = await api.insert('clicks', records);
      const { rows } = await api.sql<{ n: number }>`SELECT count(*) AS n FROM clicks WHERE n < ${500}`;
      const exact = await api.query<{ big: bigint }>('SELECT big FROM clicks LIMIT 1', [], { integers: 'bigint' });
      let streamed = 0;
      for await (const row of api.sqlStream<{ n: number }>('SELECT n FROM clicks')) streamed += row.n;
      return { isSecure: isSecureContext, inserted, batches, rows, big: String(exact.rows[0]?.big), streamed };
    }, project.token);
    expect(seen).toEqual({
      isSecure: false,
      inserted: 1_000,
      batches: 4,
      rows: [{ n: 500 }],
      big: '9007199254740993',
      streamed: 499_500,
    });
    expect(await project.rows('SELECT count(*) AS n, min(big)::text AS big FROM clicks')).toEqual([
      { n: 1_000, big: '9007199254740993' },
    ]);
  });

  it('throws the same errors, and ends a stream when its loop exits', async () => {
    const seen = await page.evaluate(async (token) => {
      const api = new cdp.CdpClient({ url: location.origin, token });
      const error = await api.insert('clicks', [{ n: 1 }, { m: 2 }]).catch((thrown: unknown) => thrown);
      let first: unknown;
      for await (const row of api.sqlStream('SELECT n FROM generate_series(1, 10000000) AS n')) {
        first = row;
        break;
      }
      const abort = new AbortController();
      setTimeout(() => abort.abort(), 100);
      const late = await api
        .query('SELECT pg_sleep(30)', [], { signal: abort.signal })
        .catch((thrown: unknown) => (thrown as client.CdpError).code);
      const { code, status, errors } = error as client.CdpError;
      return { first, isOurs: error instanceof cdp.CdpError, code, status, record: errors[0]?.record, late };
    }, project.token);
    expect(seen).toEqual({
      first: { n: 1 },
      isOurs: true,
      code: 'unknown_column',
      status: 400,
      record: 1,
      late: 'aborted',
    });
  });

  it('of another origin, names the setting that allows the origin', async () => {
    const other = await openPage(browser, service.url);
    await other.page.goto(`${service.url}/docs`);
    const { code } = await bundleClient();
    await other.page.evaluate(`${code}; globalThis.cdp = cdp`);
    const seen = await other.page.evaluate(
      async ([url, token]) => {
        const api = new cdp.CdpClient({ url, token, maxRetries: 0 });
        const error = (await api.tables().catch((thrown: unknown) => thrown)) as client.CdpError;
        return { code: error.code, message: error.message };
      },
      [byName(service.url), project.token] as const,
    );
    await other.close();
    expect(seen.code).toBe('network_error');
    expect(seen.message).toContain(
      `No response (if the service is running, its setting cors-origins must allow ${service.url})`,
    );
  });
});
