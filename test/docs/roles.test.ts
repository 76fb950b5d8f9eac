/** docs/roles.md: its commands do what it says, for the intern, the partner and the customer. */
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { endEverything, firstToken, newFolder, preparedDataDir, startServe } from '../support/program.js';
import { call, expectFailure } from '../support/service.js';
import { blocks, read, root } from './markdown.js';

const all = blocks(read('docs/roles.md'));
const shell = all.filter(({ language }) => language === 'sh').map(({ text }) => text);
const [policies = ''] = all.filter(({ language }) => language === 'sql').map(({ text }) => text);

let url: string;
let owner: string;
let environment: Record<string, string>;
beforeAll(async () => {
  const dataDir = await preparedDataDir();
  ({ url } = await startServe(['--data-dir', dataDir]));
  owner = await firstToken(dataDir);
  // The page says `cdp`, as after an installation.
  const bin = join(await newFolder(), 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'cdp'), `#!/bin/sh\nexec ${process.execPath} ${join(root, 'dist/cli/bin.js')} "$@"\n`, {
    mode: 0o755,
  });
  environment = {
    PATH: `${bin}:${process.env.PATH}`,
    HOME: bin,
    CDP_DATA_DIR: dataDir,
    CDP_URL: url,
    CDP_TOKEN: owner,
  };
});
afterAll(endEverything);

/** Runs a block of the page for the first project. @returns what it prints */
const run = async (text: string): Promise<string> => {
  const script = text.replaceAll('--project shop', '--project default');
  return (await promisify(execFile)('sh', ['-euc', script], { env: environment })).stdout;
};

const tokenIn = (output: string): string => /cdp_[0-9A-Za-z]{49}/.exec(output)?.[0] ?? '';
const sql = (token: string, text: string) => call(url, 'POST', '/api/cdp/sql', { token, body: { sql: text } });

it('lets the intern read two tables, but no e-mail addresses, and the partner only append', async () => {
  await sql(
    owner,
    `CREATE TABLE customers (id int PRIMARY KEY, country text, email text); INSERT INTO customers VALUES (1, 'GB', 'ada@example.com');
     CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY, customer text, total float8)`,
  );
  const [createIntern = '', internToken = '', createPartner = ''] = shell;
  expect(await run(createIntern)).toContain('Role intern created');
  const intern = tokenIn(await run(internToken));
  expect(await sql(intern, 'SELECT country FROM customers')).toMatchObject({ status: 200 });
  expect(await sql(intern, 'SELECT * FROM orders')).toMatchObject({ status: 200 });
  expectFailure(await sql(intern, 'SELECT email FROM customers'), 403, 'permission_denied');
  expectFailure(await sql(intern, 'SELECT * FROM customers'), 403, 'permission_denied');

  const partner = tokenIn(await run(createPartner));
  const body = [{ customer: 'acme', total: 1 }];
  expect(await call(url, 'POST', '/api/cdp/data/orders', { token: partner, body })).toMatchObject({ status: 201 });
  expectFailure(await call(url, 'GET', '/api/cdp/schema', { token: partner }), 403, 'insufficient_scope');

  expect(await run('cdp token show intern')).toMatch(/customers +\| SELECT \(id, country\) \| all/);
  const shown = await run('cdp role show intern; cdp role list; cdp tables; cdp role drop intern');
  expect(shown).toMatch(/customers +\| SELECT \(id, country\) \| all/);
  expect(shown).toMatch(/orders +\| SELECT +\| all/);
  expect(shown).toMatch(/Role intern dropped, 1 token revoked/);
  await expect.poll(async () => (await sql(intern, 'SELECT 1')).status).toBe(401);
});

it('shows each customer only its own rows', async () => {
  await run('cdp role create acme; cdp role create globex');
  expect(await sql(owner, policies)).toMatchObject({ status: 200 });
  await sql(owner, `INSERT INTO orders (customer, total) VALUES ('acme', 2), ('globex', 3)`);
  for (const [role, total] of [
    ['acme', [1, 2]],
    ['globex', [3]],
  ] as const) {
    const token = tokenIn(await run(`cdp token create --project shop --role ${role} --read-only`));
    const { body } = await sql(token, 'SELECT total FROM orders ORDER BY 1');
    expect((body['rows'] as { total: number }[]).map((row) => row.total)).toEqual(total);
  }
});
