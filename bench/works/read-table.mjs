/** The table that W4b and the stream read, and its expected rows. */
import { isDeepStrictEqual } from 'node:util';
import { READ, recordsOf } from '../records.mjs';

export const TABLE = 'w4';

/** Different records; a larger table repeats them under other numbers. */
export const DISTINCT = 10_000;

const EXPECTED = recordsOf(READ, 0, DISTINCT).map(comparable);

/** Creates the table; Postgres makes its rows from the records' JSON. */
export async function fill(target, rows) {
  const { database } = target;
  await target.createTable(TABLE, READ.columns);
  await database.expect(TABLE, READ, [recordsOf(READ, 0, DISTINCT)]);
  const [, ...others] = READ.columns.map(({ name }) => name);
  await database.client.query(
    `INSERT INTO ${database.table(TABLE)} (n, ${others.join(', ')})
     SELECT e.n + s.i * ${DISTINCT}, ${others.map((name) => `e.${name}`).join(', ')}
     FROM generate_series(0, ${Math.ceil(rows / DISTINCT) - 1}) AS s(i), bench_expected.${TABLE} e
     ORDER BY 1 LIMIT ${rows}`,
  );
  await database.client.query(`VACUUM ANALYZE ${database.table(TABLE)}`);
}

/** Checks that every distinct record is there once, with every value. @throws Error */
export function checkRows(rows) {
  const byNumber = rows.map(comparable).sort((a, b) => a.n - b.n);
  if (!isDeepStrictEqual(byNumber, EXPECTED)) throw new Error('other rows were answered than are in the table');
}

/** Times in any spelling. */
function comparable(row) {
  return { ...row, signed_up: Date.parse(row.signed_up) };
}
