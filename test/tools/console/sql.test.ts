/** SQL in the console, with real data: what runs, what comes back, and what never happens on its own. */
import { readFile } from 'node:fs/promises';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { enter, faultsOfLooks, inBrowserStore, visit, type Visitor } from '../../support/console.js';
import { onServer, startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
let visitor: Visitor;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('customers', { email: 'TEXT', age: 'INTEGER', spent: 'FLOAT' });
  await project.rows(
    `INSERT INTO customers (email, age, spent) SELECT 'p' || n || '@example.com', n % 90, n / 4.0 FROM generate_series(1, 1000) AS n`,
  );
  browser = await launchBrowser();
  visitor = await visit(browser, service, project);
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  await browser.close();
  await service.close();
});

const running = (): Promise<number> =>
  onServer(service.server, async (client) => {
    const { rows } = await client.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(55)%' AND pid <> pg_backend_pid()`,
    );
    return rows[0]?.n ?? -1;
  });

describe('the editor', () => {
  it('runs the statement at the cursor, the selection, or everything, with a result for each', async () => {
    const { page, run, write, press, cells } = visitor;
    await run('SELECT 1 AS one;\n\nSELECT 2 AS two');
    expect(await cells()).toEqual([['2']]);
    await page.keyboard.press('Control+Home');
    await press('Control+Enter');
    await expect.poll(cells).toEqual([['1']]);
    await write('SELECT 3; SELECT 4');
    for (let n = 0; n < 'SELECT 4'.length; n++) await page.keyboard.press('Shift+ArrowLeft');
    await press('Control+Enter');
    await expect.poll(cells).toEqual([['4']]);
    await write(`SELECT 'a;b' AS x; SELECT $$;$$ AS y, 5 AS z`);
    await press('Control+Shift+Enter');
    const results = page.getByRole('group', { name: 'Results' }).getByRole('button');
    await expect.poll(() => results.count()).toBe(2);
    expect(await cells()).toEqual([[';', '5']]);
    await results.first().click();
    await expect.poll(cells).toEqual([['a;b']]);
  });

  it('asks for the values of parameters, and distinguishes NULL from empty text', async () => {
    const { page, write, cells } = visitor;
    await write('SELECT $1::int + 1 AS n, $2::text IS NULL AS is_null, $3::text AS empty');
    await page.getByLabel('$1', { exact: true }).fill('41');
    await page.getByLabel('$2 is NULL').check();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await expect.poll(cells).toEqual([['42', 'true', '']]);
  });

  it('marks an error at its position, after characters that JavaScript counts twice', async () => {
    const { page, run } = visitor;
    await run(`SELECT '😀';\nSELECT '😀', amuont FROM customers`);
    await page.getByText('column "amuont" does not exist').waitFor();
    expect(await page.locator('.cm-wrong').allInnerTexts()).toEqual(['amuont']);
    await page.getByRole('button', { name: 'Line 2' }).click();
    await page.keyboard.insertText('x');
    expect(await page.locator('.cm-wrong').count()).toBe(0);
  });

  it('changes nothing in read-only mode, and offers to turn it off', async () => {
    const { page, run } = visitor;
    await run(`UPDATE customers SET age = 200 WHERE email = 'p1@example.com'`);
    await page.getByText('read-only transaction').waitFor();
    const age = () => project.rows(`SELECT age FROM customers WHERE email = 'p1@example.com'`);
    expect(await age()).toEqual([{ age: 1 }]);
    await page.getByRole('button', { name: 'Turn read-only off and run again' }).click();
    await page.getByText('UPDATE', { exact: false }).filter({ hasText: '1 row' }).first().waitFor();
    expect(await age()).toEqual([{ age: 200 }]);
    await page.getByRole('switch', { name: 'Read-only' }).check();
  });

  it.each([
    ['a statement', 'SELECT pg_sleep(55)', 'Control+Enter'],
    ['all statements', 'SELECT 1; SELECT pg_sleep(55); SELECT 2', 'Control+Shift+Enter'],
  ])('stops %s in Postgres', async (_what, sql, keys) => {
    const { page, write } = visitor;
    await write(sql);
    await page.keyboard.press(keys);
    await expect.poll(running).toBe(1);
    await page.getByRole('button', { name: 'Stop' }).click();
    await expect.poll(running).toBe(0);
    await page.getByText('the statement was canceled').waitFor();
  });

  it('draws a plan, and measures it without changing anything', async () => {
    const { page, write } = visitor;
    await write('SELECT c.age, count(*) FROM customers c JOIN customers d USING (id) WHERE c.age > 3 GROUP BY 1');
    await page.keyboard.press('Control+e');
    const plan = page.getByRole('region', { name: 'Plan' });
    await plan.getByText('nothing was run').waitFor();
    await plan
      .getByText(/Scan on customers/)
      .first()
      .waitFor();
    await page.getByRole('button', { name: 'Explain analyze' }).click();
    await plan.getByText(/Ran in/).waitFor();
    expect(await visitor.axe()).toEqual([]);
  });

  it('explains one statement, and marks what is wrong in it at its position', async () => {
    const { page, write } = visitor;
    await write('SELECT amuont FROM customers');
    await page.keyboard.press('Control+e');
    await page.getByText('column "amuont" does not exist').waitFor();
    expect(await page.locator('.cm-wrong').allInnerTexts()).toEqual(['amuont']);
    // Of a selection the first; an EXPLAIN that was typed is none of it.
    await write(`EXPLAIN (COSTS OFF) SELECT age FROM customers; INSERT INTO customers (email) VALUES ('explained')`);
    await page.keyboard.press('Control+A');
    await page.getByRole('button', { name: 'Explain analyze' }).click();
    await page
      .getByRole('region', { name: 'Plan' })
      .getByText(/^Ran in/)
      .waitFor();
    expect(await project.rows(`SELECT 1 FROM customers WHERE email = 'explained'`)).toEqual([]);
  });

  it('downloads each of several results, and sends no parameters with several statements', async () => {
    const { page, write, press } = visitor;
    await write('SELECT 1 AS one; SELECT n FROM generate_series(1, 20000) AS n');
    await press('Control+Shift+Enter');
    await page.getByText('run this statement alone to see all of its rows').waitFor();
    const arrives = page.waitForEvent('download');
    await page.getByRole('button', { name: /Download all/ }).click();
    await page.getByRole('menuitem', { name: /^CSV/ }).click();
    const file = await readFile(await (await arrives).path(), 'utf8');
    expect(file.split(/\r?\n/).slice(0, 2)).toEqual(['n', '1']);
    expect(file.trimEnd().split('\n').length).toBe(20_001);

    const before = visitor.asked.length;
    await write('SELECT $1::int; SELECT 2');
    await press('Control+Shift+Enter');
    await page.getByText('are for a statement that runs alone').waitFor();
    expect(visitor.asked.slice(before).filter((url) => url.endsWith('/api/cdp/sql'))).toEqual([]);
  });

  it('completes tables, their columns and aliases', async () => {
    const { page, write } = visitor;
    const offered = () => page.locator('.cm-tooltip-autocomplete li .cm-completionLabel').allInnerTexts();
    await write('SELECT * FROM ');
    await page.keyboard.type('cust');
    await expect.poll(offered).toContain('customers');
    await page.keyboard.press('Escape');
    await write('SELECT  FROM customers AS c');
    await page.keyboard.press('Control+Home');
    for (let n = 0; n < 7; n++) await page.keyboard.press('ArrowRight');
    await page.keyboard.type('c.sp');
    await expect.poll(offered).toEqual(['spent']);
    await page.keyboard.press('Escape');
  });
});

