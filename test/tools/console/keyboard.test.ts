/** The tutorial and the work of an operator, with only the keyboard. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { byName, launchBrowser, openPage, type WatchedPage } from '../../support/browser.js';
import { startTestService, type TestService } from '../../support/service.js';

let service: TestService;
let browser: Browser;
beforeAll(async () => {
  service = await startTestService();
  browser = await launchBrowser();
});
afterAll(async () => {
  await browser.close();
  await service.close();
});

interface Typist extends WatchedPage {
  press: (...keys: string[]) => Promise<void>;
  /** What has the focus, by its name. */
  focused: () => Promise<string>;
  /** Waits until what is called so has the focus, which a dialog gives it. */
  atFocus: (name: string) => Promise<void>;
  /** Tab, until what is called so has the focus. */
  tabTo: (name: string) => Promise<void>;
}

async function typist(token: string): Promise<Typist> {
  const opened = await openPage(browser, byName(service.url), { viewport: { width: 1280, height: 800 } });
  const { page } = opened;
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  const focused = () => focusedIn(page);
  const tabTo = async (name: string) => {
    for (let n = 0; n < 60; n++) {
      await press('Tab');
      if ((await focused()).startsWith(name)) return;
    }
    throw new Error(`Tab does not reach ${name}`);
  };
  await page.goto(`${byName(service.url)}/console/`);
  await page.keyboard.type(token);
  await press('Enter');
  return { ...opened, press, focused, atFocus: (name) => expect.poll(focused).toBe(name), tabTo };
}

async function focusedIn(page: Page): Promise<string> {
  const name = await page.evaluate<string>(
    `(() => { const at = document.activeElement; return at.getAttribute('aria-label') ?? at.labels?.[0]?.innerText ?? at.innerText ?? ''; })()`,
  );
  return name.trim();
}

it('the tutorial can be done with the keyboard alone', async () => {
  const project = await service.project();
  const { page, complaints, press, tabTo, atFocus } = await typist(project.token);
  /** The editor, which is in a shadow root. */
  const atEditor = async () => {
    await page.locator('.cm-content').waitFor();
    await expect.poll(() => page.evaluate(`document.activeElement.shadowRoot !== null`)).toBe(true);
  };
  await atEditor();
  await press('Escape', 'Tab', 'g', 't');
  await page.getByText('No tables yet', { exact: true }).waitFor();

  await tabTo('New table');
  await press('Enter');
  await atFocus('Name');
  await page.keyboard.type('customers');
  await tabTo('Name of column 1');
  await page.keyboard.type('email');
  await press('Enter');
  await page.getByRole('heading', { name: 'customers' }).waitFor();

  await press('g', 's');
  await atEditor();
  await page.keyboard.insertText(`INSERT INTO customers (email) VALUES ('ada@example.com'), ('grace@example.com')`);
  await press('Control+Enter');
  await page.getByRole('alert').waitFor();
  await press('Escape');
  await tabTo('Turn read-only off');
  await press('Enter');
  await expect.poll(() => project.rows('SELECT count(*) AS n FROM customers')).toEqual([{ n: 2 }]);
  await page.getByText('Done').waitFor();

  await press('g', 't');
  await page.getByRole('heading', { name: '1 table' }).waitFor();
  await press('g', 's');
  await atEditor();
  await press('Control+A');
  await page.keyboard.insertText('SELECT email FROM customers ORDER BY email');
  await press('Control+Enter');
  await page.getByText('grace@example.com').waitFor();
  await press('Escape');
  await tabTo('Rows');
  await press('ArrowDown', 'Enter');
  await page.getByRole('dialog').getByText('grace@example.com').waitFor();
  await press('Escape', 'g', 'i');
  await page.getByRole('heading', { name: 'Import a file' }).waitFor();
  // Before the keys: the browser may take the next key before it knows that the test wants the dialog.
  const chooser = page.waitForEvent('filechooser');
  await tabTo('Choose a file to import');
  await press('Enter');
  // The dialog of the system is not the page's.
  const buffer = Buffer.from('email,age\nada@example.com,36\nlinus@example.com,old');
  await (await chooser).setFiles({ name: 'people.csv', mimeType: 'text/csv', buffer });
  await page.getByRole('row', { name: /linus/ }).waitFor();
  await tabTo('Type of age');
  await page.keyboard.type('INTEGER');
  await tabTo('Create the table and import');
  await press('Enter');
  await page.getByText('Sent, with records to correct').waitFor();
  await tabTo('age, line 3');
  await press('Control+A');
  await page.keyboard.type('55');
  for (let n = 0; (await focusedIn(page)) !== 'Send 1 corrected record' && n < 10; n++) await press('Shift+Tab');
  await press('Enter');
  await expect
    .poll(() => project.rows('SELECT email, age FROM people ORDER BY age'))
    .toEqual([
      { email: 'ada@example.com', age: 36 },
      { email: 'linus@example.com', age: 55 },
    ]);
  await press('g', 's');
  await atEditor();
  await press('Escape', 'Tab', '?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await press('Escape');
  await tabTo('Theme');
  await press('Enter');
  expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('light');
  await tabTo('Leave');
  await press('Enter');
  await page.getByLabel('Token').waitFor();
  expect(complaints).toEqual([]);
});

it('an operator can create a project and a token, set its expiry and read the audit log with the keyboard alone', async () => {
  const { token } = await service.engine.tokens.create(null, { name: 'ops' });
  const { page, complaints, press, tabTo, atFocus } = await typist(token);
  await page.getByRole('heading', { name: 'Projects' }).waitFor();
  await tabTo('New project');
  await press('Enter');
  await atFocus('Name');
  await press('Escape');
  await atFocus('New project');
  await press('Enter');
  await atFocus('Name');
  await page.keyboard.type('shop');
  await press('Enter');
  await page.getByRole('heading', { name: 'shop active' }).waitFor();

  await tabTo('New token');
  await press('Enter');
  await atFocus('Name');
  await page.keyboard.type('analyst');
  await press('Enter');
  await page.getByRole('dialog', { name: 'The new token' }).waitFor();
  await atFocus('Copy');
  await tabTo('Done');
  await press('Enter');
  await atFocus('New token');
  await tabTo('Revoke analyst');
  await press('Enter');
  await atFocus('End its running requests too');
  await tabTo('Revoke');
  await press('Enter');
  await expect.poll(() => page.getByRole('row', { name: /analyst/ }).innerText()).toContain('revoked');

  await press('g', 'r');
  await page.getByRole('heading', { name: 'Nothing is running' }).waitFor();
  await press('g', 'a');
  await page.getByRole('table').waitFor();
  const project = page.getByRole('combobox', { name: 'Project' });
  await project.locator('option', { hasText: 'shop' }).waitFor({ state: 'attached' });
  await tabTo('Project');
  await page.keyboard.type('shop');
  expect(await project.inputValue()).toBe('shop');
  await tabTo('Apply');
  await press('Enter');
  await page.getByRole('link', { name: 'Clear' }).waitFor();
  await tabTo('token.revoke');
  await press('Enter');
  await page.getByRole('dialog', { name: 'token.revoke' }).getByText('request_id').waitFor();
  await press('Escape');
  await atFocus('token.revoke');
  await press('?');
  await page.getByRole('dialog', { name: 'Keys' }).getByText('Go to Health').waitFor();
  await press('Escape', 'g', 'h');
  await page.getByText('Postgres responds').waitFor();
  expect(complaints).toEqual([]);
});
