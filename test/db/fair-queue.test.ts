/** Which request is admitted when a limited resource becomes free. */
import { expect, it } from 'vitest';
import { EngineError } from '../../src/contract/errors.js';
import { NEVER_ABORTED } from '../../src/db/backend-request.js';
import { FairQueue } from '../../src/db/fair-queue.js';
import { WaitBudget } from '../../src/db/wait-budget.js';

/** A queue for `free` units, of which a request takes as many as it says. */
function queueFor(order: 'first' | 'any') {
  const stock = { free: 0 };
  const admitted: string[] = [];
  const queue = new FairQueue<number>({
    tryTake: (_project, units) => {
      if (units > stock.free) return false;
      stock.free -= units;
      return true;
    },
    order,
    late: 'too late',
  });
  const wait = (project: string, units: number, waitMs = 10_000, signal = NEVER_ABORTED) =>
    queue.wait(project, units, new WaitBudget(waitMs), signal).then(() => void admitted.push(`${project}${units}`));
  const add = async (units: number) => {
    stock.free += units;
    queue.admitNext();
    await new Promise(setImmediate);
  };
  return { queue, wait, add, admitted };
}

it('admits one request of each project in turn, in order of arrival within a project', async () => {
  const { wait, add, admitted } = queueFor('first');
  for (const project of ['a', 'a', 'a', 'b', 'b', 'c']) void wait(project, 1);
  await add(4);
  expect(admitted).toEqual(['a1', 'b1', 'c1', 'a1']);
  await add(2);
  expect(admitted).toEqual(['a1', 'b1', 'c1', 'a1', 'b1', 'a1']);
});

it('lets a small request overtake one of its project that does not fit only if the order allows it', async () => {
  for (const [order, expected] of [
    ['first', ['b1']],
    ['any', ['a1', 'b1']],
  ] as const) {
    const { wait, add, admitted } = queueFor(order);
    for (const [project, units] of [
      ['a', 3],
      ['a', 1],
      ['b', 1],
    ] as const)
      void wait(project, units);
    await add(2);
    expect(admitted).toEqual(expected);
  }
});

it('rejects a request that has waited too long or whose client left, and admits those behind it', async () => {
  const { queue, wait, add, admitted } = queueFor('first');
  await add(1);
  const leaving = new AbortController();
  const late = wait('a', 2, 30);
  const left = wait('b', 2, 10_000, leaving.signal);
  const behind = [wait('a', 1), wait('b', 1)];
  leaving.abort();
  await Promise.all([
    expect(late).rejects.toMatchObject({ code: 'overloaded', message: 'too late', retryAfter: undefined }),
    expect(left).rejects.toMatchObject({ code: 'overloaded' }),
  ]);
  await add(1);
  await Promise.all(behind);
  expect(admitted.sort()).toEqual(['a1', 'b1']);
  expect(queue.lengthOf('a')).toBe(0);
});

it('rejects a waiting request with the error that ended it', async () => {
  const { wait } = queueFor('first');
  const ended = new AbortController();
  const waiting = wait('a', 1, 10_000, ended.signal);
  ended.abort(new EngineError('unauthorized', 'The token has been revoked'));
  await expect(waiting).rejects.toMatchObject({ code: 'unauthorized' });
});
