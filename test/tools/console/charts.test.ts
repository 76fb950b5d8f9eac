/** Charts of results: what is drawn by default, and what can be chosen, read, kept and saved. */
import { readFile } from 'node:fs/promises';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { enter, visit, type Visitor } from '../../support/console.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
let visitor: Visitor;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('sales', { sold: 'TIMESTAMP', region: 'TEXT', amount: 'FLOAT', items: 'INTEGER' });
  await project.rows(
    `INSERT INTO sales (sold, region, amount, items) SELECT timestamptz '2024-01-15Z' + (n / 3) * interval '1 month',
       (ARRAY['North', 'South', '<b>East</b>'])[n % 3 + 1], 100 + 10.25 * n + 40 * (n % 3), n FROM generate_series(0, 71) AS n`,
  );
  browser = await launchBrowser();
  visitor = await visit(browser, service, project);
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  expect(visitor.complaints).toEqual([]);
  await browser.close();
  await service.close();
});

const chart = () => visitor.page.getByRole('slider');
const strokes = () => visitor.page.locator('.chart-figure path[data-series]');
const show = (view: 'Rows' | 'Chart') => visitor.page.getByRole('button', { name: view, exact: true }).click();
const picture = async (name: string) => {
  const folder = process.env['CDP_TEST_PICTURES'];
  if (folder !== undefined) await visitor.page.screenshot({ path: `${folder}/chart-${name}.png` });
};

it('suggests a line for each region over time, and shows every digit with the arrow keys', async () => {
  const { page, run } = visitor;
  await run('SELECT sold, region, amount, items FROM sales ORDER BY random()');
  await show('Chart');
  await expect.poll(() => strokes().count()).toBe(3);
  await page.locator('.chart-figure').getByText('<b>East</b>').waitFor();
  expect(await chart().getAttribute('aria-label')).toBe('Line chart of amount by sold (UTC), 72 values');
  await chart().focus();
  await page.keyboard.press('Home');
  await expect
    .poll(() => chart().getAttribute('aria-valuetext'))
    .toMatch(/^sold 2024-01-15T00:00:00Z · region .+ · amount \d/);
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => chart().getAttribute('aria-valuetext')).toMatch(/^sold 2024-02-15T/);
  await page.keyboard.press('ArrowDown');
  await expect.poll(() => chart().getAttribute('aria-valuetext')).toMatch(/^sold 2024-02-15T/);
  expect(await page.locator('.chart-value').innerText()).toBe(await chart().getAttribute('aria-valuetext'));
  expect(await visitor.axe()).toEqual([]);
  await picture('line');
});

it('accepts another kind and other columns, and says what it sums', async () => {
  const { page, run } = visitor;
  await run('SELECT region, amount, items FROM sales');
  await expect.poll(() => chart().getAttribute('aria-label')).toBe('Bar chart of amount by region, 3 values');
  await page.getByText('Rows of the same region are added up.').waitFor();
  await page.getByRole('combobox', { name: 'Y 2', exact: true }).selectOption('items');
  await expect.poll(() => strokes().count()).toBe(2);
  await picture('bar');
  await page.getByRole('button', { name: 'Points', exact: true }).click();
  await page.getByRole('combobox', { name: 'X', exact: true }).selectOption('items');
  await page.getByRole('combobox', { name: 'Y 2', exact: true }).selectOption('none');
  await page.getByRole('combobox', { name: 'Color', exact: true }).selectOption('region');
  await expect.poll(() => chart().getAttribute('aria-label')).toBe('Point chart of amount by items, 72 values');
  await expect.poll(() => strokes().count()).toBe(3);
  expect(await visitor.axe()).toEqual([]);
  await picture('points');
});

