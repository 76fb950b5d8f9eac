/** Whether inserts slow down as a table grows: W1 into a large table, compared with W1 into an empty one. */
import { COMMON, POSTGRES_TYPES, recordsOf } from '../records.mjs';
import { interleave, ratio } from '../rounds.mjs';

const GOAL_ROWS = 10_000_000;
const GOAL = 0.9;

const RECORDS = 250;
const BATCHES = Array.from({ length: 16 }, (_, i) => recordsOf(COMMON, i * RECORDS, RECORDS));

export const GROWTH = {
  name: 'growth',
  async run(house) {
    const { service } = house.targets;
    const { rows } = house.options;
    const tables = [await table(service, 'growth_empty', 0), await table(service, 'growth_large', rows)];
    const measured = await interleave(house, tables, {
      connections: 8,
      unitsPerResponse: RECORDS,
      prepare: ({ table: name }) => service.inserts(name, COMMON, BATCHES),
      async reset({ table: name, rowsBefore }) {
        if (rowsBefore === 0) await service.database.reset(name);
        else await service.database.rows('CHECKPOINT');
      },
      async check(one, { acknowledged }) {
        if (one.rowsBefore === 0) return service.database.check(one.table, COMMON, acknowledged, RECORDS);
        acknowledged.forEach((times, batch) => (one.acknowledged[batch] += times));
        return service.database.check(one.table, COMMON, one.acknowledged, RECORDS, one.rowsBefore);
      },
    });
    for (const { table: name } of tables) await service.database.drop(name);
    const { median, min, max } = ratio(measured.growth_large, measured.growth_empty);
    const fact = {
      title: `W1 into a table of ${rows.toLocaleString('en-US')} rows, share of an empty one`,
      figure: `${median.toFixed(2)} (${min.toFixed(2)}-${max.toFixed(2)})`,
      goal: `≥ ${GOAL} at ${GOAL_ROWS.toLocaleString('en-US')} rows`,
      met: rows < GOAL_ROWS ? null : median >= GOAL,
    };
    return { facts: [fact] };
  },
};

/** A table of the service as a target of its own. */
async function table(service, name, rowsBefore) {
  await service.createTable(name, COMMON.columns);
  await service.database.expect(name, COMMON, BATCHES);
  const acknowledged = BATCHES.map(() => 0);
  const target = Object.create(service, {
    name: { value: name },
    table: { value: name },
    rowsBefore: { value: rowsBefore },
    acknowledged: { value: acknowledged },
  });
  if (rowsBefore > 0) await fill(service.database, name, rowsBefore);
  return target;
}

/** Rows like the others, but with numbers below 0, so that the check tells them apart. */
async function fill(database, name, rows) {
  const [, ...others] = COMMON.columns.map((column) => column.name);
  const types = COMMON.columns.map((column) => `${column.name} ${POSTGRES_TYPES[column.type]}`).join(', ');
  const distinct = BATCHES.flat();
  await database.client.query(
    `INSERT INTO ${database.table(name)} (n, ${others.join(', ')})
     SELECT -1 - e.n - s.i * ${distinct.length}, ${others.map((other) => `e.${other}`).join(', ')}
     FROM generate_series(0, ${Math.ceil(rows / distinct.length) - 1}) AS s(i), jsonb_to_recordset($1::jsonb) AS e (${types})
     LIMIT ${rows}`,
    [JSON.stringify(distinct)],
  );
  await database.client.query(`VACUUM ANALYZE ${database.table(name)}`);
}
