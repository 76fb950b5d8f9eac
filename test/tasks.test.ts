/** Tasks at intervals (src/tasks.ts): a failure is logged once and always counted, and the next run comes anyway. */
import { expect, it } from 'vitest';
import { runPeriodically, taskFailures } from '../src/tasks.js';
import { allDone } from '../src/promises.js';
import { eventually } from './support/program.js';

it('logs what was not done, counts each failure, and goes on', async () => {
  const lines: unknown[] = [];
  const error = (fields: object, message: string) => void lines.push({ ...fields, message });
  const log = { info: () => {}, warn: () => {}, error };
  const before = taskFailures().get('recover_moves') ?? 0;
  const outcomes = ['first', 'first', '', 'second', 'first'];
  let runs = 0;
  const work = () => {
    const failure = outcomes[runs++] ?? '';
    if (failure !== '') throw new Error(failure);
  };
  const stop = runPeriodically(1, 'recover_moves', work, log, { isFirstNow: true });
  expect(runs).toBe(1);
  await eventually('all runs', () => Promise.resolve(runs > outcomes.length));
  stop();
  const line = (what: string) => ({
    error: what,
    task: 'recover_moves',
    message: 'interrupted moves are not cleaned up',
  });
  expect(lines).toEqual(['first', 'second', 'first'].map(line));
  expect(taskFailures().get('recover_moves')).toBe(before + 4);
});

it('one failure of several does not keep the others from being done, and is thrown', async () => {
  let done = 0;
  const work = async (failure: string) => {
    await Promise.resolve();
    if (failure !== '') throw new Error(failure);
    done++;
  };
  await expect(allDone(['', 'broken', ''].map(work))).rejects.toThrow('broken');
  expect(done).toBe(2);
  await expect(allDone([work('')])).resolves.toBeUndefined();
});
