/** Batches that share a COPY (engine/insert/copy-queue.ts): which batches are combined, and what happens to each. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { EncodedBatch } from '../../../src/codec/batch/encoded-batch.js';
import type { Result } from '../../../src/pg/index.js';
import { EngineError } from '../../../src/contract/errors.js';
import { type Deadline, NEVER } from '../../../src/engine/limits/deadline.js';
import { WaitBudget } from '../../../src/engine/limits/wait-budget.js';
import { CopyQueue, type QueuedBatch } from '../../../src/engine/insert/copy-queue.js';
import type { NotStored, TableWithCheck } from '../../../src/engine/insert/store-rows.js';

/** The results of a COPY; the queue does not read them. */
const STORED: readonly Result[] = [];
type Outcome = typeof STORED | NotStored;

interface Sent {
  batches: readonly EncodedBatch[];
  signal: AbortSignal;
  /** Of the request that waits for a slot and a connection. */
  waitBudget: WaitBudget;
  response: (outcome: Outcome) => void;
  fail: (error: Error) => void;
}

interface About {
  records?: number;
  bytes?: number;
  signal?: AbortSignal;
  waitMs?: number;
}

/** A queue in front of a server whose responses the test gives. */
function queueOf(maxWaiting = 64) {
  const sent: Sent[] = [];
  let batches: readonly EncodedBatch[] = [];
  const stepOf = (rows: readonly EncodedBatch[]) => {
    batches = rows;
    return { text: '', params: [] };
  };
  const queue = new CopyQueue({} as TableWithCheck, stepOf, maxWaiting);
  const projectWith = (waitBudget: WaitBudget) => {
    const use = ({ deadline: { signal } }: { deadline: Deadline }) =>
      new Promise<unknown>((resolve, reject) => {
        sent.push({ batches, signal, waitBudget, response: resolve, fail: reject });
      });
    return { use, waitBudget, trace: null } as QueuedBatch['project'];
  };
  const store = async ({ records = 1, bytes = records, signal = NEVER, waitMs = 5_000 }: About = {}) => {
    const rows = new EncodedBatch(records, 'binary', [0], new Uint8Array(bytes));
    return queue.store({ rows, signal, project: projectWith(new WaitBudget(waitMs)) });
  };
  const storeMany = (count: number, about?: About) => Array.from({ length: count }, () => store(about));
  const sizes = () => sent.map(({ batches }) => batches.length);
  return { sent, store, storeMany, sizes };
}

/** What waits is sent at the end of a turn of the event loop. */
const turn = () => new Promise((resolve) => setImmediate(resolve));
const settled = () => turn().then(turn);

/** Two COPYs of one batch each are under way. */
async function busyQueue(maxWaiting?: number) {
  const queue = queueOf(maxWaiting);
  const first: ReturnType<typeof queue.store>[] = [];
  for (let i = 0; i < 2; i++) {
    first.push(queue.store());
    await turn();
  }
  expect(queue.sizes()).toEqual([1, 1]);
  return { ...queue, first };
}

describe('works', () => {
  it('combines batches that arrive in one turn of the event loop', async () => {
    const { sent, storeMany, sizes } = queueOf();
    const stored = storeMany(3);
    await turn();
    expect(sizes()).toEqual([3]);
    sent[0]?.response(STORED);
    expect(await Promise.all(stored)).toEqual([STORED, STORED, STORED]);
  });

  it('sends a batch while a COPY is free, even if none may wait', async () => {
    const { sent, store, sizes } = queueOf(0);
    const stored = store();
    await turn();
    expect(sizes()).toEqual([1]);
    sent[0]?.response(STORED);
    expect(await stored).toBe(STORED);
  });

  it('runs at most two COPYs at once; when one ends, it combines all waiting batches', async () => {
    const { sent, storeMany, sizes, first } = await busyQueue();
    const stored = storeMany(3);
    await turn();
    stored.push(...storeMany(2));
    await turn();
    expect(sizes()).toEqual([1, 1]);
    sent[1]?.response(STORED);
    await settled();
    expect(sizes()).toEqual([1, 1, 5]);
    for (const { response } of sent) response(STORED);
    expect(await Promise.all([...first, ...stored])).toEqual(Array(7).fill(STORED));
  });

  it('puts at most 1,000 records and 256 KiB into a COPY', async () => {
    const byRecords = queueOf();
    void byRecords.storeMany(10, { records: 250 });
    const byBytes = queueOf();
    void byBytes.storeMany(5, { bytes: 100 * 1024 });
    await settled();
    expect(byRecords.sizes()).toEqual([4]);
    expect(byBytes.sizes()).toEqual([2]);
    for (const { sent } of [byRecords, byBytes]) sent[0]?.response(STORED);
    await settled();
    expect(byRecords.sizes()).toEqual([4, 4]);
    expect(byBytes.sizes()).toEqual([2, 2]);
  });

  it('sends a large batch alone and at once', async () => {
    const { store, sizes } = await busyQueue();
    void store({ bytes: 200 * 1024 });
    await turn();
    expect(sizes()).toEqual([1, 1, 1]);
  });
});

