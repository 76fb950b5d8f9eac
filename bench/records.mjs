/**
 * The records to insert and read: shapes with a rule for their values. Every shape has a column `n`, the number of the
 * record, from which the final check derives the other values.
 */

/** The column types of the service and what they are in Postgres (contract C5.1). */
export const POSTGRES_TYPES = {
  TEXT: 'text',
  INTEGER: 'bigint',
  FLOAT: 'double precision',
  BOOLEAN: 'boolean',
  TIMESTAMP: 'timestamptz',
  JSONB: 'jsonb',
};

/**
 * @typedef {object} Shape
 * @property {{ name: string, type: keyof POSTGRES_TYPES }[]} columns
 * @property {(n: number) => object} record
 */

const CITIES = ['Lisbon', 'Tromsø', 'Nairobi', 'São Paulo', 'Kyoto', 'Winnipeg', 'Ulaanbaatar', 'Córdoba'];
const PLANS = ['free', 'team', 'business'];

const pick = (list, n) => list[n % list.length];

/** A number that looks random and is always the same for the same n. */
const scatter = (n, below) => (Math.imul(n + 1, 0x9e3779b1) >>> 0) % below;

const time = (n) => new Date(Date.UTC(2024, 0, 1) + scatter(n, 63_072_000) * 1000 + scatter(n + 7, 1000)).toISOString();

const columns = (list) =>
  list.split(' ').map((entry) => {
    const [name, type] = entry.split(':');
    return { name, type };
  });

/** Size of a COMMON record as JSON. The record has every column type. */
const COMMON_BYTES = 231;

/** @type {Shape} */
export const COMMON = {
  columns: columns('n:INTEGER email:TEXT name:TEXT score:FLOAT active:BOOLEAN signed_up:TIMESTAMP profile:JSONB'),
  record(n) {
    const record = {
      n,
      email: `customer.${n}@example.com`,
      name: '',
      score: scatter(n, 1_000_000) / 1000,
      active: n % 3 === 0,
      signed_up: time(n),
      profile: { city: pick(CITIES, n), plan: pick(PLANS, n), visits: scatter(n, 500), tags: ['new', 'mail'] },
    };
    record.name = 'Anna Maria van der Merwe-Johansson of the long names'.slice(
      0,
      COMMON_BYTES - Buffer.byteLength(JSON.stringify(record)),
    );
    return record;
  },
};

/** @type {Shape} */
export const NARROW = {
  columns: columns('n:INTEGER label:TEXT value:FLOAT'),
  record: (n) => ({ n, label: `sensor-${scatter(n, 1000)}`, value: scatter(n, 100_000) / 100 }),
};

const WIDE_TYPES = ['TEXT', 'INTEGER', 'FLOAT', 'BOOLEAN', 'TIMESTAMP'];
const WIDE_VALUES = {
  TEXT: (n) => pick(CITIES, n),
  INTEGER: (n) => scatter(n, 1_000_000),
  FLOAT: (n) => scatter(n, 1_000_000) / 1000,
  BOOLEAN: (n) => n % 2 === 0,
  TIMESTAMP: (n) => time(n),
};
const WIDE_REST = Array.from({ length: 59 }, (_, i) => ({ name: `c${i + 1}`, type: pick(WIDE_TYPES, i) }));

/** 60 columns. @type {Shape} */
export const WIDE = {
  columns: [{ name: 'n', type: 'INTEGER' }, ...WIDE_REST],
  record: (n) => ({
    n,
    ...Object.fromEntries(WIDE_REST.map(({ name, type }, i) => [name, WIDE_VALUES[type](n * 59 + i)])),
  }),
};

/** A document of 4 KB in a JSONB column. @type {Shape} */
export const DOCUMENT = {
  columns: columns('n:INTEGER doc:JSONB'),
  record: (n) => ({
    n,
    doc: {
      order: n,
      customer: { name: 'Anna van der Merwe', city: pick(CITIES, n) },
      lines: Array.from({ length: 50 }, (_, i) => ({
        sku: `SKU-${scatter(n * 50 + i, 100_000)}`,
        quantity: scatter(n + i, 20),
        price: scatter(n * 51 + i, 100_000) / 100,
        at: time(n + i),
      })),
    },
  }),
};

const NOTES = [
  'He said "no", twice,\nand left.\tThat was all.',
  'Path C:\\temp\\new; price 3€; 😀',
  'A line\r\nanother line\r\nand a last one, which is longer than the others were and has nothing in it',
];

/** What people write: escapes in strings, keys in any order, keys that are missing, nulls. @type {Shape} */
export const MIXED = {
  columns: columns('n:INTEGER subject:TEXT note:TEXT amount:FLOAT paid:BOOLEAN paid_at:TIMESTAMP extra:JSONB'),
  record(n) {
    const cells = [
      ['subject', `Order ${n} — "${pick(CITIES, n)}"`],
      ['note', n % 5 === 0 ? null : pick(NOTES, n)],
      ['amount', scatter(n, 1_000_000) / 1000],
      ['paid', n % 2 === 0],
      ...(n % 2 === 0 ? [['paid_at', time(n)]] : []),
      ...(n % 4 === 0 ? [['extra', { note: pick(NOTES, n), at: [n, n / 8, null] }]] : []),
    ];
    const first = n % 3;
    return Object.fromEntries([...cells.slice(first), ['n', n], ...cells.slice(0, first)]);
  },
};

/** The records to read: 8 columns. @type {Shape} */
export const READ = {
  columns: [...COMMON.columns, { name: 'city', type: 'TEXT' }],
  record: (n) => ({ ...COMMON.record(n), city: pick(CITIES, n) }),
};

/** @returns {object[]} the records from `from` on */
export const recordsOf = (shape, from, count) => Array.from({ length: count }, (_, i) => shape.record(from + i));
