/** The advice of `cdp import`, as the console shows it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { inConsole } from '../../console/src/import/words.js';

const folder = fileURLToPath(new URL('../../src/import/', import.meta.url));

it('names a control of the screen for every option', () => {
  const sources = readdirSync(folder).map((file) => readFileSync(join(folder, file), 'utf8'));
  const options = new Set(sources.flatMap((source) => source.match(/(?<![\w(])--[a-z][a-z-]+/g) ?? []));
  expect(options.size).toBeGreaterThan(10);
  expect([...options].map(inConsole).filter((words) => words.includes('--'))).toEqual([]);
  expect(inConsole('FLOAT with --decimal , --thousands .')).toBe('FLOAT with “Decimals” , “Thousands” .');
});
