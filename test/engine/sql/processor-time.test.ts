/** A limit that counts what the process had of the processors, and the clock only in the end. */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { limitProcessorTime } from '../../../src/engine/sql/processor-time.js';

const usedMs = (since: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1_000;
};

it('is up when the process has had that time', async () => {
  const before = process.cpuUsage();
  const { signal } = limitProcessorTime(200, 60_000);
  while (usedMs(before) < 200);
  if (!signal.aborted) await once(signal, 'abort');
  expect(signal.aborted).toBe(true);
});

it('is not up while the process has had less, until the clock says so', async () => {
  const before = process.cpuUsage();
  const { signal } = limitProcessorTime(500, 1_500);
  await sleep(900);
  if (usedMs(before) < 400) expect(signal.aborted).toBe(false);
  if (!signal.aborted) await once(signal, 'abort');
  expect(signal.aborted).toBe(true);
});

it('is not up any more when the work has ended', async () => {
  const limit = limitProcessorTime(20, 40);
  limit.clear();
  await sleep(150);
  expect(limit.signal.aborted).toBe(false);
});
