/** `npm start`: installs and builds what is missing, then is the service itself, so that signals reach it directly. */
import { build } from './build.mjs';
import { buildConsole } from './console.mjs';
import { prepare } from './prepare.mjs';

prepare();
build();
buildConsole();
// The first start prints its token even where npm has put a pipe in place of the terminal.
process.env.CDP_NPM_START = '1';
const { main } = await import('../dist/cli/main.js');
await main(['serve', ...process.argv.slice(2)]);
