/**
 * Shapes of batches and tables, in addition to those of `run.mjs`: what real clients send, and what their tables look
 * like.
 */
import { COMMON, DOCUMENT, MIXED, NARROW, WIDE } from '../records.mjs';
import { SHAPES as RECORDS } from '../encoder-shapes.mjs';

/**
 * @typedef {import('../records.mjs').Shape} TableShape columns of the service's types, or, after those, of Postgres's
 *   own
 * @property {(records: object[]) => string} [json] how the records are spelled
 * @property {number} [count] records of a batch
 * @property {string[]} [before] SQL before columns of Postgres's own are added
 * @property {(table: string) => string[]} [after] SQL after the creation of the table
 * @property {(table: string) => string[]} [expected] SQL that turns what was sent into what should be stored
 * @property {boolean} [isOnce] each batch can be sent only once
 * @property {string} [query] of the path
 * @property {boolean} [hasKeys] each request has an Idempotency-Key
 * @property {boolean} [isZipped]
 */

const scatter = (n, below) => (Math.imul(n + 1, 0x9e3779b1) >>> 0) % below;
const columns = (list) => list.split(' ').map((entry) => ({ name: entry.split(':')[0], type: entry.split(':')[1] }));
const many = (count, type) => Array.from({ length: count }, (_, i) => ({ name: `column_${i}`, type }));
const day = (n) => new Date(Date.UTC(2024, 0, 1 + scatter(n, 700))).toISOString().slice(0, 10);
const uuid = (n) => `00000000-0000-4000-8000-${String(scatter(n, 2 ** 32)).padStart(12, '0')}`;

const ORDER = columns('n:INTEGER customer:INTEGER status:TEXT amount:FLOAT paid:BOOLEAN placed:TIMESTAMP');
const STATES = ['new', 'paid', 'sent'];
const order = (n) => ({
  n,
  customer: scatter(n, 1000),
  status: STATES[n % 3],
  amount: scatter(n, 100_000) / 100,
  paid: n % 3 > 0,
  placed: `${day(n)}T10:20:30.123Z`,
});
const orders = (more = {}) => ({ columns: ORDER, record: order, ...more });
/** The same, followed by a column of a type of Postgres's own. */
const orderWith = (type, value, more = {}) =>
  orders({
    columns: [...ORDER, { name: 'extra', type }],
    record: (n) => ({ ...order(n), extra: value(n) }),
    ...more,
  });

const sparse = many(40, 'TEXT');
const of = (names) => Object.fromEntries(names.map((name) => [name, RECORDS[name]]));

