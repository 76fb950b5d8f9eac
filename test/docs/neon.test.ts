/**
 * The snippets of docs/neon.md form one program: it compiles against third-party packages, runs, and prints what the
 * page says.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
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
  folder = mkdtempSync(join(tmpdir(), 'cdp-neon-docs-'));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'dir');
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service.close();
});

it('docs/neon.md compiles, runs, and prints what the page says', async () => {
  const snippets = blocks(read('docs/neon.md')).filter(({ language }) => language === 'ts');
  const program = snippets.map(({ text }) => text).join('\n');
  const said = [...program.matchAll(/console\.log\(.*\)[;,] \/\/ (.+)$/gm)].map(([, text]) => text);
  expect(said.length).toBeGreaterThan(6);

  const file = join(folder, 'program.ts');
  writeFileSync(file, program);
  expect(compile([file])).toEqual([]);
  const { name, token } = await service.project();
  const PROJECT_URL = `postgresql://writer:${token}@127.0.0.1/${name}`;
  const env = { PATH: process.env.PATH, URL: service.url, PROJECT_URL, TOKEN: token };
  const { stdout } = await run(process.execPath, [join(folder, 'program.js')], { env });
  expect(stdout.trimEnd().split('\n')).toEqual(said);
});
