/** Binary values rendered by us, compared with Postgres's own text of the same values, on every server of the run. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ResultColumn, rowEncoder } from '../../../src/codec/index.js';
import { builtInTypeName } from '../../../src/codec/results/types.js';
import { callerSql } from '../../../src/pg/sql-tag.js';
import { messageSize } from '../../../src/pg/framing.js';
import { Session } from '../../../src/pg/session.js';
import { testServers } from '../../support/postgres.js';
import { encode } from './encoding.js';

const CANONICAL = `set timezone = 'UTC'; set datestyle = 'ISO'; set intervalstyle = 'postgres';
  set extra_float_digits = 1; set bytea_output = 'hex'; select setseed(0.5)`;
const HOSTILE = `set timezone = 'Asia/Kathmandu'; set datestyle = 'German'; set intervalstyle = 'sql_standard';
  set extra_float_digits = -10; set bytea_output = 'escape'`;

async function settings(session: Session, list: string): Promise<void> {
  await session.run(list.split(';').map((text) => callerSql(text)));
}

interface Results {
  columns: ResultColumn[];
  json: string[];
  csv: string[];
}

async function resultsOf(session: Session, sql: string): Promise<Results> {
  const { columns } = await session.describe(sql);
  if (columns === null) throw new Error('no columns');
  const rows: Results = { columns, json: [], csv: [] };
  const { formats } = rowEncoder(columns, 'list', 'array');
  await session.fetch([], formats, 0, (message, start, end) => {
    rows.json.push(encode(columns, 'lines', 'array', message, start, end).slice(0, -1));
    rows.csv.push(encode(columns, 'csv', 'array', message, start, end));
    return start + messageSize(message, start);
  });
  return rows;
}

/** Pairs of our value and Postgres's text for every `v` of a query. */
async function pairs(session: Session, source: string): Promise<[ours: unknown, text: string][]> {
  const { json } = await resultsOf(session, `select v, v::text from (${source}) s(v)`);
  expect(json.length).toBeGreaterThan(0);
  return json.map((row) => JSON.parse(row) as [unknown, string]);
}

/** Postgres's text of a timestamptz in UTC as the response's form. */
function iso(text: string): string {
  const parts = /^(?<year>\d+)(?<date>-\d\d-\d\d) (?<time>[\d:.]+)\+00(?<bc> BC)?$/.exec(text)?.groups;
  if (parts === undefined) return text;
  const year = parts['bc'] === undefined ? Number(parts['year']) : 1 - Number(parts['year']);
  const sign = year < 0 ? '-' : year > 9999 ? '+' : '';
  return `${sign}${String(Math.abs(year)).padStart(sign === '' ? 4 : 6, '0')}${parts['date']}T${parts['time']}Z`;
}

const literals = (type: string, ...values: string[]): string =>
  `select unnest(array[${values.map((value) => `'${value}'`).join(', ')}]::${type}[])`;

const DAYS = `select date '2000-01-01' + d from generate_series(-2451507, 2145031948, 859981) d
  union all select date '1899-12-01' + d from generate_series(0, 150000, 71) d
  union all select date '0003-03-05 BC' + d from generate_series(0, 3000, 7) d`;

const MICROS = `(random() * 2e17 - 1e17)::int8 * interval '1 microsecond'`;

const LIMITS = ['4713-01-01 00:00 BC', '294276-12-31 23:59:59.999999', '0001-12-31 23:59:59.99 BC', '2024-02-29 24:00'];

