/** People in the console: declared, found, handed over and erased, and the receipt. */
import { readFile } from 'node:fs/promises';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { faultsOfLooks, visit, type Visitor } from '../../support/console.js';
import { numbersIn, PEOPLE, WITH_BOTH, WITHOUT_ADA, withPeople } from '../../support/people.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
let visitor: Visitor;
const seenAs = async (...scopes: Parameters<TestProject['tokenWith']>): Promise<Visitor> =>
  visit(browser, service, { token: await project.tokenWith(...scopes) }, { fragment: '#/people' });
beforeAll(async () => {
  service = await startTestService();
  service.engine.erasures.startResuming();
  project = await withPeople(await service.project());
  await project.rows('ALTER TABLE events ADD big numeric; UPDATE events SET big = 12345678901234567890.5');
  browser = await launchBrowser();
  visitor = await seenAs('schema:read', 'schema:write', 'data:write', 'sql:read', 'sql:write', 'subjects:erase');
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  expect(visitor.complaints).toEqual([]);
  await browser.close();
  await service.close();
});

const main = () => visitor.page.getByRole('main');
const button = (name: string) => main().getByRole('button', { name, exact: true });
const dialog = (name: string) => visitor.page.getByRole('dialog', { name, exact: true });

/** What a click lets the browser save. */
const saved = async (label: string, within = main()): Promise<{ name: string; text: string }> => {
  const arrives = visitor.page.waitForEvent('download');
  await within.getByRole('button', { name: label, exact: true }).click();
  const download = await arrives;
  return { name: download.suggestedFilename(), text: await readFile(await download.path(), 'utf8') };
};

const find = async (value: string): Promise<void> => {
  await main().getByLabel('Value').fill(value);
  await button('Find').click();
};

describe('works', () => {
  it('shows what is declared and what is not covered, and declares', async () => {
    const { page } = visitor;
    await page.getByRole('heading', { name: 'Where a person is' }).waitFor();
    await project.rows('CREATE TABLE leads (email text)');
    await button('Change the declaration').click();
    const form = dialog('Where people are');
    const text = form.getByLabel('Declaration');
    await form.getByRole('button', { name: 'Begin with the proposal' }).click();
    await expect.poll(() => text.inputValue()).toContain('"leads"');
    await text.fill(JSON.stringify(PEOPLE));
    expect(await visitor.axe()).toEqual([]);
    await form.getByRole('button', { name: 'Declare', exact: true }).click();
    await page.getByText('Declared; 1 table not covered', { exact: true }).waitFor();
    await main().getByRole('link', { name: 'leads' }).waitFor();
  });

  it('finds a person with every digit, and hands everything over', async () => {
    await find('Ada@Example.com');
    await main().getByText('4 rows in 3 tables').waitFor();
    await main().getByText('events 2 rows').click();
    await main().getByText('12345678901234567890.5').first().waitFor();
    expect(await faultsOfLooks(visitor, 'people')).toEqual([]);
    const { name, text } = await saved('Export');
    expect(name).toBe('person-export.ndjson');
    expect(text.trim().split('\n')).toHaveLength(5);
    expect(text).toContain('"manifest"');
  });

  it('erases after a dry run and a typed confirmation, with the keyboard, and shows the nonce once', async () => {
    const { page } = visitor;
    await button('Erase').focus();
    await page.keyboard.press('Enter');
    const form = dialog('Erase Ada@Example.com');
    await form.getByRole('row', { name: 'events 2 0 0' }).waitFor();
    expect(await visitor.axe()).toEqual([]);
    expect(await numbersIn(project)).toEqual(WITH_BOTH);
    const action = form.getByRole('button', { name: 'Erase for good' });
    await form.getByLabel('to confirm').focus();
    await page.keyboard.type('ada');
    expect(await action.isDisabled()).toBe(true);
    await form.getByLabel('to confirm').fill('');
    await page.keyboard.type('Ada@Example.com');
    await page.keyboard.press('Enter');

    const nonces = dialog('The nonce of the receipt');
    const nonce = (await nonces.locator('pre').textContent()) ?? '';
    expect((await saved('Download', nonces)).text.trim()).toBe(nonce);
    await nonces.getByRole('button', { name: 'Done' }).focus();
    await page.keyboard.press('Enter');
    await main().getByText('done', { exact: true }).waitFor();
    await main().getByText('A second look found nothing.').waitFor();
    expect(await numbersIn(project)).toEqual(WITHOUT_ADA);
    expect(await faultsOfLooks(visitor, 'erasure')).toEqual([]);
    const receipt = await saved('Download receipt');
    expect(receipt.name).toMatch(/^erasure-[0-9a-f-]{36}\.jws$/);
    expect(receipt.text).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    expect(await page.content()).not.toContain(nonce);
    await page.getByRole('link', { name: 'People', exact: true }).first().click();
    await main()
      .getByRole('row', { name: /person done/ })
      .waitFor();
  });
});

describe('refuses', () => {
  it('a declaration, naming every wrong place, and text that is no JSON', async () => {
    await button('Change the declaration').click();
    const form = dialog('Where people are');
    const declare = form.getByRole('button', { name: 'Declare', exact: true });
    await form.getByLabel('Declaration').fill('{"person": ');
    await form.getByText('This is not JSON').waitFor();
    expect(await declare.isDisabled()).toBe(true);
    const columns = { nothing: 'email' };
    const tables = { gone: { columns, erase: 'delete' }, events: { columns, erase: 'delete' } };
    await form.getByLabel('Declaration').fill(JSON.stringify({ person: { identifiers: { email: {} }, tables } }));
    await declare.click();
    await form.getByText('There is no table "gone"').first().waitFor();
    await form.getByText('"events"."nothing" does not exist').waitFor();
    expect(await visitor.axe()).toEqual([]);
    await form.getByRole('button', { name: 'Cancel' }).click();
    expect((await project.call('GET', '/api/cdp/subjects')).body.subjects).toEqual(PEOPLE);
  });

  it('an identifier that matches too much, and what the token may not do', async () => {
    await main().getByLabel('Rows per table').fill('2');
    await project.rows(`INSERT INTO events (user_id) VALUES ('1002'), ('1002')`);
    await find('bob@example.com');
    await main()
      .getByText(/More than 2 rows of "events" match/)
      .waitFor();
    const reader = await seenAs('schema:read', 'sql:read');
    await reader.page.getByLabel('Value').fill('bob@example.com');
    await reader.page.getByRole('button', { name: 'Find', exact: true }).click();
    await reader.page.getByRole('button', { name: 'Export', exact: true }).waitFor();
    for (const hidden of ['Erase', 'Change the declaration'])
      expect(await reader.page.getByRole('button', { name: hidden, exact: true }).count()).toBe(0);
    await reader.close();
  });
});
