/** Which requests may use Postgres, which wait and which are refused (contract C15), without a database. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { EngineError } from '../../src/contract/errors.js';
import { NEVER_ABORTED } from '../../src/db/backend-request.js';
import { WaitBudget } from '../../src/db/wait-budget.js';
import { noLoad, Slots, type SlotLimits, type SlotClass } from '../../src/db/slots.js';

const LIMITS: SlotLimits = { total: 100, running: 8, reservedForTyped: 2, waiting: 64 };

const slotsWith = (over: Partial<SlotLimits> = {}) => new Slots({ ...LIMITS, ...over });

const acquire = async (
  slots: Slots,
  project: string,
  kind: SlotClass,
  signal = NEVER_ABORTED,
  budget = new WaitBudget(5_000),
) => slots.acquire(project, kind, budget, signal);

/** Enters, and writes its name into `order` when it is admitted. */
function enter(
  slots: Slots,
  project: string,
  kind: SlotClass = 'typed',
  order: string[] = [],
  name = project,
): Promise<() => void> {
  return acquire(slots, project, kind).then((leave) => {
    order.push(name);
    return leave;
  });
}

const times = <T>(count: number, work: () => T): T[] => Array.from({ length: count }, work);

/** Lets everything that is ready to go on do so. */
const settled = () => sleep(1);

async function refusalOf(promise: Promise<unknown>): Promise<EngineError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof EngineError)) throw new Error(`Not refused: ${String(error)}`);
  return error;
}

function totalOf(slots: Slots) {
  const load = noLoad();
  slots.addLoad(load);
  const { typed, sql } = load;
  return { running: typed.running + sql.running, waiting: typed.waiting + sql.waiting };
}

describe('works', () => {
  it('admits a request at once while there is room', async () => {
    const slots = slotsWith();
    const leaves = await Promise.all(times(8, () => acquire(slots, 'a', 'typed')));
    expect(totalOf(slots)).toEqual({ running: 8, waiting: 0 });
    for (const leave of leaves) leave();
    expect(totalOf(slots)).toEqual({ running: 0, waiting: 0 });
  });

  it('admits waiting requests one by one in order as slots become free', async () => {
    const slots = slotsWith({ running: 1, reservedForTyped: 0 });
    const order: string[] = [];
    const first = await acquire(slots, 'a', 'typed');
    const waiting = ['1', '2', '3'].map((name) => enter(slots, 'a', 'typed', order, name));
    await settled();
    expect(totalOf(slots)).toEqual({ running: 1, waiting: 3 });
    first();
    for (const next of waiting) (await next)();
    expect(order).toEqual(['1', '2', '3']);
    expect(totalOf(slots)).toEqual({ running: 0, waiting: 0 });
  });

  it('gives free SQL at most six of eight slots, and operations of the API all of them', async () => {
    const slots = slotsWith();
    const order: string[] = [];
    const sql = times(9, () => enter(slots, 'a', 'sql', order, 'sql'));
    await settled();
    expect(order).toHaveLength(6);
    const api = await Promise.all(times(2, () => enter(slots, 'a', 'typed', order, 'typed')));
    expect(order.slice(6)).toEqual(['typed', 'typed']);
    // A slot of the API that becomes free is not for free SQL.
    for (const leave of api) leave();
    await settled();
    expect(order).toHaveLength(8);
    expect(totalOf(slots)).toEqual({ running: 6, waiting: 3 });
    for (const next of sql) (await next)();
    expect(totalOf(slots)).toEqual({ running: 0, waiting: 0 });
  });

  it('lets operations of the API use all eight slots if there is no free SQL', async () => {
    const slots = slotsWith();
    await Promise.all(times(8, () => acquire(slots, 'a', 'typed')));
    expect(totalOf(slots).running).toBe(8);
  });

  it('lets an operation of the API pass free SQL that waits for a slot that it may not use', async () => {
    const slots = slotsWith({ running: 2, reservedForTyped: 1 });
    const order: string[] = [];
    const sql = await acquire(slots, 'a', 'sql');
    const api = await acquire(slots, 'a', 'typed');
    const waiting = [enter(slots, 'a', 'sql', order, 'sql'), enter(slots, 'a', 'typed', order, 'typed')];
    await settled();
    api();
    await settled();
    expect(order).toEqual(['typed']);
    sql();
    for (const next of waiting) (await next)();
    expect(order).toEqual(['typed', 'sql']);
  });
});

