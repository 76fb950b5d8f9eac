/** Shapes of records for `encoder.mjs`: those of the benchmark, and others that real clients send. */
import { COMMON, DOCUMENT, MIXED, NARROW, WIDE } from './records.mjs';

const columns = (list) => list.split(' ').map((entry) => ({ name: entry.split(':')[0], type: entry.split(':')[1] }));
const many = (count, type, name = (i) => `column_${i}`) =>
  Array.from({ length: count }, (_, i) => ({ name: name(i), type }));
const fromColumns = (list, value) => (n) => Object.fromEntries(list.map(({ name }, i) => [name, value(n, i)]));
/** All columns of one type. */
const of = (count, type, value) => {
  const list = many(count, type);
  return { columns: list, record: fromColumns(list, value) };
};
const scatter = (n, below) => (Math.imul(n + 1, 0x9e3779b1) >>> 0) % below;
const time = (n) => new Date(1.6e12 + scatter(n, 1e8) * 1000 + scatter(n + 1, 1000)).toISOString();
const uuid = (n) => {
  const hex = Array.from({ length: 4 }, (_, i) =>
    scatter(n * 4 + i, 2 ** 32)
      .toString(16)
      .padStart(8, '0'),
  ).join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
};
const ASCII = 'The quick brown fox jumps over the lazy dog, and nobody knows why it would do such a thing again. ';
const LINES = 'The quick brown "fox" jumps over the lazy dog,\nand nobody knows why it would do so.\n';
const CYRILLIC = 'Съешь же ещё этих мягких французских булок, да выпей чаю. ';
const CJK = '敏捷的棕色狐狸跳過懶狗，沒有人知道為什麼。';
const textOf = (unit, length) => (n) => ({
  n,
  body: unit.repeat(Math.ceil(length(n) / unit.length)).slice(0, length(n)),
});
const text = columns('n:INTEGER body:TEXT');
const doc = columns('n:INTEGER doc:JSONB');
const deep = (depth, n) => (depth === 0 ? { leaf: n } : { level: depth, inner: [deep(depth - 1, n)] });
const product = (n) => ({
  n,
  sku: `SKU-${scatter(n, 1e6)}`,
  title: 'Ergonomic chair, black',
  price: scatter(n, 1e5) / 100,
  stock: scatter(n, 300),
  tags: { colour: 'black', sizes: ['s', 'm', 'l'] },
});
const products = columns('n:INTEGER sku:TEXT title:TEXT price:FLOAT stock:INTEGER tags:JSONB');
const reversed = (record) => Object.fromEntries(Object.entries(record).reverse());
const rotated = (record, by) => {
  const entries = Object.entries(record);
  const at = by % entries.length;
  return Object.fromEntries([...entries.slice(at), ...entries.slice(0, at)]);
};
const raw = (list, cells) => ({
  columns: list,
  record: (n) => n,
  json: (records) =>
    `[${records.map((n) => `{${list.map(({ name }, i) => `"${name}":${cells(n, i)}`).join()}}`).join()}]`,
});

