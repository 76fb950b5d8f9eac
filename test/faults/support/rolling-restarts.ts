/** Two instances behind a proxy, restarted in turn under load: no client may notice. */
import { expect } from 'vitest';
import { eventually, freePort, type RunningService } from '../../support/program.js';
import { startClients } from './clients.js';
import { type Ledger, UNTRUE } from './ledger.js';
import { createLedger, serverStage } from './stage.js';

/** What clients speak to. */
export interface Front {
  readonly url: string;
  /** What broke on the way to an instance, if it knows that. */
  readonly broken?: readonly string[];
  /** Waits until it knows that the instance that was restarted is back; by default it tries that with each request. */
  isBack?(): Promise<void>;
  close(): Promise<void>;
}

export const untilAnswered = (ledger: Ledger, count: number): Promise<unknown> =>
  eventually('requests are answered', () => Promise.resolve(ledger.replies.length >= count));

/**
 * @param startFront gets the addresses of the instances
 * @param during what happens while an instance stops
 */
export async function rollingRestarts(
  count: number,
  startFront: (instances: readonly string[]) => Promise<Front>,
  during: (stopping: RunningService) => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const stage = await serverStage();
  const ports = await Promise.all([freePort(), freePort()]);
  const start = (i: number) => stage.start(undefined, '--port', String(ports[i]));
  const services: [RunningService, RunningService] = await Promise.all([start(0), start(1)]);
  await createLedger(services[0].url, stage.token);
  const front = await startFront(ports.map((port) => `http://127.0.0.1:${port}`));
  try {
    const { token, ledger } = stage;
    const clients = startClients({ url: () => front.url, token, ledger, count: 12, keyed: () => false });
    // A client that comes seldom finds connections that were idle for a while.
    const seldom = startClients({ url: () => front.url, token, ledger, count: 4, name: 'seldom', pauseMs: 150 });
    for (let stop = 0; stop < count; stop++) {
      await untilAnswered(ledger, ledger.replies.length + 100);
      const i = (stop % 2) as 0 | 1;
      const [{ code }] = await Promise.all([services[i].end(), during(services[i])]);
      expect(code).toBe(0);
      services[i] = await start(i);
      await front.isBack?.();
    }
    await Promise.all([clients.stop(), seldom.stop()]);
    const verdict = await stage.compare();
    console.log(`${count} rolling restarts:`, verdict, ledger.codes, front.broken);
    expect(verdict.wrong, UNTRUE).toEqual([]);
    expect(front.broken ?? []).toEqual([]);
    expect(Object.keys(ledger.codes).filter((code) => !['200', '201'].includes(code))).toEqual([]);
    for (const service of services) expect((await service.end()).code).toBe(0);
  } finally {
    await front.close();
    await stage.close();
  }
}
