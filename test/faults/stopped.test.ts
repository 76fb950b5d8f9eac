/** SIGTERM under load: every accepted request is answered, and clients behind a round-robin proxy notice nothing. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { endEverything, postmastersIn } from '../support/program.js';
import { startClients } from './support/clients.js';
import { UNTRUE } from './support/ledger.js';
import { rollingRestarts, untilAnswered } from './support/rolling-restarts.js';
import { startRouter } from './support/router.js';
import { embeddedStage } from './support/stage.js';

afterAll(endEverything);

it('3 times on one instance: no accepted request fails, and the service ends with 0', async () => {
  const stage = await embeddedStage();
  const { url, token, ledger } = stage;
  const clients = startClients({ url: () => url, token, ledger, count: 24, keyed: () => false });
  let service = stage.first;
  for (let stop = 0; stop < 3; stop++) {
    await untilAnswered(ledger, ledger.replies.length + 100);
    await sleep(Math.random() * 100);
    expect(await service.end()).toMatchObject({ code: 0, signal: null });
    expect(await postmastersIn(stage.dataDir)).toEqual([]);
    ({ service } = await stage.start());
  }
  await clients.stop();
  const verdict = await stage.compare();
  console.log('3 stops:', verdict, ledger.codes);
  expect(verdict.wrong, UNTRUE).toEqual([]);
  expect(Object.keys(ledger.codes).filter((code) => !['200', '201', 'ECONNREFUSED'].includes(code))).toEqual([]);
  expect((await service.end()).code).toBe(0);
});

describe('two instances behind a round-robin proxy lose no request', () => {
  it('in 2 rolling restarts', () => rollingRestarts(2, startRouter));

  it('in 2 rolling restarts during which the machine is suspended, like a virtual machine that migrates', () =>
    rollingRestarts(2, startRouter, async ({ process: { pid } }) => {
      await sleep(Math.random() * 50);
      await standStill(1_500, [pid as number, process.pid]);
    }));
});

/** Stops processes for a while, ourselves too: whoever sends the signals must be another one. */
async function standStill(ms: number, pids: readonly number[]): Promise<void> {
  const script = `kill -STOP ${pids.join(' ')}; sleep ${ms / 1_000}; kill -CONT ${pids.join(' ')}`;
  const [code] = (await once(spawn('sh', ['-c', script]), 'close')) as [number];
  expect(code).toBe(0);
}
