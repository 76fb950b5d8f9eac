/** W5: batches of 250 records into a table that has most of their rows. */
import { COMMON, recordsOf } from '../records.mjs';
import { interleave } from '../rounds.mjs';

const TABLE = 'upserts';
const KEY = 'n';
const RECORDS = 250;
/** Enough batches that two requests rarely change the same rows at the same time. */
const BATCHES = Array.from({ length: 64 }, (_, i) => recordsOf(COMMON, i * RECORDS, RECORDS));

export const UPSERT = {
  name: 'W5',
  async run(house) {
    const targets = Object.values(house.targets).filter((target) => 'upserts' in target && target.name !== 'before');
    const measured = await interleave(house, targets, {
      connections: 8,
      unitsPerResponse: RECORDS,
      async prepare(target) {
        const { database } = target;
        await target.createTable(TABLE, COMMON.columns);
        await database.client.query(`CREATE UNIQUE INDEX ON ${database.table(TABLE)} (${KEY})`);
        await database.expect(TABLE, COMMON, BATCHES);
        return target.upserts(TABLE, COMMON, BATCHES, KEY);
      },
      reset: ({ database }) => database.reset(TABLE),
      check: ({ database }, { acknowledged }) =>
        database.check(
          TABLE,
          COMMON,
          acknowledged.map((times) => Math.min(times, 1)),
          RECORDS,
        ),
    });
    for (const { database } of targets) await database.drop(TABLE);
    const title = 'W5: upsert of 250 records of 231 bytes, 8 connections';
    return { rows: [{ title, unit: 'rows/s', measured, goals: { raw: 0.7, postgrest: 2 } }] };
  },
};
