/** W3: tables of 6 columns, created one after the other. */
import { interleave } from '../rounds.mjs';

const COLUMNS = ['TEXT', 'INTEGER', 'FLOAT', 'BOOLEAN', 'TIMESTAMP', 'JSONB'].map((type, i) => ({
  name: `c${i}`,
  type,
}));

/** More than can be created in a second. */
const PER_SECOND = 1500;

/** Each needs a handful of locks until the end of the transaction, and the server has room for a few thousand. */
const DROPPED_AT_ONCE = 200;

export const TABLES = [
  {
    name: 'W3',
    async run(house) {
      const { raw, service, naive } = house.targets;
      const targets = [raw, service, naive].filter((target) => target !== undefined);
      const names = Array.from({ length: Math.ceil(PER_SECOND * house.options.seconds) }, (_, i) => `w3_${i}`);
      const measured = await interleave(house, targets, {
        connections: 1,
        unitsPerResponse: 1,
        prepare: (target) => ({ ...target.createsTables(names, COLUMNS), atMost: names.length }),
        reset: ({ database }) => dropAll(database),
        check: ({ database }, { responses }) => check(database, responses),
      });
      for (const { database } of targets) await dropAll(database);
      return {
        rows: [{ title: 'W3: table of 6 columns, 1 connection', unit: 'tables/s', measured, goals: { raw: 0.7 } }],
      };
    },
  },
];

const THEIRS = `FROM pg_class c WHERE c.relkind = 'r' AND c.relname LIKE 'w3\\_%' AND c.relnamespace = $1::regnamespace`;

async function dropAll({ client, schema, rows }) {
  for (;;) {
    const { rows: found } = await client.query(
      `SELECT c.oid::regclass::text AS name ${THEIRS} LIMIT ${DROPPED_AT_ONCE}`,
      [schema],
    );
    if (found.length === 0) break;
    await client.query(`DROP TABLE ${found.map(({ name }) => name).join(', ')}`);
  }
  await client.query('VACUUM pg_class, pg_attribute, pg_type, pg_index, pg_constraint, pg_depend, pg_attrdef');
  await client.query('CHECKPOINT');
}

/** Checks that there are as many tables as were acknowledged, each with its columns, their types and a primary key. */
async function check(database, acknowledged) {
  const [{ count }] = await database.rows(
    `SELECT count(*)::integer AS count FROM (
       SELECT (SELECT string_agg(format_type(a.atttypid, a.atttypmod), ' ' ORDER BY a.attnum) FROM pg_attribute a
               WHERE a.attrelid = c.oid AND a.attnum > 0) AS types, c.relhasindex ${THEIRS}) found
     WHERE relhasindex
       AND types = 'uuid text bigint double precision boolean timestamp with time zone jsonb'`,
    [database.schema],
  );
  if (count !== acknowledged) throw new Error(`${database.name}: ${count} tables instead of ${acknowledged}`);
}
