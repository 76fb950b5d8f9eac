/** W1 and W2: batches of 250 records, and single records, into one table. */
import { COMMON, DOCUMENT, MIXED, NARROW, recordsOf, WIDE } from '../records.mjs';
import { interleave } from '../rounds.mjs';

/** Different batches that are sent in turn. */
const BATCHES = { 250: 16, 1: 1000 };

const insert = (name, title, shape, recordsPerBatch, connections, goals) => ({
  name,
  async run(house) {
    const work = insertWork(name, shape, recordsPerBatch, connections);
    const targets = Object.values(house.targets);
    const measured = await interleave(house, targets, work);
    for (const { database } of targets) await database.drop(work.table);
    return { rows: [{ title, unit: 'rows/s', measured, goals }] };
  },
});

/** @returns {import('../rounds.mjs').Work & { table: string }} */
function insertWork(name, shape, recordsPerBatch, connections) {
  const table = name.toLowerCase().replaceAll('-', '_');
  const batches = Array.from({ length: BATCHES[recordsPerBatch] }, (_, i) =>
    recordsOf(shape, i * recordsPerBatch, recordsPerBatch),
  );
  return {
    table,
    connections,
    unitsPerResponse: recordsPerBatch,
    async prepare(target) {
      await target.createTable(table, shape.columns);
      await target.database.expect(table, shape, batches);
      return target.inserts(table, shape, batches);
    },
    reset: ({ database }) => database.reset(table),
    check: ({ database }, { acknowledged }) => database.check(table, shape, acknowledged, recordsPerBatch),
  };
}

const BATCH_GOALS = { raw: 0.85, postgrest: 1.7 };

export const INSERTS = [
  insert('W1-8', 'W1: 250 records of 231 bytes, 8 connections', COMMON, 250, 8, BATCH_GOALS),
  insert('W1-32', 'W1: the same, 32 connections', COMMON, 250, 32, BATCH_GOALS),
  insert('W1-narrow', 'W1: 3 columns, 8 connections', NARROW, 250, 8, { raw: 0.75 }),
  insert('W1-wide', 'W1: 60 columns, 8 connections', WIDE, 250, 8, { raw: 0.75 }),
  insert('W1-docs', 'W1: JSONB of 4 KB, 8 connections', DOCUMENT, 250, 8, { raw: 0.75 }),
  insert('W1-mixed', 'W1: escapes, nulls, missing keys, 8 connections', MIXED, 250, 8, { raw: 0.75 }),
  insert('W2-32', 'W2: 1 record, 32 connections', COMMON, 1, 32, { raw: 1 }),
  insert('W2-1', 'W2: 1 record, 1 connection', COMMON, 1, 1, { postgrest: 1.4 }),
];
