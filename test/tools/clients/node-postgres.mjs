/** node-postgres with pg-cursor, pg-query-stream and pg-copy-streams. */
import assert from 'node:assert/strict';
import { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import pg from 'pg';
import copy from 'pg-copy-streams';
import Cursor from 'pg-cursor';
import QueryStream from 'pg-query-stream';

const { CDP_WRITER: writer, CDP_READER: reader } = process.env;
const pool = new pg.Pool({ connectionString: writer, max: 4 });
const one = async (text, values) => (await pool.query(text, values)).rows[0];

// Types, as text and as parameters.
const types = await one(
  `SELECT $1::int AS i, $2::bigint AS big, $3::numeric AS n, $4::float8 AS f, $5::bool AS b, $6::timestamptz AS at, $7::jsonb AS j,
     $8::bytea AS bytes, $9::int[] AS list, $10::uuid AS id, $11::text AS text, NULL AS nothing, '[1,5)'::int4range AS range`,
  [
    ...[7, '9007199254740993', '1.10', 0.1, true, new Date('2026-01-31T09:30:00Z'), { a: [1, null] }],
    ...[Buffer.from([0, 255]), [1, 2, null], '0b0f8a9c-7d0e-4a5f-9d6e-2f6f0c1c2d3e', 'é\u{1F600}'],
  ],
);
assert.deepEqual(types, {
  ...{ i: 7, big: '9007199254740993', n: '1.10', f: 0.1, b: true, at: new Date('2026-01-31T09:30:00Z') },
  ...{ j: { a: [1, null] }, bytes: Buffer.from([0, 255]), list: [1, 2, null] },
  ...{ id: '0b0f8a9c-7d0e-4a5f-9d6e-2f6f0c1c2d3e', text: 'é\u{1F600}', nothing: null, range: '[1,5)' },
});

// Transactions, savepoints, errors with their fields, a named statement again and again.
await pool.query('CREATE TABLE notes (id serial PRIMARY KEY, text text NOT NULL UNIQUE)');
const client = await pool.connect();
await client.query('BEGIN ISOLATION LEVEL SERIALIZABLE');
await client.query('INSERT INTO notes (text) VALUES ($1)', ['a']);
await client.query('SAVEPOINT s');
const error = await client.query("INSERT INTO notes (text) VALUES ('a')").catch((caught) => caught);
assert.deepEqual([error.code, error.table, error.constraint], ['23505', 'notes', 'notes_text_key']);
await client.query('ROLLBACK TO s');
for (let n = 0; n < 20; n++) {
  const { rows } = await client.query({ name: 'named', text: 'SELECT $1::int + 1 AS n', values: [n] });
  assert.equal(rows[0].n, n + 1);
}
await client.query('COMMIT');
const several = await client.query('SELECT 1 AS a; SELECT 2 AS b');
assert.deepEqual(
  several.map(({ rows }) => rows[0]),
  [{ a: 1 }, { b: 2 }],
);

// COPY both ways, a cursor, a stream of rows.
await client.query('CREATE TABLE lines (n int, text text)');
const lines = function* () {
  for (let n = 0; n < 50_000; n++) yield `${n}\tline ${n}\n`;
};
await pipeline(Readable.from(lines()), client.query(copy.from('COPY lines FROM STDIN')));
let bytes = 0;
const count = new Writable({
  write(chunk, _encoding, done) {
    bytes += chunk.length;
    done();
  },
});
await pipeline(client.query(copy.to('COPY lines TO STDOUT')), count);
assert.equal(bytes, [...lines()].join('').length);
const cursor = client.query(new Cursor('SELECT n FROM lines ORDER BY n'));
assert.deepEqual(
  (await cursor.read(3)).map(({ n }) => n),
  [0, 1, 2],
);
assert.equal((await cursor.read(1_000)).length, 1_000);
await cursor.close();
let streamed = 0;
for await (const row of client.query(new QueryStream('SELECT * FROM lines', [], { batchSize: 500 })))
  streamed += row.n >= 0;
assert.equal(streamed, 50_000);

// Large objects.
await client.query('BEGIN');
const { oid } = (await client.query("SELECT lo_from_bytea(0, 'large') AS oid")).rows[0];
const { fd } = (await client.query('SELECT lo_open($1, 262144) AS fd', [oid])).rows[0];
assert.equal((await client.query('SELECT loread($1, 100) AS bytes', [fd])).rows[0].bytes.toString(), 'large');
await client.query('COMMIT');

// LISTEN and NOTIFY between two sessions.
const heard = new Promise((resolve) => client.once('notification', resolve));
await client.query('LISTEN news');
await pool.query("SELECT pg_notify('news', 'hello')");
assert.equal((await heard).payload, 'hello');

// Cancel, as pg_cancel_backend and by the statement's own limit.
const { pid } = (await client.query('SELECT pg_backend_pid() AS pid')).rows[0];
const canceled = client.query('SELECT pg_sleep(60)').catch((caught) => caught);
while ((await one('SELECT wait_event FROM pg_stat_activity WHERE pid = $1', [pid])).wait_event !== 'PgSleep');
await one('SELECT pg_cancel_backend($1)', [pid]);
assert.equal((await canceled).code, '57014');
await client.query("SET statement_timeout = '50ms'");
assert.equal((await client.query('SELECT pg_sleep(60)').catch((caught) => caught)).code, '57014');
client.release(true);

// Many at once on few connections; the reader reads, and only reads.
const sums = await Promise.all(Array.from({ length: 100 }, (_, n) => one('SELECT $1::int * 2 AS n', [n])));
assert.equal(
  sums.reduce((sum, { n }) => sum + n, 0),
  9_900,
);
await pool.end();
const only = new pg.Client(reader);
await only.connect();
assert.equal((await only.query('SELECT count(*)::int AS n FROM lines')).rows[0].n, 50_000);
await only.query('SET default_transaction_read_only = off').catch(() => {});
assert.match((await only.query('DELETE FROM lines').catch((caught) => caught)).code, /^(25006|42501)$/);
await only.end();
