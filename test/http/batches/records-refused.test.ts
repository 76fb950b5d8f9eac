/**
 * What only Postgres can refuse in a batch (contract C8.8): constraints, triggers and limits of tables that free
 * SQL created. The response names the records, and nothing is stored.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testServers } from '../../support/postgres.js';
import {
  expectFailure,
  onServer,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

describe.each(testServers())('on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
  });
  afterAll(() => service.close());

  const insert = (table: string, body: unknown, query = '') =>
    project.call('POST', `/api/cdp/data/${table}${query}`, { body });
  const count = async (table: string) => Number((await project.rows(`SELECT count(*) AS n FROM ${table}`))[0]?.n);

  /** Sends a batch that must be refused; the failure names these records, and nothing is stored. */
  const refusal = async (table: string, batch: unknown[], status: number, code: string, records: number[]) => {
    const before = await count(table);
    const body = expectFailure(await insert(table, batch), status, code);
    expect(body.errors?.map(({ record }) => record)).toEqual(records);
    expect(body.error_count).toBe(records.length);
    const others = records.length - 1;
    const more = others === 0 ? '' : ` (and ${others} more ${others === 1 ? 'error' : 'errors'})`;
    expect(body.message).toBe(`${body.errors?.[0]?.message}${more}`);
    expect(body.message).toContain(`Record ${records[0]}`);
    expect(body.postgres?.position).toBeUndefined();
    expect(await count(table)).toBe(before);
    return body;
  };

  describe('ids', () => {
    const id = (n: number) => `00000000-0000-7000-8000-00000000000${n}`;

    it('already in the table, or twice in the batch', async () => {
      await project.table('ids', { v: 'TEXT' });
      expect((await insert('ids', [{ id: id(1) }, { v: 'x' }])).status).toBe(201);
      const body = await refusal('ids', [{ v: 'a' }, { id: id(1) }, { id: id(2) }], 409, 'unique_violation', [1]);
      expect(body.postgres).toMatchObject({ sqlstate: '23505', table: 'ids', constraint: 'ids_pkey' });
      await refusal('ids', [{ id: id(3) }, {}, { id: id(3) }, { id: id(1) }], 409, 'unique_violation', [2, 3]);
      const twins = [{ id: id(4) }, { id: id(4).toUpperCase() }];
      await refusal('ids', twins, 409, 'unique_violation', [1]);
      expect(
        expectFailure(await insert('ids', twins, '?return=ids'), 409, 'unique_violation').errors?.[0]?.record,
      ).toBe(1);
      expect(await count('ids')).toBe(2);
    });
  });

  describe('columns', () => {
    it('every value that a Postgres type does not accept, with its column', async () => {
      await project.rows(`CREATE TYPE mood AS ENUM ('sad', 'ok');
        CREATE TABLE typed (day date, price numeric(5, 2), tags int[], mood mood, note text)`);
      const right = { day: '2026-01-31', price: 1.5, tags: [1], mood: 'ok', note: 'x' };
      const batch = [right, { ...right, day: 'soon', mood: 'glad' }, { price: 1000, note: 'y' }, { tags: ['x'] }];
      const body = await refusal('typed', batch, 400, 'invalid_value', [1, 1, 2, 3]);
      expect(body.errors?.map(({ column }) => column)).toEqual(['day', 'mood', 'price', 'tags']);
      expect(body.errors?.[1]?.message).toMatch(/^Record 1, "mood": .*"glad"/);
    });

    it('of a unique index, one or more', async () => {
      await project.rows('CREATE TABLE sole (a text UNIQUE, b text, c text, UNIQUE (b, c))');
      const batch = [{ a: 'x', b: 'x', c: 'x' }, { a: 'x' }, { b: 'x', c: 'x' }, { a: 'x' }];
      const body = await refusal('sole', batch, 409, 'unique_violation', [1, 2, 3]);
      expect(body.errors).toMatchObject([{ column: 'a' }, { columns: ['b', 'c'] }, { column: 'a' }]);
      expect(body.errors?.[1]).not.toHaveProperty('column');
      expect(body.errors?.map(({ hint }) => hint)).toEqual([
        'Record 0 has the same "a"',
        'Record 0 has the same "b", "c"',
        'Record 0 has the same "a"',
      ]);
      await insert('sole', [{ a: 'stored' }]);
      const stored = await refusal('sole', [{ a: 'y' }, { a: 'stored' }], 409, 'unique_violation', [1]);
      expect(stored.errors?.[0]).not.toHaveProperty('hint');
    });

    it('whose length or domain a value violates, also in arrays', async () => {
      await project.rows(`CREATE DOMAIN percentage AS int CHECK (VALUE <= 100);
        CREATE TABLE short (a varchar(3), b char(2), c varchar(2)[], d bit(3), p percentage, note json)`);
      const right = { a: 'abc', b: 'x ', c: ['ab'], d: '101', p: 100, note: { a: 1 } };
      const wrong = { ...right, a: 'abcd', b: 'xyz', c: ['a', 'bcd'], d: '11' };
      const body = await refusal('short', [right, wrong], 400, 'invalid_value', [1, 1, 1, 1]);
      expect(body.errors?.map(({ column }) => column)).toEqual(['a', 'b', 'c', 'd']);
      const beyond = await refusal('short', [right, { p: 101 }], 400, 'constraint_violation', [1]);
      expect(beyond.errors).toMatchObject([{ column: 'p' }]);
    });

    it('of a CHECK, a FOREIGN KEY and an exclusion constraint, but not of a table that a trigger writes to', async () => {
      await project.rows(`CREATE TABLE parents (a int, b int, PRIMARY KEY (a, b));
        CREATE TABLE ruled (k int CONSTRAINT positive CHECK (k > 0), b int, a int, r int4range,
          FOREIGN KEY (a, b) REFERENCES parents, EXCLUDE USING gist (r WITH &&));
        CREATE TABLE elsewhere (k int CONSTRAINT positive CHECK (k < 9));
        CREATE FUNCTION copied() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          INSERT INTO elsewhere VALUES (NEW.k); RETURN NEW; END $$;
        CREATE TRIGGER copied AFTER INSERT ON ruled FOR EACH ROW EXECUTE FUNCTION copied()`);
      const batch = [{ k: 0 }, { a: 1, b: 2 }, { r: '[1,3)' }, { r: '[2,4)' }, { k: 10 }];
      const body = await refusal('ruled', batch, 400, 'constraint_violation', [0, 1, 3, 4]);
      expect(body.errors).toMatchObject([{ column: 'k' }, { columns: ['a', 'b'] }, { column: 'r' }, {}]);
      expect(body.errors?.[3]).not.toHaveProperty('column');
      expect(body.errors?.[0]?.message).toMatch(/^Record 0, "positive": /);
    });
  });

  describe('constraints', () => {
    it('NOT NULL, for null and for a missing key', async () => {
      await project.rows('CREATE TABLE needed (a text NOT NULL, b text)');
      const batch = [{ a: 'x' }, { b: 'y' }, { a: null }, { a: 'z' }];
      const body = await refusal('needed', batch, 400, 'constraint_violation', [1, 2]);
      expect(body.errors?.[0]).toMatchObject({ record: 1, column: 'a', error: 'constraint_violation' });
      expect(body.postgres).toMatchObject({ sqlstate: '23502', table: 'needed', column: 'a' });
    });

    it('CHECK, by its name', async () => {
      await project.rows('CREATE TABLE checked (age bigint CONSTRAINT grown CHECK (age >= 18))');
      const body = await refusal('checked', [{ age: 20 }, { age: 3 }, {}], 400, 'constraint_violation', [1]);
      expect(body.postgres).toMatchObject({ sqlstate: '23514', constraint: 'grown' });
      expect(body.message).toContain('grown');
    });

    it('UNIQUE, against the table and within the batch', async () => {
      await project.rows(`CREATE TABLE emails (email text UNIQUE); INSERT INTO emails VALUES ('a')`);
      const batch = [{ email: 'b' }, { email: 'a' }, { email: 'b' }, { email: 'c' }];
      await refusal('emails', batch, 409, 'unique_violation', [1, 2]);
    });

    it('a unique expression index', async () => {
      await project.rows('CREATE TABLE folded (v text); CREATE UNIQUE INDEX ON folded (lower(v))');
      await refusal('folded', [{ v: 'a' }, { v: 'A' }], 409, 'unique_violation', [1]);
    });

    it('FOREIGN KEY', async () => {
      await project.rows(`CREATE TABLE lands (code text PRIMARY KEY); INSERT INTO lands VALUES ('it');
        CREATE TABLE towns (name text, land text REFERENCES lands)`);
      const body = await refusal('towns', [{ land: 'it' }, { land: 'xx' }, {}], 400, 'constraint_violation', [1]);
      expect(body.postgres).toMatchObject({ sqlstate: '23503', constraint: 'towns_land_fkey' });
    });

    it.each(['', 'DEFERRABLE INITIALLY DEFERRED'])(
      'records that refer to each other are not blamed for a bad one next to them %s',
      async (deferred) => {
        await project.rows(`DROP TABLE IF EXISTS nodes; CREATE TABLE nodes (
          k bigint PRIMARY KEY, up bigint REFERENCES nodes ${deferred}, v bigint CHECK (v > 0))`);
        const tree = [
          { k: 1, up: 3 },
          { k: 2, up: 2 },
          { k: 3, up: 4 },
          { k: 4, up: 2 },
        ];
        expect((await insert('nodes', tree)).status).toBe(201);
        await project.rows('DELETE FROM nodes');
        await refusal('nodes', [...tree, { k: 5, v: 0 }], 400, 'constraint_violation', [4]);
        await refusal('nodes', [...tree, { k: 5, up: 6 }], 400, 'constraint_violation', [4]);
      },
    );

    it('an exclusion constraint', async () => {
      await project.rows('CREATE TABLE booked (span int4range, EXCLUDE USING gist (span WITH &&))');
      const batch = [{ span: '[1,5)' }, { span: '[5,9)' }, { span: '[8,12)' }];
      await refusal('booked', batch, 400, 'constraint_violation', [2]);
    });

    it('a constraint that is checked only at the commit', async () => {
      await project.rows(`CREATE TABLE late (v bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)`);
      await refusal('late', [{ v: 1 }, { v: 2 }, { v: 1 }], 409, 'unique_violation', [2]);
    });

    it('a domain over NOT NULL without a default', async () => {
      await project.rows('CREATE DOMAIN present AS text NOT NULL; CREATE TABLE gifts (p present, n bigint)');
      await refusal('gifts', [{ p: 'x' }, { n: 1 }], 400, 'constraint_violation', [1]);
    });

    it('constraints of several kinds in one batch are named one by one', async () => {
      await project.rows('CREATE TABLE strict (a bigint UNIQUE, b varchar(2) NOT NULL, c bigint CHECK (c > 0))');
      const batch = [{ a: 1, b: 'x' }, { a: 2 }, { a: 1, b: 'y' }, { a: 3, b: 'xyz' }, { a: 4, b: 'z', c: 0 }];
      const body = await refusal('strict', batch, 400, 'constraint_violation', [1, 2, 3, 4]);
      expect(body.errors?.map(({ error }) => error)).toEqual([
        'constraint_violation',
        'unique_violation',
        'invalid_value',
        'constraint_violation',
      ]);
    });

    it('more than 50 records: lists 50 and counts all', async () => {
      await project.rows('CREATE TABLE positive (v bigint CHECK (v > 0))');
      const batch = Array.from({ length: 250 }, (_, v) => ({ v: v % 2 === 0 ? 1 : -v }));
      const body = expectFailure(await insert('positive', batch), 400, 'constraint_violation');
      expect(body.errors).toHaveLength(50);
      expect(body.errors?.[49]?.record).toBe(99);
      expect(body.error_count).toBe(125);
      expect(await count('positive')).toBe(0);
    });

    it('rows of several INSERTs: one refused record undoes the others', async () => {
      await project.rows('CREATE TABLE kinds (a bigint DEFAULT 1, b bigint DEFAULT 1, c bigint CHECK (c > 0))');
      await refusal('kinds', [{ a: 1 }, { b: 1 }, {}, { c: 0 }, { a: 1, b: 1 }], 400, 'constraint_violation', [3]);
    });
  });

  describe('code of the project', () => {
    it('a trigger that raises an error: the record is named with its message', async () => {
      await project.rows(`CREATE TABLE watched (v bigint);
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
          BEGIN IF NEW.v < 0 THEN RAISE EXCEPTION 'no debts' USING HINT = 'pay first'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION refuse()`);
      const body = await refusal('watched', [{ v: 1 }, { v: -1 }], 400, 'constraint_violation', [1]);
      expect(body.message).toContain('no debts');
      expect(body.hint).toBe('pay first');
      expect(body.postgres?.sqlstate).toBe('P0001');
    });

    it('a deferred constraint trigger that raises', async () => {
      await project.rows(`CREATE TABLE audited (v bigint);
        CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON audited DEFERRABLE INITIALLY DEFERRED
          FOR EACH ROW EXECUTE FUNCTION refuse()`);
      await refusal('audited', [{ v: 1 }, { v: -1 }, { v: 2 }, { v: -2 }], 400, 'constraint_violation', [1, 3]);
    });

    it('a statement trigger that raises an error: the batch is refused', async () => {
      await project.rows(`CREATE TABLE pairs (v bigint);
        CREATE FUNCTION even() RETURNS trigger LANGUAGE plpgsql AS $$
          BEGIN IF (SELECT count(*) FROM pairs) > 1 THEN RAISE EXCEPTION 'too many'; END IF; RETURN NULL; END $$;
        CREATE TRIGGER even AFTER INSERT ON pairs FOR EACH STATEMENT EXECUTE FUNCTION even()`);
      expect((await insert('pairs', [{ v: 1 }])).status).toBe(201);
      const body = expectFailure(await insert('pairs', [{ v: 1 }]), 400, 'constraint_violation');
      expect(body.message).toContain('too many');
      expect(await count('pairs')).toBe(1);
    });

    it('a trigger with an error in its code, a check that divides by zero, a default that fails', async () => {
      await project.rows(`CREATE TABLE broken (v bigint);
        CREATE FUNCTION break() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nosuch(); RETURN NEW; END $$;
        CREATE TRIGGER break BEFORE INSERT ON broken FOR EACH ROW EXECUTE FUNCTION break();
        CREATE TABLE divided (v bigint CHECK (10 / v > 1));
        CREATE TABLE failing (a bigint, v bigint DEFAULT length(repeat('x', -1)) / 0)`);
      await refusal('broken', [{ v: 1 }], 400, 'constraint_violation', [0]);
      await refusal('divided', [{ v: 2 }, { v: 0 }], 400, 'invalid_value', [1]);
      await refusal('failing', [{ v: 2 }, { a: 0 }], 400, 'invalid_value', [1]);
    });

    it.each(['57014', '57P01', '40001', '53100', 'XX000', '08006', '42P01', '3D000', '25P02'])(
      'a trigger that raises the SQLSTATE %s: a clear error, nothing stored, and the service continues',
      async (sqlstate) => {
        await project.rows(`DROP TABLE IF EXISTS lying; CREATE TABLE lying (v bigint);
          CREATE OR REPLACE FUNCTION lie() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN IF NEW.v = 1 THEN RAISE EXCEPTION 'a lie' USING ERRCODE = '${sqlstate}'; END IF; RETURN NEW; END $$;
          CREATE TRIGGER lie BEFORE INSERT ON lying FOR EACH ROW EXECUTE FUNCTION lie()`);
        const response = await insert('lying', [{ v: 0 }, { v: 1 }]);
        expectFailure(response, response.status, response.body.error as string);
        expect(response.status).not.toBe(500);
        expect(await count('lying')).toBe(0);
        expect((await insert('lying', [{ v: 0 }])).status).toBe(201);
      },
    );
  });

  describe('limits of Postgres', () => {
    it('an index entry that is too large', async () => {
      await project.rows('CREATE TABLE indexed (v text); CREATE INDEX ON indexed (v)');
      const batch = [{ v: 'x' }, { v: randomBytes(20_000).toString('base64') }];
      await refusal('indexed', batch, 400, 'row_too_large', [1]);
    });

    it('a row that is too large', async () => {
      const each = (value: string) => Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`c${n}`, value]));
      await project.table('fat', each('TEXT'));
      const row = each('seventeen letters');
      await refusal('fat', [{ c0: 'x' }, row], 400, 'row_too_large', [1]);
    });
  });

  describe('clients that leave', () => {
    it('stores nothing of a batch whose client left while it waited', async () => {
      await project.table('left', { v: 'TEXT' });
      const database = (await service.engine.projects.list()).find(({ id }) => id === project.id)?.placement.database;
      await onServer(
        server,
        async (client) => {
          const waiting = async () => {
            // Within a transaction Postgres would go on showing what it saw first.
            await client.query('SELECT pg_stat_clear_snapshot()');
            const sql = `SELECT count(*)::int AS n FROM pg_stat_activity
              WHERE datname = $1 AND application_name = 'cdp write' AND wait_event_type = 'Lock'`;
            return (await client.query<{ n: number }>(sql, [database])).rows[0]?.n;
          };
          await client.query('BEGIN; LOCK TABLE data."left" IN ACCESS EXCLUSIVE MODE');
          const leaving = new AbortController();
          const gone = project.call('POST', '/api/cdp/data/left', { body: [{ v: 'x' }], signal: leaving.signal });
          const failed = expect(gone).rejects.toThrow();
          while ((await waiting()) === 0) await sleep(10);
          leaving.abort();
          await failed;
          const left = performance.now();
          while ((await waiting()) !== 0) await sleep(10);
          expect(performance.now() - left).toBeLessThan(3_000);
          await client.query('COMMIT');
        },
        database,
      );
      expect(await count('"left"')).toBe(0);
      expect((await insert('left', [{ v: 'y' }])).status).toBe(201);
    });
  });
});
