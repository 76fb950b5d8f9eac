/** Which requests get memory in the service, and which wait for it (engine/limits/memory-budget.ts). */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { WaitBudget } from '../../../src/db/wait-budget.js';
import { MemoryBudget } from '../../../src/engine/limits/memory-budget.js';

const LARGE = 100_000;
const never = new AbortController().signal;

/** Memory for two large requests of a project, and for three of all. */
const newBudget = () => new MemoryBudget({ perProject: 2 * LARGE, total: 3 * LARGE });
const reserve = async (budget: MemoryBudget, project: string, bytes = LARGE, waitMs = 5_000, signal = never) =>
  budget.reserve(project, bytes, new WaitBudget(waitMs), signal);

describe('works', () => {
  it('admits what fits, and the next request when one has released its memory', async () => {
    const budget = newBudget();
    const [first] = [await reserve(budget, 'a'), await reserve(budget, 'a')];
    let isIn = false;
    const third = reserve(budget, 'a').then(() => (isIn = true));
    await sleep(5);
    expect(isIn).toBe(false);
    first?.release();
    await third;
  });

  it('gives memory that a body did not need to a waiting request', async () => {
    const budget = newBudget();
    const packed = await reserve(budget, 'a', 2 * LARGE);
    const next = reserve(budget, 'a');
    packed.resize(10);
    (await next).release();
    packed.release();
    packed.release();
    await reserve(budget, 'a', 2 * LARGE);
  });

  it('admits a waiting request, even if requests without a body have come and gone', async () => {
    const budget = newBudget();
    const [one, other] = [await reserve(budget, 'a', 0), await reserve(budget, 'a', 0)];
    one?.release();
    const large = await reserve(budget, 'a', 2 * LARGE);
    const next = reserve(budget, 'a');
    other?.release();
    large.release();
    (await next).release();
  });

  it('lets a request that grows wait for more, except the only one of its project', async () => {
    const budget = newBudget();
    const grow = (of: Awaited<ReturnType<typeof reserve>>, to: number, waitMs = 5_000) =>
      of.extend(to, new WaitBudget(waitMs), never);
    const alone = await reserve(budget, 'b', 1);
    await grow(alone, 5 * LARGE);
    const [one, other] = [await reserve(budget, 'a', LARGE / 2), await reserve(budget, 'a', LARGE / 2)];
    await expect(grow(one, LARGE, 20)).rejects.toMatchObject({ code: 'overloaded' });
    alone.release();
    await grow(one, LARGE);
    // Less than it has is no wait.
    await grow(one, 10);
    await expect(grow(other, LARGE + 1, 20)).rejects.toMatchObject({ code: 'overloaded' });
    const waiting = grow(other, LARGE + 1);
    one.release();
    await waiting;
    other.release();
    await reserve(budget, 'a', 2 * LARGE);
  });

  it('frees what is granted to a request that has ended meanwhile', async () => {
    const budget = newBudget();
    const [one, other] = [await reserve(budget, 'a'), await reserve(budget, 'a')];
    const growing = other.extend(2 * LARGE, new WaitBudget(5_000), never);
    other.release();
    one.release();
    await growing;
    await reserve(budget, 'a', 2 * LARGE);
  });

  it('counts a response until it is read, even if it exceeds the budget', async () => {
    const budget = newBudget();
    const reservation = await reserve(budget, 'a', 100);
    reservation.grow(5 * LARGE);
    await expect(reserve(budget, 'a', 100, 20)).rejects.toMatchObject({ code: 'overloaded' });
    await reserve(budget, 'b', 100);
    reservation.release();
    await reserve(budget, 'a', 100);
  });
});

describe('protects', () => {
  it('small requests from large ones of other projects', async () => {
    const budget = newBudget();
    for (const project of ['a', 'a', 'b']) await reserve(budget, project);
    await reserve(budget, 'c', 1_000);
    await expect(reserve(budget, 'c', LARGE, 20)).rejects.toMatchObject({ code: 'overloaded' });
  });

  it('the only request of a project from the requests of all others', async () => {
    const budget = newBudget();
    for (const project of ['a', 'a', 'b']) await reserve(budget, project);
    const reservation = await reserve(budget, 'c', LARGE, 20);
    await expect(reserve(budget, 'c', LARGE, 20)).rejects.toMatchObject({ code: 'overloaded' });
    reservation.release();
  });

  it('small requests from a large waiting one of their own project', async () => {
    const budget = newBudget();
    await reserve(budget, 'a', LARGE + LARGE / 2);
    const large = reserve(budget, 'a', LARGE, 200).catch(() => 'given up');
    await reserve(budget, 'a', 0, 20);
    await reserve(budget, 'a', 1_000, 20);
    expect(await large).toBe('given up');
  });

  it('requests that wait behind a large one that gives up', async () => {
    const budget = newBudget();
    await reserve(budget, 'a', LARGE + LARGE / 4);
    const large = reserve(budget, 'a', LARGE, 50).catch(() => 'given up');
    const medium = reserve(budget, 'a', (LARGE * 2) / 3, 5_000);
    expect(await large).toBe('given up');
    (await medium).release();
  });

  it('the turns of projects for free memory', async () => {
    const budget = newBudget();
    const [first, second] = [
      await reserve(budget, 'a'),
      await reserve(budget, 'a'),
      await reserve(budget, 'c', LARGE - 100),
    ];
    await reserve(budget, 'b', 10);
    const order: string[] = [];
    const waiting = ['a', 'a', 'b'].map((project) => reserve(budget, project).then(() => order.push(project)));
    first?.release();
    second?.release();
    await Promise.race([Promise.all(waiting), sleep(20)]);
    expect(order.toSorted()).toEqual(['a', 'b']);
  });
});

describe('refuses', () => {
  it('a request that waits too long, and one whose client has left', async () => {
    const budget = newBudget();
    const reservation = await reserve(budget, 'a', 2 * LARGE);
    await expect(reserve(budget, 'a', LARGE, 20)).rejects.toMatchObject({ code: 'overloaded' });
    const leaving = new AbortController();
    const left = reserve(budget, 'a', LARGE, 5_000, leaving.signal);
    leaving.abort();
    await expect(left).rejects.toMatchObject({ code: 'overloaded' });
    await expect(reserve(budget, 'a', LARGE, 5_000, leaving.signal)).rejects.toMatchObject({ code: 'overloaded' });
    reservation.release();
    (await reserve(budget, 'a')).release();
  });
});
