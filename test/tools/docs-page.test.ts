/** The documentation page in a real browser: it renders the whole API and asks no other host for anything. */
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findBrowser } from '../support/browser.js';
import { ALL_ROUTES } from '../support/routes.js';
import { startTestService, type TestService } from '../support/service.js';

let service: TestService;
let browser: Browser;
let page: Page;
let origin: string;
let asked: string[];
let complaints: string[];

beforeAll(async () => {
  service = await startTestService();
  // By a name, since browsers are more lenient with loopback than with the hosts that others come to. Without a sandbox,
  // since Chromium refuses to run as root with one; the page is our own.
  const args = ['--no-sandbox', '--host-resolver-rules=MAP docs.example 127.0.0.1'];
  browser = await chromium.launch({ executablePath: findBrowser(), args });
  origin = service.url.replace('127.0.0.1', 'docs.example');
  page = await browser.newPage();
  asked = [];
  complaints = [];
  page.on('request', (request) => void asked.push(request.url()));
  page.on('pageerror', (error) => void complaints.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  page.on('response', (response) => {
    if (response.status() >= 400) complaints.push(`${response.status()} ${response.url()}`);
  });
  await page.goto(`${origin}/docs`);
  await page.locator('.opblock').first().waitFor();
});
afterAll(async () => {
  await browser.close();
  await service.close();
});

describe('the documentation page', () => {
  it('shows every operation', async () => {
    expect(await page.locator('.opblock').count()).toBe(ALL_ROUTES.length);
    const paths = await page.locator('.opblock-summary-path').allInnerTexts();
    const shown = new Set(paths.map((path) => path.replaceAll('\u200b', '')));
    expect(shown).toEqual(new Set(ALL_ROUTES.map(({ url }) => url.replace(/:(\w+)/g, '{$1}'))));
    expect(await page.title()).toBe('CDP Data Engine');
    expect(await page.locator('.topbar').count()).toBe(0);
  });

  it('shows an operation with its example and its errors when it is opened', async () => {
    await page.locator('#operations-schema-createTable .opblock-summary').click();
    const body = page.locator('#operations-schema-createTable .opblock-body');
    await body.locator('.responses-table').first().waitFor();
    expect(await body.getByText('Try it out').count()).toBe(1);
    const text = await body.innerText();
    expect(text).toContain('table_name');
    for (const status of ['201', '400', '401', '403', '409', '503']) expect(text).toContain(status);
    expect(text).toContain('table_exists');
  });

  it('has asked no other host, and nothing has gone wrong', () => {
    expect(asked.length).toBeGreaterThan(3);
    const elsewhere = asked.filter((url) => !url.startsWith(`${origin}/`) && !url.startsWith('data:'));
    expect(elsewhere).toEqual([]);
    expect(complaints).toEqual([]);
  });
});
