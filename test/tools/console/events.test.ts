/** The events of a project in the console: turned on, changed, shown and turned off. */
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
  browser = await launchBrowser();
  visitor = await visit(browser, service, project, { fragment: '#/events' });
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  expect(visitor.complaints).toEqual([]);
  await browser.close();
  await service.close();
});

const button = (name: string) => visitor.page.getByRole('main').getByRole('button', { name, exact: true });
const dialog = (name: string) => visitor.page.getByRole('dialog', { name, exact: true });
const stored = async () => (await project.call('GET', '/api/cdp/events')).body['events'];

describe('events', () => {
  it('are turned on with the defaults, and changed', async () => {
    const { page } = visitor;
    await page.getByRole('heading', { name: 'Events are off' }).waitFor();
    expect(await faultsOfLooks(visitor, 'no-events')).toEqual([]);
    await button('Turn on').click();
    await dialog('Events').getByText('The request as curl').click();
    expect(await dialog('Events').locator('pre').innerText()).toContain(
      `-d '{"mode":"columns","schema":"closed","ip":true}'`,
    );
    expect(await visitor.axe()).toEqual([]);
    await dialog('Events').getByRole('button', { name: 'Take events' }).click();
    await page.getByText('Each property is a column').waitFor();
    expect(await stored()).toEqual({ mode: 'columns', schema: 'closed', ip: true });

    await button('Change').click();
    await dialog('Events').getByLabel('Properties').selectOption('json');
    await dialog('Events').getByLabel('Keys of web pages').selectOption('open');
    await dialog('Events').getByLabel('Store the addresses').uncheck();
    await dialog('Events').getByRole('button', { name: 'Take events' }).click();
    await page.getByText('not stored', { exact: true }).waitFor();
    expect(await stored()).toEqual({ mode: 'json', schema: 'open', ip: false });
    expect(await faultsOfLooks(visitor, 'events')).toEqual([]);
  });

  it('are turned off, and their tables stay', async () => {
    await button('Turn off').click();
    await dialog('Turn events off').getByText('drop their events for ever').waitFor();
    await dialog('Turn events off').getByRole('button', { name: 'Turn off' }).click();
    await visitor.page.getByRole('heading', { name: 'Events are off' }).waitFor();
    expect(await stored()).toBe(null);
    expect(await project.rows('SELECT count(*) AS n FROM tracks')).toEqual([{ n: 0 }]);
  });

  it('are refused, with the reason, where a table is another one', async () => {
    await project.rows('DROP TABLE pages; CREATE TABLE pages (id int PRIMARY KEY)');
    await button('Turn on').click();
    await dialog('Events').getByRole('button', { name: 'Take events' }).click();
    await dialog('Events').getByRole('alert').getByText('Table "pages"').waitFor();
    await visitor.page.keyboard.press('Escape');
    expect(await stored()).toBe(null);
  });
});
