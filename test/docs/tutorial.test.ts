/**
 * The commands of docs/tutorial.md, pasted in order into a shell in an empty folder with the packed package, print what
 * the page shows.
 */
import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { installPackage } from '../support/package.js';
import { endEverything, freePort, projectRoot, startServe } from '../support/program.js';
import { read } from './markdown.js';
import { expectPasted, steps } from './paste.js';

afterAll(endEverything);

/** What differs from run to run. */
const comparable = (output: string): string =>
  output
    .replace(/\S*profiles\.json/, '<file>')
    .replace(/\d+\.\d s, [\d,]+ rows\/s/g, '<time>')
    .replace(/~\d+/g, '<about>')
    .replace(/ +$/gm, '')
    .trimEnd();

it('docs/tutorial.md works with the package alone, and prints what the page shows', { timeout: 240_000 }, async () => {
  const { folder } = await installPackage();
  await symlink(join(projectRoot, 'node_modules/vega-datasets'), join(folder, 'node_modules/vega-datasets'), 'dir');
  await symlink('node_modules/vega-datasets/data', join(folder, 'data'));
  await mkdir(join(folder, 'home'), { mode: 0o755 });
  const port = await freePort();
  await startServe(['--port', String(port), '--data-dir', join(folder, '.cdp')], {
    program: join(folder, 'node_modules/cdp-data-engine'),
    cwd: folder,
  });
  const isDone = ({ text }: { text: string }) => /npm install|cdp-data-engine serve/.test(text);
  const run = steps(read('docs/tutorial.md')).filter((step) => !isDone(step));
  expect(run.filter(({ shown }) => shown !== undefined).length).toBeGreaterThan(12);
  const env = { PATH: process.env.PATH, HOME: join(folder, 'home') };
  await expectPasted(run, comparable, { port, cwd: folder, env });
});
