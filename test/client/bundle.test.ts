/** The size of the client in a page. */
import { expect, it } from 'vitest';
import { bundleClient } from '../support/client-bundle.js';
import { read } from '../docs/markdown.js';

it('contains the client, the two files of src/contract that it needs, and nothing else', async () => {
  const { modules } = await bundleClient();
  expect(modules.filter((path) => !path.startsWith('client/'))).toEqual(['contract/limits.ts', 'contract/names.ts']);
});

it('has the size that the docs state', async () => {
  const { code, gzippedBytes } = await bundleClient();
  const said = /(\d+\.\d) kB minified, (\d+\.\d) kB gzipped/.exec(read('docs/client.md'));
  expect([Buffer.byteLength(code), gzippedBytes].map((bytes) => (bytes / 1000).toFixed(1))).toEqual(said?.slice(1));
});
