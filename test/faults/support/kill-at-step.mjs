/**
 * For `node --import`: kills the process right before the step of a plan. A step is a change of a file or folder below
 * CDP_TEST_FOLDER. While the file CDP_TEST_PLAN is there, steps are counted, and written to `CDP_TEST_PLAN.steps`; its
 * content is the number of the step, or 0 to let all of them happen.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const { CDP_TEST_FOLDER: folder, CDP_TEST_PLAN: plan } = process.env;
const { appendFileSync, existsSync, promises, readFileSync } = fs;
let count = 0;

for (const name of ['mkdir', 'open', 'rename', 'rm', 'utimes', 'writeFile']) {
  const original = promises[name];
  promises[name] = (path, ...others) => {
    const isReading = name === 'open' && !/[wa]/.test(String(others[0] ?? 'r'));
    if (typeof path === 'string' && path.startsWith(folder) && !isReading && existsSync(plan)) {
      count++;
      appendFileSync(`${plan}.steps`, `${name} ${path.slice(folder.length + 1)}\n`);
      if (count === Number(readFileSync(plan, 'utf8'))) process.kill(process.pid, 'SIGKILL');
    }
    return original(path, ...others);
  };
}
syncBuiltinESMExports();
