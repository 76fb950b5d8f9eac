/** What projects have used, on the screen of an operator. */
import { readFile } from 'node:fs/promises';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { inControl } from '../../support/audit.js';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { faultsOfLooks, visit, type Visitor } from '../../support/console.js';
import { startTestService, type TestService } from '../../support/service.js';

let service: TestService;
let browser: Browser;
let visitor: Visitor;
beforeAll(async () => {
  service = await startTestService();
  await inControl(
    service,
    `WITH projects(id, name, factor) AS (VALUES (gen_random_uuid(), 'shop', 1), (gen_random_uuid(), 'warehouse', 10)),
       days AS (SELECT id, name, factor * day AS n, date_trunc('month', now() AT TIME ZONE 'UTC' - interval '1 month')::date + day AS day
         FROM projects, generate_series(1, 2) day),
       stored AS (INSERT INTO cdp.usage SELECT day, id, name, n * 1024, n * 1000 FROM days)
     INSERT INTO cdp.usage_by_way SELECT day, id, 'api', n * 1000, n, 0, 0, 0, 0 FROM days`,
  );
  const { token } = await service.engine.tokens.create(null, { name: 'ops' });
  browser = await launchBrowser();
  visitor = await visit(browser, service, { token }, { fragment: '#/usage' });
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  expect(visitor.complaints).toEqual([]);
  await browser.close();
  await service.close();
});

const rows = () => visitor.page.getByRole('region', { name: 'Usage' }).locator('tbody tr');

it('shows each project by day, sorted as the operator wants, and by month; and downloads it', async () => {
  const { page } = visitor;
  const now = new Date();
  const month = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1, 1)).toISOString().slice(0, 7);
  await page.getByLabel(/^Month/).selectOption(month);
  await page.getByRole('button', { name: 'Apply' }).click();
  await expect.poll(() => rows().count()).toBe(4);
  expect(await faultsOfLooks(visitor, 'usage')).toEqual([]);
  await page.getByRole('button', { name: 'Requests' }).click();
  expect(await rows().first().innerText()).toMatch(/^warehouse\s+\S+-03\s+20,000\s/);
  await page.getByRole('button', { name: 'Requests' }).click();
  await page.getByRole('columnheader', { name: 'Requests' }).and(page.locator('[aria-sort=ascending]')).waitFor();
  await page.getByLabel('Per project and').selectOption('month');
  await page.getByRole('button', { name: 'Apply' }).click();
  await expect.poll(() => rows().count()).toBe(2);
  expect(await rows().filter({ hasText: 'shop' }).innerText()).toMatch(/^shop\s+3,000\s+3\s/);
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download CSV' }).click();
  const csv = await readFile(await (await download).path(), 'utf8');
  expect(csv).toMatch(/^day,project,project_id,requests,/);
  expect(csv).toMatch(new RegExp(`\n${month},warehouse,[^,]+,30000,30,0,0,0,0,30,20480\n`));
});
