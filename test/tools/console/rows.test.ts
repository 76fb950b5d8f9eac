/** The rows of a table in the console: page by page, filtered and sorted, beside a whole value, by what a token may see. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { faultsOfLooks, visit, type Visitor } from '../../support/console.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
let visitor: Visitor;
let page: Page;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.rows(
    `CREATE TABLE visits (id bigint PRIMARY KEY, city text, amount numeric, at timestamptz, doc jsonb, bytes bytea)`,
  );
  await project.rows(`INSERT INTO visits SELECT n, CASE WHEN n % 1000 > 0 THEN 'city ' || n % 7 END, n * 9007199254740.993,
      timestamptz '2026-01-01Z' + n * interval '1 min', jsonb_build_object('page', '/p/' || n), '\\xbeef'
    FROM generate_series(1, 200000) AS n`);
  await project.rows(`UPDATE visits SET city = repeat('long ', 1000) WHERE id = 2`);
  await project.rows('CREATE INDEX ON visits (at)');
  await project.rows('ANALYZE visits');
  browser = await launchBrowser();
  visitor = await visit(browser, service, project, { fragment: '#/tables/visits' });
  ({ page } = visitor);
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  expect(visitor.complaints).toEqual([]);
  await browser.close();
  await service.close();
});

const status = (text: string | RegExp, on = page) => on.locator('.rows-bar').getByText(text).waitFor();
const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
const firstCells = async (on: Visitor = visitor) => (await on.cells())[0];

async function filter(column: string, operator: string, value?: string, on = page): Promise<void> {
  await on.getByLabel('Column to filter by').selectOption(column);
  await on.getByLabel('Condition', { exact: true }).selectOption({ label: operator });
  if (value !== undefined) await on.getByRole('textbox', { name: 'Value' }).fill(value);
  await on.getByRole('form', { name: 'Filter' }).getByRole('button', { name: 'Filter' }).click();
}

describe('a table of 200,000 rows', () => {
  it('opens with its first rows, and turns the pages by key', async () => {
    const asked: string[] = [];
    page.on('request', (request) => void (request.url().endsWith('/sql') && asked.push(request.postData() ?? '')));
    await status(/^Rows 1 to 200 of about 200,000/);
    expect(await firstCells()).toEqual([
      '1',
      'city 1',
      '9007199254740.993',
      '2026-01-01T00:01:00Z',
      '{"page": "/p/1"}',
      '\\xbeef',
    ]);
    await press('Next');
    await status(/^Rows 201 to 400/);
    expect((await firstCells())?.[0]).toBe('201');
    await press('Next');
    await status(/^Rows 401 to 600/);
    await press('Previous');
    await status(/^Rows 201 to 400/);
    await press('First');
    await status(/^Rows 1 to 200/);
    expect(asked.filter((body) => body.includes('id > $1'))).toHaveLength(3);
    expect(asked.filter((body) => /offset/i.test(body) || !body.includes('"read_only":true'))).toEqual([]);
  });

  it('is sorted by a click on a title, and says which index is missing', async () => {
    const title = (name: string) => page.getByRole('columnheader', { name }).getByRole('button');
    await title('at').click();
    await title('at').click();
    await expect.poll(firstCells).toEqual(expect.arrayContaining(['200000']));
    expect(await page.getByText(/^No index on/).count()).toBe(0);
    expect(await page.getByRole('columnheader', { name: 'at' }).getAttribute('aria-sort')).toBe('descending');
    await press('Next');
    await status(/^Rows 201 to 400/);
    expect((await firstCells())?.[0]).toBe('199800');
    await title('city').click();
    await page.getByText('No index on “city”: sorting reads the whole table.').waitFor();
    await expect.poll(async () => (await firstCells())?.[1]).toBe('city 0');
    await title('city').click();
    // Descending, NULL comes first, as in Postgres.
    await expect.poll(async () => (await firstCells())?.slice(0, 2)).toEqual(['200000', 'NULL']);
    await press('Next');
    await status(/^Rows 201 to 400/);
    expect((await firstCells())?.[1]).toMatch(/^long /);
    await page.goBack();
    await expect.poll(async () => (await firstCells())?.[1]).toBe('city 0');
    await page.getByRole('link', { name: 'Create it in SQL' }).click();
    await expect.poll(() => page.locator('.cm-content').innerText()).toBe('CREATE INDEX ON data.visits (city, id);');
    await page.goBack();
  });

  it('is filtered by its columns, and a wrong value is refused by name', async () => {
    await page.goto(`${page.url().split('#')[0]}#/tables/visits`);
    await status(/^Rows 1 to 200 of/);
    await filter('amount', '>', '1800000000000000000');
    await page.getByText('No index on “amount”').waitFor();
    await filter('city', 'contains', 'CITY 3');
    await status(/^Rows 1 to \d+ · /);
    const [{ n, id } = {}] = await project.rows(
      `SELECT count(*) AS n, min(id) AS id FROM visits WHERE amount > 1800000000000000000 AND city = 'city 3'`,
    );
    await expect.poll(async () => (await firstCells())?.[0]).toBe(String(id));
    await status(new RegExp(`^Rows 1 to ${n as number} `));
    await press('Remove: amount > 1800000000000000000');
    await press('Remove: city contains CITY 3');
    await filter('city', 'is NULL');
    await expect.poll(async () => (await firstCells())?.[0]).toBe('1000');
    await status(/^Rows 1 to 200 ·/);
    await press('Remove: city is NULL');
    await filter('id', 'is', 'many');
    await page.getByRole('alert').getByText('invalid input syntax for type bigint: "many"').waitFor();
    expect(await faultsOfLooks(visitor, 'rows-refused')).toEqual([]);
    await press('Remove: id is many');
    await status(/^Rows 1 to 200 of/);
  });

  it('is used by the keyboard: the order, and a whole value beside the grid that follows the cursor', async () => {
    const grid = page.getByRole('grid', { name: 'Rows' });
    await grid.focus();
    for (const key of ['ArrowDown', 'ArrowRight', 'Enter']) await page.keyboard.press(key);
    const panel = page.getByRole('complementary', { name: 'Value of city' });
    await panel.getByText('5,000 characters').waitFor();
    expect(await faultsOfLooks(visitor, 'rows-value')).toEqual([]);
    await page.keyboard.press('ArrowUp');
    await panel.getByText('city 1', { exact: true }).waitFor();
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    await page.keyboard.press('o');
    await expect.poll(async () => (await firstCells())?.[1]).toBe('city 0');
    expect(await page.evaluate("document.activeElement.getAttribute('role')")).toBe('grid');
    await page.keyboard.press('o');
    await expect.poll(async () => (await firstCells())?.[1]).toBe('NULL');
    await page.keyboard.press('o');
    await expect.poll(async () => (await firstCells())?.[0]).toBe('1');
  });

  it('opens its statement in SQL, with the values, and all rows that it finds can be saved', async () => {
    await filter('id', '>', '199000');
    await expect.poll(async () => (await firstCells())?.[0]).toBe('199001');
    await page.getByRole('button', { name: 'Download all' }).click();
    const arrives = page.waitForEvent('download');
    await page.getByRole('menuitem', { name: /^CSV/ }).click();
    const download = await arrives;
    expect(download.suggestedFilename()).toBe('visits.csv');
    await press('Next');
    await status(/^Rows 201 to 400/);
    await press('Open in SQL');
    await page.locator('.cm-content').getByText('ORDER BY').waitFor();
    await visitor.press('Control+Enter');
    await page.getByText('200 rows', { exact: true }).first().waitFor();
    expect((await firstCells())?.[0]).toBe('199201');
  });
});

describe('what has no key to page by', () => {
  it('shows its first 500 rows and says so: a view, a table without an index; a partitioned table has pages', async () => {
    await project.rows('CREATE VIEW cities AS SELECT city, count(*) AS n FROM visits WHERE id < 3000 GROUP BY city');
    await project.rows('CREATE TABLE bare AS SELECT n, NULL::text AS nothing FROM generate_series(1, 501) AS n');
    await project.rows('CREATE TABLE parts (day date, n int, PRIMARY KEY (day, n)) PARTITION BY RANGE (day)');
    await project.rows(`CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')`);
    await project.rows(`CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')`);
    await project.rows(`INSERT INTO parts SELECT date '2026-01-30' + n % 3, n FROM generate_series(1, 300) AS n`);
    const own = await visit(browser, service, project, { fragment: '#/tables/bare' });
    await status(/^Rows 1 to 500 .* no unique key to page by/, own.page);
    expect(await own.page.getByRole('group', { name: 'Pages' }).count()).toBe(0);
    await filter('nothing', 'is not NULL', undefined, own.page);
    await own.page.getByText('No row matches.').waitFor();
    await own.page.goto(`${own.page.url().split('#')[0]}#/tables/cities`);
    await status(/^Rows 1 to 9 /, own.page);
    await own.page.goto(`${own.page.url().split('#')[0]}#/tables/parts`);
    await status(/^Rows 1 to 200 /, own.page);
    await own.page.getByRole('button', { name: 'Next' }).click();
    await status(/^Rows 201 to 300 /, own.page);
    expect((await firstCells(own))?.[0]).toBe('2026-02-01');
    await own.close();
  });
});

describe('a token', () => {
  it('with schema:read alone sees the columns, and asks for no rows', async () => {
    const own = await visit(
      browser,
      service,
      { token: await project.tokenWith('schema:read') },
      { fragment: '#/tables/visits' },
    );
    await own.page.getByRole('rowheader', { name: 'amount' }).waitFor();
    expect(await own.page.getByRole('link', { name: 'Rows' }).count()).toBe(0);
    expect(own.asked.filter((url) => url.endsWith('/sql'))).toEqual([]);
    await own.close();
  });

  it('with a role sees the columns and rows that the role may read', async () => {
    const { body } = await project.call('POST', '/api/cdp/schema/role', { body: { name: 'intern' } });
    const { postgres_name: role } = body['role'] as { postgres_name: string };
    await project.rows(`GRANT SELECT (id, city) ON visits TO ${role}`);
    await project.rows(`CREATE POLICY interns ON visits TO ${role} USING (id > 100)`);
    await project.rows('ALTER TABLE visits ENABLE ROW LEVEL SECURITY');
    const own = await visit(
      browser,
      service,
      { token: await project.tokenAs('intern', 'schema:read', 'sql:read') },
      { fragment: '#/tables/visits' },
    );
    await status(/^Rows 1 to 200 /, own.page);
    expect(await firstCells(own)).toEqual(['101', 'city 3']);
    await own.close();
    await project.rows('ALTER TABLE visits DISABLE ROW LEVEL SECURITY');
  });
});

describe('a result of the SQL screen', () => {
  it('is sorted and filtered in the browser, which says if it does not hold all rows', async () => {
    const own = await visit(browser, service, project);
    const { page: sql, run } = own;
    await run(`SELECT n, 'name ' || n % 10 AS name FROM generate_series(1, 300) AS n`);
    const asked = own.asked.length;
    await sql.locator('.grid-sort').first().click();
    await sql.locator('.grid-sort').first().click();
    await expect.poll(async () => (await firstCells(own))?.[0]).toBe('300');
    await sql.getByRole('region', { name: 'Result' }).getByRole('button', { name: 'Filter' }).click();
    await filter('name', 'contains', 'E 7', sql);
    await sql.getByText('30 rows of the 300 held here, by n, descending.').waitFor();
    expect(await firstCells(own)).toEqual(['297', 'name 7']);
    await filter('n', '<', 'few', sql);
    await sql.getByRole('alert').getByText('“few” is not a number').waitFor();
    expect(own.asked.length).toBe(asked);
    expect(await faultsOfLooks(own, 'result-filtered')).toEqual([]);
    await run('SELECT n FROM generate_series(1, 100001) AS n');
    await sql.getByRole('grid').focus();
    await sql.keyboard.press('o');
    await sql.getByText('The query returned more').waitFor();
    await own.close();
  });
});