it('goes by a changed limit, and counts those that run already', async () => {
  const slots = slotsWith({ total: 3 });
  const [first, ...others] = await Promise.all(times(3, () => acquire(slots, 'a', 'typed')));
  const waiting = times(3, () => enter(slots, 'b'));
  await settled();
  slots.setTotal(2);
  first?.();
  await settled();
  expect(totalOf(slots)).toEqual({ running: 2, waiting: 3 });
  slots.setTotal(4);
  await settled();
  expect(totalOf(slots)).toEqual({ running: 4, waiting: 1 });
  for (const leave of others) leave();
  for (const next of waiting) (await next)();
  expect(totalOf(slots)).toEqual({ running: 0, waiting: 0 });
});

describe('refuses', () => {
  it('the 65th waiting request, at once and with Retry-After', async () => {
    const slots = slotsWith();
    await Promise.all(times(8, () => acquire(slots, 'a', 'typed')));
    const waiting = times(64, () => acquire(slots, 'a', 'typed'));
    waiting.forEach((promise) => void promise.catch(() => {}));
    const started = performance.now();
    const error = await refusalOf(acquire(slots, 'a', 'typed'));
    expect(error).toMatchObject({ code: 'overloaded', status: 503 });
    expect(error.retryAfter, 'null would leave Retry-After out').toBeUndefined();
    expect(performance.now() - started).toBeLessThan(1_000);
    expect(totalOf(slots)).toEqual({ running: 8, waiting: 64 });
  });

  it('no more than that, however long it has been refusing', async () => {
    const slots = slotsWith();
    const [first] = await Promise.all(times(8, () => acquire(slots, 'a', 'typed')));
    const waiting = times(64, () => acquire(slots, 'a', 'typed'));
    waiting.forEach((promise) => void promise.catch(() => {}));
    for (const pause of [600, 600, 0]) {
      await refusalOf(acquire(slots, 'a', 'typed'));
      await sleep(pause);
    }
    first?.();
    await settled();
    expect(totalOf(slots)).toEqual({ running: 8, waiting: 63 });
    void acquire(slots, 'a', 'typed').catch(() => {});
    expect(totalOf(slots)).toEqual({ running: 8, waiting: 64 });
  });

  it('a request that asks in advance only if there is no free slot and no room to wait', async () => {
    const slots = slotsWith({ waiting: 3 });
    const ask = (project: string, kind: SlotClass) => () => slots.rejectIfFull(project, kind);
    expect(ask('a', 'typed')).not.toThrow();
    await Promise.all(times(6, () => acquire(slots, 'a', 'sql')));
    const waiting = times(3, () => acquire(slots, 'a', 'sql'));
    expect(ask('a', 'sql')).toThrow(EngineError);
    // Places that free SQL cannot take.
    expect(ask('a', 'typed')).not.toThrow();
    expect(ask('b', 'sql')).not.toThrow();
    (await acquire(slots, 'a', 'typed'))();
    await Promise.all(times(2, () => acquire(slots, 'a', 'typed')));
    expect(ask('a', 'typed')).toThrow(EngineError);
    expect(totalOf(slots)).toEqual({ running: 8, waiting: 3 });
    waiting.forEach((promise) => void promise.catch(() => {}));
  });

  it('a request that has waited for its time, and does not take a slot', async () => {
    const slots = slotsWith({ running: 1, reservedForTyped: 0 });
    const leave = await acquire(slots, 'a', 'typed');
    const started = performance.now();
    const error = await refusalOf(acquire(slots, 'a', 'typed', NEVER_ABORTED, new WaitBudget(60)));
    expect(error).toMatchObject({ code: 'overloaded' });
    expect(performance.now() - started).toBeGreaterThan(50);
    expect(performance.now() - started).toBeLessThan(5_000);
    expect(totalOf(slots)).toEqual({ running: 1, waiting: 0 });
    leave();
    expect(totalOf(slots)).toEqual({ running: 0, waiting: 0 });
    (await acquire(slots, 'a', 'typed'))();
  });

  it('a request whose client leaves while it waits, and forgets it', async () => {
    const slots = slotsWith({ running: 1, reservedForTyped: 0 });
    const leave = await acquire(slots, 'a', 'typed');
    const controller = new AbortController();
    const waiting = acquire(slots, 'a', 'typed', controller.signal);
    await settled();
    controller.abort();
    await refusalOf(waiting);
    expect(totalOf(slots)).toEqual({ running: 1, waiting: 0 });
    leave();
    expect(totalOf(slots)).toEqual({ running: 0, waiting: 0 });
  });

  it('a request whose client left before it had to wait', async () => {
    const slots = slotsWith({ running: 1, reservedForTyped: 0 });
    await acquire(slots, 'a', 'typed');
    const started = performance.now();
    await refusalOf(acquire(slots, 'a', 'typed', AbortSignal.abort()));
    expect(performance.now() - started).toBeLessThan(4_000);
    expect(totalOf(slots)).toEqual({ running: 1, waiting: 0 });
  });

  it('every request beyond the running ones if none may wait', async () => {
    const slots = slotsWith({ running: 2, reservedForTyped: 0, waiting: 0 });
    const leave = await acquire(slots, 'a', 'typed');
    await acquire(slots, 'a', 'typed');
    expect(await refusalOf(acquire(slots, 'a', 'typed'))).toMatchObject({ code: 'overloaded' });
    leave();
    await acquire(slots, 'a', 'typed');
  });
});

