/** Refused records that are kept: an import sends them to the quarantine, and the screen brings them back. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { faultsOfLooks, visit, type Visitor } from '../../support/console.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
let folder: string;
const visitors: Visitor[] = [];
beforeAll(async () => {
  service = await startTestService();
  browser = await launchBrowser();
  folder = await mkdtemp(join(tmpdir(), 'cdp-quarantine-'));
});
beforeEach(async () => {
  project = await service.project();
  picturedOnFailure(() => visitors);
});
afterAll(async () => {
  await browser.close();
  await service.close();
  await rm(folder, { recursive: true });
});

async function visitAt(fragment: string, token = project.token): Promise<Visitor> {
  for (const visitor of visitors.splice(0)) await visitor.close();
  const visitor = await visit(browser, service, { token }, { fragment });
  visitors.push(visitor);
  return visitor;
}

const CANARY = '<img src=x onerror=document.title=1>';

/** One record of each kind of fault. */
async function withQuarantine(): Promise<void> {
  await project.table('customers', { email: 'TEXT', age: 'INTEGER' });
  await project.table('orders', { amount: 'FLOAT' });
  const path = (table: string) => `/api/cdp/data/${table}?on_error=quarantine`;
  const customers = [
    { email: 'ada@example.com', age: 36 },
    { emial: 'grace@example.com', age: 37 },
    { email: 'kay@example.com', age: 'unknown' },
    { email: 'alan@example.com', age: CANARY },
  ];
  await project.call('POST', path('customers'), { body: customers });
  await project.call('POST', path('orders'), { body: [{ amount: 'much' }] });
}

const left = async (): Promise<unknown> =>
  (await project.rows('SELECT count(*)::int AS n FROM _cdp.quarantine'))[0]?.['n'];

describe('the quarantine', () => {
  it('shows each record with its errors, and filters them by a URL that can be bookmarked', async () => {
    await withQuarantine();
    const visitor = await visitAt('#/quarantine');
    const { page } = visitor;
    const rows = page.getByRole('region', { name: 'Records' }).locator('tbody').getByRole('row');
    await expect.poll(() => rows.count()).toBe(4);
    await rows.getByText(CANARY).first().waitFor();
    expect(await faultsOfLooks(visitor, 'quarantine')).toEqual([]);
    const choices = (label: string) => page.getByRole('combobox', { name: label }).locator('option').allInnerTexts();
    await expect.poll(() => choices('Table')).toEqual(['all', 'customers', 'orders']);
    expect(await choices('Error code')).toEqual(['all', 'invalid_value', 'unknown_column']);
    expect(await choices('Column')).toEqual(['all', 'age', 'amount', 'emial']);
    await page.getByLabel('Error code').selectOption('unknown_column');
    await page.getByRole('button', { name: 'Apply' }).click();
    await expect.poll(() => rows.count()).toBe(1);
    expect(page.url()).toContain('#/quarantine?error=unknown_column');
    await rows.getByRole('button').click();
    const dialog = page.getByRole('dialog', { name: 'A record for customers' });
    await dialog.getByText('grace@example.com').waitFor();
    await dialog.getByText('unknown_column').waitFor();
    expect(await faultsOfLooks(visitor, 'quarantine-record')).toEqual([]);
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'Clear' }).click();
    await expect.poll(() => rows.count()).toBe(4);
    await page.getByLabel('Table').selectOption('orders');
    await page.getByLabel('To', { exact: true }).fill('2020-01-01T00:00');
    await page.getByRole('button', { name: 'Apply' }).click();
    await page.getByText('No record matches these filters').waitFor();
    expect(await page.title()).not.toBe('1');
  });

  it('counts them by error, leads to each group, and corrects one record in place', async () => {
    await withQuarantine();
    const visitor = await visitAt('#/quarantine');
    const { page } = visitor;
    const groups = page.getByRole('region', { name: 'What is wrong, by count' }).locator('tbody').getByRole('row');
    await expect.poll(() => groups.count()).toBe(3);
    await groups.getByRole('link', { name: 'invalid_value in age' }).click();
    const rows = page.getByRole('region', { name: 'Records' }).locator('tbody').getByRole('row');
    await expect.poll(() => rows.count()).toBe(2);
    await rows.first().getByRole('button').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Correct …' }).click();
    const age = dialog.getByLabel('age, line 1');
    await age.fill('old');
    await dialog.getByRole('button', { name: 'Store' }).click();
    await dialog.getByText('is not an integer').first().waitFor();
    await age.fill('41');
    expect(await faultsOfLooks(visitor, 'quarantine-edit')).toEqual([]);
    await dialog.getByRole('button', { name: 'Store' }).click();
    await page.getByText('1 record stored').waitFor();
    expect(await project.rows("SELECT age FROM customers WHERE email = 'kay@example.com'")).toEqual([{ age: 41 }]);
    expect(await left()).toBe(3);
  });

  it('replays them with other names and fixed values, and discards the rest', async () => {
    await withQuarantine();
    const visitor = await visitAt('#/quarantine?table=customers');
    const { page } = visitor;
    const rows = page.getByRole('region', { name: 'Records' }).locator('tbody').getByRole('row');
    await expect.poll(() => rows.count()).toBe(3);
    // Nothing has changed for them, so they are refused again.
    await page.getByRole('button', { name: 'Try again …' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('0 records stored, 3 refused again').waitFor();
    expect(await left()).toBe(4);

    await rows.filter({ hasText: 'emial' }).getByRole('button').click();
    await dialog.getByRole('button', { name: 'Try again …' }).click();
    await dialog.getByRole('button', { name: 'Rename a key' }).click();
    await dialog.getByLabel('Key').fill('emial');
    await dialog.getByLabel('New name').fill('email');
    await dialog.getByText('The request as curl').click();
    expect(await dialog.locator('pre').innerText()).toContain('"rename":{"emial":"email"}');
    expect(await faultsOfLooks(visitor, 'quarantine-replay')).toEqual([]);
    await dialog.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('1 record stored, 0 refused again').waitFor();
    await expect.poll(() => rows.count()).toBe(2);

    await page.getByRole('button', { name: 'Try again …' }).click();
    await dialog.getByRole('button', { name: 'Set a value' }).click();
    await dialog.getByLabel('Column').fill('age');
    await dialog.getByLabel('Value', { exact: true }).fill('null');
    await dialog.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('2 records stored, 0 refused again').waitFor();
    expect(await project.rows('SELECT email, age FROM customers ORDER BY email')).toEqual([
      { email: 'ada@example.com', age: 36 },
      { email: 'alan@example.com', age: null },
      { email: 'grace@example.com', age: 37 },
      { email: 'kay@example.com', age: null },
    ]);

    await page.getByRole('link', { name: 'Clear' }).click();
    await expect.poll(() => rows.count()).toBe(1);
    await page.getByRole('button', { name: 'Drop …' }).click();
    await dialog.getByRole('button', { name: 'Drop all of them' }).click();
    await page.getByText('Nothing is in quarantine').waitFor();
    expect(await left()).toBe(0);
  });

  it('is shown to users who may read, and can be changed by users who may write', async () => {
    await withQuarantine();
    const { page } = await visitAt('#/quarantine', await project.tokenWith('sql:read'));
    await page.locator('tbody').getByRole('button').first().click();
    await page.getByRole('dialog').getByText('grace@example.com').waitFor();
    expect(await page.getByRole('button', { name: /Try again|Drop/ }).count()).toBe(0);
  });
});

