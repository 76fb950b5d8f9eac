/** Batches that share a COPY (engine/insert/shared-copy.ts): who goes with whom, and what becomes of each. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { CopyData } from '../../../src/engine/batch/copy/copy-encoder.js';
import type { Departure } from '../../../src/engine/admission/departure.js';
import { Patience } from '../../../src/engine/admission/patience.js';
import { LARGE, SharedCopy, SMALL, type WaitingBatch } from '../../../src/engine/insert/shared-copy.js';
import { column } from '../batch/shapes.js';
import { planOf } from '../batch/copy/tables.js';

const COLUMNS = { indices: [0], copy: '', insert: null };
const plan = planOf(column('a', 'TEXT'));
const batch = (records = 1, bytes = records): WaitingBatch => ({
  records,
  plan,
  columns: COLUMNS,
  data: new Uint8Array(bytes),
  trace: null,
});
const never = new AbortController().signal;
const patient = () => new Patience(5_000);

/** A way to the server whose answers the test gives. */
function server() {
  interface Sent {
    batches: readonly CopyData[];
    signal: Departure;
    answer(stored: boolean): void;
    fail(error: Error): void;
  }
  const sent: Sent[] = [];
  const send = (batches: readonly CopyData[], signal: Departure) =>
    new Promise<boolean>((resolve, reject) => {
      sent.push({ batches, signal, answer: resolve, fail: reject });
    });
  return { sent, send };
}

/** Batches of so many records that come at once, and how many are in each COPY that was sent. */
function arrivals(kind: typeof SMALL, records: number) {
  const { sent, send } = server();
  const copies = new SharedCopy({ waiting: 64 }, kind);
  const stored: Promise<boolean>[] = [];
  const come = (count: number) => {
    for (let i = 0; i < count; i++) stored.push(copies.store(batch(records), never, patient(), send));
    return sent.map(({ batches }) => batches.length);
  };
  return { sent, stored, come };
}

/** What waits is sent at the end of a turn of the event loop. */
const turn = () => new Promise((resolve) => setImmediate(resolve));
const settled = () => turn().then(turn);

