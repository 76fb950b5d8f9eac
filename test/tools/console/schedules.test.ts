/** The schedules of a project in the console: made, run, paused, changed and deleted. */
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
  await project.table('t', { name: 'TEXT' });
  browser = await launchBrowser();
  visitor = await visit(browser, service, project, { fragment: '#/schedules' });
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  expect(visitor.complaints).toEqual([]);
  await browser.close();
  await service.close();
});

const button = (name: string) => visitor.page.getByRole('main').getByRole('button', { name, exact: true });
const dialog = (name: string) => visitor.page.getByRole('dialog', { name, exact: true });
const stored = async () => (await project.call('GET', '/api/cdp/schedules/nightly')).body['schedule'];

describe('a schedule', () => {
  it('is made with a pattern of times, and shown', async () => {
    const { page } = visitor;
    await page.getByRole('heading', { name: 'No schedules yet' }).waitFor();
    expect(await faultsOfLooks(visitor, 'no-schedules')).toEqual([]);
    await button('New schedule').click();
    const form = dialog('New schedule');
    await form.getByLabel('Name').fill('nightly');
    await form.getByLabel('SQL').fill("INSERT INTO t (name) VALUES ('x')");
    await form.getByLabel('Time zone').fill('Mars/North');
    expect(await visitor.axe()).toEqual([]);
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByRole('alert').getByText('no time zone').waitFor();
    await form.getByLabel('Time zone').fill('Europe/Berlin');
    await form.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'nightly' }).waitFor();
    await page.getByText('It has not run yet').waitFor();
    expect(await stored()).toMatchObject({ cron: '0 3 * * *', time_zone: 'Europe/Berlin', timeout_ms: 300_000 });
  });

  it('runs now, and shows its run', async () => {
    await button('Run now').click();
    await dialog('Run nightly now').getByRole('button', { name: 'Run' }).click();
    await visitor.page.getByText('It has run: 1 row').waitFor();
    await visitor.page.getByRole('cell', { name: 'ok', exact: true }).waitFor();
    expect(await project.rows('SELECT name FROM t')).toEqual([{ name: 'x' }]);
    expect(await faultsOfLooks(visitor, 'schedule')).toEqual([]);
  });

  it('is paused and changed; the list shows a run that has failed', async () => {
    const { page } = visitor;
    await button('Pause').click();
    await dialog('Pause nightly').getByRole('button', { name: 'Pause' }).click();
    await button('Resume').waitFor();
    await button('Change').click();
    const form = dialog('Change nightly');
    await form.getByLabel('SQL').fill('SELECT 1 / 0');
    await form.getByLabel('When').selectOption('every');
    await form.getByLabel('Interval, such as').fill('15m');
    await form.getByRole('button', { name: 'Save' }).click();
    await page.getByText('every 15m').waitFor();
    expect(await stored()).toMatchObject({ cron: null, every: '15m', paused: true });
    await button('Run now').click();
    await dialog('Run nightly now').getByRole('button', { name: 'Run' }).click();
    await dialog('Run nightly now').getByRole('alert').getByText('division by zero').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'Schedules' }).last().click();
    await page.getByText('sql_error: division by zero').waitFor();
    expect(await faultsOfLooks(visitor, 'schedules')).toEqual([]);
  });

  it('is deleted', async () => {
    const { page } = visitor;
    await page.getByRole('link', { name: 'nightly' }).click();
    await button('Delete').click();
    await dialog('Delete nightly').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('heading', { name: 'No schedules yet' }).waitFor();
    expect(await stored()).toBeUndefined();
  });
});
