/** Results in the console: a million rows, every digit, the keyboard, the clipboard and files. */
import { readFile } from 'node:fs/promises';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { visit, type Visitor } from '../../support/console.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
let visitor: Visitor;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  browser = await launchBrowser();
  visitor = await visit(browser, service, project);
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  expect(visitor.complaints).toEqual([]);
  await browser.close();
  await service.close();
});

/** Bytes of the page's objects after a collection. */
async function heap(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize;
}

/** Notes what the page will put into the clipboard; the returned function waits for it. */
async function noteCopied(page: Page): Promise<() => Promise<string>> {
  // Before the key is pressed: a busy page handles the input first, and the event would be missed.
  await page.evaluate(`{
    const set = DataTransfer.prototype.setData;
    copiedText = undefined;
    DataTransfer.prototype.setData = function (type, value) {
      copiedText = value;
      DataTransfer.prototype.setData = set;
      return set.call(this, type, value);
    };
  }`);
  return async () => {
    await page.waitForFunction('copiedText !== undefined');
    return page.evaluate('copiedText');
  };
}

describe('a million rows', () => {
  it('are counted; 100,000 are held; memory stays bounded and the page responsive', async () => {
    const { page, run } = visitor;
    await run('SELECT 1');
    const before = await heap(page);
    await page.evaluate(`
      tasks = [];
      new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: 'longtask' });
    `);
    const began = performance.now();
    await run(`SELECT n, 'person' || n || '@example.com' AS email, n * 1.5 AS x FROM generate_series(1, 1000000) AS n`);
    await page.locator('strong').getByText('1,000,000 rows').waitFor();
    const took = performance.now() - began;
    await page.getByText('the first 100,000 are held here').waitFor();
    // A share of the whole, since on a busy machine everything takes longer.
    const longest = Math.max(...(await page.evaluate<number[]>('tasks')), 0);
    expect(longest, `of ${took} ms`).toBeLessThan(Math.max(500, took / 8));
    expect((await heap(page)) - before).toBeLessThan(64 * 1024 * 1024);
    const grid = page.getByRole('grid');
    await grid.focus();
    await page.keyboard.press('Control+End');
    await page.getByText('person100000@example.com').waitFor();
    expect(await grid.locator('[role=row]').count()).toBeLessThan(100);
    await page.keyboard.press('Control+Home');
    await page.getByText('person1@example.com').waitFor();
  });

  it("can be saved to files that contain all rows and equal the API's responses", async () => {
    const { page, run } = visitor;
    const sql = `SELECT n, 'person' || n || '@example.com' AS email, n * 1.5 AS x FROM generate_series(1, 200000) AS n`;
    await run(sql);
    for (const [name, accept] of [
      ['CSV', 'text/csv'],
      ['NDJSON', 'application/x-ndjson'],
    ] as const) {
      await page.getByRole('button', { name: /Download all/ }).click();
      const arrives = page.waitForEvent('download');
      await page.getByRole('menuitem', { name: new RegExp(`^${name}`) }).click();
      const file = await (await arrives).path();
      const headers = { accept };
      const response = await project.call('POST', '/api/cdp/sql', { body: { sql, numbers: 'raw' }, headers });
      const end = accept === 'text/csv' ? response.text.length : response.text.lastIndexOf('{"done"');
      expect((await readFile(file, 'utf8')) === response.text.slice(0, end), name).toBe(true);
    }
  });

  it('can be saved with a token that may only write, as the writer', async () => {
    const own = await visit(browser, service, { token: await project.tokenWith('sql:write') });
    const { page, run } = own;
    await run('SELECT current_user AS role, n FROM generate_series(1, 1200) AS n');
    const { writer } = (await service.engine.projects.get(project.name)).placement;
    for (const name of ['CSV', 'NDJSON', 'Parquet']) {
      await page.getByRole('button', { name: /Download all/ }).click();
      const arrives = page.waitForEvent('download');
      await page.getByRole('menuitem', { name: new RegExp(`^${name}`) }).click();
      const file = await (await arrives).path();
      expect((await readFile(file, 'latin1')).includes(writer), name).toBe(true);
    }
    await own.close();
  });

  it('can be saved to a Parquet file with the types of their columns', async () => {
    const { page, run } = visitor;
    await run(
      `SELECT 9007199254740993 - n AS big, (n * 1.5)::numeric(10, 2) AS x, 'a' || n AS name, '{"a": 1}'::jsonb AS doc,
         '\\xbeef'::bytea AS bytes, date '2024-02-29' AS day FROM generate_series(1, 3000) AS n`,
    );
    await page.getByRole('button', { name: /Download all/ }).click();
    const arrives = page.waitForEvent('download');
    await page.getByRole('menuitem', { name: /^Parquet/ }).click();
    const download = await arrives;
    expect(download.suggestedFilename()).toBe('result.parquet');
    const rows = await parquetReadObjects({ file: await asyncBufferFromFile(await download.path()), utf8: false });
    expect(rows.length).toBe(3_000);
    expect(rows[1]).toEqual({
      big: 9_007_199_254_740_991n,
      x: 3,
      name: 'a2',
      doc: { a: 1 },
      bytes: new Uint8Array([0xbe, 0xef]),
      day: new Date('2024-02-29'),
    });
    // What has no place in the file is said.
    await run(`SELECT 'infinity'::timestamptz AS at`);
    await page.getByRole('button', { name: /Download all/ }).click();
    await page.getByRole('menuitem', { name: /^Parquet/ }).click();
    await page.getByText('The download failed: Row 1: Parquet cannot represent').waitFor();
  });

  it('are written to disk in chunks if the browser lets a page write there', async () => {
    const { page, run, complaints, close } = await visit(browser, service, project);
    // Only over HTTPS or on localhost is there one, and it opens a dialog that no test can press.
    await page.evaluate(`window.showSaveFilePicker = async ({ suggestedName }) => {
      const written = window.written = { name: suggestedName, pieces: [], isClosed: false };
      return { createWritable: async () => ({
        write: async (bytes) => void written.pieces.push(new TextDecoder().decode(bytes)),
        close: async () => void (written.isClosed = true),
        abort: async () => {},
      }) };
    }`);
    // A slow browser may read 1.5 MB at once; these have 13.
    const sql = `SELECT n, 'person' || n || '@example.com' AS email FROM generate_series(1, 400000) AS n`;
    await run(sql);
    await page.getByRole('button', { name: /Download all/ }).click();
    await page.getByRole('menuitem', { name: /^CSV/ }).click();
    await expect.poll(() => page.evaluate('window.written?.isClosed'), { timeout: 60_000 }).toBe(true);
    const { text } = await project.call('POST', '/api/cdp/sql', { body: { sql }, headers: { accept: 'text/csv' } });
    expect((await page.evaluate<string>(`window.written.pieces.join('')`)) === text).toBe(true);
    expect(await page.evaluate('window.written.name')).toBe('result.csv');
    expect(await page.evaluate('Math.max(...window.written.pieces.map(({ length }) => length))')).toBeLessThan(
      text.length / 4,
    );
    expect(complaints).toEqual([]);
    await close();
  });
});

