/** docs/recipes.md as a program in each of its languages. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { blocks, read, root } from '../docs/markdown.js';
import { type Fault, startFaultyProxy } from './faulty-proxy.js';
import { startTestService } from './service.js';

/**
 * Runs the snippets of a language as one program, on a project of its own, and compares what it prints with the page.
 * @param command what runs the program's text
 * @param faults done to the requests that carry a key, in turn; each key meets one, on its first request
 */
export async function expectRecipes(
  language: string,
  command: (program: string) => [program: string, ...args: string[]],
  faults: readonly Fault[] = [],
): Promise<void> {
  const all = blocks(read('docs/recipes.md'));
  const own = all.flatMap((block, i) => (block.language === language ? [{ ...block, output: all[i + 1] }] : []));
  expect(own.length).toBeGreaterThan(6);
  const shown = own.flatMap(({ output }) => (output?.language === 'text' ? [output.text] : []));
  // Only what makes the calls prints nothing.
  expect(shown).toHaveLength(own.length - 1);
  const [file, ...args] = command(own.map(({ text }) => text).join('\n'));
  const service = await startTestService();
  const proxy = await startFaultyProxy(service.url);
  const left = [...faults];
  proxy.plan = ({ headers: { 'idempotency-key': key } }) => {
    const isFirst = key !== undefined && proxy.seen.every((request) => request.key !== key);
    return isFirst ? left.shift() : undefined;
  };
  // Recipes may write files.
  const cwd = mkdtempSync(join(tmpdir(), 'cdp-recipe-'));
  try {
    const { token } = await service.project();
    const { PATH, HOME } = process.env;
    const env = { PATH, HOME, URL: proxy.url, TOKEN: token, PYTHONPATH: join(root, 'python/src') };
    const { stdout } = await promisify(execFile)(file, args, { env, cwd });
    expect(stdout).toBe(shown.join(''));
    expect(left).toEqual([]);
  } finally {
    await proxy.close();
    await service.close();
    rmSync(cwd, { recursive: true });
  }
}
