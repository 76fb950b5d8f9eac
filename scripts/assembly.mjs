/**
 * Compiles AssemblyScript, each folder `assembly` of the sources to a file beside it, once for each state of it. From
 * there the tests take it, which run from the sources, and the build copies it into dist.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { cache, filesIn, hashOf, move } from './files.mjs';
import { fail, root, say } from './prepare.mjs';

/** The file in `assembly` that each begins with, which also gives it its name, and how much memory it may take. */
const MODULES = [
  // 64 MiB: a body of 10 MiB, its rows, and a row of it once more.
  { folder: join(root, 'src/codec/batch'), name: 'encode', memory: ['--maximumMemory', '1024'] },
  // 256 MiB: a message of 16 MiB, each byte of which becomes six, and once more as much for a value that is written
  // outside.
  { folder: join(root, 'src/codec/results'), name: 'rows', memory: ['--maximumMemory', '4096'] },
];

const OPTIONS = [
  ...['--optimizeLevel', '3', '--converge', '--noAssert', '--enable', 'simd'],
  // It makes no objects, so it needs nothing that would free them, and nothing to end with.
  ...['--runtime', 'stub', '--use', 'abort='],
];

/**
 * With --converge, the compiler repeats its passes while the code shrinks, and reports so that the last repetition was in vain:
 * a line that looks like a fault to whoever starts the service for the first time.
 */
const CONVERGED = /^Last converge was suboptimal\.\r?\n/m;

/** For the build; for vitest (`globalSetup`) too, so that no test runs what the sources do not say. */
export function setup() {
  const outdated = MODULES.map(withState).filter(isOutdated);
  if (outdated.length > 0) say('Compiling AssemblyScript …');
  outdated.forEach(compile);
}

function withState(module) {
  const sources = join(module.folder, 'assembly');
  const target = join(module.folder, `${module.name}.wasm`);
  const stamp = join(cache, `assembly.${module.name}`);
  const files = [...filesIn(sources), join(root, 'package-lock.json'), import.meta.filename];
  return { ...module, sources, target, stamp, state: hashOf(files) };
}

const isOutdated = ({ target, stamp, state }) =>
  !(fs.existsSync(target) && fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === state);

function compile({ name, memory, sources, target, stamp, state }) {
  fs.mkdirSync(cache, { recursive: true });
  const compiler = join(root, 'node_modules', 'assemblyscript', 'bin', 'asc.js');
  const draft = join(cache, `${name}.${process.pid}.wasm`);
  const args = [join(sources, `${name}.ts`), '--outFile', draft, ...OPTIONS, ...memory];
  const { status, stderr } = spawnSync(process.execPath, [compiler, ...args], {
    cwd: root,
    stdio: ['ignore', 2, 'pipe'],
    encoding: 'utf8',
  });
  process.stderr.write(stderr.replace(CONVERGED, ''));
  if (status !== 0) fail('The AssemblyScript does not compile.');
  move(draft, target);
  // Renamed into place: a copy of the tree made of hard links has a stamp of its own.
  fs.writeFileSync(`${stamp}.${process.pid}`, state);
  move(`${stamp}.${process.pid}`, stamp);
}
