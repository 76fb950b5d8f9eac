/** The documentation page in a real browser: it shows the whole API and sends no request to another host. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OPERATIONS } from '../../src/http/api/operations.js';
import { byName, launchBrowser, openPage, type WatchedPage } from '../support/browser.js';
import { startTestService, type TestService } from '../support/service.js';

let service: TestService;
let browser: Browser;
let watched: WatchedPage;

beforeAll(async () => {
  service = await startTestService();
  browser = await launchBrowser();
  const origin = byName(service.url);
  watched = await openPage(browser, origin);
  await watched.page.goto(`${origin}/docs`);
  await watched.page.locator('.opblock').first().waitFor();
});
afterAll(async () => {
  await browser.close();
  await service.close();
});

describe('the documentation page', () => {
  it('shows every operation', async () => {
    expect(await watched.page.locator('.opblock').count()).toBe(OPERATIONS.length);
    const paths = await watched.page.locator('.opblock-summary-path').allInnerTexts();
    const shown = new Set(paths.map((path) => path.replaceAll('\u200b', '')));
    expect(shown).toEqual(new Set(OPERATIONS.map(({ url }) => url.replace(/:(\w+)/g, '{$1}'))));
    expect(await watched.page.title()).toBe('CDP Data Engine');
    expect(await watched.page.locator('.topbar').count()).toBe(0);
  });

  it('shows an operation with its example and its errors when it is opened', async () => {
    await watched.page.locator('#operations-schema-createTable .opblock-summary').click();
    const body = watched.page.locator('#operations-schema-createTable .opblock-body');
    await body.locator('.responses-table').first().waitFor();
    expect(await body.getByText('Try it out').count()).toBe(1);
    const text = await body.innerText();
    expect(text).toContain('table_name');
    for (const status of ['201', '400', '401', '403', '409', '503']) expect(text).toContain(status);
    expect(text).toContain('table_exists');
  });

  it('sends a request with the token from its form', async () => {
    const { page } = watched;
    const { token, name } = await service.project();
    await page.locator('.auth-wrapper .authorize').click();
    const dialog = page.locator('.dialog-ux');
    await dialog.locator('input').fill(token);
    await dialog.getByRole('button', { name: 'Apply credentials' }).click();
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    await page.locator('#operations-token-readToken .opblock-summary').click();
    const body = page.locator('#operations-token-readToken .opblock-body');
    await body.getByText('Try it out').click();
    await body.getByText('Execute').click();
    await body.locator('.live-responses-table', { hasText: name }).waitFor();
  });

  it('has sent no request to another host, and nothing has failed', () => {
    expect(watched.asked.length).toBeGreaterThan(3);
    expect(watched.complaints).toEqual([]);
  });
});