describe('protects', () => {
  it('projects from each other: a long queue of one does not delay another', async () => {
    const slots = slotsWith({ total: 4, running: 4, reservedForTyped: 0 });
    const order: string[] = [];
    const running = await Promise.all(times(4, () => acquire(slots, 'greedy', 'typed')));
    const waiting = [
      ...times(20, () => enter(slots, 'greedy', 'typed', order)),
      ...['b', 'c', 'd'].map((project) => enter(slots, project, 'typed', order)),
    ];
    await settled();
    expect(totalOf(slots)).toEqual({ running: 4, waiting: 23 });
    for (const leave of running) leave();
    await settled();
    // Four places became free: each of the four projects has got one of them.
    expect([...order].sort()).toEqual(['b', 'c', 'd', 'greedy']);
    for (const next of waiting) (await next)();
    expect(order).toHaveLength(23);
    expect(totalOf(slots)).toEqual({ running: 0, waiting: 0 });
  });

  it('turns: two projects with queues alternate', async () => {
    const slots = slotsWith({ total: 1, running: 1, reservedForTyped: 0 });
    const order: string[] = [];
    const first = await acquire(slots, 'x', 'typed');
    const waiting = [
      ...times(3, () => enter(slots, 'a', 'typed', order)),
      ...times(3, () => enter(slots, 'b', 'typed', order)),
    ];
    // Each gives its place back as soon as it has it.
    const done = waiting.map((next) => next.then((leave) => leave()));
    first();
    await Promise.all(done);
    expect(order).toEqual(['a', 'b', 'a', 'b', 'a', 'b']);
  });

  it('the total limit: never more requests run than allowed, whatever arrives', async () => {
    const slots = slotsWith({ total: 5, running: 3, reservedForTyped: 1 });
    let running = 0;
    let most = 0;
    const ofProject = new Map<string, number>();
    const work = async (project: string, kind: SlotClass) => {
      const leave = await acquire(slots, project, kind);
      most = Math.max(most, ++running);
      ofProject.set(project, (ofProject.get(project) ?? 0) + 1);
      expect(ofProject.get(project)).toBeLessThanOrEqual(3);
      await sleep(Math.random() * 3);
      running--;
      ofProject.set(project, (ofProject.get(project) ?? 0) - 1);
      leave();
    };
    await Promise.all(Array.from({ length: 150 }, (_, i) => work(`p${i % 4}`, i % 3 === 0 ? 'typed' : 'sql')));
    expect(most).toBe(5);
    expect(totalOf(slots)).toEqual({ running: 0, waiting: 0 });
  });

  it('its count from a slot that is released twice', async () => {
    const slots = slotsWith({ running: 1, reservedForTyped: 0 });
    const leave = await acquire(slots, 'a', 'typed');
    leave();
    leave();
    await acquire(slots, 'a', 'typed');
    expect(totalOf(slots)).toEqual({ running: 1, waiting: 0 });
  });
});

describe('the wait budget', () => {
  it('is shared by all queues of a request: time spent in one counts in the next', async () => {
    const slots = slotsWith({ running: 1, reservedForTyped: 0 });
    await enter(slots, 'a');
    const budget = new WaitBudget(80);
    const elsewhere = budget.start();
    await sleep(50);
    elsewhere();
    expect(budget.ms).toBeLessThan(31);
    const error = await refusalOf(acquire(slots, 'a', 'typed', NEVER_ABORTED, budget));
    expect(error.code).toBe('overloaded');
    expect(budget.ms).toBeLessThan(2);
  });
});
