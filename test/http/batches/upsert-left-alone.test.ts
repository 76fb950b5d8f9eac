/** Upserts that leave rows alone: equal rows, and rows that are newer; and that merge objects. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
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
    await project.table('people', { email: 'TEXT', name: 'TEXT', age: 'INTEGER', traits: 'JSONB', at: 'TIMESTAMP' });
    await project.rows(`CREATE UNIQUE INDEX ON people (email);
      CREATE TABLE odd (k text PRIMARY KEY, price numeric(14,2), code varchar(3), pad char(3), place point, raw json,
        day date, list int[], gone text DEFAULT 'x', twice int GENERATED ALWAYS AS (length(k) * 2) STORED)`);
  });
  beforeEach(() => project.rows('DELETE FROM people; DELETE FROM odd'));
  afterAll(() => service.close());

  const ADA = {
    email: 'ada@example.com',
    name: 'Ada',
    age: 36,
    traits: { a: 1, b: [1.5] },
    at: '2026-01-01T00:00:00Z',
  };
  const BOB = { ...ADA, email: 'bob@example.com', name: null };
  const send = (body: unknown, query: string, table = 'people', headers = {}) =>
    project.call('POST', `/api/cdp/data/${table}?${query}`, { body, headers });
  const counts = ({ body }: { body: Record<string, unknown> }) =>
    ['inserted_rows', 'updated_rows', 'ignored_rows', 'unchanged_rows'].map((name) => body[name]);
  /** Where the rows are, and who has locked them last: any write changes it. */
  const marks = (table = 'people') =>
    project.rows(`SELECT ctid::text, xmin::text, xmax::text FROM ${table} ORDER BY 1`);
  const people = () => project.rows('SELECT email, name, age FROM people ORDER BY email');
  const SKIP = 'on_conflict=email&unchanged=skip';

  describe('unchanged=skip', () => {
    it('writes nothing for equal rows', async () => {
      await send([ADA, BOB], 'on_conflict=email');
      const before = await marks();
      const response = await send([ADA, BOB], SKIP);
      expect(response.body).toEqual({
        ...{ success: true, inserted_rows: 0, updated_rows: 0, ignored_rows: 0, unchanged_rows: 2 },
        message: '0 records inserted, 0 updated, 0 ignored, 2 unchanged',
      });
      expect(await marks()).toEqual(before);
      const cyd = { ...ADA, email: 'cyd@example.com' };
      expect(counts(await send([ADA, { ...BOB, name: 'Bob' }, cyd], SKIP))).toEqual([1, 1, 0, 1]);
      expect((await people()).map(({ name }) => name)).toEqual(['Ada', 'Bob', 'Ada']);
    });

    it('compares only what the records have, and with replace the defaults', async () => {
      await send([ADA], 'on_conflict=email');
      expect(counts(await send([{ email: ADA.email, age: 36 }], SKIP))).toEqual([0, 0, 0, 1]);
      expect(counts(await send([{ email: ADA.email }], SKIP))).toEqual([0, 0, 0, 1]);
      expect(counts(await send([ADA], `${SKIP}&resolution=replace`))).toEqual([0, 0, 0, 1]);
      expect(counts(await send([{ email: ADA.email, age: 36 }], `${SKIP}&resolution=replace`))).toEqual([0, 1, 0, 0]);
      expect(counts(await send([{ email: ADA.email, age: 36 }], `${SKIP}&resolution=replace`))).toEqual([0, 0, 0, 1]);
      expect(await people()).toEqual([{ email: ADA.email, name: null, age: 36 }]);
    });

    it('has the result of records that come one by one, if they have the same key', async () => {
      await send([ADA], 'on_conflict=email');
      const records = [ADA, { ...ADA, age: 1 }, ADA, { ...ADA, age: 2 }, ADA];
      expect(counts(await send(records, SKIP))).toEqual([0, 4, 0, 1]);
      expect(await people()).toEqual([{ email: ADA.email, name: 'Ada', age: 36 }]);
      // The second takes back what the first changes, and is equal to the row before both.
      expect(counts(await send([{ ...ADA, age: 1 }, ADA], SKIP))).toEqual([0, 2, 0, 0]);
      expect(await people()).toEqual([{ email: ADA.email, name: 'Ada', age: 36 }]);
    });

    it('works for types that have no equality', async () => {
      const row = {
        ...{ k: 'a', price: 1.5, code: 'abc', pad: 'x', place: '(1,2)', raw: { z: 1, a: 2 } },
        ...{ day: '2026-01-01', list: [1, 2], gone: 'y' },
      };
      const send1 = (body: object[]) => send(body, 'on_conflict=k&unchanged=skip', 'odd');
      expect(counts(await send1([row]))).toEqual([1, 0, 0, 0]);
      expect(counts(await send1([row]))).toEqual([0, 0, 0, 1]);
      const { pad: _, ...others } = row;
      const before = await marks('odd');
      expect(counts(await send1([others]))).toEqual([0, 0, 0, 1]);
      expect(await marks('odd')).toEqual(before);
      for (const [key, value] of Object.entries({ place: '(1,3)', raw: { a: 2, z: 1 }, price: 1.51, list: [1] })) {
        expect(counts(await send1([{ ...row, [key]: value }])), key).toEqual([0, 1, 0, 0]);
        expect(counts(await send1([row])), key).toEqual([0, 1, 0, 0]);
      }
      const replaced = 'on_conflict=k&unchanged=skip&resolution=replace';
      expect(counts(await send([row], replaced, 'odd'))).toEqual([0, 0, 0, 1]);
      expect(counts(await send([{ k: 'a' }], replaced, 'odd'))).toEqual([0, 1, 0, 0]);
      expect(counts(await send([{ k: 'a' }], replaced, 'odd'))).toEqual([0, 0, 0, 1]);
    });

    it('fires no trigger of an equal row', async () => {
      await project.rows(`CREATE TABLE log (n int); CREATE TABLE watched (k text PRIMARY KEY, v int);
        CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (1); RETURN NULL; END';
        CREATE TRIGGER log AFTER UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION log()`);
      const records = [
        { k: 'a', v: 1 },
        { k: 'b', v: 1 },
      ];
      await send(records, 'on_conflict=k', 'watched');
      await send(records, 'on_conflict=k&unchanged=skip', 'watched');
      expect(await project.rows('SELECT FROM log')).toHaveLength(0);
      await send(records, 'on_conflict=k', 'watched');
      expect(await project.rows('SELECT FROM log')).toHaveLength(2);
    });

    it('returns the ids of rows left alone', async () => {
      const first = await send([ADA, BOB], 'on_conflict=email&return=ids');
      const cyd = { ...ADA, email: 'cyd@example.com' };
      const again = await send([BOB, cyd, ADA], `${SKIP}&return=ids`);
      const [ada, bob] = first.body.ids as string[];
      expect((again.body.ids as string[])[0]).toBe(bob);
      expect((again.body.ids as string[])[2]).toBe(ada);
      expect(counts(again)).toEqual([1, 0, 0, 2]);
    });

    it('counts in a dry run, the quarantine and a repeat under the same key', async () => {
      await send([ADA, BOB], 'on_conflict=email');
      const records = [ADA, { ...BOB, age: 7 }, { email: 'x', age: 'old' }];
      expect(counts(await send(records.slice(0, 2), `${SKIP}&dry_run=true`))).toEqual([0, 1, 0, 1]);
      const headers = { 'idempotency-key': 'k1' };
      const stored = await send(records, `${SKIP}&on_error=quarantine`, 'people', headers);
      expect([...counts(stored), stored.body.quarantined_rows]).toEqual([0, 1, 0, 1, 1]);
      const again = await send(records, `${SKIP}&on_error=quarantine`, 'people', headers);
      expect(again.body).toEqual(stored.body);
      const other = await send(records, 'on_conflict=email&on_error=quarantine', 'people', headers);
      expectFailure(other, 422, 'idempotency_key_reused');
      const replay = { table: 'people', set: { ...ADA }, on_conflict: 'email', unchanged: 'skip' };
      const { body } = await project.call('POST', '/api/cdp/quarantine/replay', { body: replay });
      expect(counts({ body })).toEqual([0, 0, 0, 1]);
    });

    it.each(['', '&atomic=true'])('counts in streams%s', async (atomic) => {
      await send([ADA, BOB], 'on_conflict=email');
      const before = await marks();
      const body = [ADA, BOB].map((record) => JSON.stringify(record)).join('\n');
      const headers = { 'content-type': 'application/x-ndjson', 'idempotency-key': `s${atomic}` };
      const stream = () => project.call('POST', `/api/cdp/data/people?${SKIP}${atomic}`, { body, headers });
      const response = await stream();
      expect(response.status).toBe(201);
      expect(counts(response)).toEqual([0, 0, 0, 2]);
      expect(await marks()).toEqual(before);
      expect((await stream()).body).toEqual(response.body);
    });

    it('is exact beside a writer that changes the row', async () => {
      await send([ADA], 'on_conflict=email');
      const { placement } = await service.engine.projects.get(project.name);
      await inProject(service, placement, async (other) => {
        await other.query('BEGIN; UPDATE data.people SET age = 1');
        const sent = send([{ ...ADA, age: 1 }], SKIP);
        const waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        await expect.poll(async () => (await other.query(waits)).rowCount).toBe(1);
        await other.query('COMMIT');
        expect(counts(await sent)).toEqual([0, 0, 0, 1]);
      });
    });
  });

  describe('resolution=newest', () => {
    const NEWEST = 'on_conflict=email&resolution=newest&version=at';
    const at = (time: string | null, age: number) => ({ ...ADA, at: time, age });

    it('keeps the newer of the two, and the stored one if they are equal', async () => {
      await send([at('2026-01-02T00:00:00Z', 1)], NEWEST);
      const before = await marks();
      for (const time of ['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z', null])
        expect(counts(await send([at(time, 9)], NEWEST))).toEqual([0, 0, 1, undefined]);
      expect(counts(await send([{ email: ADA.email, age: 9 }], NEWEST))).toEqual([0, 0, 1, undefined]);
      expect(await marks()).toEqual(before);
      expect(counts(await send([at('2026-01-03T00:00:00Z', 2)], NEWEST))).toEqual([0, 1, 0, undefined]);
      expect(await people()).toMatchObject([{ age: 2 }]);
      await project.rows('UPDATE people SET at = NULL');
      expect(counts(await send([at('2020-01-01T00:00:00Z', 3)], NEWEST))).toEqual([0, 1, 0, undefined]);
    });

    it('keeps the newest of a batch, whatever its place', async () => {
      const days = [3, 1, 5, 5, 2];
      const records = days.map((day, i) => at(`2026-01-0${day}T00:00:00Z`, i));
      expect(counts(await send(records, NEWEST))).toEqual([1, 1, 3, undefined]);
      expect(await people()).toMatchObject([{ age: 2 }]);
    });

    it('takes any column that has an order', async () => {
      const price = (price: number) => ({ k: 'a', price });
      const rule = 'on_conflict=k&resolution=newest&version=price';
      await send([price(1.5)], rule, 'odd');
      expect(counts(await send([price(1.4), price(1.6)], rule, 'odd'))).toEqual([0, 1, 1, undefined]);
    });

    it.each([
      ['on_conflict=email&resolution=newest', 'invalid_request', '`resolution=newest` needs `version`'],
      ['on_conflict=email&version=at', 'invalid_request', '`version` needs `resolution=newest`'],
      ['on_conflict=email&resolution=newest&version=email', 'invalid_request', 'part of `on_conflict`'],
      ['on_conflict=email&resolution=newest&version=att', 'unknown_column', 'has no column "att"'],
      ['version=at', 'invalid_request', '`version` needs `on_conflict`'],
      ['unchanged=skip', 'invalid_request', '`unchanged` needs `on_conflict`'],
      ['merge_json=true', 'invalid_request', '`merge_json` needs `on_conflict`'],
      ['on_conflict=email&unchanged=yes', 'invalid_request', 'unchanged'],
      ['on_conflict=email&unchanged=skip&resolution=ignore', 'invalid_request', 'changes no row'],
      ['on_conflict=email&merge_json=true&resolution=replace', 'invalid_request', 'cannot be combined'],
    ])('refuses %s', async (query, code, text) => {
      await send([ADA], 'on_conflict=email');
      const before = await marks();
      const { message } = expectFailure(await send([{ ...ADA, age: 9 }], query), 400, code);
      expect(message).toContain(text);
      expect(await marks()).toEqual(before);
    });

    it('refuses a column without an order', async () => {
      const response = await send([{ k: 'a' }], 'on_conflict=k&resolution=newest&version=place', 'odd');
      expect(expectFailure(response, 400, 'invalid_request').message).toContain('values of point have no order');
      expect(await project.rows('SELECT FROM odd')).toHaveLength(0);
    });
  });

  describe('merge_json', () => {
    const MERGE = 'on_conflict=email&merge_json=true';
    const traits = async () => (await project.rows('SELECT traits FROM people'))[0]?.traits;
    const merged = async (value: unknown, query = MERGE) => {
      const response = await send([{ email: ADA.email, traits: value }], query);
      return [response.body.updated_rows, await traits()];
    };

    it('merges objects, and takes any other value as it is', async () => {
      await send([{ email: ADA.email, traits: { a: 1, b: { c: 2 } } }], 'on_conflict=email');
      expect(await merged({ d: 3, b: 4 })).toEqual([1, { a: 1, b: 4, d: 3 }]);
      expect(await merged([1])).toEqual([1, [1]]);
      expect(await merged([2])).toEqual([1, [2]]);
      expect(await merged(null)).toEqual([1, null]);
      expect(await merged({ e: 1 })).toEqual([1, { e: 1 }]);
    });

    it('leaves a row alone that has all members', async () => {
      await send([{ email: ADA.email, traits: { a: 1, b: 2.0 } }], 'on_conflict=email');
      const before = await marks();
      expect(await merged({ a: 1 }, `${MERGE}&unchanged=skip`)).toEqual([0, { a: 1, b: 2 }]);
      expect(await marks()).toEqual(before);
      expect(await merged({ a: 2 }, `${MERGE}&unchanged=skip`)).toEqual([1, { a: 2, b: 2 }]);
    });
  });

  it('protects what a token that may only append could learn', async () => {
    const token = await project.tokenWith('data:append');
    for (const query of [SKIP, 'unchanged=skip'])
      expectFailure(
        await service.call('POST', `/api/cdp/data/people?${query}`, { body: [ADA], token }),
        403,
        'insufficient_scope',
      );
  });
});
