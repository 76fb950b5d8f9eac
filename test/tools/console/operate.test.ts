/** The console of an operator, with an admin token: projects, tokens, requests, the audit log, health. */
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser, openPage, picturedOnFailure, type WatchedPage } from '../../support/browser.js';
import { faultsOfLooks } from '../../support/console.js';
import { call, onServer, startTestService, type TestService } from '../../support/service.js';

let service: TestService;
let browser: Browser;
let admin: string;
let adminId: string;
let watched: WatchedPage;
let page: Page;

async function enter(options: BrowserContextOptions = {}): Promise<WatchedPage> {
  const opened = await openPage(browser, service.url, options);
  await opened.page.goto(`${service.url}/console/`);
  await opened.page.getByLabel('Token').fill(admin);
  await opened.page.keyboard.press('Enter');
  await opened.page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor();
  return opened;
}

const dialog = () => page.getByRole('dialog');
const go = (screen: string) => page.getByRole('link', { name: screen, exact: true }).click();

beforeAll(async () => {
  service = await startTestService();
  const ops = await service.engine.tokens.create(null, { name: 'ops' });
  admin = ops.token;
  adminId = ops.details.id;
  const shop = await service.project('shop');
  await shop.table('customers', { email: 'TEXT' });
  await service.project('warehouse');
  browser = await launchBrowser();
  watched = await enter();
  ({ page } = watched);
});
beforeEach(() => picturedOnFailure(() => [watched]));
afterAll(async () => {
  await browser.close();
  await service.close();
});

