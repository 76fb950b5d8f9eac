/**
 * The log-in screen of the console: who can log in, where the token is kept, and what a token with few scopes shows.
 */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SCOPES } from '../../../src/contract/names.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { byName, launchBrowser, openPage } from '../../support/browser.js';
import { enter, visit } from '../../support/console.js';
import { endEverything, startServe } from '../../support/program.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('customers', { email: 'TEXT' });
  browser = await launchBrowser();
});
afterAll(async () => {
  await browser.close();
  await endEverything();
  await service.close();
});

/** Everything that the page keeps or shows. */
const traces = (page: Page): Promise<Record<string, string>> =>
  page.evaluate(`(async () => {
    const rows = [];
    for (const { name } of await indexedDB.databases()) {
      const db = await new Promise((done) => { indexedDB.open(name).onsuccess = (event) => done(event.target.result); });
      for (const store of db.objectStoreNames) {
        rows.push(await new Promise((done) => {
          db.transaction(store).objectStore(store).getAll().onsuccess = (event) => done(JSON.stringify(event.target.result));
        }));
      }
      db.close();
    }
    return {
      address: location.href, history: JSON.stringify(history.state), cookies: document.cookie, page: document.documentElement.outerHTML,
      local: JSON.stringify(localStorage), session: JSON.stringify(sessionStorage), database: rows.join(),
    };
  })()`);

describe('the log-in screen', () => {
  it('refuses a wrong token with an explanation, and then accepts the right one', async () => {
    const { page, complaints, close } = await openPage(browser, byName(service.url));
    await page.goto(`${byName(service.url)}/console/`);
    await page.keyboard.press('Enter');
    await page.getByText('Paste a token first.').waitFor();
    await page.keyboard.type('cdp_wrong');
    await page.keyboard.press('Enter');
    await page.getByText('does not know this token').waitFor();
    await enter(page, ` ${project.token}\n`);
    expect(await page.title()).toBe(`SQL · ${project.name} · Console`);
    expect(complaints).toEqual([]);
    await close();
  });

  it('keeps the token only in memory: nothing that the page stores or requests contains it, and a reload forgets it', async () => {
    const { page, asked, run, complaints, close } = await visit(browser, service, project);
    await run('SELECT 1 AS one');
    await page.goto(`${byName(service.url)}/console/#/tables/customers`);
    await page.getByRole('heading', { name: 'customers' }).waitFor();
    for (const [place, text] of Object.entries(await traces(page))) expect(text, place).not.toContain(project.token);
    expect(asked.filter((url) => url.includes(project.token))).toEqual([]);
    await page.reload();
    await page.getByLabel('Token').waitFor();
    expect(complaints).toEqual([]);
    await close();
  });

  it('keeps it in this tab on request, until the user logs out', async () => {
    const { page, close } = await openPage(browser, byName(service.url));
    await page.goto(`${byName(service.url)}/console/`);
    await page.getByLabel('Keep it until this tab is closed').check();
    await enter(page, project.token);
    await page.reload();
    await page.getByRole('navigation', { name: 'Screens' }).waitFor();
    const { session, ...others } = await traces(page);
    expect(session).toContain(project.token);
    for (const [place, text] of Object.entries(others)) expect(text, place).not.toContain(project.token);
    await page.getByRole('button', { name: 'Leave' }).click();
    await page.getByLabel('Token').waitFor();
    expect((await traces(page)).session).not.toContain(project.token);
    await close();
  });

  it('logs out if the token is revoked while it is used', async () => {
    const token = await project.tokenWith('sql:read');
    const { page, write, close } = await visit(browser, service, { token });
    const [details] = (await service.engine.tokens.list(project.id)).filter(({ scopes }) => scopes.length === 1);
    await service.engine.tokens.revoke(details?.id as string, {}, BY_ITSELF);
    await write('SELECT 1');
    await expect
      .poll(async () => {
        await page.keyboard.press('Control+Enter');
        return page.getByText('no longer valid').isVisible();
      })
      .toBe(true);
    await close();
  });
});

it('the token is in no line of the service log, even at the most verbose level', async () => {
  const { databaseUrl, secret } = service.config;
  const child = await startServe(['--log-level', 'trace'], {
    env: { DATABASE_URL: databaseUrl ?? '', CDP_SECRET: secret ?? '' },
  });
  const { page, complaints, close } = await openPage(browser, byName(child.url));
  await page.goto(`${byName(child.url)}/console/`);
  await enter(page, project.token);
  await page.locator('.cm-content').waitFor();
  await page.keyboard.insertText('SELECT 1 AS of_the_log');
  await page.keyboard.press('Control+Enter');
  await page.getByText('Done').waitFor();
  await page.getByRole('link', { name: 'Tables' }).click();
  await page.getByRole('treeitem').first().waitFor();
  await page.getByRole('button', { name: 'Leave' }).click();
  await page.getByLabel('Token').fill(`${project.token}x`);
  await page.keyboard.press('Enter');
  await page.getByText('does not know this token').waitFor();
  await close();
  const { stdout, stderr } = await child.end();
  expect(stdout).toContain('"/api/cdp/sql"');
  expect(stdout + stderr).not.toContain(project.token);
  expect(complaints).toEqual([]);
});

describe('a token with one scope', () => {
  const SCREENS: Record<(typeof SCOPES)[number], string[]> = {
    'schema:read': ['Tables', 'Changes', 'Webhooks', 'People'],
    'schema:write': ['Tables', 'Events', 'Changes', 'Roles'],
    'data:append': [],
    'data:write': [],
    'sql:read': ['SQL', 'Quarantine', 'Changes'],
    'sql:write': ['SQL', 'Changes', 'Schedules', 'Segments'],
    'queries:run': [],
    'subjects:erase': [],
  };
  it.each(SCOPES)('%s: shows what it may use, and no request of the page is refused', async (scope) => {
    const token = await project.tokenWith(scope);
    const { page, asked, complaints, run, axe, close } = await visit(browser, service, { token });
    const refused: string[] = [];
    page.on('response', (response) => void (response.status() === 403 && refused.push(response.url())));
    const links = page.getByRole('navigation', { name: 'Screens' }).getByRole('link');
    expect(await links.allInnerTexts()).toEqual(SCREENS[scope]);
    if (SCREENS[scope].length === 0) await page.getByText('Nothing to show for this token').waitFor();
    if (scope === 'schema:read') {
      await page.getByText('customers', { exact: true }).click();
      await page.getByRole('heading', { name: 'customers' }).waitFor();
      expect(
        await page
          .getByRole('main')
          .getByRole('button', { name: /Add|Rename|Drop|Change|New table|Query/ })
          .count(),
      ).toBe(0);
    }
    if (scope === 'schema:write') {
      await page.getByRole('button', { name: 'New table' }).waitFor();
      await links.filter({ hasText: 'Roles' }).click();
      await page.getByText('This token may not list the roles').waitFor();
      await links.filter({ hasText: 'Events' }).click();
      await page.getByText('This token may not see the settings').waitFor();
      await links.filter({ hasText: 'Changes' }).click();
      await page.getByText('This token may not see the feed').waitFor();
    }
    if (scope.startsWith('sql')) {
      expect(await page.getByRole('switch').count()).toBe(0);
      await run(scope === 'sql:read' ? 'SELECT 1 AS one' : 'CREATE TABLE IF NOT EXISTS made (a int)');
      await page.getByText('Done').waitFor();
    }
    expect(await axe()).toEqual([]);
    expect(refused).toEqual([]);
    expect(complaints).toEqual([]);
    expect(asked.length).toBeGreaterThan(2);
    await close();
  });
});
