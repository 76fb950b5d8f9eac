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

/** In dist, what tells builds of one version apart (src/version.ts): it changes with each commit, without a compilation. */
const BUILD = 'build';

/** Brings dist up to date. Ends the process where the sources do not compile; dist then stays as it was. */
export function build() {
  compileAssembly();
  const sources = filesIn(src);
  const state = hashOf([
    ...sources,
    ...['tsconfig.json', 'tsconfig.build.json', 'package-lock.json'].map((file) => join(root, file)),
  ]);
  compileWhatChanged(sources, state);
  writeBuild(buildOf(state));
}

function compileWhatChanged(sources, state) {
  const expected = sources.flatMap(outputsOf).map((file) => join(dist, file));
  if (fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === state && expected.every((file) => fs.existsSync(file)))
    return;

  const built = timed('Building');
  fs.mkdirSync(cache, { recursive: true });
  const draft = fs.mkdtempSync(join(cache, 'draft-'));
  try {
    compile(draft);
    for (const file of sources.filter(isCopied)) copy(file, join(draft, relative(src, file)));
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

/**
 * `96bb838e, 2026-11-29`: the commit and its date. If the tree differs from it, also `dirty` and a hash of the sources;
 * without git, that hash alone.
 */
function buildOf(state) {
  const sources = `sources ${state.slice(0, 8)}`;
  // Sources unpacked inside another repository are not its commit.
  const commit = fs.existsSync(join(root, '.git')) ? git('log', '-1', '--format=%H %cs') : null;
  if (commit === null) return sources;
  const [hash, date] = commit.split(' ');
  const parts = [hash.slice(0, 8), date];
  return [...parts, ...(git('--no-optional-locks', 'status', '--porcelain') === '' ? [] : ['dirty', sources])].join(
    ', ',
  );
}

/** Its output; null if there is no git, or no commit. */
function git(...args) {
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  return status === 0 ? stdout.trim() : null;
}

function writeBuild(text) {
  const file = join(dist, BUILD);
  if (fs.existsSync(file) && fs.readFileSync(file, 'utf8') === text) return;
  const draft = join(cache, `${BUILD}.draft.${process.pid}`);
  fs.mkdirSync(cache, { recursive: true });
  fs.writeFileSync(draft, text);
  move(draft, file);
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
  const isLeft = (file) => !made.includes(file) && !file.startsWith(CONSOLE) && file !== BUILD;
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
