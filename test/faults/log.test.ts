/**
 * A log that cannot be written because its disk is full or its reader hangs: the service still serves, and ends with 0.
 */
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import {
  endEverything,
  eventually,
  freePort,
  newFolder,
  preparedDataDir,
  startProgram,
  startServe,
} from '../support/program.js';

afterAll(endEverything);

/** Each leaves a line in the log. */
async function ask(url: string, times: number): Promise<void> {
  for (let round = 0; round < times / 50; round++) {
    const responses = Array.from({ length: 50 }, () => fetch(`${url}/nowhere`).then((response) => response.text()));
    await Promise.all(responses);
  }
}

it.skipIf(!existsSync('/dev/full'))('serves with its log on a full disk', async () => {
  const node = join(await newFolder(), 'node');
  await writeFile(node, `#!/bin/sh\nexec '${process.execPath}' "$@" > /dev/full\n`);
  await chmod(node, 0o755);
  const port = String(await freePort());
  const service = startProgram(['serve', '--port', port, '--data-dir', await preparedDataDir()], { node });
  const url = `http://127.0.0.1:${port}`;
  const isReady = async () => (await fetch(`${url}/readyz`).catch(() => null))?.ok;
  await eventually('it serves', isReady);
  await ask(url, 500);
  expect(await isReady()).toBe(true);
  const { code, stderr } = await service.end();
  expect({ code, isTold: stderr.includes('ENOSPC') }).toEqual({ code: 0, isTold: false });
});

it('serves with its log in a pipe that nobody reads', async () => {
  const service = await startServe(['--data-dir', await preparedDataDir()]);
  service.process.stdout?.pause();
  await ask(service.url, 2_000);
  const exit = once(service.process, 'exit');
  service.process.kill('SIGTERM');
  expect(await exit).toEqual([0, null]);
  service.process.stdout?.resume();
  await service.ended;
});
