/**
 * Far more clients than there is room for: refusals are fast, memory is bounded, and afterward everything is as
 * before.
 */
import { readFile } from 'node:fs/promises';
import { afterAll, expect, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { endEverything } from '../support/program.js';
import { startClients } from './support/clients.js';
import { type Reply, UNTRUE } from './support/ledger.js';
import { embeddedStage } from './support/stage.js';

afterAll(endEverything);

const CONNECTIONS = 1_000;

/** At the default settings 8 requests of a project run at once. */
const CAPACITY = 8;

/** MiB that the service may take at the most: some 130, and 256 for bodies and responses (docs/operations.md). */
const MAX_MIB = 640;

/** A thousand connections that open at once take the first seconds; the times are those of the requests after. */
const OPENING_MS = 2_000;

/** How long a request may wait for its place (`wait-ms`). */
const WAIT_MS = 5_000;

const quantile = (replies: readonly Reply[], part: number): number => {
  const sorted = replies.map(({ ms }) => ms).sort((a, b) => a - b);
  return Math.round(sorted[Math.floor(sorted.length * part)] ?? 0);
};

const isAccepted = ({ status }: Reply): boolean => status === 200 || status === 201;

/** MiB; VmHWM is the peak since the start (proc(5)). */
async function memory(pid: number, field: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Math.round(Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024);
}

it(`${CONNECTIONS} connections for 6 s: accepted requests are served, the others refused at once, and nothing is left behind`, async () => {
  const stage = await embeddedStage();
  const { url, token, ledger } = stage;
  const pid = stage.first.process.pid as number;
  async function phase(name: string, count: number, ms: number) {
    const before = new Set(ledger.batches);
    const start = Date.now();
    const clients = startClients({ url: () => url, token, ledger, count, name, keyed: () => false, pauseMs: 0 });
    await sleep(ms);
    await clients.stop();
    const replies = ledger.batches.filter((batch) => !before.has(batch)).flatMap((batch) => batch.replies);
    const accepted = replies.filter(isAccepted);
    const refused = replies.filter((reply) => !isAccepted(reply));
    const settled = (reply: Reply) => reply.at - reply.ms > start + Math.min(OPENING_MS, ms / 2);
    return {
      accepted: accepted.length,
      perSecond: Math.round((accepted.length * 1_000) / ms),
      p99: quantile(accepted.filter(settled), 0.99),
      refused: refused.length,
      refusedP50: quantile(refused.filter(settled), 0.5),
      refusedP99: quantile(refused.filter(settled), 0.99),
      wrongly: refused.filter(({ code, retryAfter }) => code !== 'overloaded' || !(Number(retryAfter) > 0)),
      rss: await memory(pid, 'VmRSS'),
    };
  }
  await phase('warm', CAPACITY, 1_000);
  const calm = await phase('calm', CAPACITY, 2_000);
  const over = await phase('over', CONNECTIONS, 6_000);
  await sleep(1_000);
  const after = await phase('after', CAPACITY, 2_000);
  const peak = await memory(pid, 'VmHWM');
  console.log('overload:', { calm, over: { ...over, wrongly: over.wrongly.slice(0, 3) }, after, peak });

  expect(over.wrongly).toEqual([]);
  // Enough to judge: the more batches share a COPY, the fewer are too many.
  expect(over.refused).toBeGreaterThan(CONNECTIONS / 10);
  // Of the clients' time, who share the processors with the service: it needs less than a millisecond for most.
  expect(over.refusedP50, 'a refusal is at once').toBeLessThan(5_000);
  expect(over.refusedP99, 'a refusal is at once').toBeLessThan(10_000);
  expect(over.p99, 'the accepted wait for a slot, and are then served as before').toBeLessThan(
    3 * WAIT_MS + 5 * calm.p99,
  );
  // The clients, who do not heed Retry-After, and the refusals take most of two processors.
  expect(over.perSecond, 'throughput does not collapse').toBeGreaterThan(calm.perSecond / 6);
  expect(peak).toBeLessThan(MAX_MIB);
  expect(after.wrongly).toEqual([]);
  expect(after.perSecond, 'as before').toBeGreaterThan(calm.perSecond / 2);
  const verdict = await stage.compare();
  expect(verdict.wrong, UNTRUE).toEqual([]);
  expect((await stage.first.end()).code).toBe(0);
});
