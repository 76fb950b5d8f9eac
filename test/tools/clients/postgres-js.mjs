/** postgres.js: pipelining, transactions, cursors, COPY, LISTEN, cancel. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import postgres from 'postgres';

const sql = postgres(process.env.CDP_WRITER, { max: 3, onnotice: () => {} });

const [row] = await sql`SELECT ${7}::int AS i, ${'9007199254740993'}::bigint AS big, ${sql.json({ a: 1 })}::jsonb AS j,
  ${sql.array([1, 2], 1007)} AS list, ${new Date('2026-01-31T09:30:00Z')}::timestamptz AS at, ${Buffer.from([0, 255])}::bytea AS bytes`;
assert.deepEqual(
  { ...row },
  {
    ...{ i: 7, big: '9007199254740993', j: { a: 1 }, list: [1, 2], at: new Date('2026-01-31T09:30:00Z') },
    bytes: Buffer.from([0, 255]),
  },
);

await sql`CREATE TABLE users (id serial PRIMARY KEY, name text UNIQUE, age int)`;
const users = Array.from({ length: 500 }, (_, n) => ({ name: `u${n}`, age: n % 90 }));
await sql`INSERT INTO users ${sql(users, 'name', 'age')}`;
assert.equal((await sql`SELECT count(*)::int AS n FROM ${sql('users')} WHERE name IN ${sql(['u1', 'u2'])}`)[0].n, 2);
assert.deepEqual(
  (await sql`SELECT * FROM users`.describe()).columns.map(({ name }) => name),
  ['id', 'name', 'age'],
);

// Pipelined on one connection, with an error in the middle of it.
const responses = await sql.begin((tx) => [tx`SELECT 1 AS n`, tx`SELECT 2 AS n`, tx`SELECT 3 AS n`]);
assert.deepEqual(
  responses.map(([{ n }]) => n),
  [1, 2, 3],
);
const mixed = await Promise.allSettled(
  Array.from({ length: 60 }, (_, n) => (n % 3 === 0 ? sql`SELECT 1 / 0` : sql`SELECT ${n}::int AS n`)),
);
assert.deepEqual(
  mixed.map(({ value, reason }) => value?.[0].n ?? reason.code),
  Array.from({ length: 60 }, (_, n) => (n % 3 === 0 ? '22012' : n)),
);
const failed = await sql
  .begin(async (tx) => {
    await tx`DELETE FROM users`;
    await tx.savepoint((inner) => inner`SELECT 1 / 0`).catch(() => {});
    throw new Error('undo');
  })
  .catch(({ message }) => message);
assert.equal(failed, 'undo');
assert.equal((await sql`SELECT count(*)::int AS n FROM users`)[0].n, 500);

let seen = 0;
await sql`SELECT * FROM users`.cursor(50, (rows) => void (seen += rows.length));
for await (const rows of sql`SELECT * FROM users`.cursor(120)) seen += rows.length;
await sql`SELECT * FROM users`.forEach(() => void seen++);
assert.equal(seen, 1_500);

await sql`CREATE TABLE copied (n int, text text)`;
await pipeline(Readable.from(['1\ta\n', '2\tb\n']), await sql`COPY copied FROM STDIN`.writable());
const out = [];
for await (const chunk of await sql`COPY copied TO STDOUT`.readable()) out.push(chunk);
assert.equal(Buffer.concat(out).toString(), '1\ta\n2\tb\n');

const heard = new Promise((resolve) => void sql.listen('news', resolve, () => void sql.notify('news', 'hello')));
assert.equal(await heard, 'hello');

const sleeping = sql`SELECT pg_sleep(60)`.execute();
while ((await sql`SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'`).length === 0);
sleeping.cancel();
assert.equal((await sleeping.catch((caught) => caught)).code, '57014');
assert.equal((await sql.unsafe('SELECT 1 AS a; SELECT 2 AS b')).length, 2);
await sql.end();
