/** The tables of a project in the console: shown, created, changed and dropped, each with the request that is sent. */
import type { Browser, Request } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { faultsOfLooks, visit, type Visitor } from '../../support/console.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
let visitor: Visitor;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  browser = await launchBrowser();
  visitor = await visit(browser, service, project, { fragment: '#/tables' });
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  expect(visitor.complaints).toEqual([]);
  await browser.close();
  await service.close();
});

/** What `curl` would be told, read from its command. */
function requestIn(curl: string): { method: string; path: string; body: unknown } {
  const [, method = 'POST', url = ''] = /^curl -sS(?: -X (\w+))? '([^']+)'/.exec(curl) ?? [];
  const [, data] = /-d '([^]*)'$/.exec(curl) ?? [];
  const { pathname, search } = new URL(url);
  return {
    method,
    path: pathname + search,
    body: data === undefined ? undefined : (JSON.parse(data.replaceAll(`'\\''`, `'`)) as object),
  };
}

const sent = (request: Request): object => ({
  method: request.method(),
  path: new URL(request.url()).pathname + new URL(request.url()).search,
  body: (request.postDataJSON() ?? undefined) as object | undefined,
});

describe('with forms', () => {
  /** Presses the last button of the dialog; the request that is sent must be the one that was shown. */
  async function submit(name: string): Promise<void> {
    const { page } = visitor;
    const dialog = page.getByRole('dialog');
    await dialog.getByText('The request').click();
    const shown = requestIn(await dialog.locator('pre').innerText());
    expect(await visitor.axe()).toEqual([]);
    const [request] = await Promise.all([
      page.waitForRequest((candidate) => candidate.method() !== 'GET' && candidate.url().includes('/schema/')),
      dialog.getByRole('button', { name, exact: true }).click(),
    ]);
    expect(sent(request)).toEqual(shown);
    await dialog.waitFor({ state: 'detached' });
  }

  it('creates a table in an empty project', async () => {
    const { page } = visitor;
    await page.getByText('No tables yet', { exact: true }).waitFor();
    expect(await faultsOfLooks(visitor, 'no-tables')).toEqual([]);
    await page.getByRole('button', { name: 'Create a table' }).click();
    await page.getByLabel('Name', { exact: true }).fill('people');
    await page.getByLabel('Name of column 1').fill('email');
    await page.getByRole('button', { name: 'Another column' }).click();
    await page.getByLabel('Name of column 2').fill('age');
    await page.getByLabel('Column 1 is unique').check();
    await page.getByLabel('Comment').fill("People's ages");
    await submit('Create table');
    await page.getByRole('heading', { name: 'people' }).waitFor();
    await page.getByText("People's ages").waitFor();
    await expect.poll(() => page.getByRole('row', { name: /^email/ }).innerText()).toContain('unique');
    expect((await project.call('GET', '/api/cdp/schema/table/people')).body.table).toMatchObject({
      comment: "People's ages",
      columns: [{ name: 'id' }, { name: 'email', type: 'TEXT' }, { name: 'age', type: 'TEXT' }],
    });
  });

  it('adds a column, and says why it refuses an existing one', async () => {
    const { page } = visitor;
    const add = page.getByRole('button', { name: 'Add column' });
    await add.click();
    await page.getByLabel('Name', { exact: true }).fill('email');
    await page.getByRole('dialog').getByRole('button', { name: 'Add column' }).click();
    await page.getByRole('alert').getByText('Nothing was changed').waitFor();
    await page.getByLabel('Name', { exact: true }).fill('city');
    await submit('Add column');
    await page.getByRole('rowheader', { name: 'city' }).waitFor();
  });

  it('changes only the comment of id', async () => {
    const { page } = visitor;
    await page.getByRole('button', { name: 'Change id' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Comment').fill('Made by the service');
    expect(await dialog.getByRole('textbox').count()).toBe(1);
    expect(await dialog.getByRole('combobox').count()).toBe(0);
    await submit('Change column');
    await page.getByText('Made by the service').last().waitFor();
  });

  it('changes a type: tries it first, counts the values that prevent it, and replaces them', async () => {
    const { page } = visitor;
    await project.rows(
      `INSERT INTO people (email, age) SELECT 'p' || n, CASE WHEN n <= 3 THEN 'old' WHEN n = 4 THEN 'n/a' ELSE n::text END FROM generate_series(1, 100) AS n`,
    );
    await page.getByRole('button', { name: 'Change age' }).click();
    await page.getByRole('combobox', { name: 'Type' }).selectOption('INTEGER');
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: /^Try/ }).click();
    await dialog.getByText('4 values of "age"').waitFor();
    await dialog.getByLabel('old').fill('99');
    await dialog.getByLabel('n/a').fill('0');
    await dialog.getByRole('button', { name: /^Try/ }).click();
    await dialog.getByText('This would work.').waitFor();
    expect(await project.rows(`SELECT count(*) AS n FROM people WHERE age = 'old'`)).toEqual([{ n: 3 }]);
    await submit('Change column');
    expect(await project.rows('SELECT count(*) AS n FROM people WHERE age = 99')).toEqual([{ n: 4 }]);
    await page.getByRole('row', { name: /age INTEGER/ }).waitFor();
  });

  it('renames and comments', async () => {
    const { page } = visitor;
    await page.getByRole('button', { name: 'Rename or comment' }).click();
    await page.getByLabel('Name', { exact: true }).fill('persons');
    await page.getByLabel('Comment').fill('Renamed');
    await submit('Change table');
    await page.getByRole('heading', { name: 'persons' }).waitFor();
    await page.getByText('Renamed', { exact: true }).waitFor();
  });

  it('sets NOT NULL, a default and unique, and removes them', async () => {
    const { page } = visitor;
    const change = () => page.getByRole('button', { name: 'Change city' }).click();
    const pick = (label: string, option: string) =>
      page.getByRole('combobox', { name: label, exact: true }).selectOption(option);
    const rules = () => page.getByRole('row', { name: /^city/ }).innerText();
    await project.rows(`UPDATE persons SET city = 'c' || age || email`);
    await change();
    await pick('NULL', 'rejected');
    await pick('Values', 'unique');
    await pick('Default', 'a value');
    await page.getByLabel('Default value').fill("O'Fallon");
    await submit('Change column');
    await expect.poll(rules).toContain(`NOT NULL, unique, default 'O''Fallon'::text`);
    await change();
    await pick('NULL', 'accepted');
    await pick('Values', 'may repeat');
    await pick('Default', 'none');
    await submit('Change column');
    await expect.poll(rules).not.toMatch(/NOT NULL|unique|default/);
  });

  it('accepts a default only if it is a value of the type', async () => {
    const { page } = visitor;
    await page.getByRole('button', { name: 'Change age' }).click();
    const change = page.getByRole('dialog').getByRole('button', { name: 'Change column' });
    await page.getByRole('combobox', { name: 'Default', exact: true }).selectOption('a value');
    expect(await change.isDisabled()).toBe(true);
    await page.getByLabel('Default value').fill('9007199254740993');
    await submit('Change column');
    await expect.poll(() => page.getByRole('row', { name: /^age/ }).innerText()).toContain('9007199254740993');
  });

  it('creates an index, shows why one cannot be created, and drops it', async () => {
    const { page } = visitor;
    const pick = (n: number, column: string) =>
      page.getByRole('combobox', { name: `Column ${n}` }).selectOption(column);
    const row = page.getByRole('row', { name: /^by_age_and_city/ });
    await page.getByRole('button', { name: 'New index' }).click();
    const dialog = page.getByRole('dialog');
    await pick(1, 'age');
    await dialog.getByRole('checkbox', { name: /^Unique/ }).check();
    await dialog.getByRole('button', { name: /^Try/ }).click();
    await dialog.getByRole('alert').getByText('unique_violation').waitFor();
    await pick(2, 'city');
    await dialog.getByLabel('Name').fill('by_age_and_city');
    await dialog.getByRole('button', { name: /^Try/ }).click();
    await dialog.getByText('This would work.').waitFor();
    await submit('Create index');
    await expect.poll(() => row.innerText()).toMatch(/age, city\s+unique/);
    expect(await faultsOfLooks(visitor, 'table')).toEqual([]);
    expect(
      await page
        .getByRole('row', { name: /primary key/ })
        .getByRole('button')
        .count(),
    ).toBe(0);
    await row.getByRole('button', { name: 'Drop the index by_age_and_city' }).click();
    await submit('Drop index');
    await row.waitFor({ state: 'detached' });
  });

  it('drops a column and a table only after their name is typed', async () => {
    const { page } = visitor;
    await page.getByRole('button', { name: 'Drop city' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('button', { name: 'Drop column' }).isDisabled()).toBe(true);
    await dialog.getByRole('textbox').fill('city');
    await submit('Drop column');
    await page.getByRole('rowheader', { name: 'city' }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Drop', exact: true }).click();
    await dialog.getByRole('textbox').fill('person');
    expect(await dialog.getByRole('button', { name: 'Drop table' }).isDisabled()).toBe(true);
    await dialog.getByRole('textbox').fill('persons');
    await submit('Drop table');
    await page.getByText('No tables yet', { exact: true }).waitFor();
    expect((await project.call('GET', '/api/cdp/schema')).body.tables).toEqual([]);
  });
});

describe('names and comments that look like markup', () => {
  it('are text, in the list, on the page, in dialogs and in completions', async () => {
    const canary = `"><img src=x onerror=window.hit=1>`;
    const name = canary.replaceAll('"', '""');
    await project.rows(`CREATE TABLE "${name}" ("${name}" text)`);
    await project.rows(`COMMENT ON TABLE "${name}" IS '${canary}'`);
    await project.rows(`COMMENT ON COLUMN "${name}"."${name}" IS '${canary}'`);
    const { page, write, axe, complaints, close } = await visit(browser, service, project, { fragment: '#/tables' });
    await page.getByRole('treeitem').first().click();
    await page.getByRole('heading', { name: canary }).waitFor();
    // The name is not one that the API can make, so there is no form that would fail.
    expect(await page.getByRole('button', { name: /Add column|Rename|Drop/ }).count()).toBe(0);
    expect(await axe()).toEqual([]);
    await page.getByRole('button', { name: 'Open in SQL' }).click();
    await page.getByText('LIMIT 500').waitFor();
    await page.getByRole('button', { name: `Close ${canary}` }).waitFor();
    await page.getByRole('treeitem').first().click();
    await write(`SELECT * FROM ${canary.slice(0, 1)}`);
    await page.keyboard.type('">');
    await write('SELECT ');
    await page.keyboard.press('Control+Space');
    await page.locator('.cm-tooltip-autocomplete').getByText('onerror').first().waitFor();
    expect(await page.evaluate('window.hit')).toBeUndefined();
    expect(complaints).toEqual([]);
    await project.rows(`DROP TABLE "${name}"`);
    await close();
  });
});

describe('10,000 tables', () => {
  it('are listed, found and completed while the page contains only the visible ones', async () => {
    for (let from = 0; from < 10_000; from += 1_000) {
      await project.rows(
        `DO $$ BEGIN FOR n IN ${from}..${from + 999} LOOP EXECUTE format('CREATE TABLE t%s (c%s int, name text)', n, n); END LOOP; END $$`,
      );
    }
    const { page, write, axe, complaints, close } = await visit(browser, service, project, { fragment: '#/tables' });
    await page.getByRole('heading', { name: '10,000 tables' }).waitFor();
    expect(await page.getByRole('treeitem').count()).toBeLessThan(80);
    await page.getByRole('searchbox').fill('c9876');
    await page.getByText('t9876', { exact: true }).click();
    await page.getByRole('heading', { name: 't9876' }).waitFor();
    expect(await axe()).toEqual([]);
    await page.getByRole('link', { name: 'SQL' }).click();
    await page.locator('.cm-content').waitFor();
    await write('SELECT * FROM ');
    await page.keyboard.type('t4321');
    await expect.poll(() => page.locator('.cm-completionLabel').allInnerTexts()).toEqual(['t4321']);
    expect(complaints).toEqual([]);
    await close();
  });

  it('with more columns than one response can hold are listed by name, and read when they are opened', async () => {
    const wide = await service.project();
    for (let from = 0; from < 120; from += 20) {
      await wide.rows(`DO $$ BEGIN FOR i IN ${from}..${from + 19} LOOP
        EXECUTE format('CREATE TABLE wide_%s (%s)', i, (SELECT string_agg('c' || n || ' text', ', ') FROM generate_series(1, 500) n)); END LOOP; END $$`);
    }
    expect((await wide.call('GET', '/api/cdp/schema')).status).toBe(400);
    const { page, complaints, close } = await visit(browser, service, wide, { fragment: '#/tables' });
    await page.getByRole('heading', { name: '120 tables' }).waitFor();
    await page.getByRole('searchbox').fill('wide_77');
    await page.getByRole('treeitem').click();
    await page.getByRole('link', { name: 'Columns' }).click();
    await page.getByRole('rowheader', { name: 'c500', exact: true }).waitFor();
    expect(complaints).toEqual([]);
    await close();
  });
});

it('names the largest tables if none is selected, to users who may read sizes', async () => {
  const own = await service.project();
  await own.table('small', { a: 'TEXT' });
  await own.table('large', { a: 'TEXT' });
  await own.rows(`INSERT INTO large (a) SELECT repeat('x', 1000) FROM generate_series(1, 1000)`);
  const all = await visit(browser, service, own, { fragment: '#/tables' });
  const largest = all.page.getByRole('region', { name: 'The largest tables on disk' });
  await expect.poll(() => largest.getByRole('link').allInnerTexts()).toEqual(['large', 'small']);
  expect(await largest.getByRole('listitem').first().innerText()).toMatch(/^large\s+1\.\d MB$/);
  expect(await faultsOfLooks(all, 'tables')).toEqual([]);
  await largest.getByRole('link', { name: 'large' }).click();
  await all.page.getByRole('heading', { name: 'large' }).waitFor();
  await all.close();
  const reader = await visit(browser, service, { token: await own.tokenWith('schema:read') }, { fragment: '#/tables' });
  await reader.page.getByRole('heading', { name: '2 tables' }).waitFor();
  expect(await reader.page.getByRole('region', { name: 'The largest tables on disk' }).count()).toBe(0);
  await reader.close();
});
