/**
 * `npm test`: the tests that take minutes, on the embedded Postgres. `npm run test:all`: every test, on every major of
 * Postgres that the machine has. Both install and build what is missing first (some tests run the built program).
 * Further arguments are vitest's: `npm test -- test/http`.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { build } from './build.mjs';
import { buildConsole } from './console.mjs';
import { prepare, root } from './prepare.mjs';

const isWhole = process.argv[2] === '--all';
const chosen = isWhole ? process.argv.slice(3) : ['--project', 'main', ...process.argv.slice(2)];
prepare();
build();
buildConsole();
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs');
const child = spawn(process.execPath, [vitest, 'run', ...chosen], {
  cwd: root,
  stdio: 'inherit',
  env: isWhole ? { ...process.env, CDP_TEST_MAJORS: 'all' } : process.env,
});
// Ctrl-C reaches vitest by itself, a signal to us alone does not; in both cases we end when it has cleaned up.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => signal === 'SIGTERM' && child.kill(signal));
child.on('exit', (code) => process.exit(code ?? 1));
