/** Several projects in one console: tokens kept in the browser, the menu that switches, and projects opened by an admin. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { DEFAULT_SCOPES } from '../../../src/contract/names.js';
import { byName, launchBrowser, openPage } from '../../support/browser.js';
import { enter, faultsOfLooks, visit } from '../../support/console.js';
import { call, startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let browser: Browser;
let shop: TestProject;
let warehouse: TestProject;
beforeAll(async () => {
  service = await startTestService();
  shop = await service.project('shop');
  warehouse = await service.project('warehouse');
  await shop.table('customers', { email: 'TEXT' });
  await warehouse.table('boxes', { size: 'TEXT' });
  browser = await launchBrowser();
});
afterAll(async () => {
  await browser.close();
  await service.close();
});

const menu = (page: Page, name: string) => page.getByRole('banner').getByRole('button', { name, exact: true });
const item = (page: Page, name: string | RegExp) => page.getByRole('menuitem', { name });
const local = (page: Page) => page.evaluate<string>('JSON.stringify(localStorage)');

it('keeps tokens in the browser only on request, says what that means, switches between them, and forgets them', async () => {
  const analyst = await service.engine.tokens.create(warehouse.id, { name: 'analyst', scopes: ['schema:read'] });
  const watched = await openPage(browser, byName(service.url), { viewport: { width: 1280, height: 800 } });
  const { page } = watched;
  await page.goto(`${byName(service.url)}/console/#/tables`);
  await page.getByLabel('Keep it in this browser').check();
  await page.getByText('Anyone who uses this browser profile can use it').waitFor();
  expect(await faultsOfLooks(watched, 'enter-keep')).toEqual([]);
  await enter(page, shop.token);
  await page.getByRole('treeitem', { name: 'customers' }).waitFor();
  expect(await local(page)).toContain(shop.token);

  // Another token, kept by the menu.
  await page.getByRole('button', { name: 'Leave' }).click();
  await enter(page, analyst.token);
  expect(await local(page)).not.toContain(analyst.token);
  await menu(page, 'warehouse').focus();
  await page.keyboard.press('Enter');
  await expect.poll(() => page.evaluate("document.activeElement.getAttribute('role')")).toBe('menuitem');
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Tokens in this browser' });
  await dialog.getByRole('button', { name: 'Keep this token in this browser' }).click();
  await dialog.getByRole('button', { name: 'Forget warehouse (analyst)' }).waitFor();
  expect(await faultsOfLooks(watched, 'kept-tokens')).toEqual([]);
  await page.keyboard.press('Escape');

  // The tables are those of the other project, without typing its token; a reload stays there.
  await menu(page, 'warehouse').click();
  expect(await watched.axe()).toEqual([]);
  await item(page, /^shop/).click();
  await menu(page, 'shop').waitFor();
  await page.getByRole('link', { name: 'Tables' }).click();
  await page.getByRole('treeitem', { name: 'customers' }).waitFor();
  expect(await page.getByRole('treeitem').count()).toBe(1);
  await page.reload();
  await menu(page, 'shop').waitFor();

  // A token that has become invalid is removed, and the session stays.
  await service.engine.tokens.revoke(analyst.details.id, {}, BY_ITSELF);
  const isRefused = async () =>
    (await call(service.url, 'GET', '/api/cdp/token', { token: analyst.token })).status === 401;
  await expect.poll(isRefused).toBe(true);
  await menu(page, 'shop').click();
  await item(page, /^warehouse/).click();
  await page.getByText('was removed from this browser').waitFor();
  expect(await local(page)).not.toContain(analyst.token);
  await menu(page, 'shop').waitFor();

  // Kept tokens are offered at the log-in, until all are forgotten.
  await page.getByRole('button', { name: 'Leave' }).click();
  await page.getByRole('region', { name: 'Kept in this browser' }).getByRole('button', { name: /^shop/ }).waitFor();
  expect(await watched.axe()).toEqual([]);
  await page.getByRole('button', { name: 'Forget all' }).click();
  await page.getByRole('region', { name: 'Kept in this browser' }).waitFor({ state: 'detached' });
  expect(await local(page)).not.toContain('cdp_');
  expect(watched.complaints).toEqual([]);
  await watched.close();
});

it('lets an admin open a project with a token for an hour, which is in the audit log, and return', async () => {
  const { token } = await service.engine.tokens.create(null, { name: 'ops' });
  const { page, close, complaints, ...watched } = await visit(browser, service, { token }, { fragment: '#/projects' });
  await page.getByRole('button', { name: 'Open shop' }).click();
  const dialog = page.getByRole('dialog', { name: 'Open shop' });
  expect(await faultsOfLooks({ page, close, complaints, ...watched }, 'open-project')).toEqual([]);
  await dialog.getByRole('button', { name: 'Open', exact: true }).click();
  await page.getByRole('treeitem', { name: 'customers' }).waitFor();
  const made = (await service.engine.tokens.list(shop.id)).find(({ name }) => name === 'console of ops');
  expect(made?.scopes).toEqual(DEFAULT_SCOPES);
  const left = (made?.expiresAt?.getTime() ?? 0) - Date.now();
  expect(left).toBeGreaterThan(0);
  expect(left).toBeLessThanOrEqual(3_600_000);
  expect(await page.evaluate('JSON.stringify([localStorage, sessionStorage])')).not.toContain('cdp_');
  await menu(page, 'shop').click();
  await item(page, 'Back to admin (ops)').click();
  await page.getByRole('heading', { name: 'Projects' }).waitFor();
  await page.getByRole('link', { name: 'Audit log' }).click();
  await page
    .getByRole('row', { name: /token\.create.*shop|shop.*token\.create/ })
    .first()
    .waitFor();

  // When its token ends, the admin is where the project can be opened again.
  await page.getByRole('link', { name: 'Projects' }).click();
  await page.getByRole('button', { name: 'Open shop' }).click();
  await dialog.getByRole('button', { name: 'Open', exact: true }).click();
  await page.getByRole('treeitem', { name: 'customers' }).waitFor();
  const opened = (await service.engine.tokens.list(shop.id)).filter(({ name }) => name === 'console of ops');
  for (const { id } of opened) await service.engine.tokens.revoke(id, {}, BY_ITSELF);
  const said = page.getByText('The token for shop is no longer valid. Open the project again.');
  await expect
    .poll(async () => {
      for (const screen of ['usage', 'tables']) await page.evaluate(`location.hash = '#/${screen}'`);
      return said.isVisible();
    })
    .toBe(true);
  await page.getByRole('link', { name: 'Projects' }).waitFor();
  // The browser says which request was refused.
  expect(complaints.splice(0).every((text) => text.includes('401'))).toBe(true);
  await close();
});
