/** docs/architecture.md is the map of the code: it names every folder, and nothing that does not exist. */
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { code, read, root } from './markdown.js';

const src = join(root, 'src');
const map = read('docs/architecture.md');

describe('docs/architecture.md', () => {
  it('names every folder of src', () => {
    const named = new Set(code(map).flatMap((path) => path.split('/').slice(0, -1)));
    const folders = readdirSync(src, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(folders.map(({ name }) => name).filter((name) => !named.has(name))).toEqual([]);
  });

  it('names no file that does not exist', () => {
    const files = new Set(readdirSync(src, { recursive: true, encoding: 'utf8' }).map((path) => basename(path)));
    const named = code(map).filter((path) => /^[\w/-]+\.ts$/.test(path));
    expect(named.filter((path) => !files.has(basename(path)))).toEqual([]);
  });
});