export const SHAPES = {
  common: COMMON,
  narrow: NARROW,
  wide: WIDE,
  docs: DOCUMENT,
  mixed: MIXED,
  'text 1 KB ascii': { columns: text, record: textOf(ASCII, () => 1024) },
  'text 10 KB ascii': { columns: text, record: textOf(ASCII, () => 10_240) },
  'text 1 KB with lines': { columns: text, record: textOf(LINES, () => 1024) },
  'text 10 KB with lines': { columns: text, record: textOf(LINES, () => 10_240) },
  'text 1 KB cyrillic': { columns: text, record: textOf(CYRILLIC, () => 1024) },
  'text 10 KB cjk': { columns: text, record: textOf(CJK, () => 10_240) },
  'text escaped by \\u': {
    columns: text,
    record: textOf(CYRILLIC, () => 300),
    json: (records) =>
      JSON.stringify(records).replace(/[^\0-\x7f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`),
  },
  'emoji escaped by \\u': {
    columns: text,
    record: textOf('ok 👍 thanks 🎉 see you 😀 ', () => 300),
    json: (records) =>
      JSON.stringify(records).replace(/[^\0-\x7f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`),
  },
  'short texts': of(20, 'TEXT', (n, i) => ASCII.slice(0, scatter(n * 20 + i, 12))),
  nulls: of(20, 'TEXT', (n, i) => (scatter(n * 20 + i, 10) > 0 ? null : 'value')),
  'missing keys': {
    columns: many(20, 'TEXT'),
    record: (n) =>
      Object.fromEntries(
        many(20, 'TEXT')
          .filter((_, i) => scatter(n * 20 + i, 3) === 0)
          .map(({ name }) => [name, 'value']),
      ),
  },
  'small integers': of(20, 'INTEGER', (n, i) => scatter(n * 20 + i, 1000)),
  'large integers': raw(
    many(20, 'INTEGER'),
    (n, i) => `${scatter(n * 20 + i, 2 ** 31)}${String(scatter(n + i, 1e8)).padStart(8, '0')}`,
  ),
  'integers as strings': of(20, 'INTEGER', (n, i) => String(scatter(n * 20 + i, 1e6))),
  'integers as 1.0': raw(many(20, 'INTEGER'), (n, i) => `${scatter(n * 20 + i, 1000)}.0`),
  'floats 17 digits': of(20, 'FLOAT', (n, i) => scatter(n * 20 + i, 2 ** 32) / 7),
  'floats exponents': of(20, 'FLOAT', (n, i) => (scatter(n * 20 + i, 1e6) / 1000) * 10 ** (-20 - (i % 10))),
  'floats 1e10': raw(many(20, 'FLOAT'), (n, i) => `${scatter(n * 20 + i, 1000)}.5e${i}`),
  'floats as strings': of(20, 'FLOAT', (n, i) => String(scatter(n * 20 + i, 1e6) / 100)),
  booleans: of(20, 'BOOLEAN', (n, i) => scatter(n * 20 + i, 2) === 0),
  'times Z': of(10, 'TIMESTAMP', (n, i) => time(n * 10 + i)),
  'times offset': of(10, 'TIMESTAMP', (n, i) => time(n * 10 + i).replace(/\.\d+Z/, '+02:00')),
  'times micros': of(10, 'TIMESTAMP', (n, i) => time(n * 10 + i).replace('Z', '456+00:00')),
  'times nanos': of(10, 'TIMESTAMP', (n, i) => time(n * 10 + i).replace('Z', '456789Z')),
  'times plain': of(10, 'TIMESTAMP', (n, i) => time(n * 10 + i).slice(0, 19)),
  'times space': of(10, 'TIMESTAMP', (n, i) =>
    time(n * 10 + i)
      .slice(0, 19)
      .replace('T', ' '),
  ),
  'times lower case': of(10, 'TIMESTAMP', (n, i) => time(n * 10 + i).toLowerCase()),
  dates: of(10, 'TIMESTAMP', (n, i) => time(n * 10 + i).slice(0, 10)),
  'ids given': { columns: columns('n:INTEGER'), record: (n) => ({ id: uuid(n), n }) },
  'json deep': { columns: doc, record: (n) => ({ n, doc: deep(15, n) }) },
  'json wide': {
    columns: doc,
    record: (n) => ({
      n,
      doc: Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`key_${i}`, scatter(n + i, 1000)])),
    }),
  },
  'json with escapes': {
    columns: doc,
    record: (n) => ({
      n,
      doc: Array.from({ length: 10 }, (_, i) => ({ note: `He said "no ${n + i}",\nand left.`, path: 'C:\\temp' })),
    }),
  },
  'json with emoji \\u': {
    columns: doc,
    record: (n) => ({ n, doc: Array.from({ length: 10 }, (_, i) => ({ note: `Well done 👍 ${n + i}` })) }),
    json: (records) =>
      JSON.stringify(records).replace(/[^\0-\x7f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`),
  },
  'json with exponents': {
    columns: doc,
    record: (n) => ({ n, doc: Array.from({ length: 30 }, (_, i) => scatter(n * 30 + i, 1e6) * 1e-12) }),
  },
  'json of coordinates': {
    columns: doc,
    record: (n) => ({
      n,
      doc: Array.from({ length: 60 }, (_, i) => [scatter(n + i, 2 ** 32) / 2 ** 25, scatter(n - i, 2 ** 32) / 2 ** 26]),
    }),
  },
  'json strings': { columns: doc, record: (n) => ({ n, doc: `a "text" of ${n}` }) },
  'json small': { columns: many(10, 'JSONB'), record: fromColumns(many(10, 'JSONB'), (n, i) => ({ a: n, b: [i] })) },
  pretty: { columns: products, record: product, json: (records) => JSON.stringify(records, null, 2) },
  'spaced (python)': {
    columns: products,
    record: product,
    json: (records) =>
      JSON.stringify(records, null, 1)
        .replace(/\n */g, ' ')
        .replaceAll('[ ', '[')
        .replaceAll('{ ', '{')
        .replaceAll(' ]', ']')
        .replaceAll(' }', '}'),
  },
  'keys reversed': { columns: products, record: (n) => reversed(product(n)) },
  'keys in any order': { columns: products, record: (n) => rotated(product(n), scatter(n, 6)) },
  'unicode keys': {
    columns: many(10, 'TEXT', (i) => `größe_名前_${i}`),
    record: fromColumns(
      many(10, 'TEXT', (i) => `größe_名前_${i}`),
      (n, i) => `x${n + i}`,
    ),
  },
  '200 columns': {
    columns: Array.from({ length: 200 }, (_, i) => ({
      name: `c${i}`,
      type: ['TEXT', 'INTEGER', 'FLOAT', 'BOOLEAN', 'TIMESTAMP'][i % 5],
    })),
    record: (n) =>
      Object.fromEntries(
        Array.from({ length: 200 }, (_, i) => [
          `c${i}`,
          [
            () => `text ${n + i}`,
            () => scatter(n + i, 1e6),
            () => scatter(n + i, 1e6) / 1000,
            () => i % 2 === 0,
            () => time(n + i),
          ][i % 5](),
        ]),
      ),
  },
  'one record': { ...COMMON, count: 1 },
};