/** Values whose text Postgres and we write alike. */
const SAME_TEXT: Record<string, string> = {
  date: `${DAYS} union all ${literals('date', 'infinity', '-infinity', '5874897-12-31', '4713-01-01 BC')}`,
  timestamp: `select timestamp '2000-01-01' + ${MICROS} from generate_series(1, 1000)
    union all ${literals('timestamp', 'infinity', '-infinity', ...LIMITS)}`,
  interval: `select make_interval(months => (random() * 60 - 30)::int, days => (random() * 6 - 3)::int,
      secs => random() * 2e5 - 1e5) from generate_series(1, 1000)
    union all select make_interval(months => m, days => d, secs => s)
      from generate_series(-13, 13, 13) m, generate_series(-1, 1) d, generate_series(-0.5, 0.5, 0.25) s
    union all ${literals('interval', '0', '2562047788:00:54.775807')}
    union all ${literals('interval', '178956970 years 7 mons 2147483647 days')}
    union all ${literals('interval', '-178956970 years -8 mons -2147483648 days')}
    union all select interval '-2562047788:00:54.775807' - interval '0.000001 s'`,
  bytea: `select decode(repeat(md5(i::text), i % 5), 'hex') from generate_series(1, 50) i`,
  time: literals('time', '00:00', '24:00', '12:34:56.789'),
  timetz: literals('timetz', '00:00+00', '12:34:56.7-15:59', '23:00:00+05:45:30'),
  numeric: literals('numeric', '9007199254740992', '-123456789012345678901234567890.5000', 'NaN'),
  point: `select point(random() * power(10, i), -random() * power(10, -i)) from generate_series(-30, 30) i
    union all select unnest(array[point(0, 1e15), point('-0', 'NaN'), point('Infinity', 1e-5),
      point(123456.5, 0.0001)])`,
  lseg: literals('lseg', '[(1,2),(3,4.5)]'),
  path: literals('path', '((1,2),(3,4),(5,6))', '[(1,2),(3,4)]'),
  box: 'select box(point(1.5, 2), point(-3, 4e20))',
  polygon: literals('polygon', '((0,0),(1,0),(1,1e-9))'),
  line: literals('line', '{1,-2.5,3}'),
  circle: literals('circle', '<(1,2),3.25>'),
  tsrange: `select tsrange(a, b, bounds) from unnest(array['()', '[]', '[)', '(]']) bounds,
      (values (timestamp '2024-01-01', timestamp '2024-01-02 03:04:05.6'), (null, '2024-01-01'),
        ('0044-03-15 BC', null), (null, null), ('-infinity', 'infinity'), ('2024-01-01', '2024-01-01')) s(a, b)`,
  tstzrange: literals(
    'tstzrange',
    '[2024-01-01 00:00:00.5+02,)',
    '(,0044-03-15 00:00+00 BC]',
    'empty',
    '[-infinity,infinity]',
  ),
  daterange: literals('daterange', '[2024-01-01,2024-02-01]', '(0044-03-15 BC,)', 'empty', '(,infinity)'),
  tsmultirange: literals('tsmultirange', '{}', '{[2024-01-01,2024-01-02),[2024-02-01,)}'),
  tstzmultirange: literals('tstzmultirange', '{[2024-01-01 00:00+00,2024-01-02 00:00+00)}'),
  datemultirange: literals('datemultirange', '{(,2024-01-01),[2025-01-01,2025-02-01)}'),
};

/** One array of several shapes over two values of each type that comes in binary. */
const ARRAY_ELEMENTS: Record<string, string> = {
  float4: `0.1, 'NaN'`,
  float8: `1e-7, '-Infinity'`,
  timestamptz: `'2024-01-01 00:00+05', 'infinity'`,
  timestamp: `'2024-01-01', '0044-03-15 BC'`,
  date: `'2024-01-01', 'infinity'`,
  interval: `'1 day -00:00:01', '0'`,
  bytea: `'\\x00', ''`,
  box: `'(1,2),(3,4)', '(0,0),(1,1)'`,
  tstzrange: `'[2024-01-01 00:00+00,)', 'empty'`,
  text: `'a "quoted" \\ one, {with} braces', ' NULL '`,
  int8: `'9223372036854775807', '-1'`,
  numeric: `'1.50', '12345678901234567890'`,
  bool: `'t', 'f'`,
  uuid: `'01890a5d-ac96-774b-bcce-b302099a8057', '00000000-0000-0000-0000-000000000000'`,
  jsonb: `'{"a": "{\\"x\\"}"}', '[1.50]'`,
  int4range: `'[1,5)', 'empty'`,
};

