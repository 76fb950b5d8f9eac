/**
 * Files in the console: previewed, sent, paused, resumed after a closed tab, and corrected, with each record stored
 * once.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { parquetWriteBuffer } from 'hyparquet-writer';
import type { Browser, Page, Route } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { byName, launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { enter, faultsOfLooks, visit, type Visitor } from '../../support/console.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let browser: Browser;
let folder: string;
const visitors: Visitor[] = [];
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  browser = await launchBrowser();
  folder = await mkdtemp(join(tmpdir(), 'cdp-import-'));
});
beforeEach(() => picturedOnFailure(() => visitors));
afterAll(async () => {
  await browser.close();
  await service.close();
  await rm(folder, { recursive: true });
});

async function visitImport(token = project.token): Promise<Visitor> {
  for (const visitor of visitors.splice(0)) await visitor.close();
  const visitor = await visit(browser, service, { token }, { fragment: '#/import' });
  visitors.push(visitor);
  await visitor.page.getByRole('heading', { name: 'Import a file' }).waitFor();
  return visitor;
}

async function fileOf(name: string, content: string | Buffer): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

const choose = (page: Page, path: string) => page.getByLabel('Choose a file to import').setInputFiles(path);
const state = (page: Page) => page.locator('.job-numbers [role=status]');
const begin = (page: Page) => page.getByRole('button', { name: /^(Create the table and i|I)mport$/ }).click();
const countOf = async (table: string): Promise<unknown> =>
  (await project.rows(`SELECT count(*)::int AS n, count(DISTINCT n)::int AS different FROM ${table}`))[0];

const numbered = (count: number): string =>
  ['n,name', ...Array.from({ length: count }, (_, i) => `${i},person ${i}`)].join('\n');

/** Lets so many chunks pass, and holds those that follow until it is told to let go. */
async function holdAfter(page: Page, chunks: number): Promise<() => void> {
  let passed = 0;
  let letGo: () => void = () => {};
  const open = new Promise<void>((resolve) => (letGo = resolve));
  await page.route('**/api/cdp/data/**', async (route) => {
    if (++passed > chunks) await open;
    await route.continue().catch(() => {});
  });
  return letGo;
}

