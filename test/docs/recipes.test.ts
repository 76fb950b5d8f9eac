/** The recipes in curl and TypeScript print what docs/recipes.md shows; those in Python are tested in test/tools. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { compile } from '../support/compile.js';
import type { Fault } from '../support/faulty-proxy.js';
import { expectRecipes } from '../support/recipes.js';
import { root } from './markdown.js';

it('work in curl', () => expectRecipes('sh', (program) => ['sh', '-euc', program]));

it.each<Fault>(['drop-before', 'drop-after', 'cut', 'bad-gateway', 'unavailable', 'rate-limit'])(
  'work in curl if a batch meets: %s',
  (fault) => expectRecipes('sh', (program) => ['sh', '-euc', program], [fault]),
);

/** One for each change of the program: a table, batches (one again without its bad records), an update and a delete. */
const FAULTS: Fault[] = ['drop-after', 'cut', 'bad-gateway', 'unavailable', 'rate-limit'];

it.each([
  ['', []],
  [', on a bad network', [...FAULTS, ...FAULTS]],
])('work in TypeScript%s', async (_, faults) => {
  // As `npm install` leaves it: the package under its name.
  const folder = mkdtempSync(join(tmpdir(), 'cdp-recipes-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(root, join(folder, 'node_modules/cdp-data-engine'), 'dir');
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  await expectRecipes(
    'ts',
    (program) => {
      const file = join(folder, 'recipes.ts');
      writeFileSync(file, program);
      expect(compile([file])).toEqual([]);
      return [process.execPath, join(folder, 'recipes.js')];
    },
    faults,
  );
});
