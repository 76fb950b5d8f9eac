/** docs/events.md: its commands print what it says, and its snippets send what they name, by the SDKs in Node and in a browser. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { blocks, read, root } from '../docs/markdown.js';
import { launchBrowser } from '../support/browser.js';
import { browserSdk } from '../support/event-sdks.js';
import { endEverything, eventually, firstToken, newFolder, preparedDataDir, startServe } from '../support/program.js';
import { call } from '../support/service.js';

const all = blocks(read('docs/events.md'));
const inLanguage = (language: string) => all.filter((block) => block.language === language).map(({ text }) => text);

/** What the page says where ours is. */
const [SERVICE, SHOP] = ['https://cdp.example.com', 'https://shop.example.com'];

let url: string;
let owner: string;
let environment: Record<string, string>;
let site: Server;
let origin: string;
/** The page of the shop. */
let html = '';
beforeAll(async () => {
  const dataDir = await preparedDataDir();
  ({ url } = await startServe(['--data-dir', dataDir]));
  owner = await firstToken(dataDir);
  const bin = join(await newFolder(), 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'cdp'), `#!/bin/sh\nexec ${process.execPath} ${join(root, 'dist/cli/bin.js')} "$@"\n`, {
    mode: 0o755,
  });
  const names = { URL: url, CDP_URL: url, CDP_TOKEN: owner, CDP_DATA_DIR: dataDir };
  environment = { PATH: `${bin}:${process.env.PATH}`, HOME: bin, ...names };
  site = createServer(({ url: path }, response) => {
    if (path === '/analytics.js') return void createReadStream(browserSdk()).pipe(response);
    response.writeHead(200, { 'content-type': 'text/html' }).end(html);
  });
  site.listen(0, '127.0.0.1');
  await once(site, 'listening');
  origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
});
afterAll(async () => {
  site.close();
  await endEverything();
});

/** Runs a block of the page for the first project and the page of this test. @returns what it prints */
async function run(text: string, key = ''): Promise<string> {
  const script = text.replaceAll('--project shop', '--project default').replaceAll(SHOP, origin);
  const { stdout } = await promisify(execFile)('sh', ['-euc', script], { env: { ...environment, KEY: key } });
  return stdout.trim();
}

const rows = async (sql: string): Promise<unknown> =>
  (await call(url, 'POST', '/api/cdp/sql', { token: owner, body: { sql } })).body['rows'];

/** As `JSON`, without regard to spaces. */
const json = (text: string): unknown => JSON.parse(text);

it('its commands and snippets do what it says', async () => {
  const [turnOn = '', createKeys = '', send = '', look = '', ...others] = inLanguage('sh');
  const [isOn = '', table = '', wrongAnswer = ''] = inLanguage('text');
  const [answer = ''] = inLanguage('json');
  expect(await run(turnOn)).toBe(isOn.trim());
  const [server = '', page = ''] = (await run(createKeys)).match(/cdp_[0-9A-Za-z]{49}/g) ?? [];
  // The second time, nothing is stored.
  for (let time = 0; time < 2; time++) {
    expect(json(await run(send, server))).toEqual(json(answer));
    expect(await run(look)).toBe(table.trim());
  }

  const inPlace = (text: string, key: string) => text.replaceAll('KEY', key).replaceAll(SERVICE, url);
  const [snippet = ''] = inLanguage('html');
  html = inPlace(snippet, page).replace(/https:\/\/cdn\.jsdelivr\.net\/[^"]+/, '/analytics.js');
  expect(html).toContain('src="/analytics.js"');
  const browser = await launchBrowser();
  const tab = await browser.newPage();
  await tab.goto(`${origin}/shoes`);
  await eventually('the page is there', async () => ((await rows('SELECT id FROM pages')) as object[]).length > 0);
  const viewed = `SELECT unmapped FROM tracks WHERE event = 'product_viewed'`;
  await eventually('its event is there', async () => ((await rows(viewed)) as object[]).length > 0);
  await browser.close();
  expect(await rows('SELECT path, context_page_path FROM pages')).toEqual([
    { path: '/shoes', context_page_path: '/shoes' },
  ]);
  // Its key makes no table.
  expect(await rows(viewed)).toEqual([{ unmapped: { properties: { sku: 'a1', price: 9.5 } } }]);

  for (const program of inLanguage('js')) {
    await promisify(execFile)(process.execPath, ['--input-type=module', '-e', inPlace(program, server)], {
      cwd: join(root, 'test/tools/clients'),
    });
  }
  const paid = 'SELECT user_id, total FROM invoice_paid ORDER BY user_id';
  expect(await rows(paid)).toEqual([
    { user_id: 'u1', total: 99 },
    { user_id: 'u2', total: 12 },
  ]);

  const [wrong = ''] = others;
  const said = await run(wrong, server);
  expect(said.split('\n', 1)[0]).toContain(wrongAnswer.trim());
  expect(said).toContain('userId or anonymousId is needed');
  expect(others).toHaveLength(1);
});