describe('a file with bad cells', () => {
  const rows = Array.from({ length: 700 }, (_, i) =>
    [
      i,
      `"Ada, the ${i}th"`,
      i % 200 === 5 ? 'ten' : i / 10,
      i === 401 ? 'soon' : '2026-02-01',
      i % 3 ? 'x' : '""',
    ].join(),
  );
  const csv = ['n,Name,Score (0-10),Next call,Note', ...rows, '700,too short'].join('\n');

  it('is shown before it is sent; each bad cell is red, says why, is corrected there, and every record is stored once', async () => {
    const visitor = await visitImport();
    const { page, axe, complaints } = visitor;
    await choose(page, await fileOf('Customers 2026.csv', csv));
    await page.getByText('FLOAT except for "ten" (line 7)').waitFor();
    expect(await page.getByLabel('Into table').inputValue()).toBe('customers_2026');
    expect(await page.getByLabel('Column of Score (0-10)').inputValue()).toBe('score_0_10');
    await page.getByLabel('Type of Score (0-10)').selectOption('FLOAT');
    await page.getByLabel('Type of Next call').selectOption('TIMESTAMP');
    await page.getByLabel('Column of Note').fill('name');
    await page.getByText('Another field goes to this column').first().waitFor();
    expect(await page.getByRole('button', { name: 'Create the table and import' }).isDisabled()).toBe(true);
    await page.getByLabel('Column of Note').fill('remark');
    await page.getByText('The request as curl').click();
    const [, shown = ''] = /-d '([^]*)'$/.exec(await page.locator('.curl pre').innerText()) ?? [];
    await page.getByText('How it is read').click();
    expect(await faultsOfLooks(visitor, 'import-plan-new')).toEqual([]);
    const [request] = await Promise.all([
      page.waitForRequest((each) => each.url().endsWith('/api/cdp/schema/table')),
      begin(page),
    ]);
    expect(request.postDataJSON()).toEqual(JSON.parse(shown));

    await page.getByText('Sent, with records to correct').waitFor();
    await page.getByText('695 rows stored').waitFor();
    await page.getByText('6 refused', { exact: true }).waitFor();
    const cell = page.getByLabel('score_0_10, line 7', { exact: true });
    expect(await cell.getAttribute('aria-invalid')).toBe('true');
    await page.locator('.refused-cell.is-wrong', { has: cell }).getByText('"ten" is not a number').waitFor();
    expect(await page.locator('.refused-cell.is-wrong').count()).toBe(5);
    await page.getByText('The record has 2 fields, but the header has 5').waitFor();
    expect(await faultsOfLooks(visitor, 'import-refused')).toEqual([]);

    // One is right, one is not.
    await cell.fill('0.5');
    await cell.press('Enter');
    await expect.poll(() => page.evaluate('document.activeElement.ariaLabel')).toBe('score_0_10, line 207');
    await page.keyboard.press('Control+A');
    await page.keyboard.type('ten and a half');
    await page.getByRole('button', { name: 'Send 2 corrected records' }).click();
    await page.getByText('"ten and a half" is not a number').waitFor();
    await page.getByText('696 rows stored').waitFor();

    await page.getByLabel('score_0_10, line 207', { exact: true }).fill('20.5');
    await page.getByLabel('score_0_10, line 407', { exact: true }).fill('');
    await page.getByLabel('score_0_10, line 607', { exact: true }).fill('60.5');
    await page.getByLabel('next_call, line 403', { exact: true }).fill('1 March 2026');
    await page.getByLabel('remark, line 702', { exact: true }).fill('complete');
    await page.getByRole('button', { name: 'Send 5 corrected records' }).click();
    await state(page).getByText('Done').waitFor();
    expect(await axe()).toEqual([]);

    expect(await countOf('customers_2026')).toEqual({ n: 701, different: 701 });
    expect(
      await project.rows(
        `SELECT n, score_0_10::text AS score, next_call::date::text AS next, remark FROM customers_2026
         WHERE n IN (5, 205, 401, 405, 605, 700) ORDER BY n`,
      ),
    ).toEqual([
      { n: 5, score: '0.5', next: '2026-02-01', remark: 'x' },
      { n: 205, score: '20.5', next: '2026-02-01', remark: 'x' },
      { n: 401, score: '40.1', next: '2026-03-01', remark: 'x' },
      { n: 405, score: null, next: '2026-02-01', remark: '' },
      { n: 605, score: '60.5', next: '2026-02-01', remark: 'x' },
      { n: 700, score: null, next: null, remark: 'complete' },
    ]);
    expect(complaints).toEqual([]);
  });

  it('keeps them for later, in the tab or after it was closed: downloaded, corrected without the file, or discarded', async () => {
    await project.table('scores', { n: 'INTEGER', score: 'FLOAT' });
    const { page } = await visitImport();
    await choose(page, await fileOf('scores.csv', 'n,score\n1,1.5\n2,two\n3,three\n4,four'));
    await page.getByText('A table with about').waitFor();
    await begin(page);
    await page.getByText('3 refused', { exact: true }).waitFor();
    const arrives = page.waitForEvent('download');
    await page.getByRole('button', { name: 'More' }).click();
    await page.getByRole('menuitem', { name: 'Download as NDJSON' }).click();
    const download = await arrives;
    expect(download.suggestedFilename()).toBe('scores.csv.refused.ndjson');

    const again = await page.context().newPage();
    await page.close();
    await again.goto(`${byName(service.url)}/console/#/import`);
    await enter(again, project.token);
    await again.getByText('1 row stored, 3 refused and not corrected yet').waitFor();
    await again.getByRole('button', { name: 'Correct' }).click();
    await again.getByLabel('score, line 3', { exact: true }).fill('2.5');
    await again.getByRole('button', { name: 'Send 1 corrected record' }).click();
    await again.getByText('2 rows stored', { exact: true }).waitFor();
    await again.getByRole('button', { name: 'More' }).click();
    await again.getByRole('menuitem', { name: 'Discard 2 records' }).click();
    await state(again).getByText('Done').waitFor();
    expect(await countOf('scores')).toEqual({ n: 2, different: 2 });
    await again.getByRole('button', { name: 'Another file' }).click();
    await again.getByRole('heading', { name: 'Import a file' }).waitFor();
    expect(await again.getByRole('heading', { name: 'Unfinished imports' }).count()).toBe(0);
    // What was downloaded is a file to import.
    await choose(again, await download.path());
    await again.getByRole('row', { name: /score/ }).waitFor();
  });
});

