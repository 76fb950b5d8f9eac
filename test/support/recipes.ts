/** docs/recipes.md as a program in each of its languages. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { blocks, read } from '../docs/markdown.js';
import { startTestService } from './service.js';

/**
 * Runs the snippets of a language as one program, on a project of its own, and compares what it prints with the page.
 * @param command what runs the program's text
 */
export async function expectRecipes(
  language: string,
  command: (program: string) => [program: string, ...args: string[]],
): Promise<void> {
  const all = blocks(read('docs/recipes.md'));
  const own = all.flatMap((block, i) => (block.language === language ? [{ ...block, output: all[i + 1] }] : []));
  expect(own.length).toBeGreaterThan(6);
  const shown = own.flatMap(({ output }) => (output?.language === 'text' ? [output.text] : []));
  // Only what makes the calls prints nothing.
  expect(shown).toHaveLength(own.length - 1);
  const [file, ...args] = command(own.map(({ text }) => text).join('\n'));
  const service = await startTestService();
  try {
    const { token } = await service.project();
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, URL: service.url, TOKEN: token };
    const { stdout } = await promisify(execFile)(file, args, { env });
    expect(stdout).toBe(shown.join(''));
  } finally {
    await service.close();
  }
}
