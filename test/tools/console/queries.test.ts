/** Saved queries in the console: in the project for all its members, and those that a browser has kept before. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Query } from '../../../src/contract/wire/queries.js';
import { launchBrowser } from '../../support/browser.js';
import { enter, faultsOfLooks, inBrowserStore, visit } from '../../support/console.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  browser = await launchBrowser();
});
afterAll(async () => {
  await browser.close();
  await service.close();
});

const queries = async () => (await project.call('GET', '/api/cdp/queries')).body['queries'] as Query[];

describe('a saved query', () => {
  it('is in the project, with who saved it and when, and programs run it', async () => {
    const visitor = await visit(browser, service, project);
    const { page, run, close, complaints } = visitor;
    await run("SELECT 'x' AS a WHERE $1 = 'y'");
    await page.getByRole('button', { name: 'Save this query' }).click();
    await page.getByLabel('Name').fill('Orders of München');
    await page.getByText('Orders-of-Munchen').waitFor();
    expect(await visitor.axe()).toEqual([]);
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved as Orders of München').waitFor();
    await page.getByRole('button', { name: 'Saved', exact: true }).click();
    await page.getByText('by token default, just now').waitFor();
    expect(await faultsOfLooks(visitor, 'saved-queries')).toEqual([]);
    expect(await queries()).toMatchObject([
      {
        ...{ name: 'Orders-of-Munchen', description: 'Orders of München', writes: false },
        parameters: [{ name: 'p1', type: 'TEXT' }],
      },
    ]);
    const ran = await project.call('POST', '/api/cdp/queries/Orders-of-Munchen/run', {
      body: { parameters: { p1: 'y' } },
    });
    expect(ran.body).toMatchObject({ rows: [{ a: 'x' }] });
    await page.getByRole('button', { name: 'Orders of München by token' }).click();
    await page.getByLabel('$1 p1', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Delete the saved query Orders of München' }).click();
    await page.getByText('Query Orders of München deleted').waitFor();
    expect(await queries()).toEqual([]);
    expect(complaints).toEqual([]);
    await close();
  });

  it('of this browser is taken over by one click', async () => {
    const { page, close, complaints } = await visit(browser, service, project);
    const saved = JSON.stringify([
      { id: '1', name: 'By region', text: 'SELECT 1 AS one' },
      { id: '2', name: '2nd', text: 'SELECT 2 AS two' },
    ]);
    await inBrowserStore(page, `store.put(${saved}, '${project.id}/saved')`);
    await page.reload();
    await enter(page, project.token);
    await page.getByRole('button', { name: 'Saved', exact: true }).click();
    await page.getByRole('heading', { name: 'In this browser' }).waitFor();
    await page.getByRole('button', { name: 'Take over into the project' }).click();
    await page.getByText('2 queries saved in the project').waitFor();
    expect((await queries()).map(({ name, sql }) => [name, sql])).toEqual([
      ['By-region', 'SELECT 1 AS one'],
      ['q-2nd', 'SELECT 2 AS two'],
    ]);
    expect(await page.getByRole('heading', { name: 'In this browser' }).count()).toBe(0);
    await page
      .getByRole('complementary')
      .getByRole('button', { name: /^By region/ })
      .click();
    await page.getByText('SELECT 1 AS one').first().waitFor();
    expect(complaints).toEqual([]);
    await close();
  });
});
