/** The way of the tutorial by the keyboard alone: a table, rows, a question, a plan, another theme, and the way out. */
import { expect, it } from 'vitest';
import { byName, launchBrowser, openPage } from '../../support/browser.js';
import { startTestService } from '../../support/service.js';

it('takes no mouse', async () => {
  const service = await startTestService();
  const project = await service.project();
  const browser = await launchBrowser();
  try {
    const { page, complaints } = await openPage(browser, byName(service.url), {
      viewport: { width: 1280, height: 800 },
    });
    const press = async (...keys: string[]) => {
      for (const key of keys) await page.keyboard.press(key);
    };
    /** Tab, until what has the focus is called so. */
    const tabTo = async (name: string) => {
      for (let n = 0; n < 60; n++) {
        await press('Tab');
        const focused = await page.evaluate<string>(
          `(() => { const at = document.activeElement; return at.getAttribute('aria-label') ?? at.labels?.[0]?.innerText ?? at.innerText ?? ''; })()`,
        );
        if (focused.trim().startsWith(name)) return;
      }
      throw new Error(`Tab does not reach ${name}`);
    };

    await page.goto(`${byName(service.url)}/console/`);
    await page.keyboard.type(project.token);
    await press('Enter');
    await page.locator('.cm-content').waitFor();
    await expect.poll(() => page.evaluate(`document.activeElement.shadowRoot !== null`)).toBe(true);
    await press('Escape', 'Tab', 'g', 't');
    await page.getByText('No tables yet', { exact: true }).waitFor();

    await tabTo('New table');
    await press('Enter');
    await tabTo('Name');
    await page.keyboard.type('customers');
    await tabTo('Name of column 1');
    await page.keyboard.type('email');
    await press('Enter');
    await page.getByRole('heading', { name: 'customers' }).waitFor();

    await press('g', 's');
    await page.locator('.cm-content').waitFor();
    await expect.poll(() => page.evaluate(`document.activeElement.shadowRoot !== null`)).toBe(true);
    await page.keyboard.insertText(`INSERT INTO customers (email) VALUES ('ada@example.com'), ('grace@example.com')`);
    await press('Control+Enter');
    await page.getByRole('alert').waitFor();
    // The first one closes what the completion offers, if it does.
    await press('Escape', 'Escape');
    await tabTo('Turn read-only off');
    await press('Enter');
    await expect.poll(() => project.rows('SELECT count(*) AS n FROM customers')).toEqual([{ n: 2 }]);
    await page.getByText('Done').waitFor();

    await press('g', 't');
    await page.getByRole('heading', { name: '1 table' }).waitFor();
    await press('g', 's');
    await page.locator('.cm-content').waitFor();
    await expect.poll(() => page.evaluate(`document.activeElement.shadowRoot !== null`)).toBe(true);
    await press('Control+A');
    await page.keyboard.insertText('SELECT email FROM customers ORDER BY email');
    await press('Control+Enter');
    await page.getByText('grace@example.com').waitFor();
    await press('Escape', 'Escape');
    await tabTo('Rows');
    await press('ArrowDown', 'Enter');
    await page.getByRole('dialog').getByText('grace@example.com').waitFor();
    await press('Escape', '?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await press('Escape');
    await tabTo('Theme');
    await press('Enter');
    expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('light');
    await tabTo('Leave');
    await press('Enter');
    await page.getByLabel('Token').waitFor();
    expect(complaints).toEqual([]);
  } finally {
    await browser.close();
    await service.close();
  }
});
