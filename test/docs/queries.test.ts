/** docs/queries.md and docs/segments.md: their commands do what they say. */
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { newFolder } from '../support/program.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { blocks, read, root } from './markdown.js';

const of = (page: string, language: string): string[] =>
  blocks(read(page)).flatMap((block) => (block.language === language ? [block.text] : []));

let service: TestService;
let project: TestProject;
let env: Record<string, string>;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.rows(
    `CREATE TABLE orders (customer text, country text, total float8);
     CREATE TABLE customers (id text PRIMARY KEY, email text);
     INSERT INTO orders VALUES ('ada', 'DE', 10), ('ada', 'DE', 2.5), ('bob', 'FR', 1500);
     INSERT INTO customers VALUES ('ada', 'ada@example.com'), ('bob', 'bob@example.com')`,
  );
  const runner = await project.tokenWith('queries:run');
  const bin = join(await newFolder(), 'bin');
  mkdirSync(bin);
  const script = `#!/bin/sh\nexec ${process.execPath} ${join(root, 'dist/cli/bin.js')} "$@"\n`;
  writeFileSync(join(bin, 'cdp'), script, { mode: 0o755 });
  const { url: URL, url: CDP_URL } = service;
  const { token: TOKEN, token: CDP_TOKEN } = project;
  env = { PATH: `${bin}:${process.env.PATH}`, HOME: bin, URL, TOKEN, CDP_URL, CDP_TOKEN, RUNNER: runner };
});
afterAll(() => service.close());

const run = async (text = ''): Promise<string> => (await promisify(execFile)('sh', ['-euc', text], { env })).stdout;

it('saves a query, and runs it with a token that may run nothing else', async () => {
  const [save, createToken, runIt, commands] = of('docs/queries.md', 'sh');
  expect(JSON.parse(await run(save))).toMatchObject({ success: true, query: { name: 'orders-of' } });
  expect(createToken).toContain('--scopes queries:run');
  expect(JSON.parse(await run(runIt))).toEqual(JSON.parse(of('docs/queries.md', 'json')[0] ?? ''));
  expect(await run(commands)).toBe('Query orders-in saved\norders\n2\n');
});

it('makes a segment, whose members other SQL joins', async () => {
  const [save, runIt, members, commands] = of('docs/segments.md', 'sh');
  expect(JSON.parse(await run(save))).toMatchObject({ success: true, segment: { max_change: 20 } });
  expect(JSON.parse(await run(runIt))).toMatchObject({ run: { outcome: 'ok', rows: 1 } });
  expect(await run(members)).toMatch(/^key,entered_at\nbob,.+\n$/);
  const [join = '', changes = ''] = (of('docs/segments.md', 'sql')[0] ?? '').split(';');
  expect(await project.rows(join)).toEqual([{ email: 'bob@example.com' }]);
  expect(await project.rows(changes)).toMatchObject([{ key: 'bob', change: 'entered' }]);
  expect(await run(`cd "$HOME"\n${commands}`)).toMatch(/has run: 2 changes[^]*2 rows in new-buyers.parquet/);
});