describe('with an admin token', () => {
  it('a project can be created, renamed, deactivated, activated and deleted, each with the request as curl', async () => {
    await page.getByRole('button', { name: 'New project' }).click();
    await dialog().getByLabel('Name').fill('New Shop');
    expect(await dialog().getByRole('button', { name: 'Create' }).isDisabled()).toBe(true);
    await dialog().getByLabel('Name').fill('new-shop');
    await dialog().getByText('The request as curl').click();
    const curl = await dialog().locator('pre').innerText();
    expect(curl).toContain(`'${service.url}/api/cdp/admin/projects'`);
    expect(curl).toContain(`-d '{"name":"new-shop"}'`);
    expect(curl).not.toContain(admin);
    await dialog().getByLabel('Name').press('Enter');
    await page.getByRole('heading', { level: 1, name: 'new-shop active' }).waitFor();

    await page.getByRole('button', { name: 'Rename' }).click();
    await dialog().getByLabel('New name').fill('shop');
    await dialog().getByRole('button', { name: 'Rename' }).click();
    await dialog()
      .getByText(/already/)
      .waitFor();
    await dialog().getByLabel('New name').fill('store');
    await dialog().getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('heading', { level: 1, name: 'store active' }).waitFor();

    await page.getByRole('button', { name: 'Deactivate' }).click();
    await dialog()
      .getByLabel(/End the requests/)
      .check();
    await dialog().getByRole('button', { name: 'Deactivate' }).click();
    await page.getByRole('heading', { level: 1, name: 'store inactive' }).waitFor();
    await page.getByRole('button', { name: 'Activate' }).click();
    await dialog().getByRole('button', { name: 'Activate' }).click();
    await page.getByRole('heading', { level: 1, name: 'store active' }).waitFor();

    await page.getByRole('button', { name: 'Delete' }).click();
    await dialog()
      .getByLabel(/to confirm/)
      .fill('stor');
    expect(await dialog().getByRole('button', { name: 'Delete for good' }).isDisabled()).toBe(true);
    await dialog()
      .getByLabel(/to confirm/)
      .fill('store');
    await dialog().getByRole('button', { name: 'Delete for good' }).click();
    await page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor();
    await expect.poll(() => page.getByRole('table').innerText()).not.toContain('store');
    expect((await service.engine.projects.list()).map(({ name }) => name).sort()).toEqual(['shop', 'warehouse']);
  });

  it('a token can be created, is shown once, works, and can be revoked', async () => {
    await page.getByRole('link', { name: 'shop', exact: true }).click();
    await page.getByRole('button', { name: 'New token' }).click();
    await dialog().getByLabel('Name').fill('analyst');
    // It proposes a token that only reads, for a limited time.
    expect(await dialog().getByLabel('Expires').inputValue()).toBe('90');
    await dialog()
      .getByRole('checkbox', { name: /data:write/ })
      .check();
    await dialog().getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'The new token' }).waitFor();
    const token = await page.locator('[data-token]').innerText();
    const own = await call(service.url, 'GET', '/api/cdp/token', { token });
    expect(own.body).toMatchObject({ token: { name: 'analyst', scopes: ['schema:read', 'data:write', 'sql:read'] } });
    await page.getByRole('button', { name: 'Done' }).click();
    const row = page.getByRole('row', { name: /analyst/ });
    expect(await row.innerText()).toContain('schema:read, data:write, sql:read');
    expect(await page.content()).not.toContain(token);

    await row.getByRole('button', { name: 'Revoke analyst' }).click();
    await dialog().getByRole('button', { name: 'Revoke' }).click();
    await expect.poll(() => row.innerText()).toContain('revoked');
    await expect.poll(async () => (await call(service.url, 'GET', '/api/cdp/token', { token })).status).toBe(401);
  });

  it('a key that may be public takes limits, which the list shows, and a wrong one is named', async () => {
    await page.getByRole('button', { name: 'New token' }).click();
    await dialog().getByLabel('Name').fill('page');
    expect(await dialog().getByLabel('Only into the tables').count()).toBe(0);
    for (const scope of [/schema:read/, /sql:read/]) await dialog().getByRole('checkbox', { name: scope }).uncheck();
    await dialog()
      .getByRole('checkbox', { name: /data:append/ })
      .check();
    await dialog().getByLabel('Only into the tables').fill('clicks');
    await dialog().getByLabel('Only pages of the origins').fill('https://shop.example.com, https://b.example');
    await dialog().getByLabel('Rows a day').fill('many');
    await dialog().getByRole('button', { name: 'Create' }).click();
    await dialog()
      .getByText(/rows_per_day must be/)
      .waitFor();
    await dialog().getByLabel('Rows a day').fill('5000');
    await dialog().getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'The new token' }).waitFor();
    await page.getByRole('button', { name: 'Done' }).click();
    const row = async () => page.getByRole('row', { name: /page/ }).innerText();
    const narrowed = 'only into clicks; pages of https://shop.example.com, https://b.example; 5000 rows a day';
    expect(await row()).toContain(`${narrowed}; not users and accounts`);
  });

  it('a token for servers may be kept from changing users, one for pages may be allowed to', async () => {
    const choose = async (name: string, users: string, origins: string) => {
      await page.getByRole('button', { name: 'New token' }).click();
      await dialog().getByLabel('Name').fill(name);
      for (const scope of [/schema:read/, /sql:read/]) await dialog().getByRole('checkbox', { name: scope }).uncheck();
      await dialog()
        .getByRole('checkbox', { name: /data:append/ })
        .check();
      await dialog().getByLabel('Only pages of the origins').fill(origins);
      await dialog().getByLabel('Its events change').selectOption(users);
      await dialog().getByRole('button', { name: 'Create' }).click();
      await page.getByRole('heading', { name: 'The new token' }).waitFor();
      await page.getByRole('button', { name: 'Done' }).click();
      return page.getByRole('row', { name: new RegExp(name) }).innerText();
    };
    expect(await choose('server', 'off', '')).toContain('not users and accounts');
    expect(await choose('site', 'on', 'https://c.example')).not.toContain('users');
  });

  it('a token can act as a role, which must exist, and the list shows it', async () => {
    const shop = await service.found('shop');
    await shop.call('POST', '/api/cdp/schema/role', { body: { name: 'intern' } });
    expect(await page.getByRole('columnheader', { name: 'Role' }).count()).toBe(0);
    await page.getByRole('button', { name: 'New token' }).click();
    await dialog().getByLabel('Name').fill('of the intern');
    await dialog().getByLabel('Role').fill('interns');
    await dialog().getByRole('button', { name: 'Create' }).click();
    await dialog()
      .getByRole('alert')
      .getByText(/has no role "interns".*intern/)
      .waitFor();
    await dialog().getByLabel('Role').fill('intern');
    await dialog().getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'The new token' }).waitFor();
    const token = await page.locator('[data-token]').innerText();
    expect((await call(service.url, 'GET', '/api/cdp/token', { token })).body).toMatchObject({
      token: { name: 'of the intern', role: 'intern' },
    });
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('columnheader', { name: 'Role' }).waitFor();
    const row = page.getByRole('row', { name: /^of the intern/ });
    expect(await row.getByRole('cell', { name: 'intern', exact: true }).innerText()).toBe('intern');
  });

  it('names that look like HTML stay text, wherever they are shown', async () => {
    const name = `<img src=x onerror="document.title='ran'"><script>document.title='ran'</script>`;
    const { id } = await service.engine.projects.get('shop');
    const { token } = await service.engine.tokens.create(id, { name });
    const headers = { 'x-request-id': 'canary' };
    await call(service.url, 'POST', '/api/cdp/sql', { token, headers, body: { sql: 'SELECT 1' } });
    await page.reload();
    await page.getByLabel('Token').fill(admin);
    await page.keyboard.press('Enter');
    await page.getByRole('rowheader', { name }).waitFor();
    await go('Audit log');
    await expect.poll(() => page.getByRole('table').innerText()).toContain(name);
    expect(await page.title()).not.toBe('ran');
  });

  it('a running request is shown, and can be canceled in Postgres', async () => {
    const { token } = await service.engine.tokens.create((await service.engine.projects.get('shop')).id);
    const sql = 'SELECT pg_sleep(100) AS of_the_console';
    const slow = call(service.url, 'POST', '/api/cdp/sql', { token, body: { sql, timeout_ms: 60_000 } });
    await go('Requests');
    await page.getByRole('button', { name: 'Cancel sql in shop' }).click();
    await dialog().getByRole('button', { name: 'Cancel the request' }).click();
    expect((await slow).body).toMatchObject({ error: 'query_timeout', message: 'An operator canceled the request' });
    await page.getByRole('heading', { name: 'Nothing is running' }).waitFor();
    const { rows } = await onServer(service.server, (client) =>
      client.query(`SELECT 1 FROM pg_stat_activity WHERE query = $1 AND state = 'active'`, [sql]),
    );
    expect(rows).toEqual([]);
  });

  it('servers are shown, and can be checked, drained and activated', async () => {
    await go('Servers');
    const row = page.getByRole('row', { name: /^default/ });
    expect(await row.innerText()).toMatch(/^default\s+active\s+2\s+1\s/);
    const body = { weight: 2.5, max_projects: 40, labels: { region: 'eu' } };
    await call(service.url, 'PUT', '/api/cdp/admin/servers/default', { token: admin, body });
    const change = async (action: string) => {
      await row.getByRole('button', { name: 'default' }).click();
      await dialog()
        .getByRole('button', { name: `${action} …` })
        .click();
      await dialog().getByText('The request as curl').click();
      expect(await dialog().locator('pre').innerText()).toContain('/api/cdp/admin/servers/default');
      await dialog().getByRole('button', { name: action, exact: true }).click();
    };
    await change('Drain');
    await expect.poll(() => row.innerText()).toMatch(/^default\s+draining\s+2 of 40\s+2\.5\s.*region=eu/s);
    await change('Check');
    await page.getByRole('dialog', { name: 'What the check of default found' }).getByText('durability').waitFor();
    await dialog().getByRole('button', { name: 'Done' }).click();
    await change('Activate');
    await expect.poll(() => row.innerText()).toMatch(/^default\s+active/);
    await row.getByRole('button', { name: 'default' }).click();
    await dialog().getByText('labels.region').waitFor();
    await page.keyboard.press('Escape');
    await page.getByText('No project has moved yet').waitFor();
  });

  it('the audit log can be filtered, by a URL that can be bookmarked', async () => {
    await go('Audit log');
    await page.getByRole('table').waitFor();
    // What this console reads would hide what people do.
    await page.getByRole('button', { name: 'token.create' }).first().waitFor();
    expect(await page.getByRole('button', { name: /\.(list|read)$/ }).count()).toBe(0);
    await page.getByRole('combobox', { name: 'Show' }).selectOption('everything');
    await page.getByRole('button', { name: 'Apply' }).click();
    await page.getByRole('button', { name: 'project.list' }).first().waitFor();
    await page.getByRole('link', { name: 'Clear' }).click();
    // A project that is gone is still in the log.
    await page
      .getByRole('combobox', { name: 'Project' })
      .locator('option', { hasText: 'store' })
      .waitFor({ state: 'attached' });
    await page.getByRole('combobox', { name: 'Project' }).selectOption('shop');
    await page.getByRole('combobox', { name: 'Operation' }).selectOption('token.revoke');
    await page.getByRole('button', { name: 'Apply' }).click();
    await expect.poll(() => page.getByRole('row').count()).toBe(2);
    expect(await page.getByRole('row').last().innerText()).toMatch(/token\.revoke\s+ok\s+shop\s+\S+\s+ops/);
    expect(page.url()).toContain('#/audit?project=shop&operation=token.revoke');
    await page.getByRole('link', { name: 'Clear' }).click();
    await expect.poll(() => page.getByRole('row').count()).toBeGreaterThan(5);
    await page.getByRole('combobox', { name: 'Token' }).selectOption({ label: `ops (${adminId.slice(0, 8)})` });
    await page.getByRole('combobox', { name: 'Operation' }).selectOption('token.revoke');
    await page.getByRole('button', { name: 'Apply' }).click();
    await expect.poll(() => page.getByRole('row').count()).toBe(2);
    await page.goto(`${service.url}/console/#/audit?token=00000000-0000-0000-0000-000000000000`);
    await page.getByText('Nothing matches these filters').waitFor();
    expect(await page.getByRole('combobox', { name: 'Token' }).inputValue()).toMatch(/^0+-/);
    await page.getByRole('link', { name: 'Clear' }).click();
    await page.getByRole('table').waitFor();
  });

  it('the health screen shows the metrics, and explains itself if there are none', async () => {
    await go('Health');
    await page.getByText('Postgres responds').waitFor();
    const memory = page.getByRole('img', { name: /^Memory: \d/ });
    await memory.waitFor();
    await page.getByRole('img', { name: /^Requests: \d/ }).waitFor();
    const conditions = await page.getByLabel('Conditions').innerText();
    expect(conditions).toMatch(/Last backup\s+not scheduled\s+Projects that do not start\s+0/);
    // They are still there after another screen.
    await go('Servers');
    await page.route('**/metrics', () => {});
    await go('Health');
    await memory.waitFor();
    await page.unroute('**/metrics');
    const other = await enter();
    let answer: (() => Promise<void>) | undefined;
    await other.page.route('**/metrics', (route) => {
      answer = () => route.fulfill({ status: 404, body: '' });
    });
    await other.page.getByRole('link', { name: 'Health' }).click();
    await other.page.getByText('Taking the first measurements').waitFor();
    await expect.poll(() => answer).toBeDefined();
    await answer?.();
    await other.page.getByText('A proxy in front of the service').waitFor();
    // No chart without a value.
    expect(await other.page.getByRole('img').count()).toBe(0);
    await other.close();
  });

  it('none of it is shown for a token that is not an admin token', async () => {
    const shop = await service.project();
    const other = await openPage(browser, service.url);
    await other.page.goto(`${service.url}/console/#/projects`);
    await other.page.getByLabel('Token').fill(shop.token);
    await other.page.keyboard.press('Enter');
    await other.page.getByRole('link', { name: 'Tables' }).waitFor();
    expect(await other.page.getByRole('link', { name: 'Projects' }).count()).toBe(0);
    expect(other.asked.filter((url) => url.includes('/admin/'))).toEqual([]);
    await other.close();
  });

  it('the browser reported no errors, and the token was stored nowhere', async () => {
    expect(watched.complaints).toEqual([]);
    expect(watched.asked.filter((url) => url.includes(admin))).toEqual([]);
    const kept = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])');
    expect(kept).not.toContain(admin);
  });
});