export const SHAPES = {
  common: COMMON,
  narrow: NARROW,
  wide: WIDE,
  docs: DOCUMENT,
  mixed: MIXED,
  orders: orders(),
  ...of(['text 1 KB ascii', 'text 10 KB with lines', 'text 10 KB cjk', 'text escaped by \\u', 'emoji escaped by \\u']),
  ...of(['short texts', 'nulls', 'small integers', 'integers as strings', 'floats 17 digits', 'floats exponents']),
  ...of(['booleans', 'times micros', 'times offset', 'dates', 'json deep', 'json wide', 'json of coordinates']),
  ...of(['json small', 'json with escapes', 'pretty', 'spaced (python)', 'keys in any order', 'missing keys']),
  ...of(['times plain', '200 columns']),
  // The API creates no column with such a name, but accepts records for one.
  'unicode keys': {
    columns: [...columns('n:INTEGER'), ...RECORDS['unicode keys'].columns.map(({ name }) => ({ name, type: 'text' }))],
    record: (n) => ({ n, ...RECORDS['unicode keys'].record(n) }),
  },
  'sparse, 5 of 40': {
    columns: sparse,
    record: (n) =>
      Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`column_${scatter(n * 5 + i, 40)}`, `v${n}`])),
  },
  'bodies of 9 MB': { ...RECORDS['text 10 KB ascii'], record: (n) => ({ n, body: 'a text '.repeat(5300) }) },
  'batches of 5': { ...COMMON, count: 5 },
  'batches of 25': { ...COMMON, count: 25 },
  'batches of 100': { ...COMMON, count: 100 },
  'with a key': { ...COMMON, isOnce: true, hasKeys: true },
  'with ids': { ...COMMON, query: '?return=ids' },
  gzip: { ...COMMON, isZipped: true },
  'not null': orders({ after: (t) => [`ALTER TABLE ${t} ALTER status SET NOT NULL, ALTER amount SET NOT NULL`] }),
  'unique index': orders({ isOnce: true, after: (t) => [`CREATE UNIQUE INDEX ON ${t} (n)`] }),
  'three indexes': orders({
    after: (t) => ['customer', 'status', 'placed'].map((name) => `CREATE INDEX ON ${t} (${name})`),
  }),
  'partial index': orders({ after: (t) => [`CREATE INDEX ON ${t} (customer) WHERE paid`] }),
  'index on lower()': orders({ after: (t) => [`CREATE INDEX ON ${t} (lower(status))`] }),
  check: orders({
    after: (t) => [`ALTER TABLE ${t} ADD CHECK (amount >= 0), ADD CHECK (status IN ('new', 'paid', 'sent'))`],
  }),
  'check, with ids': orders({ query: '?return=ids', after: (t) => [`ALTER TABLE ${t} ADD CHECK (amount >= 0)`] }),
  'check, with a key': orders({
    isOnce: true,
    hasKeys: true,
    after: (t) => [`ALTER TABLE ${t} ADD CHECK (amount >= 0)`],
  }),
  'check, batches of 5': orders({ count: 5, after: (t) => [`ALTER TABLE ${t} ADD CHECK (amount >= 0)`] }),
  'foreign key': orders({
    before: [
      'DROP TABLE IF EXISTS customers CASCADE',
      'CREATE TABLE customers (n bigint PRIMARY KEY)',
      'INSERT INTO customers SELECT generate_series(0, 999)',
    ],
    after: (t) => [`ALTER TABLE ${t} ADD FOREIGN KEY (customer) REFERENCES customers`],
  }),
  'referenced by another': orders({
    isOnce: true,
    after: (t) => [
      `ALTER TABLE ${t} ADD UNIQUE (n)`,
      'DROP TABLE IF EXISTS children',
      `CREATE TABLE children (parent bigint REFERENCES ${t} (n))`,
    ],
  }),
  'default 0': orders({ after: (t) => [`ALTER TABLE ${t} ADD stock bigint NOT NULL DEFAULT 0`] }),
  'default now()': orders({ after: (t) => [`ALTER TABLE ${t} ADD made timestamptz NOT NULL DEFAULT now()`] }),
  'serial column': orders({ after: (t) => [`ALTER TABLE ${t} ADD k bigserial`] }),
  'generated column': orders({
    after: (t) => [`ALTER TABLE ${t} ADD twice double precision GENERATED ALWAYS AS (amount * 2) STORED`],
  }),
  'defaults given by some': orders({
    record: (n) => (n % 2 === 0 ? order(n) : { n, customer: scatter(n, 1000), amount: 1.5 }),
    after: (t) => [`ALTER TABLE ${t} ALTER status SET DEFAULT 'new', ALTER paid SET DEFAULT false`],
    expected: (t) => [`UPDATE ${t} SET status = 'new', paid = false WHERE n % 2 = 1`],
  }),
  integer: orderWith('integer', (n) => scatter(n, 1000)),
  'numeric(12,2)': orderWith('numeric(12,2)', (n) => scatter(n, 1e7) / 100),
  'numeric of 40 digits': orderWith(
    'numeric',
    (n) => `${scatter(n, 1e9)}1234567890123456789012345678.${scatter(n, 1e6)}`,
  ),
  date: orderWith('date', day),
  timestamp: orderWith('timestamp', (n) => `${day(n)}T10:20:30`),
  uuid: orderWith('uuid', uuid),
  'varchar(50)': orderWith('varchar(50)', (n) => `text of ${n}`),
  'text[]': orderWith('text[]', (n) => [`tag ${n}`, 'a "b"', 'c']),
  'integer[]': orderWith('integer[]', (n) => [n, n + 1, n + 2]),
  enum: orderWith('mood', (n) => ['sad', 'ok', 'happy'][n % 3], {
    before: ['DROP TYPE IF EXISTS mood CASCADE', `CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')`],
  }),
};
