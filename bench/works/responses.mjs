/** W4a and W4b: responses to free SQL. */
import { READ } from '../records.mjs';
import { interleave } from '../rounds.mjs';
import { checkRows, DISTINCT, fill, TABLE } from './read-table.mjs';

const read = (name, { title, unit, unitsPerResponse, goals, order, checkBody }) => ({
  name,
  async run(house) {
    const targets = Object.values(house.targets);
    for (const target of targets) await fill(target, DISTINCT);
    const measured = await interleave(house, targets, {
      connections: 8,
      unitsPerResponse,
      prepare: order,
      reset: async () => {},
      check: async (target, { responses, bytes, body }) => {
        if (body === undefined) return; // raw wire: the command tag had the number of rows
        checkBody(target, Buffer.from(body).toString());
        // All must have the same length; the load generator has checked their status.
        if (bytes !== responses * body.length) throw new Error(`${target.name}: the responses differ in length`);
      },
    });
    for (const { database } of targets) await database.drop(TABLE);
    return { rows: [{ title, unit, measured, goals }] };
  },
});

export const RESPONSES = [
  read('W4a', {
    title: 'W4a: SELECT 1, 8 connections',
    unit: 'requests/s',
    unitsPerResponse: 1,
    goals: { postgrest: 2.5 },
    order: (target) => target.selectOne(),
    checkBody(target, body) {
      if (target.oneOf(body) !== 1) throw new Error(`${target.name} answers ${body} to SELECT 1`);
    },
  }),
  read('W4b', {
    title: `W4b: SELECT of ${DISTINCT} rows of 8 columns, 8 connections`,
    unit: 'rows/s',
    unitsPerResponse: DISTINCT,
    goals: { raw: 0.8, postgrest: 1.4 },
    order: (target) => target.selects(TABLE, READ, DISTINCT),
    checkBody: (target, body) => checkRows(target.rowsOf(body)),
  }),
];
