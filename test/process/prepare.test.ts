/** What `npm start` prints while it installs and builds. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { projectRoot } from '../support/program.js';

it('prints to standard error what it starts, and then how long that took', async () => {
  const module = JSON.stringify(join(projectRoot, 'scripts/prepare.mjs'));
  const program = `import { timed } from ${module}; const done = timed('Building'); setTimeout(done, 1_100);`;
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^Building …\nBuilding: done in [2-9]\d* s\n$/);
});
