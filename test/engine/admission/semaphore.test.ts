/** Places for work of the service itself. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Semaphore } from '../../../src/engine/admission/semaphore.js';

const WAIT_MS = 1_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Work that ends when it is told to. */
function work(semaphore: Semaphore) {
  const job = { began: false, end: () => {}, fail: () => {} };
  const done = semaphore.run(() => {
    job.began = true;
    return new Promise<void>((resolve, reject) => {
      job.end = resolve;
      job.fail = () => reject(new Error('broken'));
    });
  });
  return { job, done };
}

/** Promises that can be settled are. */
const settle = () => vi.advanceTimersByTimeAsync(0);

describe('works', () => {
  it('so many run at once, the others in the order in which they came', async () => {
    const semaphore = new Semaphore(2, WAIT_MS);
    const jobs = [1, 2, 3, 4].map(() => work(semaphore));
    const began = () => jobs.map(({ job }) => job.began);
    await settle();
    expect(began()).toEqual([true, true, false, false]);
    jobs[1]?.job.end();
    await settle();
    expect(began()).toEqual([true, true, true, false]);
    jobs[0]?.job.end();
    await settle();
    expect(began()).toEqual([true, true, true, true]);
    for (const { job } of jobs) job.end();
    await Promise.all(jobs.map(({ done }) => done));
  });

  it('a place is given back by work that fails', async () => {
    const semaphore = new Semaphore(1, WAIT_MS);
    const [first, second] = [work(semaphore), work(semaphore)];
    await settle();
    first.job.fail();
    await expect(first.done).rejects.toThrow('broken');
    await settle();
    expect(second.job.began).toBe(true);
    second.job.end();
    await second.done;
  });
});

describe('refuses', () => {
  it('who has waited too long, and gives the place that becomes free then to the next', async () => {
    const semaphore = new Semaphore(1, WAIT_MS);
    const first = work(semaphore);
    const late = expect(work(semaphore).done).rejects.toMatchObject({ code: 'overloaded', retryAfter: 1 });
    await vi.advanceTimersByTimeAsync(WAIT_MS - 1);
    const next = work(semaphore);
    await vi.advanceTimersByTimeAsync(1);
    await late;
    expect(next.job.began).toBe(false);
    first.job.end();
    await settle();
    expect(next.job.began).toBe(true);
    next.job.end();
    await next.done;
    const again = work(semaphore);
    await settle();
    expect(again.job.began).toBe(true);
    again.job.end();
    await again.done;
  });
});
