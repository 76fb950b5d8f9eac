/** The comparison itself can fail: it detects every kind of false response. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/postgres.js';
import { Ledger, noteOf, type Reply, type Verdict } from './support/ledger.js';
import { onDatabase } from './support/stage.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
  await onDatabase(database.connection, (client) =>
    client.query(`CREATE SCHEMA data; CREATE TABLE data.ledger (
      id uuid DEFAULT gen_random_uuid(), batch text, place bigint, size bigint, note text)`),
  );
});
afterAll(() => database.drop());

const GOOD: Reply = { status: 201, code: '201', retryAfter: null, rows: 2, ms: 1, at: 1 };
const REFUSED: Reply = { ...GOOD, status: 503, code: 'database_unavailable' };
const LOST: Reply = { ...GOOD, status: 0, code: 'ECONNRESET' };

/** Two rows are what a batch should have; `places` are those that are there. */
async function verdictOf(
  replies: readonly Reply[],
  places: readonly number[],
  key: string | null = null,
): Promise<Verdict> {
  const ledger = new Ledger();
  ledger.add('b', 2, key).replies.push(...replies);
  return onDatabase(database.connection, async (client) => {
    await client.query('TRUNCATE data.ledger');
    for (const place of places) {
      const values = ['b', place, 2, noteOf('b', place)];
      await client.query('INSERT INTO data.ledger (batch, place, size, note) VALUES ($1, $2, $3, $4)', values);
    }
    return ledger.compare(client);
  });
}

describe('accepts a batch', () => {
  it.each([
    ['acknowledged, and there', [GOOD], [0, 1], null],
    ['refused, and not there', [REFUSED], [], null],
    ['without a response, and there', [LOST], [0, 1], null],
    ['without a response, and not there', [LOST], [], null],
    ['settled by its key', [LOST, REFUSED, GOOD], [0, 1], 'k'],
  ] as const)('%s', async (_what, replies, places, key) => {
    expect((await verdictOf(replies, places, key)).wrong).toEqual([]);
  });
});

describe('rejects a batch', () => {
  it.each([
    ['acknowledged, and not there', [GOOD], [], null],
    ['acknowledged, and there twice', [GOOD], [0, 1, 0, 1], null],
    ['acknowledged, and half there', [GOOD], [0], null],
    ['acknowledged for fewer rows', [{ ...GOOD, rows: 1 }], [0, 1], null],
    ['refused, and there', [REFUSED], [0, 1], null],
    ['without a response, and half there', [LOST], [1], null],
    ['with a key, and there twice', [LOST, GOOD], [0, 0, 1, 1], 'k'],
    ['with a key that was never settled', [LOST, REFUSED], [], 'k'],
    ['with other ids than are there', [{ ...GOOD, ids: ['x', 'y'] }], [0, 1], null],
  ] as const)('%s', async (_what, replies, places, key) => {
    expect((await verdictOf(replies, places, key)).wrong).toHaveLength(1);
  });
});
