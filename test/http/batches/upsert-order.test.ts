/** Upserts store what their records would store one by one, in order: on the fast path and on the checked path. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { COLUMN_TYPES, type ColumnType } from '../../../src/contract/column-types.js';
import { embeddedServer } from '../../support/postgres.js';
import { freshName } from '../../support/tables.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

describe.each([embeddedServer()])('on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  beforeAll(async () => {
    service = await startTestService({ extensions: 'citext' }, server);
    project = await service.project();
  });
  afterAll(() => service.close());

  const upsert = (table: string, body: unknown, query: string) =>
    project.call('POST', `/api/cdp/data/${table}?${query}`, { body });
  const counts = ({ body }: { body: Record<string, unknown> }) => [
    body.inserted_rows,
    body.updated_rows,
    body.ignored_rows,
  ];

  /** A table whose key is `k`, for which `k` has to be unique; on the checked path if it has a trigger. */
  const create = async (table: string, type: string, isChecked: boolean, index = '(k)') => {
    await project.rows(`CREATE TABLE ${table} (k ${type}, n bigint); CREATE UNIQUE INDEX ON ${table} ${index}`);
    if (!isChecked) return;
    await project.rows(
      `CREATE OR REPLACE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
       CREATE TRIGGER pass BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION pass()`,
    );
  };

  describe('works', () => {
    it.each([
      ['ignore', false],
      ['ignore', true],
      ['merge', false],
      ['merge', true],
    ])('250 records of 50 keys, %s; on the checked path: %s', async (resolution, isChecked) => {
      const table = `many_${resolution}_${isChecked}`;
      await create(table, 'text', isChecked);
      const records = Array.from({ length: 250 }, (_, i) => ({ k: `k${(i * 7) % 50}`, n: i }));
      const response = await upsert(table, records, `on_conflict=k&resolution=${resolution}`);
      expect(counts(response)).toEqual(resolution === 'ignore' ? [50, 0, 200] : [50, 200, 0]);
      // The first record of a key wins if the others are ignored, else the last one.
      const wins = resolution === 'ignore' ? records.slice(0, 50) : records.slice(200);
      const rows = await project.rows(`SELECT k, n FROM ${table}`);
      expect(new Map(rows.map(({ k, n }) => [k, n]))).toEqual(new Map(wins.map(({ k, n }) => [k, n])));
    });

    it.each([
      ['citext', 'extensions.citext', '(k)'],
      ['a collation that is not deterministic', 'text COLLATE no_case', '(k)'],
      ['NULLs that are not distinct', 'text', '(k) NULLS NOT DISTINCT'],
    ])('ignores the later of two records with the same key by %s', async (_, type, index) => {
      await project.rows(
        `CREATE COLLATION IF NOT EXISTS no_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`,
      );
      const pairs = index === '(k)' ? ['bB', 'Bb'] : [''];
      for (const [pair, isChecked] of pairs.flatMap((each) => [[each, false] as const, [each, true] as const])) {
        const [one = null, same = null] = pair;
        const table = freshName();
        await create(table, type, isChecked, index);
        const records = [
          { k: one, n: 1 },
          { k: same, n: 2 },
          { k: 'a', n: 3 },
        ];
        const response = await upsert(table, records, 'on_conflict=k&resolution=ignore');
        expect([counts(response), isChecked]).toEqual([[2, 0, 1], isChecked]);
        const rows = await project.rows(`SELECT k, n FROM ${table} ORDER BY n`);
        expect([rows, isChecked]).toEqual([[records[0], records[2]], isChecked]);
      }
    });

    const VALUES: Record<ColumnType, readonly unknown[]> = {
      TEXT: ['a', 'A', 'b', 'é', '', 'k10', 'k9'],
      INTEGER: [1, '1', 2, 10, -1],
      FLOAT: [1, '1.0', '1e1', 10, 0.5],
      BOOLEAN: [true, false],
      TIMESTAMP: [
        '2026-01-01T12:00:00Z',
        '2026-01-01T13:00:00+01:00',
        '2026-01-01T12:00:00.5Z',
        '2025-01-01T00:00:00Z',
      ],
      JSONB: [1, 2, [1], { a: 1, b: 2 }, { b: 2, a: 1 }, 'a'],
    };

    it.each(COLUMN_TYPES)('the same on both paths, and with a quarantine, if the key is %s', async (type) => {
      const key = type.toLowerCase();
      const tables = [`fast_${key}`, `checked_${key}`];
      const sqlType = { FLOAT: 'float8', TIMESTAMP: 'timestamptz', INTEGER: 'bigint' }[type as string] ?? key;
      for (const [i, table] of tables.entries()) await create(table, sqlType, i === 1);
      const record = fc.record({ k: fc.constantFrom(...VALUES[type]), n: fc.integer({ min: 0, max: 1000 }) });
      const sizes = fc.constantFrom(1, 2, 5, 250);
      const batches = fc.array(
        sizes.chain((length) => fc.array(record, { minLength: length, maxLength: length })),
        { minLength: 1, maxLength: 2 },
      );
      const resolution = fc.constantFrom('merge', 'replace', 'ignore');
      await fc.assert(
        fc.asyncProperty(batches, resolution, async (all, how) => {
          const run = async (table: string, also: string) => {
            await project.rows(`DELETE FROM ${table}`);
            const sums: unknown[] = [];
            for (const batch of all) {
              sums.push(counts(await upsert(table, batch, `on_conflict=k&resolution=${how}${also}`)));
            }
            return { sums, rows: await project.rows(`SELECT k::text, n FROM ${table} ORDER BY n, 1`) };
          };
          const [fast = '', checked = ''] = tables;
          const expected = await run(fast, '');
          expect(await run(checked, '')).toEqual(expected);
          expect(await run(fast, '&on_error=quarantine')).toEqual(expected);
          expect(await run(checked, '&on_error=quarantine')).toEqual(expected);
        }),
        { numRuns: 10, seed: 21 },
      );
    });

    it.each(['merge', 'ignore'])('records with other columns, %s, if a part of the key is a time', async (how) => {
      const records = Array.from({ length: 250 }, (_, i) => ({
        m: `m${i % 50}`,
        // The same times, written in two ways.
        at: i < 100 ? `2026-01-01T12:00:00Z` : `2026-01-01T13:00:00+01:00`,
        ...(i % 3 === 0 ? { a: i } : { b: i }),
      }));
      const stored: unknown[] = [];
      for (const isPartitioned of [false, true]) {
        const table = freshName();
        const by = isPartitioned ? ' PARTITION BY RANGE (at)' : '';
        await project.rows(`CREATE TABLE ${table} (m text, at timestamptz, a int, b int, PRIMARY KEY (m, at))${by}`);
        if (isPartitioned) await project.rows(`CREATE TABLE ${table}_all PARTITION OF ${table} DEFAULT`);
        const response = await upsert(table, records, `on_conflict=m,at&resolution=${how}`);
        expect(counts(response)).toEqual(how === 'ignore' ? [50, 0, 200] : [50, 200, 0]);
        stored.push(await project.rows(`SELECT m, a, b FROM ${table} ORDER BY m`));
      }
      const expected = new Map<string, { m: string; a: number | null; b: number | null }>();
      for (const { m, at: _, ...values } of records) {
        if (how === 'ignore' && expected.has(m)) continue;
        expected.set(m, { ...(expected.get(m) ?? { m, a: null, b: null }), ...values });
      }
      const rows = [...expected.values()].sort((one, other) => (one.m < other.m ? -1 : 1));
      expect(stored).toEqual([rows, rows]);
    });

    it('a record that gives up a value that a later one takes in another unique index', async () => {
      await project.rows('CREATE TABLE phones (name text UNIQUE, phone int UNIQUE)');
      await upsert('phones', [{ name: 'b', phone: 1 }], 'on_conflict=name');
      const swap = [
        { name: 'b', phone: 2 },
        { name: 'a', phone: 1 },
      ];
      for (const quarantine of ['', '&on_error=quarantine']) {
        const response = await upsert('phones', swap, `on_conflict=name${quarantine}`);
        expect([response.status, counts(response)]).toEqual([201, [1, 1, 0]]);
        expect(await project.rows('SELECT name, phone FROM phones ORDER BY name')).toEqual(swap.toReversed());
        await project.rows(`DELETE FROM phones; INSERT INTO phones VALUES ('b', 1)`);
      }
    });

    it('a record without a value for the key, with the id of the row that it meets', async () => {
      const id = 'id uuid PRIMARY KEY DEFAULT gen_random_uuid()';
      await project.rows(`CREATE TABLE nulls (${id}, k text, n int, UNIQUE NULLS NOT DISTINCT (k))`);
      const send = (records: object[]) => upsert('nulls', records, 'on_conflict=k&resolution=ignore&return=ids');
      const first = await send([{ n: 1 }]);
      const response = await send([{ k: null, n: 2 }, { k: 'a' }, { n: 3 }]);
      expect([counts(response), response.text]).toEqual([[1, 0, 2], response.text]);
      const [met] = first.body.ids as string[];
      expect(response.body.ids).toEqual([met, expect.any(String), met]);
    });
  });

  describe('refuses', () => {
    it('to return the ids of ignored records whose key is a default', async () => {
      await project.rows(
        `CREATE TABLE defaults (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), k text UNIQUE DEFAULT 'x', n int)`,
      );
      const send = (records: object[]) => upsert('defaults', records, 'on_conflict=k&resolution=ignore&return=ids');
      expect((await send([{ n: 1 }])).status).toBe(201);
      expectFailure(await send([{ n: 2 }]), 400, 'constraint_violation');
    });
  });
});
