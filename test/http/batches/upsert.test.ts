/** Upsert over HTTP: records that update the rows with the same key. */
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { testServers } from '../../support/postgres.js';
import {
  expectFailure,
  inProject,
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
    await project.table('people', { email: 'TEXT', name: 'TEXT', age: 'INTEGER' });
    await project.rows(
      `CREATE UNIQUE INDEX ON people (email); ALTER TABLE people ADD level int NOT NULL DEFAULT 1 CHECK (level < 10)`,
    );
  });
  beforeEach(() => project.rows('DELETE FROM people'));
  afterAll(() => service.close());

  const ADA = { email: 'ada@example.com', name: 'Ada', age: 36, level: 3 };
  const upsert = (body: unknown, query = 'on_conflict=email', path = '/api/cdp/data/people', headers = {}) =>
    project.call('POST', `${path}?${query}`, { body, headers });
  const people = () => project.rows('SELECT email, name, age, level FROM people ORDER BY email');
  const counts = ({ body }: { body: Record<string, unknown> }) => [
    body.inserted_rows,
    body.updated_rows,
    body.ignored_rows,
  ];

  describe('works', () => {
    it.each([
      ['merge', [1, 1, 0], [{ ...ADA, age: 37 }]],
      ['replace', [1, 1, 0], [{ email: ADA.email, name: null, age: 37, level: 1 }]],
      ['ignore', [1, 0, 1], [ADA]],
    ])('%s', async (resolution, expected, [ada]) => {
      expect((await upsert([ADA])).body).toEqual({
        ...{ success: true, inserted_rows: 1, updated_rows: 0, ignored_rows: 0 },
        message: '1 record inserted, 0 updated, 0 ignored',
      });
      const bob = { email: 'bob@example.com', age: 1 };
      const response = await upsert([{ email: ADA.email, age: 37 }, bob], `on_conflict=email&resolution=${resolution}`);
      expect(response.status).toBe(201);
      expect(counts(response)).toEqual(expected);
      expect(await people()).toEqual([ada, { ...bob, name: null, level: 1 }]);
    });

    describe('changes a row by a record that lacks a column on which a constraint depends', () => {
      const plans = () => project.rows('SELECT k, name, plan, phone FROM plans ORDER BY k');
      const ANN = { k: 1, name: 'Ann', plan: 'free', phone: '1' };
      const change = (body: object[], query: string) => upsert(body, query, '/api/cdp/data/plans');
      beforeEach(async () => {
        await project.rows(`CREATE TABLE plans (k bigint PRIMARY KEY, name text NOT NULL, plan text, phone text, email text,
          CHECK (plan <> 'pro' OR phone IS NOT NULL OR email IS NOT NULL), CHECK (phone IS NOT NULL OR email IS NOT NULL))`);
        await change([ANN], 'on_conflict=k');
      });
      afterEach(() => project.rows('DROP TABLE plans'));

      it('merge', async () => {
        const response = await change([{ k: 1, plan: 'pro' }], 'on_conflict=k');
        expect(counts(response)).toEqual([0, 1, 0]);
        expect(await plans()).toEqual([{ ...ANN, plan: 'pro' }]);
        const ben = { k: 2, name: 'Ben', plan: null, phone: '2' };
        expect(counts(await change([ben, { k: 2, plan: 'x' }, { k: 1, plan: 'y' }], 'on_conflict=k'))).toEqual([
          1, 2, 0,
        ]);
        expect(await plans()).toEqual([
          { ...ANN, plan: 'y' },
          { ...ben, plan: 'x' },
        ]);
      });

      it('ignore', async () => {
        const response = await change([{ k: 1, plan: 'pro' }], 'on_conflict=k&resolution=ignore');
        expect(counts(response)).toEqual([0, 0, 1]);
        expect(await plans()).toEqual([ANN]);
      });

      it('merge, with a quarantine for those without a row', async () => {
        const records = [
          { k: 1, plan: 'pro' },
          { k: 3, plan: 'pro' },
        ];
        const { body } = await change(records, 'on_conflict=k&on_error=quarantine');
        expect(body).toMatchObject({ inserted_rows: 0, updated_rows: 1, quarantined_rows: 1 });
        expect(body.errors).toMatchObject([{ record: 1, column: 'name' }]);
      });

      it.each(['merge', 'ignore', 'replace'])('%s: but inserts no such row', async (resolution) => {
        const response = await change([{ k: 3, plan: 'pro' }], `on_conflict=k&resolution=${resolution}`);
        const { errors } = expectFailure(response, 400, 'constraint_violation');
        expect(errors).toMatchObject([{ record: 0, column: 'name' }]);
        expect(await plans()).toEqual([ANN]);
      });

      it('merge: but not one that is deleted meanwhile', async () => {
        const { placement } = await service.engine.projects.get(project.name);
        await inProject(service, placement, async (client) => {
          await client.query('BEGIN; DELETE FROM data.plans WHERE k = 1');
          const changing = change([{ k: 1, plan: 'pro' }], 'on_conflict=k');
          const waiting = 'SELECT FROM pg_locks WHERE NOT granted';
          await expect.poll(async () => (await client.query(waiting)).rowCount, { timeout: 60_000 }).toBe(1);
          await client.query('COMMIT');
          const { errors } = expectFailure(await changing, 400, 'constraint_violation');
          expect(errors).toMatchObject([{ record: 0, column: 'name' }]);
        });
        expect(await plans()).toEqual([]);
      });
    });

    it('stores what the records would store one by one', async () => {
      const key = fc.constantFrom('a', 'b', 'c', null);
      const record = fc.record(
        { email: key, name: fc.constantFrom('x', 'y', null), age: fc.integer({ min: 0, max: 9 }) },
        { requiredKeys: [] },
      );
      const batches = fc.array(fc.array(record, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 3 });
      const resolution = fc.constantFrom('merge', 'replace', 'ignore');
      const stored = () => project.rows('SELECT email, name, age, level FROM people ORDER BY 1, 2, 3');
      await fc.assert(
        fc.asyncProperty(batches, resolution, async (all, how) => {
          const query = `on_conflict=email&resolution=${how}`;
          const run = async (each: object[][]) => {
            await project.rows('DELETE FROM people');
            const sum = [0, 0, 0];
            for (const batch of each) counts(await upsert(batch, query)).forEach((n, i) => (sum[i]! += Number(n)));
            return { rows: await stored(), sum };
          };
          expect(await run(all)).toEqual(await run(all.flat().map((one) => [one])));
        }),
        { numRuns: 12, seed: 7 },
      );
    });

    it('with keys compared by their type: citext, uuid, timestamps with offsets, keys of several columns', async () => {
      await project.rows(
        `CREATE TABLE typed (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at timestamptz, day date, note text, extra int,
           UNIQUE (at, day))`,
      );
      const typed = (records: object[], on = 'at,day') => upsert(records, `on_conflict=${on}`, '/api/cdp/data/typed');
      const same = [
        { at: '2026-01-01T12:00:00Z', day: '2026-01-01', note: 'first' },
        { day: 'January 1, 2026', at: '2026-01-01T13:00:00+01:00', note: 'second', extra: 1 },
        { at: '2026-01-01 12:00:00', day: '2026-01-01', note: 'third' },
      ];
      expect(counts(await typed(same))).toEqual([1, 2, 0]);
      expect(await project.rows('SELECT note, extra FROM typed')).toEqual([{ note: 'third', extra: 1 }]);
      const [row] = await project.rows('SELECT id FROM typed');
      const id = String(row?.id);
      expect(
        counts(
          await typed(
            [
              { id, note: 'a' },
              { id: id.toUpperCase(), note: 'b', extra: 2 },
            ],
            'id',
          ),
        ),
      ).toEqual([0, 2, 0]);
      expect(await project.rows('SELECT id, note, extra FROM typed')).toEqual([{ id, note: 'b', extra: 2 }]);
    });

    it('into a partitioned table', async () => {
      await project.rows(
        `CREATE TABLE parts (k int PRIMARY KEY, v int) PARTITION BY RANGE (k);
         CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10);
         CREATE TABLE high (v int, k int NOT NULL);
         ALTER TABLE parts ATTACH PARTITION high FOR VALUES FROM (10) TO (20)`,
      );
      const parts = (records: object[]) => upsert(records, 'on_conflict=k', '/api/cdp/data/parts');
      expect(counts(await parts([{ k: 1 }, { k: 11 }, { k: 1, v: 1 }]))).toEqual([2, 1, 0]);
      expect(
        counts(
          await parts([
            { k: 1, v: 2 },
            { k: 11, v: 3 },
            { k: 12, v: 4 },
          ]),
        ),
      ).toEqual([1, 2, 0]);
      expect(await project.rows('SELECT k, v FROM parts ORDER BY k')).toEqual([
        { k: 1, v: 2 },
        { k: 11, v: 3 },
        { k: 12, v: 4 },
      ]);
    });

    it.each(['merge', 'ignore'])('returns the ids of all rows in record order (%s)', async (resolution) => {
      await upsert([ADA]);
      const emails = ['zoe@example.com', ADA.email, 'bob@example.com', 'zoe@example.com'];
      const response = await upsert(
        emails.map((email, age) => ({ email, age })),
        `on_conflict=email&resolution=${resolution}&return=ids`,
      );
      const byEmail = new Map((await project.rows('SELECT email, id FROM people')).map(({ email, id }) => [email, id]));
      expect(response.body.ids).toEqual(emails.map((email) => byEmail.get(email)));
    });

    it('once for each Idempotency-Key; the same key with another resolution is refused', async () => {
      const send = (query: string) => upsert([ADA], query, undefined, { 'idempotency-key': 'upsert-1' });
      const first = await send('on_conflict=email');
      await upsert([{ ...ADA, age: 40 }]);
      const repeat = await send('on_conflict=email');
      expect(repeat.text).toBe(first.text);
      expect(await people()).toEqual([{ ...ADA, age: 40 }]);
      expectFailure(await send('on_conflict=email&resolution=ignore'), 422, 'idempotency_key_reused');
    });

    it('twice at once with the same rows in opposite order, repeatedly', async () => {
      const batch = Array.from({ length: 50 }, (_, i) => ({ email: `${i}@example.com`, age: i }));
      const responses = await Promise.all(
        Array.from({ length: 12 }, (_, i) => upsert(i % 2 === 0 ? batch : batch.toReversed())),
      );
      expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 201));
      expect(responses.reduce((sum, { body }) => sum + Number(body.inserted_rows), 0)).toBe(50);
    });
  });

  describe('refuses', () => {
    it('a key without a unique index, and names the request that creates one', async () => {
      const { status, body } = await upsert([ADA], 'on_conflict=name,age');
      expect(status).toBe(400);
      expect(body).toMatchObject({
        error: 'invalid_request',
        hint: 'POST /api/cdp/schema/table/people/index {"columns":["name","age"],"unique":true} creates one.',
      });
    });

    it('columns that do not exist, all of them', async () => {
      const { body } = await upsert([ADA], 'on_conflict=emial,nothing');
      expect(body).toMatchObject({
        error: 'unknown_column',
        errors: [{ column: 'emial', hint: 'Did you mean "email"?' }, { column: 'nothing' }],
      });
    });

    it.each(['resolution=merge', 'on_conflict=email&resolution=overwrite', 'on_conflict='])('%s', async (query) => {
      expectFailure(await upsert([ADA], query), 400, 'invalid_request');
    });

    it('records that Postgres rejects, by number, and changes nothing', async () => {
      await upsert([ADA]);
      const response = await upsert([
        { email: ADA.email, age: 1 },
        { email: ADA.email, level: 10 },
        { email: 'b', level: 11 },
      ]);
      expect(response.status).toBe(400);
      expect(response.body.errors).toMatchObject([{ record: 1 }, { record: 2 }]);
      expect(await people()).toEqual([ADA]);
    });

    it('a key that another index already contains, with the detail if the record gives all columns of that key', async () => {
      await project.rows(`CREATE TABLE badges (k int PRIMARY KEY, badge text UNIQUE, site text DEFAULT 'hidden', room int,
          UNIQUE (site, room));
        INSERT INTO badges VALUES (1, 'one', 'secret', 1), (2, 'two', 'secret', 2)`);
      const change = (record: object) => upsert([record], 'on_conflict=k', '/api/cdp/data/badges');
      const given = expectFailure(await change({ k: 2, badge: 'one' }), 409, 'unique_violation');
      expect(given.postgres?.detail).toBe('Key (badge)=(one) already exists.');
      expect(given.errors).toMatchObject([{ record: 0, column: 'badge' }]);
      // The row keeps a part of that key which the caller has not sent.
      const hidden = await change({ k: 2, room: 1 });
      expect(expectFailure(hidden, 409, 'unique_violation').errors).toMatchObject([{ columns: ['site', 'room'] }]);
      expect(hidden.text).not.toMatch(/secret|Key \(/);
      await project.rows(`CREATE TRIGGER mark BEFORE UPDATE ON badges FOR EACH ROW
        EXECUTE FUNCTION suppress_redundant_updates_trigger()`);
      const triggered = expectFailure(await change({ k: 2, badge: 'one' }), 409, 'unique_violation');
      expect(triggered.postgres?.detail).toBeUndefined();
    });

    it('a record that violates a deferred constraint, by number, with an Idempotency-Key or without', async () => {
      await project.rows(`CREATE TABLE pets (tag bigint PRIMARY KEY, owner text REFERENCES people (email)
        DEFERRABLE INITIALLY DEFERRED)`);
      await upsert([ADA]);
      const pets = [
        { tag: 1, owner: ADA.email },
        { tag: 2, owner: 'nobody' },
      ];
      for (const headers of [{}, { 'idempotency-key': 'pets' }]) {
        const response = await upsert(pets, 'on_conflict=tag', '/api/cdp/data/pets', headers);
        expect(expectFailure(response, 400, 'constraint_violation').errors).toMatchObject([{ record: 1 }]);
      }
      expect(await project.rows('DELETE FROM pets RETURNING tag')).toEqual([]);
      await project.rows('DROP TABLE pets');
    });

    it('a view', async () => {
      await project.rows('CREATE OR REPLACE VIEW seen AS SELECT * FROM people');
      expectFailure(await upsert([ADA], 'on_conflict=email', '/api/cdp/data/seen'), 400, 'invalid_request');
    });
  });

  describe('deletes by key', () => {
    const remove = (body: unknown, by = 'email', headers = {}) =>
      project.call('DELETE', `/api/cdp/data/people?by=${by}`, { body, headers });

    it('the rows with the given keys, and returns their number', async () => {
      await upsert([ADA, { email: 'b' }, { email: 'c' }]);
      const response = await remove([{ email: 'c' }, { email: ADA.email }, { email: 'nobody' }]);
      expect(response.body).toEqual({ success: true, deleted_rows: 2, message: '2 records deleted' });
      expect(await people()).toMatchObject([{ email: 'b' }]);
    });

    it('once for each Idempotency-Key', async () => {
      const send = () => remove([{ email: 'b' }], 'email', { 'idempotency-key': 'delete-1' });
      await upsert([{ email: 'b' }]);
      const first = await send();
      await upsert([{ email: 'b' }]);
      const repeat = await send();
      expect([repeat.text, repeat.headers.get('idempotency-replayed')]).toEqual([first.text, 'true']);
      expect(await people()).toMatchObject([{ email: 'b' }]);
    });

    it('refuses records that are not keys, all of them', async () => {
      await upsert([ADA]);
      const response = await remove([{ email: ADA.email }, { email: null }, { email: 'b', age: 1 }, {}]);
      expect(response.body.errors).toMatchObject([
        { record: 1, column: 'email', error: 'invalid_value' },
        { record: 2, column: 'age', error: 'invalid_request' },
        { record: 3, column: 'email', error: 'invalid_value' },
      ]);
      expectFailure(await remove([{ name: 'Ada' }], 'name'), 400, 'invalid_request');
      expect(await people()).toEqual([ADA]);
    });
  });

  describe('protects', () => {
    it('the next request from session changes of an update trigger', async () => {
      await project.rows(
        `CREATE TABLE watched (k int PRIMARY KEY, seen text DEFAULT current_setting('app.mark', true));
         CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN PERFORM set_config('app.mark', 'left behind', false); RETURN NEW; END $$;
         CREATE TRIGGER mark BEFORE UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION mark()`,
      );
      const path = '/api/cdp/data/watched';
      for (const k of [1, 1, 2, 2, 3]) await upsert([{ k }], 'on_conflict=k&resolution=merge', path);
      const marks = await project.rows("SELECT k FROM watched WHERE seen <> ''");
      expect(marks).toEqual([]);
    });
  });
});
