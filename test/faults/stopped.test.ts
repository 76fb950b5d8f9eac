/** SIGTERM under load: whoever was accepted is answered, and behind a round-robin nobody notices. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { endEverything, eventually, freePort, postmastersIn, type RunningService } from '../support/program.js';
import { startClients } from './support/clients.js';
import { type Ledger, UNTRUE } from './support/ledger.js';
import { startRouter } from './support/router.js';
import { createLedger, embeddedStage, serverStage } from './support/stage.js';

afterAll(endEverything);

const untilAnswered = (ledger: Ledger, count: number): Promise<unknown> =>
  eventually('requests are answered', () => Promise.resolve(ledger.replies.length >= count));

it('3 times on one instance: not one request that was accepted fails, and it ends with 0', async () => {
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

describe('in turn on two instances behind a round-robin no request is lost', () => {
  it('in 2 rolling restarts', () => rollingRestarts(2, () => Promise.resolve()));

  it('in 2 in which the machine stands still, as a virtual one does that is moved', () =>
    rollingRestarts(2, async ({ process: { pid } }) => {
      await sleep(Math.random() * 50);
      await standStill(1_500, [pid as number, process.pid]);
    }));
});

/** @param during what happens while an instance stops */
async function rollingRestarts(count: number, during: (stopping: RunningService) => Promise<void>): Promise<void> {
  const stage = await serverStage();
  const ports = await Promise.all([freePort(), freePort()]);
  const start = (i: number) => stage.start(undefined, '--port', String(ports[i]));
  const services: [RunningService, RunningService] = await Promise.all([start(0), start(1)]);
  await createLedger(services[0].url, stage.token);
  const router = await startRouter(ports.map((port) => `http://127.0.0.1:${port}`));
  try {
    const { token, ledger } = stage;
    const clients = startClients({ url: () => router.url, token, ledger, count: 12, keyed: () => false });
    // A client that comes seldom finds connections that were idle for a while.
    const seldom = startClients({ url: () => router.url, token, ledger, count: 4, name: 'seldom', pauseMs: 150 });
    for (let stop = 0; stop < count; stop++) {
      await untilAnswered(ledger, ledger.replies.length + 100);
      const i = (stop % 2) as 0 | 1;
      const [{ code }] = await Promise.all([services[i].end(), during(services[i])]);
      expect(code).toBe(0);
      services[i] = await start(i);
    }
    await Promise.all([clients.stop(), seldom.stop()]);
    const verdict = await stage.compare();
    console.log(`${count} rolling restarts:`, verdict, ledger.codes, router.broken);
    expect(verdict.wrong, UNTRUE).toEqual([]);
    expect(router.broken).toEqual([]);
    expect(Object.keys(ledger.codes).filter((code) => !['200', '201'].includes(code))).toEqual([]);
    for (const service of services) expect((await service.end()).code).toBe(0);
  } finally {
    await router.close();
    await stage.close();
  }
}

/** Stops processes for a while, ourselves too: whoever sends the signals must be another one. */
async function standStill(ms: number, pids: readonly number[]): Promise<void> {
  const script = `kill -STOP ${pids.join(' ')}; sleep ${ms / 1_000}; kill -CONT ${pids.join(' ')}`;
  const [code] = (await once(spawn('sh', ['-c', script]), 'close')) as [number];
  expect(code).toBe(0);
}
