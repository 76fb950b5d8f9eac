/** Batches that share a COPY (engine/insert/copy-queue.ts): which batches are combined, and what happens to each. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { EncodedBatch } from '../../../src/codec/batch/encoded-batch.js';
import { type Outcome, PostgresError, type Result, type Step } from '../../../src/pg/index.js';
import type { PooledConnection } from '../../../src/tenancy/connections/project-connection-pool.js';
import { Counts } from '../../../src/counts.js';
import { EngineError } from '../../../src/contract/errors.js';
import { type RequestTimer, NEVER_ABORTED } from '../../../src/db/backend-request.js';
import { WaitBudget } from '../../../src/db/wait-budget.js';
import type { DatabaseAccess, ConnectionUse, ConnectionWork } from '../../../src/db/database-access.js';
import { Project } from '../../../src/db/project.js';
import type { ProjectRow } from '../../../src/tenancy/control/control-rows.js';
import { CopyQueue, type TableWithCheck } from '../../../src/engine/insert/copy-queue.js';
import type { NotStored, StoreOutcome } from '../../../src/engine/insert/store-rows.js';

/** The results of a COPY; the queue does not read them. */
const STORED: readonly Result[] = [];

interface Sent {
  batches: readonly Uint8Array[];
  signal: AbortSignal;
  /** Of the request that waits for a slot and a connection. */
  waitBudget: WaitBudget;
  response: (outcome: StoreOutcome) => void;
  fail: (error: Error) => void;
}

interface About {
  records?: number;
  bytes?: number;
  signal?: AbortSignal;
  waitMs?: number;
}

/** The outcomes as a session reports them: a violated constraint, the failed check of the schema. */
const REPORTED: Record<NotStored, Outcome> = {
  refused: { results: [], error: new PostgresError('duplicate key', '23505', 'ERROR') },
  outdated: { results: [{ tag: 'COPY 1', rows: [] }], error: new PostgresError('division by zero', '22012', 'ERROR') },
};

const encodedOf = (records: number, bytes: number) => new EncodedBatch(records, 'binary', [0], new Uint8Array(bytes));

/** A queue in front of a server whose responses the test gives. `connect` delays the connection. */
function queueOf(maxWaiting = 64, connect: () => Promise<void> = () => Promise.resolve()) {
  const sent: Sent[] = [];
  const table = { schema: 'data', name: 't', columns: [{ name: 'a' }] };
  const withCheck = { table, check: { text: '', params: [] } } as unknown as TableWithCheck;
  const queue = new CopyQueue(withCheck, encodedOf(0, 0), { counts: new Counts(), max: maxWaiting });
  const database = {
    quotas: { requireRoom: () => undefined },
    run: async <T>({ waitBudget, deadline: { signal } }: ConnectionUse, work: ConnectionWork<T>): Promise<T> => {
      await connect();
      const pipeline = ([copy]: readonly Step[]) =>
        new Promise<Outcome>((resolve, reject) => {
          const response = (outcome: StoreOutcome) =>
            resolve(typeof outcome === 'string' ? REPORTED[outcome] : { results: outcome as Result[], error: null });
          sent.push({ batches: copy?.data ?? [], signal, waitBudget, response, fail: reject });
        });
      const connection = { session: { pipeline, closed: false }, resetAfterUse: () => {} };
      return work(connection as unknown as PooledConnection, {} as RequestTimer);
    },
  } as unknown as DatabaseAccess;
  const row = { id: 'p' } as ProjectRow;
  const projectWith = (waitBudget: WaitBudget) => new Project({ row, database, trace: null, role: null, waitBudget });
  const store = async ({ records = 1, bytes = records, signal = NEVER_ABORTED, waitMs = 5_000 }: About = {}) => {
    return queue.store({ encoded: encodedOf(records, bytes), signal, project: projectWith(new WaitBudget(waitMs)) });
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
    expect(await stored).toEqual(STORED);
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
    expect(byRecords.sizes()).toEqual([4, 4]);
    expect(byBytes.sizes()).toEqual([2, 2]);
    for (const { sent } of [byRecords, byBytes]) sent[0]?.response(STORED);
    await settled();
    expect(byRecords.sizes()).toEqual([4, 4, 2]);
    expect(byBytes.sizes()).toEqual([2, 2, 1]);
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
    const isBad = (batch: Uint8Array) => batch === sent[0]?.batches[3];
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
    expect(await other).toEqual(STORED);
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
  it('the other batches of a shared COPY if a request is ended: they go again', async () => {
    const { sent, store, sizes } = queueOf();
    const ended = new AbortController();
    const one = store({ signal: ended.signal });
    const others = [store(), store()];
    await turn();
    const reason = new EngineError('unauthorized', 'The token has been revoked');
    ended.abort(reason);
    await vi.waitUntil(() => sent[0]?.signal.aborted);
    // As a canceled request ends.
    sent[0]?.fail(reason);
    await expect(one).rejects.toBe(reason);
    await settled();
    expect(sizes()).toEqual([3, 2]);
    sent[1]?.response(STORED);
    expect(await Promise.all(others)).toEqual([STORED, STORED]);
  });

  it('each ended request from the reason of another', async () => {
    const { sent, store } = queueOf();
    const [revoked, canceled] = [new AbortController(), new AbortController()];
    const stored = [store({ signal: revoked.signal }), store({ signal: canceled.signal })];
    await turn();
    revoked.abort(new EngineError('unauthorized', 'The token has been revoked'));
    await vi.waitUntil(() => sent[0]?.signal.aborted);
    canceled.abort(new EngineError('query_timeout', 'Canceled by the operator'));
    sent[0]?.fail(revoked.signal.reason as Error);
    expect(await Promise.allSettled(stored)).toMatchObject([
      { reason: { code: 'unauthorized' } },
      { reason: { code: 'query_timeout' } },
    ]);
  });

  it('a group that still waits for a connection from the end of one request', async () => {
    let connected = () => {};
    const { sent, store } = queueOf(64, () => new Promise((resolve) => (connected = resolve)));
    const ended = new AbortController();
    const one = store({ signal: ended.signal });
    const other = store();
    await turn();
    ended.abort(new EngineError('unauthorized', 'The token has been revoked'));
    await expect(one).rejects.toMatchObject({ code: 'unauthorized' });
    connected();
    await settled();
    expect(sent.map(({ batches, signal }) => [batches.length, signal.aborted])).toEqual([[1, false]]);
    sent[0]?.response(STORED);
    expect(await other).toEqual(STORED);
  });

  it('a batch whose wait ends before its COPY has a connection from being stored', async () => {
    let connected = () => {};
    const { sent, store } = queueOf(64, () => new Promise((resolve) => (connected = resolve)));
    const late = store({ waitMs: 30 });
    const stays = store();
    await turn();
    await expect(late).rejects.toThrow('The batch has waited too long for its turn');
    connected();
    await settled();
    expect(sent.map(({ batches }) => batches.length)).toEqual([1]);
    sent[0]?.response(STORED);
    expect(await stays).toEqual(STORED);
  });

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

  it.each([
    [10, 5_000],
    [5_000, 10],
  ])('the batches of a shared COPY from one that may hardly wait (%i ms and %i ms)', async (...budgets) => {
    const { sent, store } = queueOf();
    for (const waitMs of budgets) void store({ waitMs });
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
    expect(await stays).toEqual(STORED);
  });
});
