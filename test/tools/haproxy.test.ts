/**
 * The configuration deploy/haproxy.cfg in a real HAProxy (apt-get install haproxy): clients do not notice a rolling
 * restart.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm, writeFile, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { type Front, rollingRestarts } from '../faults/support/rolling-restarts.js';
import { endEverything, eventually, freePort, projectRoot } from '../support/program.js';

afterAll(endEverything);

it('no request is lost or refused in 4 rolling restarts behind HAProxy', () => rollingRestarts(4, startHaproxy));

/** As the file sets it up, but for addresses and TLS. */
async function startHaproxy(instances: readonly string[]): Promise<Front> {
  const url = `http://127.0.0.1:${await freePort()}`;
  const addresses = instances.map((instance) => new URL(instance).host);
  const text = (await readFile(`${projectRoot}/deploy/haproxy.cfg`, 'utf8'))
    .replace(/^ {2}bind .*$/m, `  bind ${new URL(url).host}`)
    .replace(/^( {2}server \w+ )127\.0\.0\.1:808\d$/gm, (_, server: string) => `${server}${addresses.shift()}`);
  expect(addresses).toEqual([]);
  const folder = await mkdtemp(join(tmpdir(), 'cdp-haproxy-'));
  const file = join(folder, 'haproxy.cfg');
  await writeFile(file, text);
  const haproxy = spawn('/usr/sbin/haproxy', ['-db', '-f', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  let words = '';
  haproxy.stderr.setEncoding('utf8').on('data', (text: string) => (words += text));
  const count = (state: string) => words.split(` is ${state},`).length;
  await eventually('HAProxy passes requests on', async () => (await fetch(`${url}/readyz`).catch(() => null))?.ok);
  return {
    url,
    isBack: async () => void (await eventually('it is up again', () => Promise.resolve(count('UP') === count('DOWN')))),
    close: async () => {
      haproxy.kill();
      await once(haproxy, 'close');
      await rm(folder, { recursive: true });
    },
  };
}
