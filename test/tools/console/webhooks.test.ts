/** The webhooks of a project in the console: created, tested, paused and deleted. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { faultsOfLooks, visit, type Visitor } from '../../support/console.js';
import { type Endpoint, startEndpoint } from '../../support/endpoint.js';
import { startOwnService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
let visitor: Visitor;
let endpoint: Endpoint;
beforeAll(async () => {
  service = await startOwnService({ 'webhook-networks': '127.0.0.1' });
  project = await service.project();
  await project.table('customers', { email: 'TEXT' });
  await project.call('PUT', '/api/cdp/feed', { body: {} });
  project = await project.seenAnew();
  endpoint = await startEndpoint();
  browser = await launchBrowser();
  visitor = await visit(browser, service, project, { fragment: '#/webhooks' });
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  expect(visitor.complaints).toEqual([]);
  await browser.close();
  await endpoint.close();
  await service.close();
});

const button = (name: string) => visitor.page.getByRole('main').getByRole('button', { name, exact: true });
const dialog = (name: string) => visitor.page.getByRole('dialog', { name, exact: true });
const stored = async () => (await project.call('GET', '/api/cdp/webhooks')).body['webhooks'];

it('creates a webhook, whose secret is shown once, shows what it does, tests, pauses and deletes it', async () => {
  const { page } = visitor;
  await page.getByRole('heading', { name: 'No webhooks yet' }).waitFor();
  expect(await faultsOfLooks(visitor, 'no-webhooks')).toEqual([]);
  await button('Create webhook').click();
  await dialog('New webhook').getByLabel('URL').fill(endpoint.url);
  await dialog('New webhook').getByLabel('Tables').fill('customers, orders');
  expect(await visitor.axe()).toEqual([]);
  await dialog('New webhook').getByRole('button', { name: 'Create webhook' }).click();
  await dialog('The new secret')
    .getByText(/^whsec_/)
    .waitFor();
  await dialog('The new secret').getByRole('button', { name: 'Done' }).click();
  expect(await stored()).toMatchObject([{ url: endpoint.url, tables: ['customers', 'orders'], status: 'active' }]);

  await project.rows("INSERT INTO customers (email) VALUES ('a')");
  await page.getByRole('link', { name: endpoint.url }).click();
  await page.getByText('confirmed with 204').waitFor();
  expect(await faultsOfLooks(visitor, 'webhook')).toEqual([]);
  await button('Test').click();
  await dialog('Test the webhook').getByRole('button', { name: 'Send a test' }).click();
  await page.getByText('Confirmed with 204', { exact: true }).waitFor();
  await button('Pause').click();
  await dialog('Pause the webhook').getByRole('button', { name: 'Pause' }).click();
  await button('Resume').waitFor();
  expect(await stored()).toMatchObject([{ status: 'paused' }]);
  await button('Delete').click();
  await dialog('Delete the webhook').getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('heading', { name: 'No webhooks yet' }).waitFor();
  expect(await stored()).toEqual([]);
});