describe('the copy buttons', () => {
  it('confirm a copy, and the clipboard contains the text', async () => {
    const { page, run } = visitor;
    await run(`SELECT n, 'a' AS x FROM generate_series(1, 3) AS n`);
    for (const [format, text] of [
      ['TSV', 'n\tx\n1\ta\n2\ta\n3\ta'],
      ['JSON', '{"n":3,"x":"a"}'],
      ['Markdown', '| 3 | a |'],
    ] as const) {
      await page.getByRole('button', { name: /^Copy 3 rows/ }).click();
      const written = await noteCopied(page);
      await page.getByRole('menuitem', { name: new RegExp(`^${format}`) }).click();
      expect((await written()).replace(/: /g, ':').replace(/, /g, ',')).toContain(text.replace(/, /g, ','));
      await page.getByText('3 rows copied').waitFor();
    }
    await page.getByRole('grid').focus();
    await page.keyboard.press('Enter');
    const written = await noteCopied(page);
    await page.getByRole('dialog').getByRole('button', { name: 'Copy' }).click();
    expect(await written()).toBe('1');
    await page.keyboard.press('Escape');
    const link = await noteCopied(page);
    await page.getByRole('button', { name: 'Copy a link to this text' }).click();
    expect(decodeURIComponent(await link())).toMatch(/#\/sql\?sql=SELECT n.*&name=Query \d+$/s);
  });

  it('say so if the browser does not allow it', async () => {
    const { page, run } = visitor;
    await run('SELECT 1 AS n');
    await page.evaluate('document.execCommand = () => false');
    await page.getByRole('button', { name: 'Copy a link to this text' }).click();
    await page.getByText('did not allow the copy').waitFor();
    await page.evaluate('delete document.execCommand');
  });
});

describe('values', () => {
  it.each([
    `date '2024-02-29' AS day, now() AS at, now()::timestamp AS local, localtime AS time, gen_random_uuid() AS id`,
    `true AS b, 1 AS i, -9007199254740993 AS l, 123456789.25::numeric AS n, pi() AS f, 'Ada' AS t, 'ada.lovelace@example.com' AS email`,
    `'日本語の文字' AS wide, '👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀' AS emoji, '{"a": [1, 2]}'::jsonb AS j, ARRAY[1, 2, 3] AS a, interval '3 days' AS lasts`,
    `1 AS a_name_longer_than_what_it_names, '\\xdeadbeef'::bytea AS bytes, '127.0.0.1'::inet AS host, NULL AS nothing`,
  ])('are shown in full if they are short: %s', async (values) => {
    const { page, run } = visitor;
    await run(`SELECT ${values}`);
    // A text that is wider than its place by a fraction of a pixel ends in three dots, which \`scrollWidth\` does not
    // tell.
    const cut =
      await page.evaluate(`[...document.querySelectorAll('.grid-cell, .grid-name, .grid-type')].flatMap((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      const { paddingLeft, paddingRight, borderRightWidth } = getComputedStyle(cell);
      const around = [paddingLeft, paddingRight, borderRightWidth].reduce((sum, width) => sum + parseFloat(width), 0);
      const over = range.getBoundingClientRect().width + around - cell.getBoundingClientRect().width;
      return over > 0.01 ? [cell.textContent + ': ' + over] : [];
    })`);
    expect(cut).toEqual([]);
  });

  it('keep every digit, and NULL differs from empty text', async () => {
    const { run, cells } = visitor;
    await run(
      `SELECT 9007199254740993::bigint AS a, 1.50::numeric AS b, 123456789012345678901234567890.123::numeric AS c, 0.1::float8 + 0.2 AS d, ` +
        `'NaN'::float8 AS e, NULL::text AS f, '' AS g, '{"n": 1.00000000000000000001}'::jsonb AS h, ARRAY[1, NULL, 3] AS i, E'a\\tb\\nc' AS j`,
    );
    const [row] = await cells();
    expect(row?.slice(0, 7)).toEqual([
      '9007199254740993',
      '1.50',
      '123456789012345678901234567890.123',
      '0.30000000000000004',
      'NaN',
      'NULL',
      '',
    ]);
    expect(row?.[7]).toBe('{"n": 1.00000000000000000001}');
    expect(row?.[9]).toBe('a⇥b⏎c');
  });

  it('can be reached, selected, copied and opened with the keyboard', async () => {
    const { page, run } = visitor;
    await run(
      `SELECT n, n * 10 AS ten, '{"deep": {"list": [1, 2.50]}}'::jsonb AS doc FROM generate_series(1, 500) AS n`,
    );
    const grid = page.getByRole('grid');
    await grid.focus();
    const active = async () => page.locator(`[id="${await grid.getAttribute('aria-activedescendant')}"]`).innerText();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowRight');
    expect(await active()).toBe('20');
    await page.keyboard.press('Control+End');
    await page.keyboard.press('Home');
    expect(await active()).toBe('500');
    await page.keyboard.press('Control+Home');
    await page.keyboard.press('Shift+ArrowDown');
    await page.keyboard.press('Shift+ArrowRight');
    const text = await noteCopied(page);
    await page.keyboard.press('Control+C');
    expect(await text()).toBe('n\tten\n1\t10\n2\t20');
    await page.keyboard.press('Control+Home');
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog');
    await dialog.getByText('deep').waitFor();
    expect(await dialog.innerText()).toContain('{ 1 }');
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    expect(await grid.getAttribute('aria-rowcount')).toBe('501');
    expect(await grid.getAttribute('aria-colcount')).toBe('4');
  });

  it('are in columns that the pointer and the keyboard can resize, and that keep their widths', async () => {
    const { page, run, close } = await visit(browser, service, project);
    const widthOf = async (column: string) =>
      (await page.getByRole('columnheader', { name: column }).boundingBox())?.width ?? 0;
    await run(`SELECT 'a' AS narrow, 'b' AS other`);
    const before = await widthOf('narrow');
    const handle = await page.locator('.grid-handle').first().boundingBox();
    const [x, y] = [(handle?.x ?? 0) + 4, (handle?.y ?? 0) + 20];
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x + 40, y);
    await page.mouse.move(x + 100, y);
    await page.mouse.up();
    await page.mouse.move(x, y);
    await expect.poll(() => widthOf('narrow')).toBe(before + 100);
    await page.getByRole('grid').focus();
    await page.keyboard.press('ArrowRight');
    const other = await widthOf('other');
    await page.keyboard.press('+');
    await page.keyboard.press('+');
    await page.keyboard.press('-');
    await expect.poll(() => widthOf('other')).toBe(other + 16);
    await run(`SELECT 'c' AS other, 'd' AS narrow`);
    await expect.poll(() => widthOf('narrow')).toBe(before + 100);
    await page.getByRole('grid').focus();
    await page.keyboard.press('0');
    await expect.poll(() => widthOf('other')).toBe(other);
    await page.locator('.grid-handle').nth(1).dblclick();
    await expect.poll(() => widthOf('narrow')).toBe(before);
    await close();
  });

  it('of 1,600 columns are a grid too', async () => {
    const { page, run } = visitor;
    await run(`SELECT ${Array.from({ length: 1_600 }, (_, i) => `${i} AS c${i}`).join(', ')}`);
    expect(await page.getByRole('columnheader').count()).toBeLessThan(60);
    await page.getByRole('grid').focus();
    await page.keyboard.press('End');
    await page.getByText('c1599', { exact: true }).waitFor();
    expect(await visitor.axe()).toEqual([]);
  });

  it('are shown as text, whatever they contain, in rows, names and errors', async () => {
    const { page, run, cells } = visitor;
    const canary = `<img src=x onerror="window.hit=1"><script>window.hit=1</script>`;
    await run(
      `SELECT '${canary}' AS "${canary.replaceAll('"', '""').slice(0, 60)}", jsonb_build_object('${canary}', '${canary}') AS doc`,
    );
    expect((await cells())[0]?.[0]).toBe(canary);
    await page.getByRole('grid').focus();
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByText('window.hit').first().waitFor();
    await page.keyboard.press('Escape');
    await run(`SELECT '${canary}'::int`);
    await page.getByRole('alert').getByText('window.hit').waitFor();
    expect(await page.evaluate('window.hit')).toBeUndefined();
  });
});
