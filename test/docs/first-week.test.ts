/** The page for the first week: its commands and their options exist. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { blocks, read, root } from './markdown.js';

const commands = blocks(read('docs/first-week.md'))
  .flatMap(({ text }) => text.split('\n'))
  .flatMap((line) => line.match(/(?<=npx cdp-data-engine ).+/) ?? []);

it.each(commands)('%s', async (command) => {
  const [name = '', second = ''] = command.split(' ');
  const path = ['index', 'project', 'token'].includes(name) ? [name, second] : [name];
  const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'dist/cli/bin.js'), ...path, '--help']);
  expect(stdout).toMatch(new RegExp(`^Usage: .+ ${path.join(' ')} `));
  for (const option of command.match(/(?<= )--?[a-z-]+/g) ?? []) expect(stdout).toContain(option);
});
