/** docs/architecture.md is the map of the code: it names every folder, and nothing that does not exist. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
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

  it('names files by their whole paths, and none that does not exist', () => {
    const named = code(map).filter((path) => /^[\w./-]+\.ts$/.test(path));
    const isThere = (path: string) => [src, root].some((folder) => existsSync(join(folder, path)));
    expect(named.filter((path) => !isThere(path))).toEqual([]);
  });

  it.each(['embedded', 'feed', 'import', 'tenancy'])('lists each file of src/%s once, and no others', (folder) => {
    const [, table = ''] = map.split(`The files of \`src/${folder}/\``)[1]?.split('\n\n') ?? [];
    const files = readdirSync(join(src, folder)).filter((name) => name.endsWith('.ts'));
    const named = table.split('\n').flatMap((row) => code(row.split('|')[1] ?? ''));
    expect(named.map((name) => `${name}.ts`).sort()).toEqual(files.sort());
  });

  it('names each folder of test/http, and no others', () => {
    const [, table = ''] = map.split('in the folders of `test/http`:\n\n')[1]?.match(/^((?:\|.*\n)+)/) ?? [];
    const folders = readdirSync(join(root, 'test/http')).map((name) => `${name}/`);
    expect(code(table).sort()).toEqual(folders.sort());
  });
});
