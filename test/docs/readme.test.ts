/** All commands of the README, pasted in order into a shell next to a running service. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestService, type TestService } from '../support/service.js';
import { blocks, read, root } from './markdown.js';

let service: TestService;
let folder: string;
beforeAll(async () => {
  service = await startTestService();
  folder = mkdtempSync(join(tmpdir(), 'cdp-readme-'));
  symlinkSync(join(root, 'dist/cli/bin.js'), join(folder, 'cdp-data-engine'));
  // The package is not installed here.
  writeFileSync(join(folder, 'npx'), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 });
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service.close();
});

it('create a table, insert a thousand rows and return a response', async () => {
  const { token } = await service.project();
  const all = blocks(read('README.md'));
  const commands = all.filter(({ language }) => language === 'sh').map((block) => block.text);
  const env = { PATH: `${folder}:${process.env.PATH}`, HOME: folder, URL: service.url, TOKEN: token };
  const shell = spawn('sh', ['-ec', commands.join('\n')], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const exit = new Promise((resolve) => shell.on('close', resolve));
  const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
  expect(await exit, stderr).toBe(0);
  const timeless = (output: string) => output.replace(/\d+\.\d s, [\d,]+ rows\/s/g, '<time>').trimEnd();
  const shown = timeless(all.find(({ language }) => language === 'text')?.text ?? '');
  // Before it stand the responses to curl, which are compared in examples.test.ts.
  expect(shown).toContain('1,000 rows stored');
  expect(timeless(stdout).slice(-shown.length)).toBe(shown);
});
