/** Changes of a column's type: which values survive, compared with what Postgres does (src/engine/catalog/conversions.ts). */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { COLUMN_TYPES } from '../../../src/contract/column-types.js';
import { readCell } from '../../../src/codec/batch/cell.js';
import { CellError } from '../../../src/codec/batch/cell-error.js';
import { POSTGRES_TYPES } from '../../../src/engine/catalog/catalog.js';
import { conversion, type Conversion } from '../../../src/engine/catalog/conversions.js';
import { migrate, readMigrations } from '../../../src/tenancy/migrations/migrate.js';
import { startupOptions, withSession } from '../../../src/pg/index.js';
import { ident, type Fragment } from '../../../src/pg/sql-tag.js';
import { column } from '../../codec/batch/shapes.js';
import { createDatabase, testServers, type TestDatabase } from '../../support/postgres.js';
import {
  CASES,
  exactDecimal,
  HOSTILE_CODE,
  OTHER_TYPES,
  REFUSED,
  ROUNDED,
  SESSIONS,
  STRINGS,
} from './conversion-cases.js';

const PAIRS = COLUMN_TYPES.flatMap((from) => COLUMN_TYPES.map((to) => [from, to] as const));

const LONG = 5_000;

/** The SQL text; conversions go into DDL, which takes no parameters. */
function text(fragment: Fragment): string {
  const { text, params } = fragment;
  expect(params).toEqual([]);
  return text;
}

/** The significant digits of a decimal number, and its exponent; other texts as they are. */
function decimal(text: string): string {
  const match = /^-?(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text);
  if (match === null) return text;
  const [, whole = '', fraction = '', exponent = '0'] = match;
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const shown = digits.replace(/0+$/, '');
  return shown === '' ? '0' : `${shown}e${Number(exponent) - fraction.length + digits.length - shown.length}`;
}

describe('the table of type changes', () => {
  it.each(PAIRS)('has the right rule from %s to %s', (from, to) => {
    expect(conversion(from, to, ident('c')) !== null).toBe(CASES[from][to] !== undefined);
  });

  it('leaves a column alone that already has the type', () => {
    const same = conversion('JSONB', 'JSONB', ident('a"b')) as Conversion;
    expect([text(same.convertible), text(same.using)]).toEqual(['true', '"a""b"']);
  });

  it('allows a type created by free SQL only to become TEXT', () => {
    expect(COLUMN_TYPES.filter((to) => conversion(null, to, ident('c')) !== null)).toEqual(['TEXT']);
  });
});