/** The texts of the tabs in IndexedDB. */
async function keptTabs(page: Page): Promise<string[]> {
  const keys = await inBrowserStore<string[]>(page, 'store.getAllKeys()');
  const values = await inBrowserStore<{ text: string }[][]>(page, 'store.getAll()');
  return values.flatMap((tabs, i) => (keys[i]?.endsWith('/tabs') === true ? tabs.map(({ text }) => text) : []));
}

describe('what the console keeps', () => {
  it('survives a reload: tabs, history and saved queries', async () => {
    const { page, run, write, close } = await visit(browser, service, project);
    await run('SELECT 77 AS kept');
    await page.getByRole('button', { name: 'Save this query' }).click();
    await page.getByLabel('Name').fill('Seventy-seven');
    await page.keyboard.press('Enter');
    await page.getByText('Saved as Seventy-seven').waitFor();
    await write('SELECT 78 AS later');
    await expect.poll(() => keptTabs(page)).toContain('SELECT 78 AS later');
    await page.reload();
    await page.getByLabel('Token').fill(project.token);
    await page.keyboard.press('Enter');
    await page.getByText('78').first().waitFor();
    await page.getByRole('button', { name: 'Saved', exact: true }).click();
    await page
      .getByRole('complementary')
      .getByRole('button', { name: /^Seventy-seven/ })
      .click();
    await page.getByRole('button', { name: 'History', exact: true }).click();
    await page.getByText('SELECT 77 AS kept').first().waitFor();
    await close();
  });

  it('is separate for each window: none overwrites the tabs of another, and each gets its own back', async () => {
    const other = await service.project();
    const first = await visit(browser, service, other);
    await first.write('SELECT 1 AS of_both');
    // Enough for both to know it.
    await expect.poll(() => keptTabs(first.page)).toEqual(['SELECT 1 AS of_both']);
    const page = await first.page.context().newPage();
    await page.goto(first.page.url());
    await enter(page, other.token);
    await page.getByText('of_both').first().waitFor();
    await page.getByRole('button', { name: 'New query' }).click();
    await page.getByRole('textbox', { name: 'SQL', exact: true }).focus();
    await page.keyboard.insertText('SELECT 2 AS of_the_second');
    await expect.poll(() => keptTabs(page)).toContain('SELECT 2 AS of_the_second');
    await first.page.getByRole('button', { name: 'New query' }).click();
    await first.write('SELECT 3 AS of_the_first');
    // What was typed last is kept, even by a page that is left at once.
    await first.page.reload();
    await enter(first.page, other.token);
    await first.page.getByText('of_the_first').first().waitFor();
    await expect
      .poll(async () => (await keptTabs(page)).sort())
      .toEqual(['SELECT 1 AS of_both', 'SELECT 2 AS of_the_second', 'SELECT 3 AS of_the_first']);

    await first.page.getByRole('button', { name: 'Close Query 2' }).last().click();
    await first.page.getByRole('button', { name: 'Undo' }).click();
    await first.page.getByText('of_the').first().waitFor();
    await first.page.getByRole('button', { name: 'Undo' }).waitFor({ state: 'hidden' });
    await expect.poll(async () => (await keptTabs(page)).length).toBe(3);
    await first.close();
  });

  it('ends with the session: running statements are stopped, and are in the history of their own project', async () => {
    const { page, write, close } = await visit(browser, service, project);
    await write('SELECT pg_sleep(55) AS left_alone');
    await page.keyboard.press('Control+Enter');
    await expect.poll(running).toBe(1);
    await page.getByRole('button', { name: 'Leave' }).click();
    await expect.poll(running).toBe(0);
    const other = await service.project();
    await enter(page, other.token);
    await page.getByRole('button', { name: 'History', exact: true }).click();
    await page.getByText('What you run appears here').waitFor();
    await page.getByRole('button', { name: 'Leave' }).click();
    await enter(page, project.token);
    await page.getByRole('button', { name: 'History', exact: true }).click();
    await page
      .getByRole('button', { name: /left_alone.*stopped/s })
      .first()
      .waitFor();
    await close();
  });

  it('accepts a link that is pasted while the screen is open', async () => {
    const { page, close } = await visit(browser, service, project, { fragment: '#/sql' });
    await page.locator('.cm-content').waitFor();
    for (const text of ['first_link', 'second_link']) {
      await page.evaluate(`location.hash = '#/sql?sql=' + encodeURIComponent('SELECT 1 AS ${text}')`);
      await page.locator('.cm-content').getByText(text).waitFor();
    }
    // It opens in a tab of its name, or in a query like others.
    expect(await page.getByRole('button', { name: 'Close Link' }).count()).toBe(0);
    await page.evaluate(`location.hash = '#/sql?sql=SELECT%203&name=three'`);
    await page.locator('.tab.is-current').getByText('three', { exact: true }).waitFor();
    await close();
  });

  it('does not run a link, which is never sent to the service', async () => {
    const sql = `INSERT INTO customers (email) VALUES ('by link')`;
    const fragment = `#/sql?sql=${encodeURIComponent(sql)}`;
    const { page, asked, close } = await visit(browser, service, project, { fragment });
    await page.getByText('by link').waitFor();
    expect(asked.filter((url) => url.endsWith('/api/cdp/sql')).length).toBeLessThanOrEqual(1);
    expect(asked.filter((url) => decodeURIComponent(url).includes('INSERT') && !url.includes('#'))).toEqual([]);
    expect(await project.rows(`SELECT 1 FROM customers WHERE email = 'by link'`)).toEqual([]);
    expect(new URL(page.url()).hash).toBe('#/sql');
    await close();
  });
});

it('the screen violates no axe rule and fits, in both themes at every width, and the browser reported no errors', async () => {
  const own = await visit(browser, service, project);
  const { page, run, complaints, close } = own;
  expect(await faultsOfLooks(own, 'sql')).toEqual([]);
  await run('SELECT email, age, NULL AS nothing FROM customers WHERE age < $1');
  expect(await faultsOfLooks(own, 'sql-error')).toEqual([]);
  await run('SELECT email, age, NULL AS nothing FROM customers');
  expect(await faultsOfLooks(own, 'sql-rows')).toEqual([]);
  await page.getByRole('grid').focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  expect(await faultsOfLooks(own, 'sql-cell')).toEqual([]);
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  expect(await faultsOfLooks(own, 'keys')).toEqual([]);
  expect(complaints).toEqual([]);
  await close();
  expect(visitor.complaints).toEqual([]);
});
