/** The commands of docs/cdp-in-an-afternoon.md, pasted in order into a shell in a clone, print what the page shows. */
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { endEverything, freePort, newFolder, preparedDataDir, projectRoot, startServe } from '../support/program.js';
import { read } from './markdown.js';
import { expectPasted, steps } from './paste.js';

afterAll(endEverything);

/** What differs from run to run: times, durations and ids. */
const comparable = (output: string): string =>
  output
    .replace(/(?<= )20\d\d-\d\d-\d\dT[\d:.]+Z/g, '<time>')
    .replace(/\d+\.\d s(?:, [\d,]+ rows\/s)?/g, '<duration>')
    .replace(/in [\d,]+ ms/g, '<duration>')
    .replace(/^[0-9a-f]{8}-[0-9a-f-]{27}/gm, '<id>')
    .replace(/[ \t]+$/gm, '')
    .replace(/^ +/gm, '')
    .trimEnd();

it('docs/cdp-in-an-afternoon.md works in a clone, and prints what the page shows', async () => {
  const folder = await newFolder();
  const dataDir = await preparedDataDir();
  await symlink(dataDir, join(folder, '.cdp'), 'dir');
  await symlink(join(projectRoot, 'examples'), join(folder, 'examples'), 'dir');
  // The program of a clone, which npx finds in the folder above, too.
  const npx = `#!/bin/sh\nshift\nexec "${process.execPath}" "${join(projectRoot, 'dist/cli/bin.js')}" "$@"\n`;
  await writeFile(join(folder, 'npx'), npx, { mode: 0o755 });
  const port = await freePort();
  await startServe(['--port', String(port), '--data-dir', dataDir]);
  const run = steps(read('docs/cdp-in-an-afternoon.md'));
  expect(run.filter(({ shown }) => shown !== undefined).length).toBeGreaterThan(18);
  const env = { PATH: `${folder}:${process.env.PATH}`, HOME: folder };
  await expectPasted(run, comparable, { port, cwd: folder, env });
});
