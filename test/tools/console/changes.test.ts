/** The feed of changes in the console: turned on, changed, followed and turned off. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { faultsOfLooks, visit, type Visitor } from '../../support/console.js';
import { startOwnService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
let visitor: Visitor;
beforeAll(async () => {
  service = await startOwnService();
  project = await service.project();
  await project.table('customers', { email: 'TEXT' });
  await project.rows('CREATE TABLE notes (text text)');
  browser = await launchBrowser();
  visitor = await visit(browser, service, project, { fragment: '#/changes' });
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  expect(visitor.complaints).toEqual([]);
  await browser.close();
  await service.close();
});

const button = (name: string) => visitor.page.getByRole('main').getByRole('button', { name, exact: true });
const dialog = (name: string) => visitor.page.getByRole('dialog', { name, exact: true });
const stored = async () => (await project.call('GET', '/api/cdp/feed')).body['feed'];

describe('the feed', () => {
  it('is turned on with the defaults, and shows what it has of each table', async () => {
    const { page } = visitor;
    await page.getByRole('heading', { name: 'The feed is off' }).waitFor();
    expect(await faultsOfLooks(visitor, 'no-changes')).toEqual([]);
    await button('Turn on').click();
    await dialog('Feed of changes').getByText('The request as curl').click();
    expect(await dialog('Feed of changes').locator('pre').innerText()).toContain(
      `-d '{"tables":"all","old":false,"retention_hours":72,"retention_mib":1024}'`,
    );
    expect(await visitor.axe()).toEqual([]);
    await dialog('Feed of changes').getByRole('button', { name: 'Keep changes' }).click();
    await page.getByText('Changes are stored as they are committed').waitFor();
    const tables = page.getByRole('region', { name: 'Tables in the feed' });
    await tables.getByRole('row', { name: /^customers\s+all\s+no/ }).waitFor();
    await tables.getByRole('row', { name: /^notes\s+inserts and truncates only/ }).waitFor();
    expect(await stored()).toMatchObject({ tables: 'all', status: 'reading' });
  });

  it('shows changes as they are committed', async () => {
    const { page } = visitor;
    await page.getByText('Changes appear here').waitFor();
    const rows = page.getByRole('region', { name: 'Last changes' }).getByRole('row');
    // The first request may come after the first of them.
    for (let n = 0; (await rows.count()) === 0 && n < 100; n++) {
      await project.rows(`INSERT INTO customers (email) VALUES ('ada@example.com')`);
      await page.waitForTimeout(100);
    }
    await project.rows('TRUNCATE customers');
    await rows.filter({ hasText: 'truncate' }).waitFor();
    expect(await rows.nth(1).innerText()).toContain('truncate');
    expect(await rows.last().innerText()).toContain('ada@example.com');
    expect(await faultsOfLooks(visitor, 'changes')).toEqual([]);
  });

  it('is changed, and turned off', async () => {
    const { page } = visitor;
    await button('Change').click();
    await dialog('Feed of changes').getByLabel('Tables').fill('customers, missing');
    await dialog('Feed of changes').getByLabel('Hours').fill('5');
    await dialog('Feed of changes').getByRole('button', { name: 'Keep changes' }).click();
    await page.getByText('customers, missing').waitFor();
    expect(await stored()).toMatchObject({ tables: ['customers', 'missing'], retention_hours: 5 });
    await button('Turn off').click();
    await dialog('Turn the feed off').getByText('every cursor expires').waitFor();
    await dialog('Turn the feed off').getByRole('button', { name: 'Turn off' }).click();
    await page.getByRole('heading', { name: 'The feed is off' }).waitFor();
    expect(await stored()).toBe(null);
  });
});