for (const { major, connection } of testServers()) {
  describe(`Postgres ${major}`, () => {
    let session: Session;

    beforeAll(async () => {
      session = await Session.connect({ ...connection, connectionTimeoutMillis: 5_000 });
    });
    afterAll(() => session.close());

    describe('works', () => {
      test.each(Object.entries(SAME_TEXT))('%s is written as Postgres writes it', async (_, source) => {
        await settings(session, CANONICAL);
        const all = await pairs(session, source);
        expect(all.filter(([ours, text]) => String(ours) !== text)).toEqual([]);
      });

      test('timestamptz is written as RFC 3339 in UTC', async () => {
        await settings(session, CANONICAL);
        const random = `select timestamptz '2000-01-01' + ${MICROS} from generate_series(1, 1000)`;
        const days = `select (v::timestamp at time zone 'UTC') + interval '0.25 s'
          from (${DAYS}) s(v) where v < '294276-01-01'`;
        const edges = literals(
          'timestamptz',
          ...['infinity', '-infinity', '4713-01-01 00:00 BC', '294276-12-31 23:59:59.999999', '0001-01-01 00:00'],
          ...['0001-12-31 23:59:59.999999 BC', '9999-12-31 23:59:59.999999', '10000-01-01', '0002-01-01 BC'],
        );
        const all = await pairs(session, `${random} union all ${days} union all ${edges}`);
        expect(all.filter(([ours, text]) => ours !== iso(text))).toEqual([]);
      });

      test.each([
        [
          'float8',
          `select (random() - 0.5) * power(10::float8, (random() * 600 - 300)::int) from generate_series(1, 1000)
          union all select power(2::float8, i) from generate_series(-1074, 1023) i
          union all ${literals('float8', '5e-324', '1.7976931348623157e308', '-0', '1e-7', '1e21', '1e23', '0.1')}`,
        ],
        [
          'float4',
          `select ((random() - 0.5) * power(10::float8, (random() * 70 - 35)::int))::float4
          from generate_series(1, 1000)
          union all select power(2::float8, i)::float4 from generate_series(-149, 127) i
          union all ${literals('float4', '1e-45', '3.4028235e38', '-0', '16777216', '0.1', '1e-7', '8388608.5')}`,
        ],
      ])('%s is the same number with no more digits', async (type, source) => {
        await settings(session, CANONICAL);
        const { json } = await resultsOf(session, `select v, v::text from (${source}) s(v)`);
        const digits = (text: string): number => text.replace(/e.*|[-.]/g, '').replace(/^0+|0+$/g, '').length;
        const round = type === 'float4' ? Math.fround : Number;
        const wrong = json.filter((row) => {
          const [, ours = '', text = ''] = /^\[(.*),"(.*)"\]$/.exec(row) ?? [];
          return !Object.is(round(Number(ours)), round(Number(text))) || digits(ours) > digits(text);
        });
        expect(wrong).toEqual([]);
      });

      if (major >= 17) {
        test('an infinite interval is written as Postgres writes it', async () => {
          const source = literals('interval', 'infinity', '-infinity');
          for (const [ours, text] of await pairs(session, source)) expect(ours).toBe(text);
        });
      }

      test('NaN and infinities are written as strings', async () => {
        for (const type of ['float4', 'float8']) {
          for (const [ours, text] of await pairs(session, literals(type, 'NaN', 'Infinity', '-Infinity'))) {
            expect(ours).toBe(text);
          }
        }
      });

      test.each(Object.entries(ARRAY_ELEMENTS))(
        'an array of %s contains its elements as they are written alone',
        async (type, elements) => {
          const one = await resultsOf(session, `select v from unnest(array[${elements}]::${type}[]) v`);
          const [a, b] = one.json.map((row) => row.slice(1, -1));
          const { json } = await resultsOf(
            session,
            `select array[v[1], null, v[2]], array[[v[1]], [v[2]]], ('[0:0][3:4]={{' || '"NULL",NULL' || '}}')::text[],
            array_fill(v[1], array[1, 2], array[5, -3]), '{}'::${type}[]
          from (select array[${elements}]::${type}[]) s(v)`,
          );
          expect(json).toEqual([`[[${a},null,${b}],[[${a}],[${b}]],[["NULL",null]],[[${a},${a}]],[]]`]);
        },
      );
    });

    describe('protects', () => {
      test('no response depends on settings that a statement changed', async () => {
        const values = [
          ...Object.entries(ARRAY_ELEMENTS).map(([type, elements]) => `array[${elements}]::${type}[]`),
          ...[`'2024-07-01 12:00+00'::timestamptz`, `'2024-07-01 12:00'::timestamp`, `'2024-07-01'::date`],
          ...[
            `'1 mon -2 days'::interval`,
            `'12:34:56.7-05:30'::timetz`,
            `'12:34'::time`,
            '1 / 3::float8',
            '1.1::float4',
          ],
          ...['point(1 / 3::float8, 2)', `'\\xff00'::bytea`, `'{"a": 1.50}'::jsonb`, '1.10::numeric'],
          ...[`'[2024-01-01,2024-02-01)'::daterange`, `'{[2024-01-01 00:00+00,)}'::tstzmultirange`],
        ];
        // Settings rule the reading of literals too, so the values are stored before the settings change.
        const list = values.map((value, i) => `${value} as c${i}`).join(', ');
        await settings(session, `${CANONICAL}; create temporary table fixed as select ${list}`);
        const before = await resultsOf(session, 'select * from fixed');
        await settings(session, HOSTILE);
        const [shown] = await session.query(callerSql(`select '2024-07-01 12:00+00'::timestamptz::text`));
        expect(shown).toEqual(['01.07.2024 17:45:00 +0545']);
        const after = await resultsOf(session, 'select * from fixed');
        expect(after.json).toEqual(before.json);
        expect(after.csv).toEqual(before.csv);
      });

      test('every built-in type that a column can have is named as format_type names it', async () => {
        const rows = await session.query(
          callerSql(`select t.oid, format_type(t.oid, -1)
          from pg_type t left join pg_type e on e.oid = t.typelem and t.typcategory = 'A'
          where t.oid < 10000 and t.typtype in ('b', 'r', 'm') and coalesce(e.typtype, 'b') in ('b', 'r', 'm')
          and t.typname not in ('pg_node_tree', 'pg_ndistinct', 'pg_dependencies', 'pg_mcv_list',
            'pg_brin_bloom_summary', 'pg_brin_minmax_multi_summary') order by 1`),
        );
        expect(rows.length).toBeGreaterThan(120);
        expect(rows.map(([oid]) => [oid, builtInTypeName(Number(oid))])).toEqual(rows);
      });
    });
  });
}