describe.each(testServers())('on Postgres $major', (server) => {
  const role = `conversions_${randomBytes(6).toString('hex')}`;
  let database: TestDatabase;
  /** Sees values with the settings that the cases are written in. */
  let observer: pg.Client;

  beforeAll(async () => {
    database = await createDatabase(server);
    observer = await connected(database.connection, { TimeZone: 'UTC', DateStyle: 'ISO', search_path: 'pg_catalog' });
    await observer.query(`CREATE ROLE ${role}`);
    const migrations = readMigrations('project').filter(({ version }) => version <= 2 || version === 15);
    const options = startupOptions({ search_path: 'pg_catalog' });
    await withSession({ ...database.connection, options, connectionTimeoutMillis: 5_000 }, (session) =>
      migrate(session, '_cdp', migrations),
    );
    await observer.query(`GRANT CREATE, USAGE ON SCHEMA data TO ${role}`);
    await observer.query(`SET search_path = pg_catalog, data`);
    await observer.query(`SET ROLE ${role}`);
    await observer.query(
      HOSTILE_CODE.replaceAll(/CREATE (TYPE|DOMAIN|COLLATION|FUNCTION|OPERATOR) /g, 'CREATE $1 data.'),
    );
  });

  afterAll(async () => {
    await observer.query(`RESET ROLE; DROP OWNED BY ${role}; DROP ROLE ${role}`);
    await observer.end();
    await database.drop();
  });

  /** A session of the project's role, its own schema before pg_catalog. */
  async function inSession<T>(settings: Readonly<Record<string, string>>, work: (client: pg.Client) => Promise<T>) {
    const client = await connected(database.connection, { ...settings, search_path: 'data, pg_catalog' });
    try {
      await client.query(`SET ROLE ${role}`);
      return await work(client);
    } finally {
      await client.end();
    }
  }

  async function tableOf(type: string, values: readonly (string | null)[]): Promise<void> {
    await observer.query('DROP TABLE IF EXISTS data.t');
    await observer.query(`CREATE TABLE data.t (n integer, c ${type})`);
    await observer.query(
      `INSERT INTO data.t SELECT n, v::${type} FROM unnest($1::text[]) WITH ORDINALITY AS u (v, n)`,
      [values],
    );
  }

  async function stored(): Promise<(string | null)[]> {
    const result = await observer.query<{ c: string | null }>('SELECT c::text FROM data.t ORDER BY n');
    return result.rows.map(({ c }) => c);
  }

  describe.each(SESSIONS)('in a session with %s', (_name, settings) => {
    it.each(PAIRS.filter(([from, to]) => CASES[from][to] !== undefined))('%s becomes %s', async (from, to) => {
      const isUsual = Object.keys(settings).length === 0;
      // The long values are slow and care about no setting: once is enough.
      const asked = (CASES[from][to] ?? []).filter(([value]) => isUsual || value.length < LONG);
      const cases = [...asked, [null, null] as const];
      const { convertible, using } = conversion(from, to, ident('c')) as Conversion;
      await tableOf(POSTGRES_TYPES[from], cases.map(([value]) => value)); // prettier-ignore

      await inSession(settings, async (client) => {
        const verdicts = await client.query<{ convertible: boolean; is_null: boolean }>(
          `SELECT ${text(convertible)} AS convertible, (${text(using)}) IS NULL AS is_null FROM t ORDER BY n`,
        );
        const expected = cases.map(([value, result]) => ({
          value: value?.slice(0, 60),
          convertible: result !== REFUSED,
          is_null: result === REFUSED || result === null,
        }));
        expect(verdicts.rows.map((row, i) => ({ value: cases[i]?.[0]?.slice(0, 60), ...row }))).toEqual(expected);
        await client.query(`DELETE FROM t WHERE NOT ${text(convertible)}`);
        await client.query(`ALTER TABLE t ALTER COLUMN c TYPE ${POSTGRES_TYPES[to]} USING ${text(using)}`);
      });

      expect(await stored()).toEqual(cases.map(([, result]) => result).filter((result) => result !== REFUSED));
    });

    it.each(OTHER_TYPES)('%s %s becomes the text %s', async (type, value, shown) => {
      await observer.query('DROP TABLE IF EXISTS data.t');
      await observer.query(`CREATE TABLE data.t (n integer, c ${type})`);
      await observer.query(`INSERT INTO data.t VALUES (1, ${value}), (2, NULL)`);
      const { using } = conversion(null, 'TEXT', ident('c')) as Conversion;
      await inSession(settings, (client) =>
        client.query(`ALTER TABLE t ALTER COLUMN c TYPE pg_catalog.text USING ${text(using)}`),
      );
      expect(await stored()).toEqual([shown, null]);
    });
  });

  it('runs code of the project for every unqualified name in the session of the cases', async () => {
    await inSession({}, async (client) => {
      for (const asked of ["'a'::text = 'a'::text", "octet_length('a'::text)", "format('%s', 1)", "'1'::float8 + 1"]) {
        await expect(client.query(`SELECT ${asked}`)).rejects.toThrow();
      }
    });
  });

  it.each(['INTEGER', 'FLOAT', 'TIMESTAMP'] as const)(
    'converts a text to %s if a batch insert accepts it without rounding',
    async (to) => {
      const { using } = conversion('TEXT', to, ident('c')) as Conversion;
      await tableOf('text', STRINGS);
      const converted = await observer.query<{ v: string | null }>(
        `SELECT (${text(using)})::text AS v FROM data.t ORDER BY n`,
      );
      const cells = STRINGS.map((value) => readCell(column('c', to), { kind: 'string', value }));
      const inserted = await observer.query<{ v: string | null }>(
        `SELECT v::${POSTGRES_TYPES[to]}::text AS v FROM unnest($1::text[]) WITH ORDINALITY AS u (v, n) ORDER BY n`,
        [cells.map((cell) => (cell instanceof CellError ? null : cell))],
      );
      const isKept = (v: string | null, i: number): boolean =>
        to === 'FLOAT' ? decimal(v ?? '') === decimal(STRINGS[i] ?? '') : !ROUNDED.TIMESTAMP.includes(STRINGS[i] ?? '');
      expect(converted.rows).toEqual(inserted.rows.map(({ v }, i) => ({ v: isKept(v, i) ? v : null })));
    },
  );

  it('extracts the exact value of every double from JSONB, and not a neighboring one', async () => {
    const doubles = Array.from({ length: 2098 }, (_, i) => 2 ** (i - 1074) * (i % 3 === 0 ? 1 : 1 + 2 ** -(i % 53)));
    const digits = doubles.map(exactDecimal);
    const neighbours = digits.map((exact) => `${exact}${exact.includes('.') ? '' : '.'}${'0'.repeat(20)}1`);
    const { using } = conversion('JSONB', 'FLOAT', ident('c')) as Conversion;
    await tableOf('jsonb', [...digits, ...neighbours]);
    const result = await observer.query<{ v: number | null }>(`SELECT ${text(using)} AS v FROM data.t ORDER BY n`);
    expect(result.rows.map(({ v }) => v)).toEqual([...doubles, ...doubles.map(() => null)]);
  });

  it('compares exactly in a column with a case-insensitive collation', async () => {
    await observer.query('DROP TABLE IF EXISTS data.t');
    await observer.query('CREATE TABLE data.t (n integer, c text COLLATE loose)');
    await observer.query(`INSERT INTO data.t VALUES (1, 'true'), (2, 'TRUE'), (3, '1'), (4, '1e3'), (5, '2024-01-01'),
      (6, '0000-01-01T23:59:60Z'), (7, '{"a": 1, "a\\u003a": 2}'), (8, 'infinity')`);
    for (const [to, taken] of [
      ['INTEGER', [3]],
      ['FLOAT', [3, 4]],
      ['BOOLEAN', [1]],
      ['TIMESTAMP', [5, 6]],
      ['JSONB', [1, 3, 4, 7]],
    ] as const) {
      const { convertible } = conversion('TEXT', to, ident('c')) as Conversion;
      const result = await observer.query<{ n: number }>(`SELECT n FROM data.t WHERE ${text(convertible)} ORDER BY n`);
      expect(result.rows.map(({ n }) => n)).toEqual(taken);
    }
  });

  it('a canceled check ends, also in the middle of a value', async () => {
    await tableOf('text', [`[${'[1],'.repeat(1_000_000)}[1]]`]);
    const { convertible } = conversion('TEXT', 'JSONB', ident('c')) as Conversion;
    await inSession({ statement_timeout: '50' }, async (client) => {
      await expect(client.query(`SELECT ${text(convertible)} FROM t`)).rejects.toMatchObject({ code: '57014' });
    });
  });
});

async function connected(config: pg.ClientConfig, settings: Readonly<Record<string, string>> = {}): Promise<pg.Client> {
  const client = new pg.Client(config);
  await client.connect();
  for (const [name, value] of Object.entries(settings))
    await client.query('SELECT set_config($1, $2, false)', [name, value]);
  return client;
}
