/** The size of the console for a visitor. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';

const folder = fileURLToPath(new URL('../../dist/console/', import.meta.url));
const gzipped = (path: string): number => gzipSync(readFileSync(join(folder, path)), { level: 9 }).length;
const sum = (paths: readonly string[]): number => paths.reduce((bytes, path) => bytes + gzipped(path), 0);

it('is at most 80 kB for the first screen, 350 kB in all and 110 kB for the readers of files, compressed, and nothing is inline', () => {
  execFileSync(process.execPath, [fileURLToPath(new URL('../../scripts/console.mjs', import.meta.url))]);
  const page = readFileSync(join(folder, 'index.html'), 'utf8');
  const named = [...page.matchAll(/(?:src|href)="\/console\/([^"]+)"/g)].map(([, path]) => path as string);
  const all = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) =>
    /\.(html|js|css|svg)$/.test(path),
  );
  expect(named.length).toBeGreaterThan(2);
  expect(sum(['index.html', ...named])).toBeLessThan(80_000);
  // They are loaded when a workbook or a Parquet file is chosen.
  const readers = all.filter((path) => /\/(xlsx|parquet)-[\w-]{8}\.js$/.test(path));
  expect(readers).toHaveLength(2);
  expect(sum(readers)).toBeLessThan(110_000);
  expect(sum(all.filter((path) => !readers.includes(path)))).toBeLessThan(350_000);
  expect(page).not.toMatch(/<style|style=|<script[^>]*>[^<]|https?:/);
});
