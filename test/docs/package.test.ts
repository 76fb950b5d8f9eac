/** What `npm pack` packs: what users need, and pages without dead links. */
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { installPackage } from '../support/package.js';
import { endEverything } from '../support/program.js';
import { internalLinks, read } from './markdown.js';

let files: readonly string[];
beforeAll(async () => ({ files } = await installPackage()));
afterAll(endEverything);

it('contains the program, the console, the types of the client, the docs and the files for operators, and nothing else', () => {
  const known = [
    /^(?:package\.json|README\.md|LICENSE|CHANGELOG\.md)$/,
    /^dist\/.+\.(?:js|sql|wasm)$/,
    // The commit of the build, which `cdp --version` prints.
    /^dist\/build$/,
    /^dist\/(?:client|contract)\/.+\.d\.ts$/,
    /^dist\/console\/(?:index\.html|assets\/[\w-]+\.(?:js|css|svg))(?:\.br|\.gz)?$/,
    /^docs\/(?:decisions\/)?[\w-]+\.md$/,
    // What the pages link to.
    /^(?:CONTRIBUTING|bench\/README|examples\/README)\.md$/,
    /^deploy\/(?:(?:cdp\.service|haproxy\.cfg)$|grafana\/|prometheus\/)/,
  ];
  expect(files.filter((file) => !known.some((pattern) => pattern.test(file)))).toEqual([]);
  const needed = [
    'dist/codec/batch/encode.wasm',
    'dist/codec/results/rows.wasm',
    'dist/cli/bin.js',
    'dist/console/index.html',
    'dist/client/index.js',
    'dist/client/index.d.ts',
    'docs/tutorial.md',
    'LICENSE',
  ];
  expect(files).toEqual(expect.arrayContaining(needed));
});

it('contains pages that link only to packed files', () => {
  const pages = files.filter((file) => file.endsWith('.md'));
  const dead = pages.flatMap((page) =>
    internalLinks(read(page))
      .map((link) => join(dirname(page), link.split('#')[0] || basename(page)))
      .filter((target) => !files.some((file) => file === target || file.startsWith(`${target}/`)))
      .map((target) => `${page}: ${target}`),
  );
  expect(dead).toEqual([]);
});

it('is complete: the index of the README lists every page of the docs', () => {
  const linked = internalLinks(read('README.md')).map((link) => link.split('#')[0]);
  const pages = files.filter((file) => /^docs\/\w+\.md$/.test(file));
  expect(pages.filter((page) => !linked.includes(page))).toEqual([]);
});
