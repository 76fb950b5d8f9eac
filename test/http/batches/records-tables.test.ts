/**
 * Batch inserts into tables that free SQL created: defaults, Postgres types, unusual names, views, partitions, rules.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedServer } from '../../support/postgres.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

describe.each([embeddedServer()])('on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
  });
  afterAll(() => service.close());

  const insert = (table: string, body: unknown, query = '') =>
    project.call('POST', `/api/cdp/data/${table}${query}`, { body });
  const inserted = async (table: string, records: unknown[], query = '') => {
    const response = await insert(table, records, query);
    expect(response.body).toMatchObject({ success: true, inserted_rows: records.length });
    return response.body;
  };

  /** A column whose default says how a row came in. */
  const WAY = 'way text DEFAULT left(current_query(), 4)';

  describe('the path by COPY', () => {
    beforeAll(async () => {
      await project.rows(`CREATE TABLE parents (v bigint PRIMARY KEY); INSERT INTO parents VALUES (1), (2);
        CREATE TYPE colour AS ENUM ('red', 'blue')`);
    });

    it.each([
      ['a check', 'v bigint CHECK (v < 10)'],
      ['a foreign key', 'v bigint REFERENCES parents'],
      ['a foreign key that is looked at in the end', 'v bigint REFERENCES parents DEFERRABLE INITIALLY DEFERRED'],
      ['defaults', `v bigint, at timestamptz DEFAULT now(), s bigserial`],
      ['a generated column', 'v bigint, twice bigint GENERATED ALWAYS AS (v * 2) STORED'],
      ['quotes in a name', 'v bigint, "say ""hi""" text'],
      ['an enum', `v bigint, colour colour DEFAULT 'red'`],
      ['an exclusion', 'v bigint, EXCLUDE (v WITH =)'],
    ])('is used for a table with %s', async (what, columns) => {
      const name = `by_copy_with_${what.replaceAll(' ', '_')}`.slice(0, 40);
      await project.rows(`CREATE TABLE ${name} (id uuid PRIMARY KEY DEFAULT _cdp.uuid_v7(), ${columns}, ${WAY})`);
      await inserted(name, [{ v: 1 }, { v: 2 }]);
      const keyed = { body: [{ v: null }], headers: { 'idempotency-key': 'k' } };
      const first = await project.call('POST', `/api/cdp/data/${name}`, keyed);
      expect(first.status).toBe(201);
      expect((await project.call('POST', `/api/cdp/data/${name}`, keyed)).text).toBe(first.text);
      expect(await project.rows(`SELECT v, way FROM ${name} ORDER BY v`)).toEqual([
        { v: 1, way: 'COPY' },
        { v: 2, way: 'COPY' },
        { v: null, way: 'COPY' },
      ]);
      const { ids } = await inserted(name, [{ v: null }, { v: null }], '?return=ids');
      const returned = await project.rows(`SELECT id FROM ${name} WHERE way = 'INSE' ORDER BY id`);
      expect(returned.map(({ id }) => id)).toEqual(ids);
    });

    it('is used for tables with expression and partial indexes, and for one that others refer to', async () => {
      await project.rows(`CREATE TABLE indexed (v bigint UNIQUE, ${WAY}); CREATE INDEX ON indexed (abs(v)) WHERE v > 0;
        CREATE TABLE referring (v bigint REFERENCES indexed (v))`);
      await inserted('indexed', [{ v: 1 }, { v: 2 }]);
      expect(await project.rows('SELECT DISTINCT way FROM indexed')).toEqual([{ way: 'COPY' }]);
    });

    it('names the record that violates a check or a foreign key, and stores nothing', async () => {
      await project.rows('CREATE TABLE refusing (v bigint CHECK (v < 10) REFERENCES parents)');
      for (const v of [3, 10]) {
        const body = expectFailure(await insert('refusing', [{ v: 1 }, { v }, { v: 2 }]), 400, 'constraint_violation');
        expect(body.errors).toMatchObject([{ record: 1 }]);
      }
      expect(await project.rows('SELECT count(*) AS n FROM refusing')).toEqual([{ n: 0 }]);
    });

    it('is no longer used if a table with foreign key triggers gets a trigger of its own', async () => {
      await project.rows(`CREATE TABLE watched (v bigint REFERENCES parents);
        CREATE FUNCTION drop_twos() RETURNS trigger LANGUAGE plpgsql AS $$
          BEGIN IF NEW.v = 2 THEN RETURN NULL; END IF; RETURN NEW; END $$`);
      await inserted('watched', [{ v: 1 }, { v: 2 }]);
      await project.rows(`CREATE TRIGGER drop_twos BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION drop_twos()`);
      expect((await insert('watched', [{ v: 1 }, { v: 2 }])).body).toMatchObject({ inserted_rows: 1 });
      await project.rows('ALTER TABLE watched DISABLE TRIGGER drop_twos');
      await inserted('watched', [{ v: 1 }, { v: 2 }]);
      expect(await project.rows('SELECT count(*) AS n FROM watched')).toEqual([{ n: 5 }]);
    });

    it('leaves ids to a default of the project', async () => {
      await project.rows('CREATE TABLE own_ids (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), v bigint)');
      const { ids } = await inserted('own_ids', [{ v: 1 }, { v: 2 }], '?return=ids');
      expect((ids as string[]).map((id) => id[14])).toEqual(['4', '4']);
      expect((await project.rows('SELECT id FROM own_ids ORDER BY v')).map(({ id }) => id)).toEqual(ids);
    });

    it('does not let session changes of a check reach the next request, or the rest of its own', async () => {
      await project.rows(`CREATE FUNCTION leave_mess() RETURNS boolean LANGUAGE plpgsql AS $$
          BEGIN PERFORM set_config('search_path', 'nowhere', false); PERFORM set_config('TimeZone', 'Asia/Tokyo', false);
            PERFORM set_config('standard_conforming_strings', 'off', false); EXECUTE 'DEALLOCATE ALL'; RETURN true; END $$;
        CREATE TABLE messy_check (v text CHECK (leave_mess()), at timestamptz, d date, ${WAY})`);
      for (let i = 0; i < 3; i++) {
        await inserted('messy_check', [{ v: 'a\\b', at: '2026-01-31', d: '2026-01-31' }, { v: 'c' }]);
      }
      expect(
        await project.rows(`SELECT count(*) AS n FROM messy_check
        WHERE v = 'a\\b' AND at = '2026-01-31Z' AND d = '2026-01-31' AND way = 'COPY'`),
      ).toEqual([{ n: 3 }]);
    });
  });

  describe('defaults', () => {
    it('a missing key gets the default of its column, and a null does not, in one batch', async () => {
      await project.rows(`CREATE TABLE defaults (
        id uuid PRIMARY KEY DEFAULT _cdp.uuid_v7(), label text, n bigint DEFAULT 7, at timestamptz DEFAULT now(),
        s serial, i bigint GENERATED BY DEFAULT AS IDENTITY (START 100), b boolean DEFAULT true NOT NULL)`);
      await inserted('defaults', [
        { label: 'a' },
        { label: 'b', n: null },
        { label: 'c', n: 1, at: null },
        { label: 'd', s: 50, i: 60, b: false },
        { label: 'e' },
      ]);
      const rows = await project.rows('SELECT label, n, at IS NULL AS no_at, s, i, b FROM defaults ORDER BY label');
      expect(rows.map(({ label, n, no_at, b }) => [label, n, no_at, b])).toEqual([
        ['a', 7, false, true],
        ['b', null, false, true],
        ['c', 1, true, true],
        ['d', 7, false, false],
        ['e', 7, false, true],
      ]);
      expect(rows.map(({ s }) => s).sort()).toEqual([1, 2, 3, 4, 50]);
      expect(rows.map(({ i }) => i).sort()).toEqual([100, 101, 102, 103, 60]);
    });

    it('records that omit different defaults are stored whatever their texts, by COPY from Postgres 16', async () => {
      const byCopy = server.major >= 16;
      await project.rows(`CREATE TABLE left_out (label text DEFAULT 'none', n bigint DEFAULT 7,
        twice bigint GENERATED ALWAYS AS (n * 2) STORED, ${WAY})`);
      await inserted('left_out', [{ label: '\\D' }, { n: 1 }, { label: null, n: null }, { n: 2, label: '\\\\D' }, {}]);
      const rows = await project.rows(
        `SELECT label, n, twice, way = 'COPY' AS by_copy FROM left_out ORDER BY n, label`,
      );
      expect(rows.map(Object.values)).toEqual([
        ['none', 1, 2, byCopy],
        ['\\\\D', 2, 4, byCopy],
        ['\\D', 7, 14, byCopy],
        ['none', 7, 14, byCopy],
        [null, null, null, byCopy],
      ]);
      expectFailure(await insert('left_out', [{ n: 1 }, { twice: 2 }]), 400, 'invalid_value');
      await inserted('left_out', [{ n: 3 }, { label: 'x' }]);
    });

    it('a sequence counts in record order', async () => {
      await project.rows('CREATE TABLE ordered (n bigserial, label text)');
      await inserted(
        'ordered',
        Array.from({ length: 250 }, (_, i) => ({ label: `${i}` })),
      );
      expect(await project.rows('SELECT count(*) AS n FROM ordered WHERE label::int <> n - 1')).toEqual([{ n: 0 }]);
    });

    it('a generated column is computed, and refused as a key', async () => {
      await project.rows(
        `CREATE TABLE made (n bigint, twice bigint GENERATED ALWAYS AS (n * 2) STORED, k int GENERATED ALWAYS AS IDENTITY)`,
      );
      await inserted('made', [{ n: 4 }]);
      const body = expectFailure(
        await insert('made', [{ n: 1 }, { twice: 2 }, { n: 1 }, { k: 3 }]),
        400,
        'invalid_value',
      );
      expect(body.errors?.map(({ record }) => record)).toEqual([1, 3]);
      expect(await project.rows('SELECT * FROM made')).toEqual([{ n: 4, twice: 8, k: 1 }]);
    });

    it('an identity column GENERATED ALWAYS refuses values, also in a batch that could use COPY', async () => {
      await project.rows('CREATE TABLE self_numbered (k bigint GENERATED ALWAYS AS IDENTITY, label text)');
      // From the first batch on the table is known.
      await inserted('self_numbered', [{ label: 'a' }]);
      const body = expectFailure(await insert('self_numbered', [{ k: 77, label: 'b' }]), 400, 'invalid_value');
      expect(body.errors).toMatchObject([{ record: 0 }]);
      expect(body.hint).toMatch(/^Leave the column out/);
      await inserted('self_numbered', [{ label: 'c' }]);
      const rows = await project.rows('SELECT label, k < 77 AS own FROM self_numbered ORDER BY label');
      expect(rows).toEqual([
        { label: 'a', own: true },
        { label: 'c', own: true },
      ]);
    });

    it('a domain contributes its default and its check', async () => {
      await project.rows(`CREATE DOMAIN grade AS int DEFAULT 3 CHECK (VALUE BETWEEN 1 AND 6);
        CREATE TABLE graded (label text, grade grade)`);
      await inserted('graded', [{ label: 'a' }, { label: 'b', grade: 6 }, { label: 'c', grade: null }]);
      expect(await project.rows('SELECT label, grade FROM graded ORDER BY label')).toEqual([
        { label: 'a', grade: 3 },
        { label: 'b', grade: 6 },
        { label: 'c', grade: null },
      ]);
      const body = expectFailure(await insert('graded', [{ grade: 1 }, { grade: 7 }]), 400, 'constraint_violation');
      expect(body.errors).toMatchObject([{ record: 1 }]);
    });
  });

  describe('Postgres types', () => {
    it.each([
      ['integer', '7', '7'],
      ['integer', '"-7"', '-7'],
      ['smallint', '7', '7'],
      ['real', '0.1', '0.1'],
      ['numeric(10,2)', '12.345', '12.35'],
      ['numeric(10,2)', '"99999999.99"', '99999999.99'],
      ['numeric', '9007199254740993', '"9007199254740993"'],
      ['numeric', '1.50', '1.50'],
      ['varchar(5)', '"abcde"', '"abcde"'],
      ['varchar(5)', '"abc     "', '"abc  "'],
      ['varchar(5)', '12.50', '"12.50"'],
      ['char(3)', '"a"', '"a  "'],
      ['date', '"2024-02-29"', '"2024-02-29"'],
      ['date', '"infinity"', '"infinity"'],
      ['time', '"12:34:56.5"', '"12:34:56.5"'],
      ['timestamp', '"2024-02-29T12:00:00"', '"2024-02-29 12:00:00"'],
      ['timestamptz(0)', '"2024-02-29T12:00:00.6Z"', '"2024-02-29T12:00:01Z"'],
      ['interval', '"1 day 02:03:04"', '"1 day 02:03:04"'],
      ['uuid', '"0192AAAA-bbbb-7ccc-8ddd-eeeeeeeeeeee"', '"0192aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee"'],
      ['inet', '"192.168.0.1/24"', '"192.168.0.1/24"'],
      ['bytea', '"\\\\xdeadBEEF"', '"\\\\xdeadbeef"'],
      ['bit(3)', '"101"', '"101"'],
      ['bit varying', '"10"', '"10"'],
      ['point', '"(1,2)"', '"(1,2)"'],
      ['int4range', '"[1,5)"', '"[1,5)"'],
      ['"char"', '"x"', '"x"'],
      ['json', '{"b": 1.50,  "a":[9007199254740993]}', '{"b": 1.50,  "a":[9007199254740993]}'],
      ['json', '"text"', '"text"'],
      ['json', '[1e999]', '[1e999]'],
      ['json', 'null', 'null'],
      [
        'text[]',
        '["a","b,c","\\"q\\"","{}","NULL",null,"","\\\\"]',
        '["a","b,c","\\"q\\"","{}","NULL",null,"","\\\\"]',
      ],
      ['text[]', '"{a,b}"', '["a","b"]'],
      ['text[]', '[]', '[]'],
      ['text[]', '[1.50,true,{"a":1}]', '["1.50","true","{\\"a\\":1}"]'],
      ['int[][]', '[[1,2],[3,4]]', '[[1,2],[3,4]]'],
      ['bigint[]', '[9007199254740993,null]', '["9007199254740993",null]'],
      ['jsonb[]', '[{"a":1.50},2]', '[{"a": 1.50},2]'],
      ['box[]', '"{(1,1),(0,0);(2,2),(1,1)}"', '["(1,1),(0,0)","(2,2),(1,1)"]'],
    ])('%s accepts %s and returns %s', async (type, sent, answered) => {
      await project.rows(`DROP TABLE IF EXISTS typed; CREATE TABLE typed (v ${type})`);
      const response = await insert('typed', `[{"v":${sent}}]`);
      expect(response.text).toContain('"inserted_rows":1');
      const { text } = await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT v FROM typed' } });
      expect(text).toContain(`"rows":[{"v":${answered}}]`);
    });

    it.each([
      ['integer', '"x"'],
      ['integer', '2147483648'],
      ['numeric(10,2)', '123456789.5'],
      ['varchar(5)', '"abcdef"'],
      ['date', '"2023-02-29"'],
      ['uuid', '"x"'],
      ['inet', '"1.2.3"'],
      ['int[]', '[1,"x"]'],
      ['int[]', '[[1],[2,3]]'],
      ['text[]', '"{a"'],
      ['text[]', '["\\u0000"]'],
      ['text', '{"a":1}'],
      ['json', '"\\ud800"'],
      ['date', '{}'],
      ['date', '"\\u0000"'],
      ['bytea', '"\\\\xZZ"'],
      ['interval', '"a while"'],
    ])('%s refuses %s, naming the record', async (type, sent) => {
      await project.rows(`DROP TABLE IF EXISTS typed; CREATE TABLE typed (n bigint, v ${type})`);
      const body = expectFailure(await insert('typed', `[{"n":1},{"n":2,"v":${sent}},{"n":3}]`), 400, 'invalid_value');
      expect(body.errors?.map(({ record }) => record)).toEqual([1]);
      expect(body.message).toContain('Record 1');
      expect(await project.rows('SELECT count(*) AS n FROM typed')).toEqual([{ n: 0 }]);
    });

    it('enums, composites and domains over json are sent as their own text', async () => {
      await project.rows(`CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE TYPE place AS (x int, name text);
        CREATE DOMAIN document AS json;
        CREATE TABLE feelings (mood mood, moods mood[], place place, document document)`);
      await inserted('feelings', [{ mood: 'glad', moods: ['sad', 'glad'], place: '(1,"a b")', document: { a: [1] } }]);
      const { text } = await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT * FROM feelings' } });
      expect(text).toContain('"mood":"glad","moods":"{sad,glad}","place":"(1,\\"a b\\")","document":{"a":[1]}');
      const body = expectFailure(await insert('feelings', [{ mood: 'sad' }, { mood: 'angry' }]), 400, 'invalid_value');
      expect(body.errors?.map(({ record }) => record)).toEqual([1]);
      expect(body.message).toContain('angry');
    });
  });

  describe('names and shapes', () => {
    it.each(['SELECT', 'user', 'MixedCase', '_underscore', 'z'.repeat(63), 'toString', 'constructor'])(
      'a table named %s',
      async (table) => {
        await project.table(table, { v: 'TEXT' });
        await inserted(table, [{ v: 'x' }]);
        expect(await project.rows(`SELECT v FROM "${table}"`)).toEqual([{ v: 'x' }]);
      },
    );

    it('columns named like properties in JavaScript and keywords in SQL', async () => {
      const names = [
        '__proto__',
        'constructor',
        'toString',
        'hasOwnProperty',
        'length',
        'select',
        'NULL',
        'n',
        'v',
        'c0',
      ];
      const odd = ['a b', 'quo"te', "apo'strophe", 'é', '😀', '$1', '', '0'].filter((name) => name !== '');
      const columns = [...names, ...odd].map((name) => `"${name.replaceAll('"', '""')}" text`);
      await project.rows(`CREATE TABLE names (${columns.join()})`);
      const members = [...names, ...odd].map((name) => `${JSON.stringify(name)}:${JSON.stringify(`=${name}`)}`);
      expect((await insert('names', `[{${members.join()}}]`)).status).toBe(201);
      const [row] = await project.rows('SELECT * FROM names');
      expect(Object.entries(row ?? {}).sort()).toEqual([...names, ...odd].map((name) => [name, `=${name}`]).sort());
    });

    it('a table without id accepts records, and cannot return ids', async () => {
      await project.rows('CREATE TABLE plain (v text)');
      await inserted('plain', [{ v: 'x' }, {}]);
      expectFailure(await insert('plain', [{ v: 'y' }], '?return=ids'), 400, 'invalid_request');
      expectFailure(await insert('plain', [{ id: '0192aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee' }]), 400, 'unknown_column');
      expect(await project.rows('SELECT count(*) AS n FROM plain')).toEqual([{ n: 2 }]);
    });

    it('an id of another type is a column like any other', async () => {
      await project.rows('CREATE TABLE numbered (id serial PRIMARY KEY, v text)');
      const { ids } = await inserted('numbered', [{ v: 'a' }, { id: 9, v: 'b' }, { v: 'c' }], '?return=ids');
      expect(ids).toEqual(['1', '9', '2']);
    });

    it('a table without columns', async () => {
      await project.rows('CREATE TABLE nothing ()');
      await inserted('nothing', [{}, {}, {}]);
      expect(await project.rows('SELECT count(*) AS n FROM nothing')).toEqual([{ n: 3 }]);
    });

    it('a table of 1,600 columns', async () => {
      const columns = Array.from({ length: 1_600 }, (_, n) => `c${n}`);
      await project.rows(`CREATE TABLE wide (${columns.map((name) => `${name} boolean`).join()})`);
      await inserted('wide', [Object.fromEntries(columns.map((name) => [name, true])), { c1599: false }]);
      expect(await project.rows('SELECT c0, c1599 FROM wide ORDER BY c0')).toEqual([
        { c0: true, c1599: true },
        { c0: null, c1599: false },
      ]);
    });

    it('a dropped column is unknown, and the others still work', async () => {
      await project.table('dropped', { a: 'TEXT', b: 'TEXT', c: 'TEXT' });
      await project.rows('ALTER TABLE dropped DROP COLUMN b');
      await inserted('dropped', [{ a: '1', c: '3' }]);
      expectFailure(await insert('dropped', [{ b: '2' }]), 400, 'unknown_column');
      expect(await project.rows('SELECT a, c FROM dropped')).toEqual([{ a: '1', c: '3' }]);
    });
  });

  describe('views, partitions, rules and triggers', () => {
    it('a simple view accepts records, and a missing key gets the default of the table', async () => {
      await project.rows(`CREATE TABLE below (id uuid PRIMARY KEY DEFAULT _cdp.uuid_v7(), a text, n bigint DEFAULT 5);
        CREATE VIEW above AS SELECT id, a, n FROM below`);
      await inserted('above', [{ a: 'x' }]);
      await inserted('above', [{ a: 'y', n: 1 }, { a: 'z' }, { id: '0192aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee', a: 'zz' }]);
      expect(await project.rows('SELECT a, n FROM below ORDER BY a')).toEqual([
        { a: 'x', n: 5 },
        { a: 'y', n: 1 },
        { a: 'z', n: 5 },
        { a: 'zz', n: 5 },
      ]);
    });

    it('a view with a check option refuses rows outside it', async () => {
      await project.rows(`CREATE TABLE grown (age bigint);
        CREATE VIEW adults AS SELECT age FROM grown WHERE age >= 18 WITH CHECK OPTION`);
      const body = expectFailure(await insert('adults', [{ age: 20 }, { age: 17 }]), 400, 'constraint_violation');
      expect(body.errors).toMatchObject([{ record: 1 }]);
      expect(await project.rows('SELECT count(*) AS n FROM grown')).toEqual([{ n: 0 }]);
    });

    it('a read-only view and a materialized view refuse records', async () => {
      await project.rows(`CREATE TABLE source (a bigint); CREATE VIEW sums AS SELECT sum(a) AS a FROM source;
        CREATE MATERIALIZED VIEW kept AS SELECT a FROM source`);
      const response = await insert('sums', [{ a: 1 }]);
      expect(response.status).toBe(400);
      expectFailure(response, 400, response.body.error as string);
      expectFailure(await insert('kept', [{ a: 1 }]), 404, 'table_not_found');
    });

    it('a partitioned table routes the records, and names a record that fits no partition', async () => {
      await project.rows(`CREATE TABLE parted (id uuid DEFAULT _cdp.uuid_v7(), n bigint) PARTITION BY RANGE (n);
        CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (10);
        CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (10) TO (20)`);
      const { ids } = await inserted('parted', [{ n: 15 }, { n: 5 }, { n: 16 }], '?return=ids');
      const rows = await project.rows('SELECT id, tableoid::regclass::text AS place FROM parted ORDER BY n = 5, n');
      expect(rows.map(({ place }) => place)).toEqual(['parted_high', 'parted_high', 'parted_low']);
      expect((ids as string[])[1]).toBe(rows[2]?.id);
      const body = expectFailure(await insert('parted', [{ n: 1 }, { n: 20 }]), 400, 'constraint_violation');
      expect(body.errors).toMatchObject([{ record: 1 }]);
    });

    it('a rule with an additional command', async () => {
      await project.rows(`CREATE TABLE ruled (v text); CREATE TABLE log (v text);
        CREATE RULE also AS ON INSERT TO ruled DO ALSO INSERT INTO log VALUES ('seen')`);
      await inserted('ruled', [{ v: 'a' }, { v: 'b' }]);
      expect(await project.rows('SELECT v FROM ruled ORDER BY v')).toEqual([{ v: 'a' }, { v: 'b' }]);
    });

    it('a trigger that changes the row, including its id', async () => {
      await project.table('changed', { v: 'TEXT' });
      await project.rows(`CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$
          BEGIN NEW.v := upper(NEW.v); NEW.id := md5(NEW.v)::uuid; RETURN NEW; END $$;
        CREATE TRIGGER shout BEFORE INSERT ON changed FOR EACH ROW EXECUTE FUNCTION shout()`);
      const { ids } = await inserted('changed', [{ v: 'a' }, { v: 'b' }], '?return=ids');
      expect(await project.rows('SELECT id, v FROM changed ORDER BY v')).toEqual([
        { id: (ids as string[])[0], v: 'A' },
        { id: (ids as string[])[1], v: 'B' },
      ]);
    });

    it('a trigger that drops rows: the response neither counts them nor invents ids', async () => {
      await project.table('dropping', { v: 'INTEGER' });
      await project.rows(`CREATE FUNCTION drop_odd() RETURNS trigger LANGUAGE plpgsql AS $$
          BEGIN IF NEW.v % 2 = 1 THEN RETURN NULL; END IF; RETURN NEW; END $$;
        CREATE TRIGGER drop_odd BEFORE INSERT ON dropping FOR EACH ROW EXECUTE FUNCTION drop_odd()`);
      const records = [{ v: 0 }, { v: 1 }, { v: 2 }];
      expect((await insert('dropping', records)).body).toMatchObject({ inserted_rows: 2 });
      const keyed = { body: records, headers: { 'idempotency-key': 'k' } };
      const first = await project.call('POST', '/api/cdp/data/dropping', keyed);
      expect(first.body).toMatchObject({ inserted_rows: 2, message: '2 records inserted' });
      expect((await project.call('POST', '/api/cdp/data/dropping', keyed)).text).toBe(first.text);
      expectFailure(await insert('dropping', records, '?return=ids'), 400, 'constraint_violation');
      expect(await project.rows('SELECT count(*) AS n FROM dropping')).toEqual([{ n: 4 }]);
    });

    it('session changes of a trigger do not reach the next request', async () => {
      await project.table('messy', { v: 'TEXT', at: 'TIMESTAMP' });
      await project.rows(`CREATE FUNCTION mess() RETURNS trigger LANGUAGE plpgsql AS $$
          BEGIN PERFORM set_config('search_path', 'nowhere', false); PERFORM set_config('TimeZone', 'Asia/Tokyo', false);
            PERFORM set_config('standard_conforming_strings', 'off', false); RETURN NEW; END $$;
        CREATE TRIGGER mess BEFORE INSERT ON messy FOR EACH ROW EXECUTE FUNCTION mess()`);
      for (let i = 0; i < 3; i++) {
        await inserted('messy', [{ v: 'a\\b', at: '2026-01-31' }, { v: 'c' }], '?return=ids');
      }
      expect(await project.rows(`SELECT count(*) AS n FROM messy WHERE v = 'a\\b' AND at = '2026-01-31Z'`)).toEqual([
        { n: 3 },
      ]);
    });

    it('row-level security refuses a row that its policy does not allow', async () => {
      await project.rows(`CREATE TABLE guarded (v bigint); ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
        ALTER TABLE guarded FORCE ROW LEVEL SECURITY;
        CREATE POLICY small ON guarded USING (v < 10) WITH CHECK (v < 10)`);
      await inserted('guarded', [{ v: 1 }]);
      const body = expectFailure(await insert('guarded', [{ v: 2 }, { v: 11 }]), 403, 'permission_denied');
      expect(body.errors).toMatchObject([{ record: 1 }]);
      expect(await project.rows('SELECT v FROM guarded')).toEqual([{ v: 1 }]);
    });
  });
});