describe('refuses', () => {
  it('only the bad batch if Postgres refuses a shared COPY: half of them go at a time, without using more COPYs', async () => {
    const { sent, storeMany, sizes } = queueOf();
    const stored = storeMany(5);
    await turn();
    const isBad = (batch: EncodedBatch | undefined) => batch === sent[0]?.batches[3];
    for (let i = 0; i < sent.length; i++) {
      sent[i]?.response(sent[i]?.batches.some(isBad) ? 'refused' : STORED);
      await settled();
    }
    expect(await Promise.all(stored)).toEqual([STORED, STORED, STORED, 'refused', STORED]);
    expect(sizes()).toEqual([5, 2, 3, 1, 2, 1, 1]);
  });

  it('one half of a refused COPY without the other', async () => {
    const { sent, storeMany } = queueOf();
    const [one, other] = storeMany(2);
    await turn();
    sent[0]?.response('refused');
    await settled();
    sent[1]?.fail(new Error('gone'));
    await expect(one).rejects.toThrow('gone');
    sent[2]?.response(STORED);
    expect(await other).toBe(STORED);
  });

  it('the batches of a shared COPY whose table has changed, without sending them again', async () => {
    const { sent, storeMany, sizes } = queueOf();
    const stored = storeMany(2);
    await turn();
    sent[0]?.response('outdated');
    expect(await Promise.all(stored)).toEqual(['outdated', 'outdated']);
    expect(sizes()).toEqual([2]);
  });

  it('all batches of a COPY that failed for a reason of none of them', async () => {
    const { sent, storeMany } = queueOf();
    const [one, other] = storeMany(2);
    await turn();
    sent[0]?.fail(new Error('gone'));
    await expect(one).rejects.toThrow('gone');
    await expect(other).rejects.toThrow('gone');
  });

  it('batches if too many wait, if they wait too long, and if their client leaves', async () => {
    const { store } = await busyQueue(2);
    const leaving = new AbortController();
    const late = store({ waitMs: 50 });
    const left = store({ signal: leaving.signal });
    await expect(store()).rejects.toMatchObject({ code: 'overloaded' });
    leaving.abort();
    await expect(left).rejects.toThrow('The client disconnected while its request was waiting');
    await expect(late).rejects.toThrow('The batch has waited too long for its turn');
  });

  it('a waiting batch with the reason that ended its request', async () => {
    const { store } = await busyQueue();
    const ended = new AbortController();
    const stored = store({ signal: ended.signal });
    ended.abort(new EngineError('query_timeout', 'Canceled by the operator'));
    await expect(stored).rejects.toMatchObject({ code: 'query_timeout' });
  });
});

describe('protects', () => {
  it("batches from the departure of another batch's client; a batch alone ends with its own client", async () => {
    const { sent, storeMany, store } = queueOf();
    const leaving = new AbortController();
    void storeMany(2, { signal: leaving.signal });
    await turn();
    void store({ signal: leaving.signal });
    await turn();
    leaving.abort();
    expect(sent.map(({ batches, signal }) => [batches.length, signal.aborted])).toEqual([
      [2, false],
      [1, true],
    ]);
  });

  it('the batches of a shared COPY from one that may hardly wait: the one that has waited least waits for all', async () => {
    const { sent, store } = queueOf();
    void store({ waitMs: 10 });
    void store({ waitMs: 5_000 });
    await turn();
    expect(sent[0]?.waitBudget.ms).toBeGreaterThan(1_000);
  });

  it('waiting batches from a refused batch', async () => {
    const { sent, store, sizes } = await busyQueue();
    void store({ waitMs: 50 }).catch(() => {});
    const stays = store();
    await sleep(120);
    sent[0]?.response(STORED);
    await settled();
    expect(sizes()).toEqual([1, 1, 1]);
    sent[2]?.response(STORED);
    expect(await stays).toBe(STORED);
  });
});
