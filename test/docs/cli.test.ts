/** The commands of docs/cli.md, pasted in order into a shell, print what the page shows and end as it says. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
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
  folder = mkdtempSync(join(tmpdir(), 'cdp-cli-docs-'));
  symlinkSync(join(root, 'dist/cli/bin.js'), join(folder, 'cdp'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service.close();
});

/** What differs from run to run. */
const comparable = (output: string): string =>
  output
    .replaceAll(service.url, 'http://127.0.0.1:8080')
    .replace(/\S*profiles\.json/, '<file>')
    .replace(/\S*\/(?=\S*\.refused)/g, '')
    .replace(/\d+\.\d s(?:, [\d,]+ rows\/s)?/g, '<time>')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
    .trimEnd();

it('docs/cli.md shows what its commands print', async () => {
  const { token } = await service.project('shop');
  const env = { PATH: `${folder}:${process.env.PATH}`, HOME: folder, CDP_URL: service.url, CDP_TOKEN: token };
  const all = blocks(read('docs/cli.md'));
  let compared = 0;
  for (const [i, { language, text: command, line, before }] of all.entries()) {
    if (language !== 'sh') continue;
    const response = all[i + 1];
    const ends = /exit code is `(\d+)`/.exec(before)?.[1] ?? '0';
    const shell = spawn('sh', ['-c', command], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const exit = new Promise((resolve) => shell.on('close', resolve));
    const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
    const code = await exit;
    expect(code, `line ${line}: ${stderr}`).toBe(Number(ends));
    if (response?.language !== 'text') continue;
    expect(comparable(stdout), `line ${line}`).toBe(comparable(response.text));
    compared++;
    const said = all[i + 2];
    if (said?.language === 'text' && said.before.includes('on standard error'))
      expect(comparable(stderr)).toBe(comparable(said.text));
  }
  expect(compared).toBeGreaterThan(6);
});
