/** Builds the console into dist/console, once for each state of its sources and of what it imports. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { dirname, extname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { cache, filesIn, hashOf, move } from './files.mjs';
import { prepare, root, timed } from './prepare.mjs';

const target = join(root, 'dist', 'console');
const stamp = join(cache, 'console');
const vite = join(root, 'node_modules', 'vite', 'bin', 'vite.js');

export function buildConsole() {
  const sources = ['console', 'src/export', 'src/import', 'src/client', 'src/contract'].flatMap((folder) =>
    filesIn(join(root, folder)),
  );
  const state = hashOf([...sources, join(root, 'package-lock.json'), import.meta.filename]);
  const isThere = fs.existsSync(stamp) && fs.existsSync(join(target, 'index.html'));
  if (isThere && fs.readFileSync(stamp, 'utf8') === state) return;

  const built = timed('Building the console');
  fs.mkdirSync(cache, { recursive: true });
  const draft = fs.mkdtempSync(join(cache, 'console-'));
  try {
    // A process of its own: Vite sets NODE_ENV to production, which npm takes for `--omit dev`.
    const options = ['--outDir', draft, '--emptyOutDir', '--logLevel', 'warn'];
    execFileSync(process.execPath, [vite, 'build', 'console', ...options], { cwd: root, stdio: 'inherit' });
    filesIn(draft).forEach(compress);
    publish(draft);
  } finally {
    fs.rmSync(draft, { recursive: true, force: true });
  }
  fs.writeFileSync(`${stamp}.${process.pid}`, state);
  move(`${stamp}.${process.pid}`, stamp);
  built();
}

/** Leaves what the service sends to browsers that take it beside the file (http/api/console-files.ts). */
function compress(file) {
  if (!['.html', '.js', '.css', '.svg'].includes(extname(file))) return;
  const bytes = fs.readFileSync(file);
  fs.writeFileSync(`${file}.br`, brotliCompressSync(bytes));
  fs.writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
}

/** The page last, so that it never names a file that is not there yet. */
function publish(draft) {
  const made = filesIn(draft).map((file) => relative(draft, file));
  for (const file of [...made.filter((name) => name !== 'index.html'), 'index.html']) {
    fs.mkdirSync(dirname(join(target, file)), { recursive: true });
    move(join(draft, file), join(target, file));
  }
  for (const file of filesIn(target)) if (!made.includes(relative(target, file))) fs.rmSync(file, { force: true });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  prepare({ withPostgres: false });
  buildConsole();
}
