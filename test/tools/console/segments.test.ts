/** The segments of a project in the console: made, run, forced, paused and deleted, with their members and changes. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { faultsOfLooks, visit, type Visitor } from '../../support/console.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
let visitor: Visitor;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.rows(
    "CREATE TABLE orders (customer text); INSERT INTO orders VALUES ('ada'), ('joan'), (E'<b>bob</b>')",
  );
  browser = await launchBrowser();
  visitor = await visit(browser, service, project, { fragment: '#/segments' });
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  expect(visitor.complaints).toEqual([]);
  await browser.close();
  await service.close();
});

const button = (name: string) => visitor.page.getByRole('main').getByRole('button', { name, exact: true });
const dialog = (name: string) => visitor.page.getByRole('dialog', { name, exact: true });
const cell = (name: string) => visitor.page.getByRole('main').getByText(name, { exact: true });
const stored = async () => (await project.call('GET', '/api/cdp/segments/buyers')).body['segment'];

describe('a segment', () => {
  it('is made, and shown', async () => {
    const { page } = visitor;
    await page.getByRole('heading', { name: 'No segments yet' }).waitFor();
    expect(await faultsOfLooks(visitor, 'no-segments')).toEqual([]);
    await button('New segment').click();
    const form = dialog('New segment');
    await form.getByLabel('Name').fill('buyers');
    await form.getByLabel('SQL').fill('DELETE FROM orders');
    expect(await visitor.axe()).toEqual([]);
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByRole('alert').getByText('must be one query').waitFor();
    await form.getByLabel('SQL').fill('SELECT customer AS key FROM orders');
    await form.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'buyers' }).waitFor();
    await page.getByText('It has not run yet').waitFor();
    expect(await stored()).toMatchObject({ every: '1h', cron: null, max_change: 20 });
  });

  it('runs now, and shows its members and what has changed', async () => {
    await button('Run now').click();
    await dialog('Run buyers now').getByRole('button', { name: 'Run', exact: true }).click();
    await visitor.page.getByText('It has run: 3 changes').waitFor();
    await visitor.page.getByRole('heading', { name: 'Members: 3' }).waitFor();
    await visitor.page.getByRole('region', { name: 'List of members' }).getByText('<b>bob</b>').waitFor();
    await visitor.page.getByRole('region', { name: 'List of changes' }).getByText('entered').first().waitFor();
    expect(await faultsOfLooks(visitor, 'segment')).toEqual([]);
  });

  it('is refused a run that changes too much, unless the user wants it anyway', async () => {
    await project.rows("DELETE FROM orders WHERE customer <> 'ada'");
    await button('Run now').click();
    const form = dialog('Run buyers now');
    await form.getByRole('button', { name: 'Run', exact: true }).click();
    await form.getByRole('alert').getByText('Of 3 members 2 would leave and 0 enter').waitFor();
    expect(await visitor.axe()).toEqual([]);
    await form.getByRole('button', { name: 'Run anyway' }).click();
    await visitor.page.getByText('It has run: 2 changes').waitFor();
    await visitor.page.getByRole('region', { name: 'List of changes' }).getByText('left').first().waitFor();
    await visitor.page.getByText('sql_error: Of 3 members 2 would leave').waitFor();
    await visitor.page.getByRole('region', { name: 'List of members' }).getByText('ada').waitFor();
    const { text } = await project.call('GET', '/api/cdp/segments/buyers/members', { headers: { accept: 'text/csv' } });
    expect(text).toMatch(/^key,entered_at\nada,.+\n$/);
  });

  it('is paused, changed, listed and deleted', async () => {
    const { page } = visitor;
    await button('Pause').click();
    await dialog('Pause buyers').getByRole('button', { name: 'Pause' }).click();
    await button('Resume').waitFor();
    await button('Change').click();
    const form = dialog('Change buyers');
    await form.getByLabel('Refuse a run').fill('');
    await form.getByLabel('When').selectOption('cron');
    await form.getByRole('button', { name: 'Save' }).click();
    await cell('any number of members').waitFor();
    expect(await stored()).toMatchObject({ cron: '0 3 * * *', max_change: null, paused: true });
    await page.getByRole('link', { name: 'Segments' }).last().click();
    await page.getByRole('cell', { name: 'ok', exact: true }).waitFor();
    expect(await faultsOfLooks(visitor, 'segments')).toEqual([]);
    // A new one does not take the place of another.
    await button('New segment').click();
    const other = dialog('New segment');
    await other.getByLabel('Name').fill('buyers');
    await other.getByLabel('SQL').fill("SELECT 'x' AS key");
    await other.getByRole('button', { name: 'Save' }).click();
    await other.getByRole('alert').getByText('"buyers" is in use').waitFor();
    await other.getByRole('button', { name: 'Cancel' }).click();
    expect(await stored()).toMatchObject({ sql: 'SELECT customer AS key FROM orders' });
    await page.getByRole('link', { name: 'buyers' }).click();
    await button('Delete').click();
    await dialog('Delete buyers').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('heading', { name: 'No segments yet' }).waitFor();
    expect(await stored()).toBeUndefined();
  });
});