it('every screen violates no axe rule and fits, in both themes at every width', async () => {
  const name = 'Signup form of the landing page (owned by the growth team, ask before you revoke it) '.repeat(2).trim();
  await service.engine.tokens.create((await service.engine.projects.get('shop')).id, { name });
  const opened = await enter();
  await opened.page.getByRole('table').waitFor();
  expect(await faultsOfLooks(opened, 'projects')).toEqual([]);
  await opened.page.getByRole('link', { name: 'shop', exact: true }).click();
  await opened.page.getByRole('rowheader', { name }).waitFor();
  expect(await faultsOfLooks(opened, 'project')).toEqual([]);
  await opened.page.getByRole('button', { name: 'New token' }).click();
  await opened.page.getByText('The request as curl').click();
  expect(await faultsOfLooks(opened, 'new-token')).toEqual([]);
  await opened.page.keyboard.press('Escape');
  for (const screen of ['servers', 'requests', 'audit', 'health']) {
    await opened.page.goto(`${service.url}/console/#/${screen}`);
    await opened.page.locator('main[aria-busy="false"]').waitFor();
    if (screen === 'health') await opened.page.getByRole('img', { name: /^Requests: \d/ }).waitFor();
    expect(await faultsOfLooks(opened, screen)).toEqual([]);
  }
  await opened.page.goto(`${service.url}/console/#/audit?operation=token.list`);
  await opened.page.getByRole('button', { name: 'token.list' }).first().click();
  await opened.page.getByRole('dialog', { name: 'token.list' }).getByText('request_id').waitFor();
  expect(await faultsOfLooks(opened, 'audit-entry')).toEqual([]);
  expect(opened.complaints).toEqual([]);
  await opened.close();
});
