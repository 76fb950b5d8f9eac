/** The checks of `.ci/run`: all tests, then types, lint, format and package. Closes with `N passed, N failed`. */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root } from './prepare.mjs';

const folder = mkdtempSync(join(tmpdir(), 'cdp-ci-'));
const count = { passed: 0, failed: 0 };
/** What failed, to be named once more at the end, where whoever reads the log looks first. */
const failures = [];
/** Tests that failed at first. */
const failedFirst = [];

/** Runs a command with its output in ours. */
function run(variables, command, ...args) {
  console.log(`\n> ${[command, ...args].join(' ')}`);
  const env = { ...process.env, ...variables };
  return spawnSync(command, args, { cwd: root, env, stdio: ['ignore', 'inherit', 'inherit'] }).status === 0;
}

function note(good, command) {
  count[good ? 'passed' : 'failed']++;
  if (!good) failures.push(command.join(' '));
}

const check = (...command) => note(run({}, ...command), command);

/** Several that do not touch each other, at once; each is shown when it has ended. */
async function checkAtOnce(...commands) {
  const all = commands.map(async (command) => {
    const [program, ...args] = command;
    const ended = promisify(execFile)(program, args, { cwd: root, maxBuffer: 64 * 1024 * 1024 });
    const { stdout, stderr, good } = await ended.then(
      (output) => ({ ...output, good: true }),
      (error) => ({ stdout: '', stderr: String(error), ...error, good: false }),
    );
    console.log(`\n> ${command.join(' ')}\n${stdout}${stderr}`);
    note(good, command);
  });
  await Promise.all(all);
}

/**
 * Runs tests; their outcome as test/support/outcome-reporter.ts has written it down. What depends on the major of Postgres
 * is tested on each that the machine has.
 */
function outcomeOf(...command) {
  const path = join(folder, 'outcome.json');
  rmSync(path, { force: true });
  const good = run({ CDP_TEST_OUTCOME: path, CDP_TEST_MAJORS: 'all' }, ...command);
  const { passed, failed } = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : notRun();
  // A failure that no test has, such as that of a server that does not end.
  if (failed.length === 0 && (!good || passed === 0)) failed.push({ text: command.join(' '), mayPassLater: false });
  return { passed, failed };
}

const notRun = () => ({ passed: 0, failed: [] });

/**
 * Runs tests, and counts them one by one. The files of those that failed run once more when the machine has nothing else
 * to do. A test that passes then is named as a bug, and counted as passed.
 * @param some which of them, as arguments
 */
function test(command, ...some) {
  const { passed, failed } = outcomeOf(...command, ...some);
  const later = failed.filter(({ mayPassLater }) => mayPassLater);
  const files = [...new Set(later.map(({ file }) => file))];
  const separator = command[0] === 'npm' ? ['--'] : [];
  const again = files.length === 0 ? notRun() : outcomeOf(...command, ...separator, ...files, '--maxWorkers=1');
  const lasting = [...failed.filter(({ mayPassLater }) => !mayPassLater), ...again.failed];
  const remaining = [...new Set(lasting.map(({ text }) => text))];
  count.passed += passed + Math.max(0, failed.length - remaining.length);
  count.failed += remaining.length;
  failures.push(...remaining);
  failedFirst.push(...later.map(({ text }) => text));
}

/**
 * Known defects of what is installed with the service. A registry that does not answer says nothing, good or bad: that
 * is told, and not counted.
 */
function audit() {
  console.log('\n> npm audit --omit dev');
  const { stdout, status } = spawnSync('npm', ['audit', '--omit', 'dev', '--json'], { cwd: root, encoding: 'utf8' });
  let report = {};
  try {
    report = JSON.parse(stdout);
  } catch {
    // What npm prints where it could not ask is not always JSON.
  }
  if (report.vulnerabilities === undefined) {
    console.log('NOT CHECKED: the registry did not answer the audit');
    return;
  }
  note(status === 0, ['npm', 'audit']);
  for (const { name, severity, range } of Object.values(report.vulnerabilities)) {
    failures.push(`${name} ${range}: ${severity}`);
  }
}

/** An installation that was killed left its work half done, and apt refuses until it is finished. */
function prepareApt() {
  run({}, 'dpkg', '--configure', '-a');
  run({}, 'apt-get', 'update', '-qq');
}

/** Debian's packages for what the machine lacks. What cannot be had leaves tests out, which is counted as a failure. */
function install(tools) {
  const missing = tools.filter(({ isThere }) => !isThere());
  if (missing.length === 0) return;
  prepareApt();
  for (const { name, isThere, options = [] } of missing) {
    run({}, 'apt-get', 'install', '-y', '-qq', ...options, name);
    if (isThere()) continue;
    note(false, [name, 'cannot be installed, so that some tests are left out']);
  }
}

