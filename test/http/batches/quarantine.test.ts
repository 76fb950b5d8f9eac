/**
 * Inserts with on_error=quarantine: good records are stored, the others kept with what is wrong, to be stored later.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { embeddedServer } from '../../support/postgres.js';
import {
  expectFailure,
  onServer,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

describe.each([embeddedServer()])('on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    await project.table('people', { email: 'TEXT', age: 'INTEGER' });
    await project.rows(
      `ALTER TABLE people ADD UNIQUE (email), ADD boss text REFERENCES people (email), ADD CHECK (age < 150)`,
    );
  });
  beforeEach(async () => {
    await project.rows('DELETE FROM people');
    await project.call('DELETE', '/api/cdp/quarantine?all=true');
  });
  afterAll(() => service.close());

  const insert = (body: unknown, query = '', headers = {}) =>
    project.call('POST', `/api/cdp/data/people?on_error=quarantine${query}`, { body, headers });
  const list = async (query = '') => (await project.call('GET', `/api/cdp/quarantine${query}`)).body.records as Kept[];
  const replay = (body: object) =>
    project.call('POST', '/api/cdp/quarantine/replay', { body: { table: 'people', ...body } });
  const people = () => project.rows('SELECT email, age FROM people ORDER BY email');
  interface Kept {
    id: string;
    record: string;
    errors: { column?: string; error: string; message: string }[];
    idempotency_key: string | null;
  }

  describe('works', () => {
    it('stores the good records and keeps the others as they were sent, with all their errors', async () => {
      const body = `[{"email":"a","age":1},{"email":"b", "age":"x", "nme":1.50}, 7, {"email":"c","email":"d"},{"email":"e","age":200},{"email":"f"}]`;
      const response = await insert(body, '', { 'idempotency-key': 'k1' });
      expect(response.status).toBe(201);
      expect(response.body).toMatchObject({ inserted_rows: 2, quarantined_rows: 4, error_count: 5 });
      expect(response.body.message).toBe('2 records inserted, 4 quarantined');
      expect((response.body.errors as { record: number }[]).map(({ record }) => record)).toEqual([1, 1, 2, 3, 4]);
      expect(await people()).toEqual([
        { email: 'a', age: 1 },
        { email: 'f', age: null },
      ]);
      const kept = await list();
      expect(kept.map(({ record }) => record)).toEqual([
        '{"email":"b", "age":"x", "nme":1.50}',
        '7',
        '{"email":"c","email":"d"}',
        '{"email":"e","age":200}',
      ]);
      expect(kept.map(({ errors }) => errors.map(({ error }) => error))).toEqual([
        ['invalid_value', 'unknown_column'],
        ['invalid_request'],
        ['invalid_json'],
        ['constraint_violation'],
      ]);
      expect(kept[0]?.errors[0]?.message).toBe('Column "age": "x" is not an integer');
      expect(kept[0]?.idempotency_key).toBe('k1');
    });

    it('resets the session only after writes that may have run code of the project', async () => {
      await project.table('owners', { email: 'TEXT', age: 'INTEGER' });
      // The trigger of this key runs if "owners" is updated, and not if rows are inserted.
      await project.rows(
        'ALTER TABLE owners ADD UNIQUE (email); CREATE TABLE pets (owner text REFERENCES owners (email))',
      );
      const { placement } = await service.engine.projects.get(project.name);
      const lastQuery = () =>
        onServer(server, async (client) => {
          const { rows } = await client.query<{ query: string }>(
            'SELECT query FROM pg_stat_activity WHERE datname = $1 ORDER BY state_change DESC LIMIT 1',
            [placement.database],
          );
          return rows[0]?.query;
        });
      const send = (age: unknown, query = '') =>
        project.call('POST', `/api/cdp/data/owners?on_error=quarantine${query}`, { body: [{ email: 'a', age }] });
      await send('x');
      expect(await lastQuery()).toBe('COMMIT');
      expect((await replay({ table: 'owners', set: { age: 1 } })).body.inserted_rows).toBe(1);
      expect(await lastQuery()).toBe('COMMIT');
      expect((await send(2, '&on_conflict=email')).body.updated_rows).toBe(1);
      expect(await lastQuery()).not.toBe('COMMIT');
      await project.rows('DROP TABLE owners, pets');
    });

    it('answers a batch of good records like any other, with 0 refused records', async () => {
      const { body } = await insert([{ email: 'a' }]);
      expect(body).toEqual({ success: true, inserted_rows: 1, quarantined_rows: 0, message: '1 record inserted' });
    });

    it('finds what only Postgres refuses: duplicates in the batch and in the table, missing keys; later records may be referenced', async () => {
      await insert([{ email: 'there' }]);
      const many = Array.from({ length: 200 }, (_, i) => ({ email: `p${i}` }));
      const bad = [{ email: 'p7' }, { email: 'there' }, { email: 'q', boss: 'nobody' }, { email: 'r', boss: 'p199' }];
      const { body } = await insert([...bad.slice(2), ...many, ...bad.slice(0, 2)]);
      expect(body).toMatchObject({ inserted_rows: 201, quarantined_rows: 3 });
      expect((await list()).map(({ record }) => JSON.parse(record) as unknown)).toEqual([bad[2], bad[0], bad[1]]);
    });

    it('upserts', async () => {
      await insert([{ email: 'a', age: 1 }]);
      const { body } = await insert(
        [
          { email: 'a', age: 2 },
          { email: 'b', age: 'x' },
        ],
        '&on_conflict=email',
      );
      expect(body).toMatchObject({ inserted_rows: 0, updated_rows: 1, quarantined_rows: 1 });
      expect(await people()).toEqual([{ email: 'a', age: 2 }]);
    });

    it('stores and keeps nothing twice on a repeat with its Idempotency-Key', async () => {
      const send = () => insert([{ email: 'a' }, { age: 'x' }], '', { 'idempotency-key': 'again' });
      const first = await send();
      const repeat = await send();
      expect(repeat.text).toBe(first.text);
      expect([await people(), await list()]).toMatchObject([{ length: 1 }, { length: 1 }]);
    });

    it('lists by table, code, column and time, in pages', async () => {
      await insert([{ age: 'x' }, { nme: 1 }, { email: 'a', age: 200 }]);
      expect(await list('?column=age&error=invalid_value')).toHaveLength(1);
      expect(await list('?error=unknown_column')).toMatchObject([{ record: '{"nme":1}' }]);
      expect(await list('?table=others')).toEqual([]);
      expect(await list('?until=2020-01-01T00:00:00Z')).toEqual([]);
      const first = (await project.call('GET', '/api/cdp/quarantine?limit=2')).body as {
        records: Kept[];
        next: string;
      };
      const rest = (await project.call('GET', `/api/cdp/quarantine?limit=2&after=${first.next}`)).body;
      expect([first.records.length, rest.records, rest.next]).toMatchObject([2, { length: 1 }, null]);
      // For those who know SQL.
      expect(await project.rows('SELECT record FROM _cdp.quarantine')).toHaveLength(3);
    });

    it('replays what is now valid exactly once, and says what still fails', async () => {
      await insert([
        { emial: 'a', age: 1 },
        { emial: 'b', age: 'x' },
        { emial: 'c', age: 'y' },
      ]);
      const responses = await Promise.all([1, 2, 3].map(() => replay({ rename: { emial: 'email' } })));
      expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
      expect(responses.reduce((sum, { body }) => sum + Number(body.inserted_rows), 0)).toBe(1);
      const [b, c] = await list();
      expect([b, c]).toMatchObject([{ record: expect.stringContaining('"b"') as string }, { errors: { length: 2 } }]);
      const fixed = await replay({ id: b?.id, rename: { emial: 'email' }, set: { age: 5 } });
      expect(fixed.body).toMatchObject({ inserted_rows: 1, refused_rows: 0, next: null });
      const failed = await replay({ rename: { emial: 'email' } });
      expect(failed.body).toMatchObject({
        ...{ inserted_rows: 0, refused_rows: 1 },
        errors: [{ id: c?.id, errors: [{ column: 'age', message: 'Column "age": "y" is not an integer' }] }],
      });
      expect(await people()).toEqual([
        { email: 'a', age: 1 },
        { email: 'b', age: 5 },
      ]);
    });

    it('deletes by the same filters', async () => {
      await insert([{ age: 'x' }, { nme: 1 }]);
      const tried = await project.call('DELETE', '/api/cdp/quarantine?error=unknown_column&dry_run=true');
      expect(tried.body).toMatchObject({ deleted_rows: 1, dry_run: true });
      expect(await list()).toHaveLength(2);
      const { body } = await project.call('DELETE', '/api/cdp/quarantine?error=unknown_column');
      expect(body).toMatchObject({ deleted_rows: 1 });
      expect(await list()).toMatchObject([{ record: '{"age":"x"}' }]);
    });

    it('forgets records after quarantine-days', async () => {
      await insert([{ age: 'x' }]);
      const own = (await service.engine.projects.list()).find(({ id }) => id === project.id);
      await onServer(
        server,
        (client) => client.query(`UPDATE _cdp.quarantine SET quarantined_at = now() - interval '31 days'`),
        own?.placement.database ?? '',
      );
      expect(await list()).toEqual([]);
      await insert([{ age: 'y' }]);
      expect(await project.rows('SELECT record FROM _cdp.quarantine')).toEqual([{ record: '{"age":"y"}' }]);
    });
  });

  describe('refuses', () => {
    it('an invalid batch, a missing table, and return=ids', async () => {
      expectFailure(await insert('[{'), 400, 'invalid_json');
      expectFailure(await insert([]), 400, 'empty_batch');
      expectFailure(
        await project.call('POST', '/api/cdp/data/none?on_error=quarantine', { body: [{}] }),
        404,
        'table_not_found',
      );
      expectFailure(await insert([{}], '&return=ids'), 400, 'invalid_request');
      expectFailure(await insert([{}], '&on_conflict=age'), 400, 'invalid_request');
      expect(await list()).toEqual([]);
    });

    it('keeps the hint of a trigger, and lets SQL mend the records and store them in one statement', async () => {
      await project.rows(`
        CREATE FUNCTION adults() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF NEW.age < 18 THEN RAISE 'too young' USING HINT = 'Ask the parents.'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER adults BEFORE INSERT ON people FOR EACH ROW EXECUTE FUNCTION adults()`);
      const response = await insert([
        { email: 'a', age: 7 },
        { email: 'b', age: '20 years' },
      ]);
      expect((response.body.errors as { hint: string }[])[0]?.hint).toBe('Ask the parents.');
      expect((await list()).map(({ errors }) => errors[0])).toMatchObject([{ hint: 'Ask the parents.' }, {}]);
      const recipe = `WITH mended AS (
          DELETE FROM _cdp.quarantine WHERE table_name = 'people' AND errors @> '[{"column": "age"}]'
          RETURNING record::jsonb AS r)
        INSERT INTO people (email, age)
        SELECT r->>'email', substring(r->>'age' FROM '\\d+')::bigint FROM mended`;
      expect((await project.call('POST', '/api/cdp/sql', { body: { sql: recipe } })).body).toMatchObject({
        success: true,
        row_count: 1,
      });
      expect(await people()).toEqual([{ email: 'b', age: 20 }]);
      expect(await list()).toHaveLength(1);
      await project.rows('DROP FUNCTION adults CASCADE');
    });

    it('an unknown error code in a filter, and suggests a similar one', async () => {
      await insert([{ age: 'x' }]);
      const unknown = 'error=invalid_vlaue';
      const read = expectFailure(await project.call('GET', `/api/cdp/quarantine?${unknown}`), 400, 'invalid_request');
      expect([read.message, read.hint]).toEqual([
        'There is no error code "invalid_vlaue"',
        'Did you mean "invalid_value"?',
      ]);
      expectFailure(await project.call('DELETE', `/api/cdp/quarantine?${unknown}`), 400, 'invalid_request');
      expectFailure(await replay({ error: 'constructor' }), 400, 'invalid_request');
      expect(await list()).toHaveLength(1);
    });

    it('to delete everything unless explicitly asked', async () => {
      expectFailure(await project.call('DELETE', '/api/cdp/quarantine?dry_run=true'), 400, 'invalid_request');
      expectFailure(await project.call('DELETE', '/api/cdp/quarantine'), 400, 'invalid_request');
    });
  });

  describe('protects', () => {
    it('values of others from a token without read access', async () => {
      const write = await project.tokenWith('data:write');
      await insert([{ email: 'secret', age: 'x' }]);
      const call = (method: string, path: string, body: unknown) => project.call(method, path, { body, token: write });
      const body = { table: 'people', rename: { email: 'age', age: 'email' } };
      const replayed = await call('POST', '/api/cdp/quarantine/replay', body);
      expect(replayed.body).toMatchObject({ refused_rows: 1, errors: [] });
      await project.rows(`ALTER TABLE people ADD secret text`);
      await insert([{ email: 'a', age: 1, secret: 'TOP SECRET' }]);
      const refused = await call('POST', '/api/cdp/data/people?on_conflict=email', [{ email: 'a', age: 200 }]);
      expect(refused.status).toBe(400);
      expect(refused.text).not.toContain('TOP SECRET');
      await project.rows('ALTER TABLE people DROP secret');
    });

    it('a wrong record from a replay with other names or values: a typo there is an error', async () => {
      await insert([{ age: 'x' }]);
      expectFailure(await replay({ set: { nope: 1 }, rename: { age: 'ega' } }), 400, 'unknown_column');
      await replay({ set: { email: 'a' }, rename: { age: 'boss' } });
      expect(await list('?error=invalid_value&column=age')).toHaveLength(1);
    });

    it('records of a table that is renamed', async () => {
      await project.table('before', { a: 'INTEGER' });
      await project.call('POST', '/api/cdp/data/before?on_error=quarantine', { body: [{ a: 'x' }] });
      await project.call('PUT', '/api/cdp/schema/table/before', { body: { new_name: 'after' } });
      expect(await list('?table=after')).toHaveLength(1);
    });

    it('records from other projects', async () => {
      await insert([{ age: 'x' }]);
      const other = await service.project();
      expect((await other.call('GET', '/api/cdp/quarantine')).body.records).toEqual([]);
    });

    it('records from changes by a reader', async () => {
      const sql = "INSERT INTO _cdp.quarantine (table_name, record, errors) VALUES ('people', '{}', '[]')";
      const response = await project.call('POST', '/api/cdp/sql', { body: { sql, read_only: true } });
      expectFailure(response, 403, 'permission_denied');
    });
  });
});