describe('formats', () => {
  it('are those of cdp import: NDJSON in gzip, with every digit and nested values', async () => {
    const big = '9223372036854775807';
    const lines = Array.from(
      { length: 1_000 },
      (_, n) => `{"n":${n},"big":${big},"tags":["a",{"b":${n}}],"at":"2026-01-31T09:30:00Z"}`,
    );
    const { page, complaints } = await visitImport();
    const refused: string[] = [];
    page.on('response', (response) => response.status() >= 400 && refused.push(response.url()));
    await choose(page, await fileOf('events.ndjson.gz', gzipSync(lines.join('\n'))));
    await page.getByText('NDJSON', { exact: true }).first().waitFor();
    await begin(page);
    await state(page).getByText('Done').waitFor();
    expect(await countOf('events')).toEqual({ n: 1_000, different: 1_000 });
    expect(
      await project.rows(`SELECT big::text AS big, tags, pg_typeof(at)::text AS type FROM events WHERE n = 7`),
    ).toEqual([{ big, tags: ['a', { b: 7 }], type: 'timestamp with time zone' }]);
    expect(complaints).toEqual([]);
    // The browser would show them as errors.
    expect(refused).toEqual([]);
  });

  it('are Excel, by sheet, and Parquet however it is compressed, under the policy of the page', async () => {
    const files = join(import.meta.dirname, '../../cli/import/files');
    const { page, complaints, asked } = await visitImport();
    const readers = () => asked.filter((url) => /\/(?:xlsx|parquet)-/.test(url)).length;
    await choose(page, join(files, 'openpyxl.xlsx'));
    await page.getByText('An Excel workbook').waitFor();
    await page.getByLabel('Into table').fill('from_excel');
    await page.getByLabel('Into table').press('Tab');
    await page.getByText('A new table').waitFor();
    await begin(page);
    await state(page).getByText('Done').waitFor();
    expect(
      await project.rows('SELECT customer_id, score, at::text, t FROM from_excel ORDER BY customer_id LIMIT 1'),
    ).toEqual([{ customer_id: '007', score: 9.5, at: '2026-01-31 09:30:00+00', t: '09:30:00' }]);
    const another = async (path: string) => {
      await page.getByRole('button', { name: 'Another file' }).click();
      await choose(page, path);
    };
    await another(join(files, 'openpyxl.xlsx'));
    await page.getByText('How it is read').click();
    await page.getByLabel('Sheet').fill('Third');
    await page.getByLabel('Sheet').press('Tab');
    await page.getByRole('alert').getByText('Its sheets are').waitFor();
    await page.getByLabel('Sheet').fill('Second Sheet');
    await page.getByLabel('Lines to skip').fill('2');
    await page.getByLabel('Lines to skip').press('Tab');
    await page.getByLabel('Column of a', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Close', exact: true }).click();
    expect(readers()).toBe(1);

    // Zstandard, by pyarrow.
    await choose(page, join(files, 'pyarrow.parquet'));
    await page.getByText('Parquet', { exact: true }).first().waitFor();
    await begin(page);
    await state(page).getByText('Done').waitFor();
    expect(await project.rows('SELECT i64::text, s FROM pyarrow ORDER BY pyarrow.i64 DESC NULLS LAST LIMIT 1')).toEqual(
      [{ i64: '9223372036854775807', s: '007' }],
    );
    const n = Array.from({ length: 5_000 }, (_, i) => i % 7);
    const columnData = [{ name: 'n', data: n, type: 'INT32' as const, codec: 'SNAPPY' as const }];
    await another(await fileOf('snappy.parquet', Buffer.from(parquetWriteBuffer({ columnData }))));
    await begin(page);
    await state(page).getByText('Done').waitFor();
    expect(await countOf('snappy')).toEqual({ n: 5_000, different: 7 });
    expect(complaints).toEqual([]);
  });

  it('can be corrected if they are guessed wrong; an unreadable file is refused with advice in the words of the screen', async () => {
    const { page, axe } = await visitImport();
    await choose(page, await fileOf('sales.csv', 'n;amount;vip\n1;1.234,50;yes\n2;3,25;no'));
    await page.getByText('choose BOOLEAN', { exact: true }).waitFor();
    await page.getByText('FLOAT with “Decimals” , “Thousands” .').waitFor();
    await page.getByText('How it is read').click();
    await page.getByLabel('Decimals').selectOption(',');
    await page.getByLabel('Thousands').selectOption('.');
    await expect.poll(() => page.getByLabel('Type of amount').inputValue()).toBe('FLOAT');
    expect(await axe()).toEqual([]);
    await begin(page);
    await state(page).getByText('Done').waitFor();
    expect(await project.rows('SELECT amount FROM sales ORDER BY n')).toEqual([{ amount: 1234.5 }, { amount: 3.25 }]);

    await page.getByRole('button', { name: 'Another file' }).click();
    const another = page.getByLabel(/^Choose a(nother)? file/);
    for (const [name, content, message, hint] of [
      ['x.csv', 'n,name\n1,"Ada', 'a quote is not closed', '“Quotes are text”'],
      ['people.csv', '1,Ada\n2,Joan', 'looks like a record', '“First line”'],
      ['x.parquet', 'PAR1', 'cannot be read as Parquet', ''],
      ['x.xlsx', 'PK\x03\x04', 'cannot be read as a workbook', ''],
      ['x.gz', gzipSync('n\n1').subarray(0, 15), 'cannot be decompressed', 'unpack it first'],
    ] as const) {
      await another.setInputFiles(await fileOf(name, content));
      await page.getByRole('alert').getByText(message).waitFor();
      await page.getByRole('alert').getByText(hint).waitFor();
    }
    await another.setInputFiles(join(folder, 'people.csv'));
    await page.getByText('How it is read').click();
    await page.getByLabel('First line').selectOption('record');
    await expect.poll(() => page.getByLabel('Column of column_2').inputValue()).toBe('column_2');
  });
});

describe('pasted rows', () => {
  const paste = (page: Page, selector: string, text: string) =>
    page.evaluate(
      `(() => {
        const clipboardData = new DataTransfer();
        clipboardData.setData('text/plain', ${JSON.stringify(text)});
        const event = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true });
        document.querySelector(${JSON.stringify(selector)}).dispatchEvent(event);
      })()`,
    );

  it('anywhere on the screen or in a dialog are a file like any other; those for a field stay in it', async () => {
    const visitor = await visitImport();
    const { page } = visitor;
    expect(await faultsOfLooks(visitor, 'import')).toEqual([]);
    await paste(page, 'body', 'n\tname\n1\tAda\n2\tGrace');
    await page.getByRole('heading', { name: 'pasted.txt' }).waitFor();
    await page.getByRole('row', { name: /Grace/ }).waitFor();
    await paste(page, '.import-target input', 'ages');
    await page.getByLabel('Into table').fill('pasted_rows');
    await page.getByLabel('Into table').press('Tab');
    await begin(page);
    await state(page).getByText('Done').waitFor();
    expect(await countOf('pasted_rows')).toEqual({ n: 2, different: 2 });

    await page.getByRole('button', { name: 'Another file' }).click();
    await page.getByRole('button', { name: 'Paste rows' }).click();
    await page.getByRole('dialog').getByRole('textbox').fill('{"n": 3}\n{"n": 4}\n{"n": 5}');
    expect(await faultsOfLooks(visitor, 'import-paste')).toEqual([]);
    await page.getByRole('button', { name: 'Preview' }).click();
    await page.getByLabel('Into table').fill('pasted_rows');
    await page.getByLabel('Into table').press('Tab');
    await page.getByText('A table with about').waitFor();
    await begin(page);
    await state(page).getByText('Done').waitFor();
    expect(await countOf('pasted_rows')).toEqual({ n: 5, different: 5 });
  });
});

describe('corrections by the user', () => {
  it('survive another way to read the file, and another table', async () => {
    await project.table('visits', { n: 'INTEGER' });
    const { page } = await visitImport();
    await choose(page, await fileOf('corrected.csv', 'n;amount;note\n1;2,5;x\n2;3,5;y'));
    await page.getByLabel('Column of note').fill('remark');
    await page.getByLabel('Type of n', { exact: true }).selectOption('TEXT');
    await page.getByText('How it is read').click();
    await page.getByLabel('Decimals').selectOption(',');
    // What nobody has corrected is guessed anew.
    await expect.poll(() => page.getByLabel('Type of amount').inputValue()).toBe('FLOAT');
    expect(await page.getByLabel('Column of note').inputValue()).toBe('remark');
    expect(await page.getByLabel('Type of n', { exact: true }).inputValue()).toBe('TEXT');
    await page.getByLabel('Import amount').uncheck();
    await page.getByLabel('Into table').fill('visits');
    await page.getByLabel('Into table').press('Tab');
    await page.getByText('A table with about').waitFor();
    expect(await page.getByLabel('Import amount').isChecked()).toBe(false);
    expect(await page.getByLabel('Column of note').inputValue()).toBe('remark');
    // A column that is there has its own type.
    expect(await page.getByLabel('Type of n', { exact: true }).count()).toBe(0);
  });
});

describe('rows that are there', () => {
  it('are left alone if they are equal, and other fields go into a JSONB column', async () => {
    await project.rows(
      `CREATE TABLE kept (n int UNIQUE, name text, more jsonb);
       INSERT INTO kept VALUES (1, 'Ada', '{"tel":1}'), (2, 'Joan', '{"tel":2}')`,
    );
    const writtenBy = async () => project.rows('SELECT n, xmin::text FROM kept WHERE n = 1');
    const before = await writtenBy();
    const visitor = await visitImport(await project.tokenWith('schema:read', 'data:write'));
    const { page, complaints } = visitor;
    await choose(page, await fileOf('kept.csv', 'n,name,tel\n1,Ada,1\n2,Jean,2\n3,Mary,3'));
    await page.getByRole('combobox', { name: /^Key/ }).selectOption('n');
    await page.getByLabel('If it has all the values').selectOption('leave it alone');
    await page.getByLabel('Fields that are not imported').selectOption('go into the column more');
    expect(await faultsOfLooks(visitor, 'import-kept')).toEqual([]);
    await begin(page);
    await state(page).getByText('Done').waitFor();
    expect(await project.rows('SELECT n, name, more FROM kept ORDER BY n')).toEqual([
      { n: 1, name: 'Ada', more: { tel: 1 } },
      { n: 2, name: 'Jean', more: { tel: 2 } },
      { n: 3, name: 'Mary', more: { tel: 3 } },
    ]);
    expect(await writtenBy()).toEqual(before);
    expect(complaints).toEqual([]);
  });
});

describe('text typed while the file is read', () => {
  it('stays in the field', async () => {
    const { page } = await visitImport();
    let letGo = (): void => {};
    const isHeld = new Promise<void>((resolve) => (letGo = resolve));
    await page.route('**/api/cdp/schema', async (route) => {
      await isHeld;
      await route.continue();
    });
    await choose(page, await fileOf('slow.csv', numbered(3)));
    await page.getByLabel('Into table').fill('typed_meanwhile');
    letGo();
    await page.getByRole('row', { name: /person 0/ }).waitFor();
    expect(await page.getByLabel('Into table').inputValue()).toBe('typed_meanwhile');
  });
});

describe('an import in progress', () => {
  it('pauses once what was sent is stored, resumes, and continues while another screen is shown', async () => {
    const { page, axe, complaints } = await visitImport();
    const letGo = await holdAfter(page, 2);
    await choose(page, await fileOf('paused.csv', numbered(45_000)));
    await page.getByRole('row', { name: /person 0/ }).waitFor();
    await begin(page);
    await page.getByText('20,000 rows stored').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await state(page).getByText('Pausing').waitFor();
    expect(await axe()).toEqual([]);
    letGo();
    await state(page).getByText('Paused').waitFor();
    // One chunk was in flight.
    expect(await countOf('paused')).toEqual({ n: 30_000, different: 30_000 });
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('link', { name: 'Tables' }).click();
    await page.getByRole('treeitem').first().waitFor();
    await page.getByRole('link', { name: 'Import', exact: true }).first().click();
    await state(page).getByText('Done').waitFor();
    expect(await countOf('paused')).toEqual({ n: 45_000, different: 45_000 });
    expect(complaints).toEqual([]);
  });

  it('continues a day after its tab was closed, despite lost responses, from the same file, and stores no row twice', async () => {
    const path = await fileOf('closed.csv', `${numbered(60_000)}\nlast,wrong`);
    const { page } = await visitImport();
    let stored = 0;
    let isLost: () => void = () => {};
    const lost = new Promise<void>((resolve) => (isLost = resolve));
    // The third chunk is stored, but the page never learns of it.
    await page.route('**/api/cdp/data/**', async (route: Route) => {
      if (++stored <= 2) return route.continue();
      await route.fetch({ url: route.request().url().replace(byName(service.url), service.url) });
      isLost();
    });
    await choose(page, path);
    await page.getByLabel('Type of n', { exact: true }).selectOption('INTEGER');
    await begin(page);
    await lost;
    const again = await page.context().newPage();
    await page.close();
    expect(await countOf('closed')).toEqual({ n: 30_000, different: 30_000 });

    // Only the receipt tells what became of the chunk without a response.
    await again.clock.install({ time: Date.now() + 25 * 3_600_000 });
    await again.goto(`${byName(service.url)}/console/#/import`);
    await enter(again, project.token);
    await again.getByText(/20,000 rows stored/).waitFor();
    const resume = again.getByLabel('Choose closed.csv again to resume');
    await resume.setInputFiles(await fileOf('other.csv', numbered(10)));
    await again.getByRole('alert').getByText('has changed since the import was started').waitFor();
    // The file itself can be dropped like any other.
    await choose(again, path);
    await again.getByText('Sent, with records to correct').waitFor();
    await again.getByText('60,000 rows stored').waitFor();
    await again.getByLabel('n, line 60002', { exact: true }).fill('60000');
    await again.getByRole('button', { name: 'Send 1 corrected record' }).click();
    await state(again).getByText('Done').waitFor();
    expect(await countOf('closed')).toEqual({ n: 60_001, different: 60_001 });
  });

  it('of 200,000 rows leaves the page responsive, with bounded memory', async () => {
    const { page, complaints } = await visitImport();
    const heap = async (): Promise<number> => {
      const session = await page.context().newCDPSession(page);
      await session.send('HeapProfiler.collectGarbage');
      const { usedSize } = await session.send('Runtime.getHeapUsage');
      await session.detach();
      return usedSize;
    };
    const before = await heap();
    // Turns of the page's event loop while it reads and sends.
    await page.evaluate('turns = 0; setInterval(() => turns++, 20)');
    const turns = () => page.evaluate<number>('turns');
    await choose(page, await fileOf('large.csv', numbered(200_000)));
    await page.getByRole('row', { name: /person 0/ }).waitFor();
    expect(await turns()).toBeGreaterThan(5);
    await begin(page);
    await page.getByText(/1\d\d,\d\d\d rows stored/).waitFor();
    expect((await heap()) - before).toBeLessThan(48 * 1024 * 1024);
    await state(page).getByText('Done').waitFor();
    expect(await countOf('large')).toEqual({ n: 200_000, different: 200_000 });
    expect(complaints).toEqual([]);
  });
});

describe('the screen', () => {
  it('shows markup in names of files and fields, in cells and in messages as text', async () => {
    const canary = '<img src=x onerror=window.hit=1>';
    const { page, axe, complaints } = await visitImport();
    const path = await fileOf(`${canary}.csv`, `n,${canary}\n1,${canary}\n${canary},2`);
    await choose(page, path);
    await page.getByRole('heading', { name: canary }).waitFor();
    await page.getByLabel('Into table').fill('canaries');
    await page.getByLabel('Into table').press('Tab');
    await page.getByText('A new table').waitFor();
    await page.getByLabel('Type of n', { exact: true }).selectOption('INTEGER');
    await begin(page);
    await page.getByText(`"${canary}" is not`).waitFor();
    expect(await axe()).toEqual([]);
    expect(await page.evaluate('window.hit')).toBeUndefined();
    expect(complaints).toEqual([]);
  });

  it('shows what the token may do: without schema:write, only existing tables', async () => {
    await project.table('fixed', { n: 'INTEGER' });
    const { page, complaints } = await visitImport(await project.tokenWith('schema:read', 'data:write'));
    await choose(page, await fileOf('more.csv', 'n,extra\n1,a'));
    await page.getByText('There is no such table, and this token may not create one').waitFor();
    await page.getByLabel('Into table').fill('fixed');
    await page.getByLabel('Into table').press('Tab');
    await page.getByText('A table with about').waitFor();
    expect(await page.getByLabel('Import extra').isChecked()).toBe(false);
    await begin(page);
    await state(page).getByText('Done').waitFor();
    expect(await project.rows('SELECT n FROM fixed')).toEqual([{ n: 1 }]);
    expect(complaints).toEqual([]);
    // Dropped rather than chosen.
    await page.getByRole('button', { name: 'Another file' }).click();
    const transfer = await page.evaluateHandle(
      `(() => { const all = new DataTransfer(); all.items.add(new File(['n\\n2'], 'dropped.csv')); return all; })()`,
    );
    await page.dispatchEvent('main', 'drop', { dataTransfer: transfer });
    await page.getByRole('heading', { name: 'dropped.csv' }).waitFor();
  });
});
