/** W4a, W4b and the stream: results of free SQL. */
import { isDeepStrictEqual } from 'node:util';
import { memoryOf } from '../cpu.mjs';
import { READ, recordsOf } from '../records.mjs';
import { interleave } from '../rounds.mjs';

const ROWS = 10_000;

const read = (name, title, unit, connections, unitsPerAnswer, goals, order, check) => ({
  name,
  async run(house) {
    const targets = Object.values(house.targets);
    for (const target of targets) await fill(target, ROWS);
    const measured = await interleave(house, targets, {
      connections,
      unitsPerAnswer,
      prepare: order,
      reset: async () => {},
      check: async (target, counted) => {
        sameLength(target, counted);
        if (counted.body != null) check(target, Buffer.from(counted.body).toString());
      },
    });
    for (const { database } of targets) await database.drop(TABLE);
    return { rows: [{ title, unit, measured, goals }] };
  },
});

const TABLE = 'w4';

/** A table whose rows Postgres makes of the JSON of the records itself. */
async function fill(target, rows) {
  const { database } = target;
  await target.createTable(TABLE, READ.columns);
  const names = READ.columns.map(({ name }) => name).join(', ');
  const step = Math.min(rows, ROWS);
  await database.expect(TABLE, READ, [recordsOf(READ, 0, step)]);
  const n = `e.n + s.i * ${step}`;
  await database.client.query(
    `INSERT INTO ${database.table(TABLE)} (${names})
     SELECT ${n}, ${names.slice('n, '.length)} FROM generate_series(0, ${Math.ceil(rows / step) - 1}) AS s(i), bench_expected.${TABLE} e
     ORDER BY 1 LIMIT ${rows}`,
  );
  await database.client.query(`VACUUM ANALYZE ${database.table(TABLE)}`);
}

function sameLength({ name }, { answers, bytes, body }) {
  if (body != null && bytes !== answers * body.length) throw new Error(`${name}: the answers differ in length`);
}

function isOne({ name }, body) {
  const { rows, ...one } = { ...JSON.parse(body) };
  const value = name === 'service' ? rows[0]['?column?'] : JSON.parse(body);
  if (value !== 1) throw new Error(`${name} answers ${body}${Object.keys(one).length === 0 ? '' : ' to SELECT 1'}`);
}

/** Every row with every value; times in any spelling. */
function isAll(target, body) {
  const rows = target.rowsOf(body);
  const expected = recordsOf(READ, 0, ROWS);
  const comparable = (row) => ({ ...row, signed_up: Date.parse(row.signed_up) });
  const byNumber = rows.map(comparable).sort((a, b) => a.n - b.n);
  if (!isDeepStrictEqual(byNumber, expected.map(comparable))) throw new Error(`${target.name} answers other rows`);
}

const STREAM_GROWTH_MIB = 64;

const stream = {
  name: 'stream',
  async run(house) {
    const { raw, service } = house.targets;
    const rows = house.options.streamRows;
    const targets = [raw, service].filter((target) => target !== undefined);
    for (const target of targets) await fill(target, rows);
    const growth = [];
    let memory = 0;
    const measured = await interleave(house, targets, {
      connections: 1,
      unitsPerAnswer: rows,
      prepare: async (target) => ({
        ...(target === raw ? target.selects(TABLE, READ, rows) : target.streams(TABLE, READ)),
        atMost: 1,
        seconds: 600,
      }),
      reset: async (target) => {
        if (target === service) memory = memoryOf(house.service.pid).now;
      },
      check: async (target, { bytes }) => {
        if (target !== service) return;
        growth.push(memoryOf(house.service.pid).most - memory);
        if (bytes !== streamed) throw new Error(`a stream of ${bytes} bytes instead of ${streamed}`);
      },
    });
    return measured;
  },
};

export const ANSWERS = [
  read('W4a', 'W4a: SELECT 1, 8 connections', 'requests/s', 8, 1, { raw: 0.33, postgrest: 3.5 }, (t) => t.selectOne(), isOne),
];
