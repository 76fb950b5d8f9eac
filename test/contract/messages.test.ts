/** Messages of errors are sentences without a full stop: commands and pages put them into longer ones. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const src = fileURLToPath(new URL('../../src/', import.meta.url));

it('no message ends with a full stop', () => {
  const ENDS =
    /new (?:EngineError|UsageError|ExitError|ConfigError)\(\s*(?:'\w+',\s*|EXIT\.\w+,\s*)?(['`])((?:(?!\1)[^\n])*[^.]\.)\1/g;
  const sources = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  const stops = sources.flatMap((path) => {
    const text = readFileSync(`${src}${path}`, 'utf8');
    return Array.from(text.matchAll(ENDS), ([, , message]) => `${path}: ${message}`);
  });
  expect(stops).toEqual([]);
});
