/** The roles of a project in the console: created, shown with what SQL has granted them, and dropped with their tokens. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { faultsOfLooks, visit, type Visitor } from '../../support/console.js';
import { call, startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
let visitor: Visitor;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('customers', { email: 'TEXT', country: 'TEXT' });
  await project.table('orders', { total: 'FLOAT' });
  browser = await launchBrowser();
  visitor = await visit(browser, service, project, { fragment: '#/roles' });
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  expect(visitor.complaints).toEqual([]);
  await browser.close();
  await service.close();
});

const rowsOf = (region: string) => visitor.page.getByRole('region', { name: region }).locator('tbody').getByRole('row');
const shownIn = (region: string) => rowsOf(region).allInnerTexts();

/** The name of the intern in SQL. */
async function intern(): Promise<string> {
  const { body } = await project.call('GET', '/api/cdp/schema/role/intern');
  return (body['role'] as { postgres_name: string }).postgres_name;
}

/** Shows the page of the intern as it is now. */
async function showIntern(): Promise<void> {
  const { page } = visitor;
  await page.getByRole('link', { name: 'Roles' }).first().click();
  await page.getByRole('link', { name: 'intern', exact: true }).click();
  await page.getByRole('heading', { name: 'What it may do' }).waitFor();
}

describe('with a token that acts as no role', () => {
  it('a role is created with a comment, and refused if it exists or SQL needs its name', async () => {
    const { page } = visitor;
    await page.getByText('No roles yet').waitFor();
    expect(await faultsOfLooks(visitor, 'no-roles')).toEqual([]);
    const create = page.getByRole('button', { name: 'Create role' });
    const dialog = page.getByRole('dialog', { name: 'New role' });
    await create.click();
    const name = dialog.getByLabel('Name', { exact: true });
    await name.fill('The Intern');
    expect(await dialog.getByRole('button', { name: 'Create role' }).isDisabled()).toBe(true);
    await name.fill('public');
    await dialog.getByRole('button', { name: 'Create role' }).click();
    await dialog.getByRole('alert').getByText('"public" is reserved').waitFor();
    await name.fill('intern');
    await dialog.getByLabel('Comment').fill('Reads two tables');
    await dialog.getByText('The request as curl').click();
    expect(await dialog.locator('pre').innerText()).toContain(`-d '{"name":"intern","comment":"Reads two tables"}'`);
    expect(await visitor.axe()).toEqual([]);
    await dialog.getByRole('button', { name: 'Create role' }).click();
    await page.getByRole('heading', { level: 1, name: 'intern' }).waitFor();
    await page.getByText('It has no rights to any table yet').waitFor();
    await page.getByText('No token acts as it').waitFor();
    expect(await page.locator('main pre').innerText()).toBe(`GRANT SELECT (…) ON … TO ${await intern()};`);

    await page.getByRole('link', { name: 'Roles' }).last().click();
    await create.click();
    await name.fill('intern');
    await dialog.getByRole('button', { name: 'Create role' }).click();
    await dialog.getByRole('alert').getByText('already exists').waitFor();
    await page.keyboard.press('Escape');
    expect(await shownIn('List of roles')).toEqual([`intern\t${await intern()}\tReads two tables\tjust now`]);
    expect(await faultsOfLooks(visitor, 'roles')).toEqual([]);
  });

  it('its page shows what SQL has granted, by column and by policy, and its tokens', async () => {
    const role = await intern();
    await project.rows(`CREATE SCHEMA staging; CREATE TABLE staging."Raw" (id int, "e-mail" text);
      GRANT USAGE ON SCHEMA staging TO ${role};
      GRANT SELECT ("e-mail"), UPDATE (id, "e-mail") ON staging."Raw" TO ${role};
      ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
      GRANT SELECT (id, country), INSERT ON customers TO ${role};
      GRANT SELECT, DELETE ON orders TO ${role}`);
    const token = await project.tokenAs('intern', 'schema:read', 'sql:read');
    await project.tokenAs('intern', 'data:write');
    await call(service.url, 'GET', '/api/cdp/token', { token });
    await showIntern();
    expect(await shownIn('Privileges')).toEqual([
      'customers\tSELECT (id, country), INSERT\tall',
      'orders\tSELECT, DELETE\tby policies',
      'staging."Raw"\tSELECT ("e-mail"), UPDATE (id, "e-mail")\tall',
    ]);
    const tokens = (await shownIn('List of tokens')).map((row) => row.split('\t').slice(1, 3));
    expect(tokens.sort()).toEqual([
      ['data:write', 'never'],
      ['schema:read, sql:read', 'never'],
    ]);
    expect(await faultsOfLooks(visitor, 'role')).toEqual([]);
    await project.rows(`REVOKE ALL ON customers FROM ${role}`);
    await showIntern();
    expect(await rowsOf('Privileges').count()).toBe(2);
  });

  it('the statement for its rights opens in the SQL screen, and is not run', async () => {
    const { page } = visitor;
    await showIntern();
    await page.getByRole('link', { name: 'the SQL screen' }).click();
    await page
      .locator('.cm-content')
      .getByText(`GRANT SELECT (…) ON … TO ${await intern()};`)
      .waitFor();
    expect(await page.locator('.outcome-status').count()).toBe(0);
  });

  it('a role is dropped only after its name is typed, with its tokens and large objects', async () => {
    const { page } = visitor;
    const token = await project.tokenAs('intern', 'sql:write');
    const objects = { sql: 'SELECT lo_create(0), lo_create(0)' };
    expect((await call(service.url, 'POST', '/api/cdp/sql', { token, body: objects })).status).toBe(200);
    await showIntern();
    await page.getByRole('button', { name: 'Drop role' }).click();
    const dialog = page.getByRole('dialog', { name: 'Drop the role intern' });
    const drop = dialog.getByRole('button', { name: 'Drop role' });
    await dialog.getByRole('textbox').fill('inter');
    expect(await drop.isDisabled()).toBe(true);
    await dialog.getByRole('textbox').fill('intern');
    expect(await faultsOfLooks(visitor, 'drop-role')).toEqual([]);
    await drop.click();
    await page.getByText('Role intern dropped: 3 tokens revoked, 2 large objects dropped').waitFor();
    await page.getByText('No roles yet').waitFor();
    expect((await project.call('GET', '/api/cdp/schema/role')).body['roles']).toEqual([]);
    await expect.poll(async () => (await call(service.url, 'GET', '/api/cdp/token', { token })).status).toBe(401);
    await page.goto(page.url().replace(/#.*/, '#/roles/intern'));
    await page.getByRole('alert').getByText('has no role "intern"').waitFor();
    expect(await page.getByRole('button', { name: 'Drop role' }).count()).toBe(0);
  });
});

it('a token that acts as a role does not manage roles, and the bar names its role', async () => {
  const own = await service.project();
  await own.call('POST', '/api/cdp/schema/role', { body: { name: 'partner' } });
  const token = await own.tokenAs('partner', 'schema:read', 'schema:write');
  const { page, asked, close } = await visit(browser, service, { token }, { fragment: '#/roles' });
  await page.getByText(`${own.name} as partner`).waitFor();
  const links = page.getByRole('navigation', { name: 'Screens' }).getByRole('link');
  expect(await links.allInnerTexts()).toEqual(['Tables']);
  expect(asked.filter((url) => url.includes('/role'))).toEqual([]);
  await close();
});
