/**
 * Fills packages/client with what the client consists of: its files in dist, and those of contract that they import.
 */
import fs from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from './build.mjs';
import { prepare, root } from './prepare.mjs';

const dist = join(root, 'dist');
const IMPORT = /\bfrom '(\.{1,2}\/[^']+)\.js'|\bimport\('(\.{1,2}\/[^']+)\.js'\)/g;

/** @returns the files that a file imports, and theirs, without their extension */
function imported(module, found = new Set()) {
  if (found.has(module)) return found;
  found.add(module);
  for (const extension of ['.js', '.d.ts']) {
    for (const [, plain, dynamic] of fs.readFileSync(module + extension, 'utf8').matchAll(IMPORT)) {
      imported(join(dirname(module), plain ?? dynamic), found);
    }
  }
  return found;
}

export function fillClientPackage() {
  const target = join(root, 'packages', 'client', 'dist');
  fs.rmSync(target, { recursive: true, force: true });
  for (const module of imported(join(dist, 'client', 'index'))) {
    for (const extension of ['.js', '.d.ts']) {
      const to = join(target, relative(dist, module) + extension);
      fs.mkdirSync(dirname(to), { recursive: true });
      fs.copyFileSync(module + extension, to);
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  prepare({ withPostgres: false });
  build();
  fillClientPackage();
}
