/**
 * The values of results: for each kind a type and an SQL expression over `n`, the number of the row, and `c`, that of
 * the column.
 */

/** Words, of this length in all. */
const words = (bytes) => `left(repeat('word ' || (n * 31 + c) || ' and ', ${Math.ceil(bytes / 9)}), ${bytes})`;

/** @type {Record<string, { type: string, value: string }>} */
export const VALUES = {
  'text of 12': { type: 'text', value: words(12) },
  'text of 60': { type: 'text', value: words(60) },
  'text of 400': { type: 'text', value: words(400) },
  'text of 4,000': { type: 'text', value: words(4_000) },
  'text, unicode': { type: 'text', value: `'Tromsø — São Paulo, 京都 😀 ' || n` },
  'text, some escapes': { type: 'text', value: `'He said "no", twice,' || chr(10) || 'and left: C:\\temp ' || n` },
  'text of 900, lines': { type: 'text', value: `repeat('a line with a "word" in it ' || n || chr(10), 25)` },
  'text, all escapes': { type: 'text', value: `repeat('"' || chr(10) || chr(1) || '\\', 15)` },
  'empty text': { type: 'text', value: `''` },
  varchar: { type: 'varchar(80)', value: words(20) },
  smallint: { type: 'smallint', value: `(n * 7 + c) % 30000` },
  integer: { type: 'integer', value: `n * 1000 + c` },
  bigint: { type: 'bigint', value: `n::bigint * 1000003 + c` },
  'bigint, large': { type: 'bigint', value: `9007199254740993 + n` },
  numeric: { type: 'numeric', value: `(n * 7919 % 100000)::numeric / 100` },
  'numeric, long': { type: 'numeric', value: `123456789012345678901234.123456789 + n` },
  'double, 3 decimals': { type: 'double precision', value: `((n * 7919 + c) % 1000000)::double precision / 1000` },
  'double, 16 digits': { type: 'double precision', value: `sqrt(n + c / 7.0::double precision + 2)` },
  real: { type: 'real', value: `sqrt(n + c + 2::double precision)` },
  boolean: { type: 'boolean', value: `(n + c) % 3 = 0` },
  timestamptz: { type: 'timestamptz', value: `timestamptz '2024-01-01Z' + (n * 7919 + c) * interval '1.001 s'` },
  'timestamptz, micros': {
    type: 'timestamptz',
    value: `timestamptz '2024-01-01Z' + (n * 7919 + c) * interval '1.000001 s'`,
  },
  timestamp: { type: 'timestamp', value: `timestamp '2024-01-01' + (n * 7919 + c) * interval '1.001 s'` },
  date: { type: 'date', value: `date '2020-01-01' + (n + c) % 3000` },
  time: { type: 'time', value: `time '00:00' + (n * 7 + c) * interval '1.5 s'` },
  interval: { type: 'interval', value: `make_interval(days => n % 300, secs => n + 0.5)` },
  uuid: { type: 'uuid', value: `md5(n || '-' || c)::uuid` },
  'jsonb of 90': {
    type: 'jsonb',
    value: `jsonb_build_object('city', 'São Paulo', 'plan', 'team', 'visits', n, 'tags', jsonb_build_array('new', c))`,
  },
  'jsonb of 1,500': {
    type: 'jsonb',
    value: `(SELECT jsonb_agg(jsonb_build_object('sku', 'SKU-' || n + i, 'quantity', i, 'price', i / 8.0))
      FROM generate_series(1, 25) i)`,
  },
  'json, lines': {
    type: 'json',
    value: `('{' || chr(10) || '  "a": ' || n || ',' || chr(10) || '  "b": [1, 2]}')::json`,
  },
  'text[]': { type: 'text[]', value: `ARRAY['red', 'green ' || n, 'a "word"']` },
  'integer[]': { type: 'integer[]', value: `ARRAY[n, c, 3, 4, 5]` },
  'double[]': { type: 'double precision[]', value: `ARRAY[n / 8.0, c, 0.1]::double precision[]` },
  'timestamptz[]': { type: 'timestamptz[]', value: `ARRAY[timestamptz '2024-01-01Z' + n * interval '1 s', NULL]` },
  'bytea of 32': { type: 'bytea', value: `decode(md5(n::text) || md5(c::text), 'hex')` },
  'bytea of 2,000': { type: 'bytea', value: `decode(repeat(md5(n::text), 125), 'hex')` },
  inet: { type: 'inet', value: `inet '10.0.0.0' + n` },
  int4range: { type: 'int4range', value: `int4range(n, n + 10)` },
  tstzrange: { type: 'tstzrange', value: `tstzrange(timestamptz '2024-01-01Z' + n * interval '1 h', NULL)` },
  point: { type: 'point', value: `point(n / 8.0, c)` },
  NULL: { type: 'text', value: `NULL` },
  'mostly NULL': { type: 'text', value: `CASE WHEN (n + c) % 10 = 0 THEN 'here' END` },
};

/** Columns of several kinds, like the table of W4b. */
export const MIXED = 'mixed';
const MIXTURE = [
  ...[
    'bigint',
    'text of 12',
    'text, unicode',
    'double, 3 decimals',
    'boolean',
    'timestamptz',
    'jsonb of 90',
    'varchar',
  ],
];

export const KINDS = [MIXED, ...Object.keys(VALUES)];

/** `CREATE TABLE … AS` with this many columns and rows of one kind of value. */
export function createTableAs(name, kind, columns, rows) {
  const list = Array.from({ length: columns }, (_, c) => {
    const { type, value } = VALUES[kind === MIXED ? MIXTURE[c % MIXTURE.length] : kind];
    return `(${value.replaceAll(/\bc\b(?!')/g, String(c))})::${type} AS column_${c}`;
  });
  return `CREATE TABLE ${name} AS SELECT n, ${list.join(', ')} FROM generate_series(0, ${rows - 1}) n`;
}

export const columnList = (columns) => Array.from({ length: columns }, (_, c) => `column_${c}`).join(', ');
