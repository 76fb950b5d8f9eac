/** docs/places.md, the list of places, is complete in itself; the console stores nothing elsewhere. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { root } from './markdown.js';
import { namesIn, PLACES } from './places.js';

it('says of every place who may read it, how long it is kept, and how the data of one person is found', () => {
  const places = [...PLACES.values()].flat();
  expect(places.length).toBeGreaterThan(30);
  for (const { title, facts } of places) {
    expect([...facts.keys()], title).toEqual(['Who may read it', 'How long', 'One person']);
  }
});

it('has each name once in its area', () => {
  for (const area of PLACES.keys()) {
    const names = namesIn(area);
    expect(names, area).toEqual([...new Set(names)]);
  }
});

it('has what the console stores in the browser', () => {
  const folder = join(root, 'console/src');
  const text = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.tsx?$/.test(path))
    .map((path) => readFileSync(join(folder, path), 'utf8'))
    .join('\n');
  const databases = [...text.matchAll(/indexedDB\.open\('([^']+)'/g)].map(([, name]) => `indexedDB ${name}`);
  const stores = ['sessionStorage', 'localStorage', 'document.cookie', 'caches.open', 'storage.getDirectory'];
  const used = [...databases, ...stores.filter((name) => text.includes(`${name}.`) || text.includes(`${name}(`))];
  expect(used.sort()).toEqual(namesIn('The browser of a console user').sort());
  // Nothing opens a database whose name is not written out.
  expect(text.match(/indexedDB/g)).toHaveLength(databases.length);
});
