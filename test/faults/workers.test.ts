/** Several processes behind one port, under load: whichever of them is killed or stopped, the answers were true. */
import { afterAll, expect, it } from 'vitest';
import { endEverything, eventually, postmasterOf } from '../support/program.js';
import { stillThere, workersOf } from '../support/workers.js';
import { startClients } from './support/clients.js';
import { type Ledger, UNTRUE } from './support/ledger.js';
import { embeddedStage } from './support/stage.js';

afterAll(endEverything);

const moreAnswers = (ledger: Ledger, count: number): Promise<unknown> => {
  const until = ledger.replies.length + count;
  return eventually('requests are answered', () => Promise.resolve(ledger.replies.length >= until));
};

const codesBut = (ledger: Ledger, ...expected: string[]): string[] =>
  Object.keys(ledger.codes).filter((code) => !expected.includes(code));

it('6 kills of a worker: the other goes on, a new one comes, and nothing that was acknowledged is lost', async () => {
  const stage = await embeddedStage('--workers', '2');
  const { url, token, ledger, first: service } = stage;
  const postmaster = await postmasterOf(stage.dataDir);
  const clients = startClients({ url: () => url, token, ledger, count: 16 });
  for (let kill = 0; kill < 6; kill++) {
    await moreAnswers(ledger, 100);
    const before = await workersOf(service);
    expect(before).toHaveLength(2);
    const victim = before[kill % 2] as number;
    process.kill(victim, 'SIGKILL');
    await moreAnswers(ledger, 20);
    await eventually('another has come', async () => {
      const now = await workersOf(service);
      return now.length === 2 && !now.includes(victim);
    });
  }
  await clients.stop();
  const verdict = await stage.compare();
  console.log('6 kills of a worker:', verdict, ledger.codes);
  expect(verdict.wrong, UNTRUE).toEqual([]);
  // The port was open throughout, and nobody hung.
  expect(codesBut(ledger, '200', '201', 'ECONNRESET', 'EPIPE', 'cut', 'request_in_flight')).toEqual([]);
  expect(await postmasterOf(stage.dataDir), 'Postgres was not touched').toBe(postmaster);
  expect(await service.end()).toMatchObject({ code: 0, signal: null });
}, 120_000);

it('3 stops: not one request that was accepted fails, and it ends with 0', async () => {
  const stage = await embeddedStage('--workers', '2');
  const { url, token, ledger } = stage;
  const clients = startClients({ url: () => url, token, ledger, count: 24, keyed: () => false });
  let service = stage.first;
  for (let stop = 0; stop < 3; stop++) {
    await moreAnswers(ledger, 100);
    expect(await service.end()).toMatchObject({ code: 0, signal: null });
    expect(await postmasterOf(stage.dataDir)).toBeUndefined();
    ({ service } = await stage.start());
  }
  await clients.stop();
  const verdict = await stage.compare();
  console.log('3 stops of a service with workers:', verdict, ledger.codes);
  expect(verdict.wrong, UNTRUE).toEqual([]);
  expect(codesBut(ledger, '200', '201', 'ECONNREFUSED')).toEqual([]);
  expect((await service.end()).code).toBe(0);
}, 120_000);

it('4 kills of the primary: its workers end with it, the next start works, and nothing that was acknowledged is lost', async () => {
  const stage = await embeddedStage('--workers', '2');
  const { url, token, ledger } = stage;
  const clients = startClients({ url: () => url, token, ledger, count: 16 });
  let service = stage.first;
  for (let kill = 0; kill < 4; kill++) {
    await moreAnswers(ledger, 100);
    const workers = await workersOf(service);
    await service.end('SIGKILL');
    ({ service } = await stage.start());
    await eventually('no worker is left', async () => (await stillThere(workers)).length === 0);
  }
  await clients.stop();
  const verdict = await stage.compare();
  console.log('4 kills of the primary:', verdict, ledger.codes);
  expect(verdict.wrong, UNTRUE).toEqual([]);
  expect(ledger.codes.hung).toBeUndefined();
  expect(await service.end()).toMatchObject({ code: 0, signal: null });
}, 120_000);
