/** Writes with dry_run: executed for real, answered as usual, and rolled back. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { embeddedServer } from '../../support/postgres.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

describe.each([embeddedServer()])('on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
  });
  beforeEach(async () => {
    await project.rows('DROP TABLE IF EXISTS people CASCADE');
    await project.table('people', { email: 'TEXT', age: 'TEXT' });
    await project.rows(
      `CREATE UNIQUE INDEX ON people (email); INSERT INTO people (email, age) VALUES ('a', '1'), ('b', '2')`,
    );
  });
  afterAll(() => service.close());

  interface Impact {
    rows: { table: string; inserted: number; updated: number; deleted: number }[];
    locks: { table: string; modes: string[] }[];
    rewritten: string[];
    dropped?: string[];
    sequences?: string[];
    duration_ms: number;
  }
  const path = (rest: string) => `/api/cdp/${rest}${rest.includes('?') ? '&' : '?'}dry_run=true`;
  const startDryRun = async (method: string, rest: string, body?: unknown) => {
    const response = await project.call(method, path(rest), { body });
    return { ...response, impact: response.body.impact as Impact };
  };
  it('reports what happens in other schemas, with their names', async () => {
    await project.rows('CREATE SCHEMA IF NOT EXISTS other; CREATE TABLE IF NOT EXISTS other.people (a integer)');
    const { impact } = await startDryRun('POST', 'sql', {
      sql: 'INSERT INTO other.people VALUES (1); UPDATE people SET age = NULL; ALTER TABLE other.people ALTER a TYPE bigint; CREATE TEMP TABLE t (a int)',
    });
    expect(impact.rows).toEqual([
      { table: 'other.people', inserted: 1, updated: 0, deleted: 0 },
      { table: 'people', inserted: 0, updated: 2, deleted: 0 },
    ]);
    expect(impact.locks.map(({ table }) => table)).toEqual(['other.people', 'people']);
    expect(impact.rewritten).toEqual(['other.people']);
  });

  const state = async () => [
    await project.rows('SELECT email, age FROM people ORDER BY email'),
    (await project.call('GET', '/api/cdp/schema')).text.replace(/"approximate_rows":\d+/g, ''),
    (await project.call('GET', '/api/cdp/schema/table/people/index')).body,
  ];

  it.each([
    ['POST', 'schema/table', { table_name: 'others', columns: [{ name: 'a', type: 'TEXT' }] }, 201],
    ['POST', 'schema/table/people/column', { name: 'city', type: 'TEXT' }, 201],
    ['PUT', 'schema/table/people/column/age', { new_type: 'INTEGER' }, 200],
    ['PUT', 'schema/table/people', { new_name: 'persons' }, 200],
    ['POST', 'schema/table/people/index', { columns: ['age'] }, 201],
    ['DELETE', 'schema/table/people/index/people_email_idx', undefined, 200],
    ['DELETE', 'schema/table/people/column/age', undefined, 200],
    ['DELETE', 'schema/table/people', undefined, 200],
    ['POST', 'data/people', [{ email: 'c' }], 201],
    ['POST', 'data/people?on_conflict=email', [{ email: 'a', age: '9' }, { email: 'c' }], 201],
    ['POST', 'data/people?on_error=quarantine', [{ email: 'a' }, { email: 'c' }], 201],
    ['DELETE', 'data/people?by=email', [{ email: 'a' }], 200],
    ['POST', 'quarantine/replay', { table: 'people' }, 200],
    ['POST', 'sql', { sql: 'DELETE FROM people; SELECT count(*) FROM people' }, 200],
  ])('answers %s %s as usual and changes nothing', async (method, rest, body, status) => {
    const before = await state();
    const dryRunFields = await startDryRun(method, rest, body);
    expect(dryRunFields.status, dryRunFields.text).toBe(status);
    expect(dryRunFields.body).toMatchObject({
      success: true,
      dry_run: true,
      impact: { rewritten: expect.any(Array) as [] },
    });
    expect(await state()).toEqual(before);
    expect((await project.call('GET', '/api/cdp/quarantine')).body.records).toEqual([]);
    // The same in earnest, for the same response.
    const done = await project.call(method, `/api/cdp/${rest}`, { body });
    const { dry_run: _, impact: __, ...own } = dryRunFields.body;
    expect({ status: done.status, body: done.body }).toEqual({ status, body: own });
    await project.call('DELETE', '/api/cdp/quarantine?all=true');
    await project.rows('DROP TABLE IF EXISTS others, persons');
  });

  it('reports rows, locks, rewritten tables and the duration', async () => {
    const upsert = await startDryRun('POST', 'data/people?on_conflict=email', [
      { email: 'a', age: '9' },
      { email: 'c' },
    ]);
    expect(upsert.impact.rows).toEqual([{ table: 'people', inserted: 1, updated: 1, deleted: 0 }]);
    expect(upsert.impact.locks).toEqual([{ table: 'people', modes: ['RowExclusiveLock'] }]);
    expect(upsert.impact.rewritten).toEqual([]);
    const alter = await startDryRun('PUT', 'schema/table/people/column/age', { new_type: 'INTEGER' });
    expect(alter.impact.rewritten).toEqual(['people']);
    expect(alter.impact.locks).toMatchObject([
      { table: 'people', modes: expect.arrayContaining(['AccessExclusiveLock']) as [] },
    ]);
    expect(alter.impact.duration_ms).toBeGreaterThan(0);
    const drop = await startDryRun('DELETE', 'schema/table/people');
    expect(drop.impact.locks).toEqual([{ table: 'people', modes: ['AccessExclusiveLock'] }]);
    expect(drop.impact.dropped).toEqual(['people']);
    await project.rows('CREATE VIEW names AS SELECT email FROM people');
    const cascade = await startDryRun('POST', 'sql', { sql: 'DROP TABLE people CASCADE' });
    expect(cascade.impact.dropped).toEqual(['names', 'people']);
    expect(alter.impact.dropped).toBeUndefined();
    // Of this request alone, whatever the session did before.
    const sql = await startDryRun('POST', 'sql', { sql: "UPDATE people SET age = '3'" });
    expect(sql.impact.rows).toEqual([{ table: 'people', inserted: 0, updated: 2, deleted: 0 }]);
  });

  it('names the functions that mention what it renames, and their triggers', async () => {
    await project.rows(`
      CREATE SCHEMA IF NOT EXISTS other;
      CREATE OR REPLACE FUNCTION other.fills() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.age := coalesce(NEW."age", '0'); RETURN NEW; END $$;
      CREATE TRIGGER filling BEFORE INSERT ON people FOR EACH ROW EXECUTE FUNCTION other.fills();
      CREATE OR REPLACE FUNCTION oldest(n int) RETURNS text LANGUAGE sql AS 'SELECT max(AGE) FROM people';
      CREATE OR REPLACE FUNCTION follows() RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT max(age) FROM people; END;
      CREATE OR REPLACE FUNCTION voyage() RETURNS text LANGUAGE sql AS 'SELECT ''ageing''::text'`);
    const column = await startDryRun('PUT', 'schema/table/people/column/age', { new_name: 'years' });
    const mentions = [
      { function: 'oldest(n integer)', triggers: [] },
      { function: 'other.fills()', triggers: ['filling'] },
    ];
    expect(column.body).toMatchObject({ success: true, impact: { mentions } });
    const table = await startDryRun('PUT', 'schema/table/people', { new_name: 'persons' });
    expect(table.body.impact).toMatchObject({ mentions: mentions.slice(0, 1) });
    const other = await startDryRun('PUT', 'schema/table/people/column/email', { new_name: 'mail' });
    expect(other.impact).not.toHaveProperty('mentions');
    await project.rows('DROP FUNCTION other.fills() CASCADE; DROP FUNCTION oldest, follows, voyage');
  });

  it('names the sequences it used, because nothing resets them', async () => {
    await project.rows(`
      CREATE SEQUENCE IF NOT EXISTS ticks; CREATE SEQUENCE IF NOT EXISTS "left"; CREATE SCHEMA IF NOT EXISTS other;
      DROP TABLE IF EXISTS other.counted; CREATE TABLE other.counted (n bigint GENERATED ALWAYS AS IDENTITY, t text);
      ALTER TABLE people ADD COLUMN n serial`);
    const insert = await startDryRun('POST', 'data/people', [{ email: 'c' }]);
    expect(insert.impact).toMatchObject({ locks: [{ table: 'people' }], sequences: ['people_n_seq'] });
    const sql = await startDryRun('POST', 'sql', {
      sql: `INSERT INTO other.counted (t) VALUES ('a'); SELECT setval('ticks', 7); CREATE SEQUENCE young; SELECT nextval('young');
        SELECT last_value FROM "left"`,
    });
    expect(sql.impact.sequences).toEqual(['other.counted_n_seq', 'ticks']);
    expect(await project.rows('SELECT last_value FROM ticks')).toEqual([{ last_value: 7 }]);
    const drop = await startDryRun('POST', 'sql', {
      sql: `SELECT nextval('ticks'); DROP SEQUENCE ticks; DROP TABLE other.counted`,
    });
    expect(drop.impact).toMatchObject({ dropped: ['other.counted'], sequences: ['ticks'] });
    expect((await startDryRun('POST', 'sql', { sql: 'TRUNCATE people' })).impact.sequences).toBeUndefined();
    await project.rows('DROP SEQUENCE ticks, "left"; DROP TABLE other.counted');
  });

  it('refuses what would be refused, with the same error', async () => {
    const body = [{ email: 'a' }, { nme: 1 }];
    const strip = ({ request_id: _, ...rest }: Record<string, unknown>) => rest;
    const dryRunFields = await startDryRun('POST', 'data/people', body);
    const done = await project.call('POST', '/api/cdp/data/people', { body });
    expect(strip(dryRunFields.body)).toEqual(strip(done.body));
    await project.rows("UPDATE people SET age = 'x'");
    const lost = expectFailure(
      await startDryRun('PUT', 'schema/table/people/column/age', { new_type: 'INTEGER' }),
      409,
      'not_convertible',
    );
    const ids = (await project.rows('SELECT id FROM people ORDER BY id')).map(({ id }) => id);
    expect(lost).toMatchObject({ rows: 2, ids });
  });

  it('checks what only a commit would check', async () => {
    await project.rows(`CREATE TABLE kids (parent text REFERENCES people (email) DEFERRABLE INITIALLY DEFERRED)`);
    expectFailure(
      await startDryRun('POST', 'sql', { sql: "INSERT INTO kids VALUES ('nobody')" }),
      400,
      'constraint_violation',
    );
    await project.rows('DROP TABLE kids');
  });

  it('refuses what has no dry run: statements that cannot run in a transaction, reads, streams, an Idempotency-Key', async () => {
    expectFailure(await startDryRun('POST', 'sql', { sql: 'VACUUM people' }), 400, 'statement_not_allowed');
    expectFailure(await startDryRun('POST', 'sql', { sql: 'SELECT 1', read_only: true }), 400, 'invalid_request');
    const headers = { 'idempotency-key': 'k' };
    expectFailure(await project.call('POST', path('data/people'), { body: [{}], headers }), 400, 'invalid_request');
    expect(service.engine.liveRequests.list()).toEqual([]);
  });

  it('is recorded in the audit log as one', async () => {
    await startDryRun('POST', 'data/people', [{ email: 'c' }]);
    const admin = (await service.engine.tokens.create(null)).token;
    await expect
      .poll(
        async () =>
          (await service.call('GET', '/api/cdp/admin/audit?limit=1&operation=dry_run', { token: admin })).body.entries,
      )
      .toMatchObject([{ operation: 'dry_run', object: 'people', rows: null, outcome: 'ok' }]);
  });
});
