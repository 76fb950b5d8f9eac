/** docs/architecture.md is the map of the code: nothing in src is missing there. */
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { code, read, root } from './markdown.js';

const src = join(root, 'src');
const map = read('docs/architecture.md');

/** Of the other folders the map says what they are for, and no more. */
const SECTIONS = {
  '': 'The map of the code',
  http: 'Inside http',
  client: 'Inside the client',
  cli: 'Inside cli',
  'cli/import': 'Inside cli',
  engine: 'Inside the engine',
  'engine/sql': 'Inside free SQL',
  tenancy: 'Inside tenancy',
  embedded: 'Inside embedded',
  postgres: 'Inside postgres',
};

/** The text below a heading, to the next one. */
function section(heading: string): string {
  const [, text] = new RegExp(`^#+ ${heading}\n([^]*?)(?=^#|(?![^]))`, 'm').exec(map) ?? [];
  if (text === undefined) throw new Error(`The map has no section "${heading}"`);
  return text;
}

describe('docs/architecture.md', () => {
  it.each(Object.entries(SECTIONS))('names each file of src/%s', (folder, heading) => {
    const named = new Set(code(section(heading)).map((path) => basename(path)));
    const files = readdirSync(join(src, folder)).filter((name) => name.endsWith('.ts'));
    expect(files.filter((name) => !named.has(name))).toEqual([]);
  });

  it('names each folder', () => {
    const named = new Set(code(map).flatMap((path) => path.split('/').slice(0, -1)));
    const folders = readdirSync(src, { recursive: true, withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(folders.map(({ name }) => name).filter((name) => !named.has(name))).toEqual([]);
  });

  it('names no file that does not exist', () => {
    const files = new Set(readdirSync(src, { recursive: true, encoding: 'utf8' }).map((path) => basename(path)));
    const named = code(map).filter((path) => /^[\w/-]+\.ts$/.test(path));
    expect(named.filter((path) => !files.has(basename(path)))).toEqual([]);
  });
});