describe('an import', () => {
  it('updates the rows that have the key of a record, and sends refused records to the quarantine', async () => {
    await project.table('people', { email: 'TEXT', age: 'INTEGER', note: 'TEXT' });
    await project.rows('CREATE UNIQUE INDEX ON people (email)');
    await project.rows(`INSERT INTO people (email, age, note) VALUES ('ada@example.com', 35, 'kept')`);
    const file = join(folder, 'people.csv');
    await writeFile(file, 'email,age\nada@example.com,36\ngrace@example.com,37\nkay@example.com,unknown');
    const visitor = await visitAt('#/import/people');
    const { page } = visitor;
    await page.getByLabel('Choose a file to import').setInputFiles(file);
    const key = page.getByRole('combobox', { name: 'Key', exact: true });
    await key.selectOption('email');
    await page.getByLabel('If a row has that key').selectOption('update it');
    await page.getByLabel('Refused records').selectOption('go into the quarantine');
    // A key needs all of its columns.
    await page.getByLabel('Import email').uncheck();
    await expect.poll(() => key.count()).toBe(0);
    await page.getByLabel('Import email').check();
    expect(await key.inputValue()).toBe('email');
    expect(await faultsOfLooks(visitor, 'import-plan')).toEqual([]);
    await page.getByRole('button', { name: 'Import', exact: true }).click();
    await page.locator('.job-numbers [role=status]').getByText('Done').waitFor();
    expect(await faultsOfLooks(visitor, 'import-done')).toEqual([]);
    expect(await project.rows('SELECT email, age, note FROM people ORDER BY email')).toEqual([
      { email: 'ada@example.com', age: 36, note: 'kept' },
      { email: 'grace@example.com', age: 37, note: null },
    ]);
    await page.getByText('1 of them updated').waitFor();
    await page.getByRole('link', { name: '1 in quarantine' }).click();
    await page.getByText('"unknown" is not an integer').waitFor();
  });
});
