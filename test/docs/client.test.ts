/**
 * The snippets of docs/client.md form one program: it compiles against the built package, runs, and prints what the
 * page says.
 */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { compile } from '../support/compile.js';
import { startTestService, type TestService } from '../support/service.js';
import { blocks, read, root } from './markdown.js';

const run = promisify(execFile);

let service: TestService;
let folder: string;
beforeAll(async () => {
  service = await startTestService();
  // As `npm install` leaves it: the package under its name.
  folder = mkdtempSync(join(tmpdir(), 'cdp-client-docs-'));
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(root, join(folder, 'node_modules/cdp-data-engine'), 'dir');
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service.close();
});

it('docs/client.md compiles, runs, and prints what the page says', async () => {
  const snippets = blocks(read('docs/client.md')).filter(({ language }) => language === 'ts');
  const program = snippets.map(({ text }) => text).join('\n');
  const said = [...program.matchAll(/console\.log\(.*\)[;,] \/\/ (.+)$/gm)].map(([, text]) => text);
  expect(said.length).toBeGreaterThan(8);

  const file = join(folder, 'program.ts');
  writeFileSync(file, program);
  expect(compile([file])).toEqual([]);
  const env = { PATH: process.env.PATH, URL: service.url, TOKEN: (await service.project()).token };
  const { stdout } = await run(process.execPath, [join(folder, 'program.js')], { env });
  expect(stdout.trimEnd().split('\n')).toEqual(said);
});
