/** `npm test`: installs and builds what is missing (some tests run the built program), then runs vitest. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { build } from './build.mjs';
import { prepare, root } from './prepare.mjs';

prepare();
build();
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs');
const child = spawn(process.execPath, [vitest, 'run', ...process.argv.slice(2)], { cwd: root, stdio: 'inherit' });
// Ctrl-C reaches vitest by itself, a signal to us alone does not; in both cases we end when it has cleaned up.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => signal === 'SIGTERM' && child.kill(signal));
child.on('exit', (code) => process.exit(code ?? 1));
