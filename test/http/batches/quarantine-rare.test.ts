/** Quarantined batches of rare kinds: hostile keys, large values, many errors, two records with one key, dry runs. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { embeddedServer } from '../../support/postgres.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { inDatabase } from '../../support/tables.js';

describe.each([embeddedServer()])('on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    await project.table('people', { email: 'TEXT', age: 'INTEGER', note: 'JSONB' });
    await project.rows(
      `ALTER TABLE people ADD UNIQUE (email), ADD boss text REFERENCES people (email), ADD a int, ADD b int, ADD UNIQUE (a, b)`,
    );
  });
  beforeEach(async () => {
    await project.rows('DELETE FROM people');
    await project.call('DELETE', '/api/cdp/quarantine?all=true');
  });
  afterAll(() => service.close());

  const insert = (body: unknown, query = '') =>
    project.call('POST', `/api/cdp/data/people?on_error=quarantine${query}`, { body });
  const list = async (query = '') =>
    (await project.call('GET', `/api/cdp/quarantine?limit=1000${query}`)).body.records as Kept[];
  const replay = (body: unknown, query = '') => project.call('POST', `/api/cdp/quarantine/replay${query}`, { body });
  const rows = (columns = 'email, age') => project.rows(`SELECT ${columns} FROM people ORDER BY email`);
  interface Kept {
    id: string;
    record: string;
    errors: { column?: string; error: string; message: string }[];
  }
  const makeOld = () =>
    inDatabase(service, project, (client) =>
      client.query(`UPDATE _cdp.quarantine SET quarantined_at = now() - interval '31 days'`),
    );
  const keptInAll = async () => (await project.rows('SELECT count(*) AS n FROM _cdp.quarantine'))[0]?.n;

  describe('works', () => {
    it('keeps records with keys that jsonb does not accept: U+0000, a lone surrogate, a pair where a long key is cut', async () => {
      const long = `${'k'.repeat(62)}😀 and more`;
      const body = `[{"email":"a"},{"\\u0000x":1},{"\\ud800":1},${JSON.stringify({ [long]: 1 })}]`;
      const response = await insert(body);
      expect([response.status, response.text]).toEqual([201, response.text]);
      expect(response.body).toMatchObject({ inserted_rows: 1, quarantined_rows: 3 });
      const kept = await list();
      expect(kept.map(({ record }) => record)).toEqual(['{"\\u0000x":1}', '{"\\ud800":1}', `{"${long}":1}`]);
      expect(kept.map(({ errors }) => errors[0]?.column)).toEqual(['\\u0000x', '\\ud800', `${'k'.repeat(62)}…`]);
    });

    it('replays as many records at a time as fit if it sets a large value', async () => {
      await insert(Array.from({ length: 60 }, (_, i) => ({ email: `${i}`, age: 'x' })));
      const set = { age: 1, note: 'n'.repeat(9 * 1024 * 1024) };
      const response = await replay({ table: 'people', set });
      expect([response.status, response.body.inserted_rows]).toEqual([200, 1]);
      expect(response.body.next).toEqual(expect.any(String));
      expect(await list()).toHaveLength(59);
    });

    it('replays with objects and arrays, and keeps the digits of numbers', async () => {
      await insert([{ email: 'a', age: 'x' }]);
      const response = await replay(
        `{"table":"people","set":{"age":9007199254740993,"note":{"list":[1.50, {"a":null}]}}}`,
      );
      expect(response.body).toMatchObject({ inserted_rows: 1 });
      expect(await rows('age::text, note::text')).toEqual([
        { age: '9007199254740993', note: '{"list": [1.50, {"a": null}]}' },
      ]);
    });

    it('names the bad column of every record, and counts all errors', async () => {
      await insert([{ email: 'there' }]);
      const { body } = await insert(Array.from({ length: 120 }, () => ({ email: 'there' })));
      expect(body).toMatchObject({ quarantined_rows: 120, error_count: 120, errors: { length: 50 } });
      expect(await list('&column=email')).toHaveLength(120);
      const wrong = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`wrong${i}`, 1]));
      expect((await insert([wrong])).body).toMatchObject({ quarantined_rows: 1, error_count: 60 });
    });

    it('names the bad columns of 5,000 values that only Postgres can judge, and only the record for the others', async () => {
      const names = Array.from({ length: 500 }, (_, i) => `c${i}`);
      await project.rows(`CREATE TABLE broad (${names.map((name) => `${name} int`).join()})`);
      const record = Object.fromEntries(names.map((name) => [name, 'x']));
      const batch = Array.from({ length: 14 }, () => record);
      const path = '/api/cdp/data/broad?on_error=quarantine';
      const { body } = await project.call('POST', path, { body: batch });
      expect(body).toMatchObject({ inserted_rows: 0, quarantined_rows: 14, error_count: 10 * 500 + 4 });
    });

    it('finds records by one column of a constraint that has several', async () => {
      await insert([
        { a: 1, b: 1 },
        { a: 1, b: 1 },
      ]);
      expect(await list('&column=a')).toMatchObject([{ errors: [{ columns: ['a', 'b'] }] }]);
      expect(await list('&column=b')).toHaveLength(1);
      expect(await list('&column=email')).toHaveLength(0);
    });

    it('counts in a dry run the rows that would be stored, and not those that were only tried', async () => {
      await insert([{ email: '7' }]);
      const batch = Array.from({ length: 250 }, (_, i) => ({ email: `${i}` }));
      const { body } = await insert(batch, '&dry_run=true');
      expect(body).toMatchObject({
        ...{ inserted_rows: 249, quarantined_rows: 1 },
        impact: { rows: [{ table: 'people', inserted: 249, updated: 0, deleted: 0 }] },
      });
      expect((await insert(batch.slice(0, 8))).body).toMatchObject({ inserted_rows: 7 });
      await project.rows("DELETE FROM people WHERE email <> '7'");
      await insert([{ email: '7' }, { email: '8', age: 'x' }]);
      const replayed = await replay({ table: 'people', set: { age: 1 } }, '?dry_run=true');
      expect(replayed.body).toMatchObject({
        ...{ inserted_rows: 1, refused_rows: 2 },
        impact: { rows: [{ table: 'people', inserted: 1, updated: 0, deleted: 0 }] },
      });
      expect(await rows()).toEqual([{ email: '7', age: null }]);
      expect(await list()).toHaveLength(3);
    });

    it('upserts no record after a later one with its key', async () => {
      await insert([{ email: 'a' }]);
      const { body } = await insert(
        [
          { email: 'a', age: 1, boss: 'late' },
          { email: 'a', age: 2 },
          { email: 'late', age: 3 },
          { email: 'b', boss: 'nobody' },
        ],
        '&on_conflict=email',
      );
      expect(body).toMatchObject({ quarantined_rows: 2 });
      expect(await rows()).toEqual([
        { email: 'a', age: 2 },
        { email: 'late', age: 3 },
      ]);
    });

    it('deletes records that are too old, by filter or in the next cleanup', async () => {
      for (const clear of [
        () => project.call('DELETE', '/api/cdp/quarantine?all=true'),
        () => project.call('DELETE', '/api/cdp/quarantine?table=others'),
        () => replay({ table: 'people' }),
      ]) {
        await insert([{ age: 'x' }]);
        await makeOld();
        expect([await list(), await keptInAll()]).toEqual([[], 1]);
        expect((await clear()).status).toBe(200);
        expect(await keptInAll()).toBe(0);
      }
    });

    it('needs few statements to find one bad record of 250', async () => {
      await project.rows(
        `CREATE TABLE counted (k int UNIQUE); CREATE SEQUENCE statements;
         CREATE FUNCTION count_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('statements'); RETURN NULL; END $$;
         CREATE TRIGGER count_it BEFORE INSERT ON counted FOR EACH STATEMENT EXECUTE FUNCTION count_it();
         INSERT INTO counted VALUES (77)`,
      );
      const body = Array.from({ length: 250 }, (_, k) => ({ k }));
      const response = await project.call('POST', '/api/cdp/data/counted?on_error=quarantine', { body });
      expect(response.body).toMatchObject({ inserted_rows: 249, quarantined_rows: 1 });
      const [statements] = await project.rows('SELECT last_value AS n FROM statements');
      expect(Number(statements?.n)).toBeLessThan(40);
    });
  });

  describe('refuses', () => {
    it('a replay whose set is not an object', async () => {
      expectFailure(await replay({ table: 'people', set: [1] }), 400, 'invalid_request');
      expectFailure(await replay('{"table":"people","set":{"age":1,"age":2}}'), 400, 'invalid_json');
    });
  });

  describe('protects', () => {
    it('the quarantine from operators of the project that a trigger puts first', async () => {
      const own = await service.project();
      await own.rows(
        `CREATE FUNCTION never(a text, b text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
         CREATE FUNCTION never(a uuid, b uuid) RETURNS boolean LANGUAGE sql AS 'SELECT false';
         CREATE OPERATOR = (LEFTARG = text, RIGHTARG = text, FUNCTION = never);
         CREATE OPERATOR = (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = never);
         CREATE TABLE traps (k int);
         CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN PERFORM set_config('search_path', 'data, pg_catalog', true); RETURN NEW; END $$;
         CREATE TRIGGER trap BEFORE INSERT ON traps FOR EACH ROW EXECUTE FUNCTION trap()`,
      );
      const send = async (path: string, body: unknown) => (await own.call('POST', `/api/cdp/${path}`, { body })).body;
      const kept = async () => (await own.call('GET', '/api/cdp/quarantine')).body.records;
      expect(await send('data/traps?on_error=quarantine', [{ k: 1 }, { k: 'x' }])).toMatchObject({
        quarantined_rows: 1,
      });
      expect(await kept()).toMatchObject([{ record: '{"k":"x"}' }]);
      expect(await send('quarantine/replay', { table: 'traps', set: { k: 1 } })).toMatchObject({ inserted_rows: 1 });
      expect(await kept()).toEqual([]);
    });
  });
});