it('is not offered without a number, and draws a non-number as a gap', async () => {
  const { page, run } = visitor;
  await run(`SELECT 'a' AS text`);
  expect(await page.getByRole('button', { name: 'Chart', exact: true }).count()).toBe(0);
  await run(
    `SELECT n AS day, CASE WHEN n = 3 THEN NULL WHEN n = 4 THEN 'NaN' ELSE n * 1e300 END::float8 AS value FROM generate_series(1, 6) AS n`,
  );
  await page.getByRole('button', { name: 'Line', exact: true }).click();
  await expect.poll(() => strokes().getAttribute('d')).toMatch(/^M[^M]+M[^M]+$/);
  expect(await chart().getAttribute('aria-label')).toContain('4 values');
});

it('draws the first 10,000 of a million rows, and says so', async () => {
  const { page, run } = visitor;
  await run(
    `SELECT now() + n * interval '1 second' AS at, sin(n / 500.0) AS wave FROM generate_series(1, 1000000) AS n`,
  );
  await page.getByText('The first 10,000 of 1,000,000 rows are drawn').waitFor();
  expect(await chart().getAttribute('aria-label')).toContain('10,000 values');
  expect(await page.locator('.chart-figure svg *').count()).toBeLessThan(80);
  await picture('million');
});

it('is stored with a saved query', async () => {
  const { page, run, close } = await visit(browser, service, project);
  await run('SELECT region, items, amount FROM sales');
  await page.getByRole('button', { name: 'Chart', exact: true }).click();
  await page.getByRole('combobox', { name: 'Y', exact: true }).selectOption('amount');
  await page.getByRole('button', { name: 'Save this query' }).click();
  await page.getByLabel('Name').fill('By region');
  await page.keyboard.press('Enter');
  await page.getByText('Saved as By region').waitFor();
  await page.reload();
  await enter(page, project.token);
  await page.getByRole('button', { name: 'Saved', exact: true }).click();
  await page
    .getByRole('complementary')
    .getByRole('button', { name: /^By region/ })
    .click();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('slider', { name: 'Bar chart of amount by region' }).waitFor();
  await close();
});

it('is saved as a self-contained file', async () => {
  const { page, run } = visitor;
  await run(`SELECT sold, amount FROM sales WHERE region = 'North' ORDER BY 1`);
  await strokes().first().waitFor();
  const saved = async (format: 'SVG' | 'PNG') => {
    await page.getByRole('button', { name: 'Save chart' }).click();
    const arrives = page.waitForEvent('download');
    await page.getByRole('menuitem', { name: format }).click();
    const download = await arrives;
    expect(download.suggestedFilename()).toBe(`chart.${format.toLowerCase()}`);
    return readFile(await download.path());
  };
  const svg = (await saved('SVG')).toString();
  expect(svg).toMatch(/^<svg [^>]*xmlns="http:\/\/www\.w3\.org\/2000\/svg"/);
  expect(svg).toContain('<title>Line chart of amount by sold (UTC), 24 values</title>');
  expect(svg).toMatch(/stroke="rgb\(36, 89, 197\)"/);
  expect(svg).not.toContain('var(');
  const png = await saved('PNG');
  expect(png.subarray(1, 4).toString()).toBe('PNG');
  const width = await page.locator('.chart-figure svg').getAttribute('width');
  expect(png.readUInt32BE(16)).toBe(2 * Number(width));
});

it.each([
  ['light', 1024],
  ['dark', 390],
] as const)('in the %s theme at %i pixels violates no axe rule and fits', async (colorScheme, width) => {
  const own = await visit(browser, service, project, { colorScheme, viewport: { width, height: 844 } });
  await own.run('SELECT sold, region, amount FROM sales');
  await own.page.getByRole('button', { name: 'Chart', exact: true }).click();
  await own.page.locator('.chart-figure path[data-series]').first().waitFor();
  expect(await own.axe()).toEqual([]);
  expect(await own.page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
  const folder = process.env['CDP_TEST_PICTURES'];
  if (folder !== undefined) await own.page.screenshot({ path: `${folder}/chart-${colorScheme}-${width}.png` });
  expect(own.complaints).toEqual([]);
  await own.close();
});
