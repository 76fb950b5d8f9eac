/**
 * Compiles src into dist, once for each state of the sources. The compiler works in a folder of its own and each file
 * is then renamed into dist, so builds at the same time, or a service running from dist, never see half a file.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { basename, dirname, extname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setup as compileAssembly } from './assembly.mjs';
import { buildConsole } from './console.mjs';
import { cache, filesIn, hashOf, move } from './files.mjs';
import { fail, prepare, root, timed } from './prepare.mjs';

const src = join(root, 'src');
const dist = join(root, 'dist');
const stamp = join(cache, 'build');

/** In dist, but made by `console.mjs`. */
const CONSOLE = `console${sep}`;

/** Brings dist up to date. Ends the process where the sources do not compile; dist then stays as it was. */
export function build() {
  compileAssembly();
  const sources = filesIn(src);
  const state = hashOf([
    ...sources,
    ...['tsconfig.json', 'tsconfig.build.json', 'package-lock.json'].map((file) => join(root, file)),
  ]);
  const expected = sources.flatMap(outputsOf).map((file) => join(dist, file));
  if (fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === state && expected.every((file) => fs.existsSync(file)))
    return;

  const built = timed('Building');
  fs.mkdirSync(cache, { recursive: true });
  const draft = fs.mkdtempSync(join(cache, 'draft-'));
  try {
    compile(draft);
    for (const file of sources.filter(isCopied)) copy(file, join(draft, relative(src, file)));
    // Tells builds of one version apart.
    fs.writeFileSync(join(draft, 'build'), state.slice(0, 8));
    const program = join(draft, 'cli', 'bin.js');
    if (fs.existsSync(program)) fs.chmodSync(program, 0o755);
    publish(draft);
  } finally {
    fs.rmSync(draft, { recursive: true, force: true });
  }
  fs.writeFileSync(join(cache, `build.${process.pid}`), state);
  fs.renameSync(join(cache, `build.${process.pid}`), stamp);
  built();
}

function compile(draft) {
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const args = ['-p', 'tsconfig.build.json', '--outDir', draft, '--incremental', 'false', '--tsBuildInfoFile', 'null'];
  const { status } = spawnSync(process.execPath, [compiler, ...args], { cwd: root, stdio: ['ignore', 2, 2] });
  if (status === 0) return;
  fs.rmSync(draft, { recursive: true, force: true });
  fail('The sources do not compile; dist is as it was.');
}

/** Moves what differs into dist and removes what no source stands for any more. */
function publish(draft) {
  const made = filesIn(draft).map((file) => relative(draft, file));
  for (const file of made) {
    const [from, to] = [join(draft, file), join(dist, file)];
    if (fs.existsSync(to) && fs.readFileSync(to).equals(fs.readFileSync(from))) continue;
    fs.mkdirSync(dirname(to), { recursive: true });
    move(from, to);
  }
  const isLeft = (file) => !made.includes(file) && !file.startsWith(CONSOLE);
  for (const file of filesIn(dist)) if (isLeft(relative(dist, file))) fs.rmSync(file, { force: true });
}

/** What a source becomes, relative to dist. */
function outputsOf(source) {
  const path = relative(src, source);
  if (isCopied(path)) return [path];
  if (path.endsWith('.d.ts') || basename(dirname(path)) === 'assembly') return [];
  if (path.endsWith('.ts')) return [path.replace(/\.ts$/, '.js'), path.replace(/\.ts$/, '.d.ts')];
  return [];
}

/** Statements, and what AssemblyScript was compiled to. */
const isCopied = (path) => ['.sql', '.wasm'].includes(extname(path));

function copy(from, to) {
  fs.mkdirSync(dirname(to), { recursive: true });
  fs.copyFileSync(from, to);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  prepare({ withPostgres: false });
  build();
  buildConsole();
}
