/**
 * Compiles the AssemblyScript of src/engine/batch/copy/assembly to walk.wasm beside it, once for each state of it. From
 * there the tests take it, which run from the sources, and the build copies it into dist.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { cache, filesIn, hashOf, move } from './files.mjs';
import { fail, root, say } from './prepare.mjs';

const folder = join(root, 'src', 'engine', 'batch', 'copy');
const sources = join(folder, 'assembly');
const target = join(folder, 'walk.wasm');
const stamp = join(cache, 'assembly');

/** 64 MiB: a body of 10 MiB, its rows, and a row of it once more. */
const MOST_PAGES = 1024;

const OPTIONS = [
  ...['--optimizeLevel', '3', '--converge', '--noAssert', '--enable', 'simd'],
  // It makes no objects, so it needs nothing that would free them, and nothing to end with.
  ...['--runtime', 'stub', '--use', 'abort='],
  ...['--maximumMemory', String(MOST_PAGES)],
];

/** For the build; for vitest (`globalSetup`) too, so that no test runs what the sources do not say. */
export function setup() {
  const files = [...filesIn(sources), join(root, 'package-lock.json'), import.meta.filename];
  const state = hashOf(files);
  if (fs.existsSync(target) && fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === state) return;

  say('Compiling AssemblyScript …');
  fs.mkdirSync(cache, { recursive: true });
  const compiler = join(root, 'node_modules', 'assemblyscript', 'bin', 'asc.js');
  const draft = join(cache, `walk.${process.pid}.wasm`);
  const args = [join(sources, 'walk.ts'), '--outFile', draft, ...OPTIONS];
  const { status } = spawnSync(process.execPath, [compiler, ...args], { cwd: root, stdio: ['ignore', 2, 2] });
  if (status !== 0) fail('The AssemblyScript does not compile.');
  move(draft, target);
  fs.writeFileSync(stamp, state);
}