describe('batches', () => {
  it('go at once while none is under way, and share the next COPY when one is', async () => {
    const { sent, send } = server();
    const copies = new SharedCopy({ waiting: 64 }, SMALL);
    const stored = [1, 2, 3, 4].map(() => copies.store(batch(), never, patient(), send));
    expect(sent.map(({ batches }) => batches.length)).toEqual([1]);
    sent[0]?.answer(true);
    await settled();
    expect(sent.map(({ batches }) => batches.length)).toEqual([1, 3]);
    sent[1]?.answer(true);
    expect(await Promise.all(stored)).toEqual([true, true, true, true]);
  });

  it('go in halves where many come at once, the second without waiting for the first', async () => {
    const { sent, stored, come } = arrivals(SMALL, 1);
    const answerAll = async () => {
      for (const copy of sent) copy.answer(true);
      await settled();
    };
    // Nobody knows yet how many there are: the first, the fewest that are worth a COPY beside it, and the rest behind them.
    expect(come(32)).toEqual([1, 4]);
    await answerAll();
    await answerAll();
    sent.length = 0;
    const [first = 0, second = 0, ...more] = come(32);
    expect(first).toBeGreaterThanOrEqual(10);
    expect(second).toBeGreaterThanOrEqual(10);
    expect(more).toEqual([]);
    await answerAll();
    await answerAll();
    expect(await Promise.all(stored)).toEqual(stored.map(() => true));
    expect(sent.reduce((sum, { batches }) => sum + batches.length, 0)).toBe(32);
  });

  it('go at once while few are under way, if they are large, and in four parts where many come at once', async () => {
    const { sent, stored, come } = arrivals(LARGE, 100);
    const answerAll = async () => {
      for (const copy of sent.splice(0)) copy.answer(true);
      await settled();
    };
    expect(come(8)).toEqual([1, 1, 1, 1]);
    sent[0]?.answer(true);
    await settled();
    // All that wait go when the first has come to its end.
    expect(sent.map(({ batches }) => batches.length)).toEqual([1, 1, 1, 1, 4]);
    await answerAll();
    expect(come(8)).toEqual([2, 2, 2, 2]);
    await answerAll();
    expect(await Promise.all(stored)).toEqual(stored.map(() => true));
  });

  it('go when they fill a COPY, though more of the crowd are to come', async () => {
    const { sent, send } = server();
    const copies = new SharedCopy({ waiting: 64 }, LARGE);
    const come = (count: number, bytes: number) => {
      const stored = Array.from({ length: count }, () => copies.store(batch(250, bytes), never, patient(), send));
      return { stored: Promise.all(stored), sizes: sent.map(({ batches }) => batches.length) };
    };
    const answerAll = async (stored: Promise<boolean[]>) => {
      while (sent.length > 0) {
        for (const copy of sent.splice(0)) copy.answer(true);
        await settled();
      }
      return stored;
    };
    await answerAll(come(32, 1_000).stored);
    // A quarter of the crowd would be some eight.
    const byRecords = come(16, 1_000);
    expect(byRecords.sizes).toEqual([4, 4, 4, 4]);
    await answerAll(byRecords.stored);
    const byBytes = come(8, 100 * 1024);
    expect(byBytes.sizes).toEqual([2, 2, 2]);
    expect(await answerAll(byBytes.stored)).toEqual(Array(8).fill(true));
  });

  it('wait for the end of the turn behind a crowd, and no longer', async () => {
    const { sent, send } = server();
    const copies = new SharedCopy({ waiting: 64 }, SMALL);
    const crowd = Array.from({ length: 5 }, () => copies.store(batch(), never, patient(), send));
    for (const copy of sent) copy.answer(true);
    await Promise.all(crowd);
    sent.length = 0;
    const few = [1, 2].map(() => copies.store(batch(), never, patient(), send));
    expect(sent).toEqual([]);
    await turn();
    expect(sent.map(({ batches }) => batches.length)).toEqual([2]);
    sent[0]?.answer(true);
    expect(await Promise.all(few)).toEqual([true, true]);
  });

  it('do not wait for a COPY that takes long, unless many do', async () => {
    const { sent, send } = server();
    const copies = new SharedCopy({ waiting: 64 }, SMALL);
    const stored: Promise<boolean>[] = [];
    for (let underWay = 1; underWay <= 4; underWay++) {
      stored.push(copies.store(batch(), never, patient(), send), copies.store(batch(), never, patient(), send));
      await sleep(100);
    }
    expect(sent.map(({ batches }) => batches.length)).toEqual([1, 1, 2, 2]);
    for (const copy of sent.slice()) copy.answer(true);
    await settled();
    sent[4]?.answer(true);
    expect(await Promise.all(stored)).toEqual(stored.map(() => true));
    expect(sent).toHaveLength(5);
  });

  it('go alone while one takes very long, those that wait included', async () => {
    const { sent, stored, come } = arrivals(LARGE, 100);
    expect(come(8)).toEqual([1, 1, 1, 1]);
    await sleep(1_100);
    sent[0]?.answer(true);
    await settled();
    expect(come(0)).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
    expect(come(4)).toHaveLength(12);
    for (const copy of sent.slice()) copy.answer(true);
    expect(await Promise.all(stored)).toEqual(stored.map(() => true));
    // The last ones were quick.
    sent.length = 0;
    expect(come(8)).toEqual([3, 3]);
  });

  it('are sent one by one when the shared COPY was refused, so that one bad batch fails alone', async () => {
    const { sent, send } = server();
    const copies = new SharedCopy({ waiting: 64 }, SMALL);
    const [first, good, bad] = [1, 2, 3].map(() => copies.store(batch(), never, patient(), send));
    sent[0]?.answer(true);
    await settled();
    sent[1]?.answer(false);
    await settled();
    expect(sent.slice(2).map(({ batches }) => batches.length)).toEqual([1, 1]);
    sent[2]?.answer(true);
    sent[3]?.answer(false);
    expect(await Promise.all([first, good, bad])).toEqual([true, true, false]);
  });

  it('all learn of a failure that is not about a batch', async () => {
    const { sent, send } = server();
    const copies = new SharedCopy({ waiting: 64 }, SMALL);
    const [first, second, third] = [1, 2, 3].map(() => copies.store(batch(), never, patient(), send));
    sent[0]?.answer(true);
    await first;
    await settled();
    sent[1]?.fail(new Error('gone'));
    await expect(second).rejects.toThrow('gone');
    await expect(third).rejects.toThrow('gone');
  });

  it('are not undone by the client of another one that leaves, and go with their own where they are alone', async () => {
    const { sent, send } = server();
    const copies = new SharedCopy({ waiting: 64 }, SMALL);
    const leaving = new AbortController();
    const leaver = copies.store(batch(), leaving.signal, patient(), send);
    const others = [leaving.signal, never].map((signal) => copies.store(batch(), signal, patient(), send));
    sent[0]?.answer(true);
    await settled();
    leaving.abort();
    expect(sent.map(({ batches, signal }) => [batches.length, signal.aborted])).toEqual([
      [1, true],
      [2, false],
    ]);
    sent[1]?.answer(true);
    expect(await Promise.all([leaver, ...others])).toEqual([true, true, true]);
  });

  it('are cut into COPYs of at most 1,000 records', async () => {
    const { sent, send } = server();
    const copies = new SharedCopy({ waiting: 64 }, SMALL);
    void copies.store(batch(), never, patient(), send);
    for (let i = 0; i < 50; i++) void copies.store(batch(25), never, patient(), send);
    expect(sent.map(({ batches }) => batches.length)).toEqual([1, 4]);
    sent[0]?.answer(true);
    await settled();
    expect(sent[2]?.batches).toHaveLength(40);
  });

  it('are refused when too many wait, when they wait too long, and when their client leaves', async () => {
    const { send } = server();
    const copies = new SharedCopy({ waiting: 2 }, SMALL);
    for (let underWay = 1; underWay <= 4; underWay++) {
      void copies.store(batch(), never, patient(), send);
      await sleep(100);
    }
    const leaving = new AbortController();
    const late = copies.store(batch(), never, new Patience(50), send);
    const left = copies.store(batch(), leaving.signal, patient(), send);
    const full = (async () => copies.store(batch(), never, patient(), send))();
    await expect(full).rejects.toMatchObject({ code: 'overloaded' });
    leaving.abort();
    await expect(left).rejects.toMatchObject({ code: 'overloaded' });
    await expect(late).rejects.toMatchObject({ code: 'overloaded' });
  });
});
