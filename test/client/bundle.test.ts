/** What the client costs a page. */
import { expect, it } from 'vitest';
import { bundleClient } from '../support/client-bundle.js';
import { read } from '../docs/markdown.js';

it('holds the client, the few words of the contract that it needs, and nothing else', async () => {
  const { modules } = await bundleClient();
  expect(modules.filter((path) => !path.startsWith('client/'))).toEqual(['contract/limits.ts', 'contract/names.ts']);
});

it('is as large as the docs say', async () => {
  const { code, gzippedBytes } = await bundleClient();
  const said = /(\d+\.\d) kB minified, (\d+\.\d) kB gzipped/.exec(read('docs/client.md'));
  expect([Buffer.byteLength(code), gzippedBytes].map((bytes) => (bytes / 1000).toFixed(1))).toEqual(said?.slice(1));
});