/** Dumps of earlier versions are of Postgres 15, and backups want programs of their server's version. */
const POSTGRES = [
  {
    name: 'postgresql-15',
    isThere: () => ['pg_dump', 'initdb'].every((program) => existsSync(`/usr/lib/postgresql/15/bin/${program}`)),
  },
];

/**
 * Citus is in no registry. Where a build of it is kept beside the project, it is unpacked; elsewhere its tests say that
 * they do not run.
 */
function installCitus() {
  const folder = join(root, '../shared/citus');
  if (existsSync('/usr/lib/postgresql/15/lib/citus.so') || !existsSync(folder)) return;
  // It is built for the newest minor version.
  prepareApt();
  run({}, 'apt-get', 'install', '-y', '-qq', 'postgresql-15');
  for (const name of readdirSync(folder).filter((name) => name.endsWith('.tar.gz'))) {
    const options = ['--no-same-owner', '--keep-directory-symlink'];
    note(run({}, 'tar', '-C', '/', '-xzf', join(folder, name), ...options), ['tar', name]);
  }
}

const BROWSERS = ['/usr/bin/chromium', '/usr/bin/google-chrome', process.env.CHROME_PATH ?? ''];
const TOOLS = [
  { name: 'chromium', isThere: () => BROWSERS.some(existsSync) },
  { name: 'haproxy', isThere: () => existsSync('/usr/sbin/haproxy') },
  { name: 'restic', isThere: () => existsSync('/usr/bin/restic') },
  // The shells that `cdp completion` knows, beside bash.
  ...['python3', 'zsh', 'fish'].map((name) => ({
    name,
    isThere: () => spawnSync(name, ['--version']).status === 0,
  })),
  // For the Python package, with Debian's Python, and for clients of the Postgres port.
  ...[
    ['python3-pandas', 'pandas'],
    ['python3-psycopg', 'psycopg'],
    ['python3-psycopg2', 'psycopg2'],
    ['python3-openpyxl', 'openpyxl'],
    ['python3-sqlalchemy', 'sqlalchemy'],
    ['mypy', 'mypy'],
    ['python3-pip', 'pip'],
    ['python3-setuptools', 'setuptools'],
    ['python3-wheel', 'wheel'],
  ].map(([name, module]) => ({
    name,
    options: ['--no-install-recommends'],
    isThere: () => spawnSync('/usr/bin/python3', ['-c', `import ${module}`]).status === 0,
  })),
  { name: 'default-jdk-headless', isThere: () => spawnSync('javac', ['-version']).status === 0 },
  { name: 'libpostgresql-jdbc-java', isThere: () => existsSync('/usr/share/java/postgresql.jar') },
];

/** Packages of npm that only the tests of clients need, so that nobody else has to install them. */
const CLIENTS = ['npm', 'ci', '--prefix', 'test/tools/clients', '--ignore-scripts', '--no-audit', '--no-fund'];

/** The long tests run in parts, so that a slow machine can leave out some of them. */
const LONG = ['npx', '--no-install', 'vitest', 'run', '--project', 'long', '--project', 'alone'];
const PARTS = 8;

/** When the last part may begin: CI ends whatever takes 90 minutes. */
const LAST_PART_BEGINS_MINUTES = 55;

/** Each commit begins with another part, so that no test is always left out. */
function testInParts() {
  const { stdout: commit } = spawnSync('git', ['rev-parse', '--short=8', 'HEAD'], { cwd: root, encoding: 'utf8' });
  // Without git, the first one.
  const first = Number.parseInt(commit ?? '', 16) || 0;
  for (let i = 0; i < PARTS; i++) {
    const part = `--shard=${((first + i) % PARTS) + 1}/${PARTS}`;
    if (performance.now() < LAST_PART_BEGINS_MINUTES * 60_000) test(LONG, part);
    else console.log(`NOT RUN, since the machine is slow: ${LONG.join(' ')} ${part}`);
  }
}

try {
  install(POSTGRES);
  installCitus();
  test(['npm', 'test']);
  install(TOOLS);
  check(...CLIENTS);
  run({}, process.execPath, 'scripts/debian-sources.mjs');
  test(['npx', '--no-install', 'vitest', 'run', '--config', 'vitest.tools.config.ts']);
  await checkAtOnce(['npm', 'run', 'types'], ['npm', 'run', 'lint'], ['npm', 'run', 'format']);
  check('npm', 'pack', '--dry-run', '--loglevel=error');
  check('npx', '--no-install', 'publint', '--strict');
  check('node', 'scripts/client-package.mjs');
  check('npx', '--no-install', 'publint', 'packages/client', '--strict');
  audit();
  testInParts();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
for (const failure of failedFirst) console.log(`FAILED AT FIRST, a bug of the test or the program: ${failure}`);
for (const failure of failures) console.log(`FAILED: ${failure}`);
console.log(`\n${count.passed} passed, ${count.failed} failed`);
process.exitCode = count.failed === 0 ? 0 : 1;
