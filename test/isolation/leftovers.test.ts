/**
 * A hostile project leaves nothing in its connections and cannot disable the service for itself: later requests work as
 * before, or say clearly what the project did to itself, and never get a 500 (contract C13.11). The single steps are
 * in test/http/sql/sql-leaves-nothing.test.ts; these tests sweep over all settings, over everything that may shadow names
 * of the catalog, and over all code that an insert may run.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedServer, testServers } from '../support/postgres.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../support/service.js';
import { furnish, HARMLESS, honestRequests, RECORD, RUN_BY_INSERTS, TOLD } from './damage.js';

let service: TestService;
const start = (server = embeddedServer()) => {
  beforeAll(async () => {
    service = await startTestService({}, server);
  });
  afterAll(() => service.close());
};

async function newProject(): Promise<{ project: TestProject; readToken: string }> {
  const project = await service.project();
  await furnish(project);
  return { project, readToken: await project.tokenWith('sql:read') };
}

/** Every request of an honest caller succeeds. */
async function expectOrder(project: TestProject, readToken: string): Promise<void> {
  const wrong: string[] = [];
  for await (const [name, { status, text }] of honestRequests(project, readToken)) {
    if (status >= 300) wrong.push(`${name}: ${status} ${text}`);
  }
  expect(wrong).toEqual([]);
}

const SESSION = `SELECT json_object_agg(name, setting ORDER BY name) AS settings, current_user = session_user AS own,
  current_setting('my.trace', true) AS trace, pg_my_temp_schema()::text AS temp FROM pg_settings`;

/** They would end the very statement that sets them; test/http/sql/sql-leaves-nothing.test.ts has them one by one. */
const SELF_DEFEATING = `('exit_on_error', 'statement_timeout', 'transaction_timeout')`;

/** Each setting that a role may set, to an end of its range; what Postgres refuses is left out. */
const everySetting = (value: string, how: string) => `
  DO $do$ DECLARE s record; BEGIN
    FOR s IN SELECT name, ${value} AS value FROM pg_settings
      WHERE context IN ('user', 'backend') AND name NOT IN ${SELF_DEFEATING} LOOP
      BEGIN
        ${how}
      EXCEPTION WHEN OTHERS THEN NULL;
      END;
    END LOOP;
  END $do$`;
const LEAST = `CASE vartype WHEN 'bool' THEN 'off' WHEN 'enum' THEN enumvals[1] WHEN 'string' THEN '' ELSE min_val END`;
const MOST = `CASE vartype WHEN 'bool' THEN 'on' WHEN 'enum' THEN enumvals[cardinality(enumvals)] WHEN 'string' THEN 'C' ELSE max_val END`;

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  start(server);

  it.each([
    ['for the session, to its least', LEAST, 'PERFORM set_config(s.name, s.value, false);'],
    ['for the session, to its most', MOST, 'PERFORM set_config(s.name, s.value, false);'],
    ['for the role, to its least', LEAST, `EXECUTE format('ALTER ROLE CURRENT_USER SET %I = %L', s.name, s.value);`],
    ['for the role, to its most', MOST, `EXECUTE format('ALTER ROLE CURRENT_USER SET %I = %L', s.name, s.value);`],
    [
      'for the role in the database, to its most',
      MOST,
      `EXECUTE format('ALTER ROLE %I IN DATABASE %I SET %I = %L', current_user, current_database(), s.name, s.value);`,
    ],
  ])('a project that sets every setting %s, still works', async (to, value, how) => {
    const { project, readToken } = await newProject();
    const clean = await project.rows(SESSION);
    const done = await project.call('POST', '/api/cdp/sql', { body: { sql: everySetting(value, how) } });
    expect(done.status, done.text).toBe(200);
    // Settings of a role stay: they are the project's.
    if (to.startsWith('for the session')) expect(await project.rows(SESSION)).toEqual(clean);
    await expectOrder(project, readToken);
  });

  it('a project that did everything harmless together still works', async () => {
    const { project, readToken } = await newProject();
    for (const [what, text] of HARMLESS) {
      const { status } = await project.call('POST', '/api/cdp/sql', { body: { sql: text } });
      // What came before may stand in its way.
      expect([200, 400, 403], what).toContain(status);
    }
    await expectOrder(project, readToken);
    await expectOrder(project, readToken);
  });
});

describe('code of the project that an insert runs', () => {
  start();

  it.each(RUN_BY_INSERTS)('leaves nothing in the connection: %s', async (_what, text) => {
    const { project, readToken } = await newProject();
    await project.rows(text);
    const post = async (table: string, path = '', headers = {}) => {
      const response = await project.call('POST', `/api/cdp/data/${table}${path}`, {
        body: [{ ...RECORD, id: undefined }],
        headers,
      });
      return `${response.status} ${response.text}`;
    };
    // The first goes by the shape of the table as it was; and each way an insert may take, with an innocent one behind
    // it.
    for (const [path, headers] of [
      ['', {}],
      ['', {}],
      ['?return=ids', {}],
      ['', { 'idempotency-key': 'k' }],
    ] as const) {
      const response = await post('kept', path, headers);
      // A partition has no id of its own making, and the rows of a rule cannot be told.
      expect(response).toMatch(/^(201|400) /);
      expect(await project.rows('SELECT pg_try_advisory_xact_lock(4711) AS free')).toEqual([{ free: true }]);
      expect(await post('watched')).toMatch(/^201 /);
    }
    const later = await project.call('PUT', '/api/cdp/schema/table/kept/column/b', { body: { comment: 'c' } });
    expect(later.status, later.text).toBe(200);
    expect(await project.rows('SELECT pg_try_advisory_xact_lock(4711) AS free')).toEqual([{ free: true }]);
    for await (const [name, response] of honestRequests(project, readToken)) {
      expect(`${name} ${response.status} ${response.text}`).toMatch(/^(insert|repeat)[a-z ]* 400 |^[a-z ]+ 20[01] /);
    }
  });

  it('leaves nothing behind if it is newer than the cached table and ends with a server error', async () => {
    const { project } = await newProject();
    await project.rows(`CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_advisory_lock(4711); RAISE EXCEPTION 'x' USING ERRCODE = '57P01'; END $$;
      CREATE TRIGGER evil BEFORE INSERT ON kept FOR EACH ROW EXECUTE FUNCTION evil()`);
    expectFailure(await project.call('POST', '/api/cdp/data/kept', { body: [RECORD] }), 503, 'database_unavailable');
    expect(await project.rows('SELECT pg_try_advisory_xact_lock(4711) AS free')).toEqual([{ free: true }]);
    expect(await project.rows('SELECT count(*) AS n FROM kept')).toEqual([{ n: 2 }]);
  });
});

/**
 * A trigger that leaves all records out, and puts a statement of its own under every name that one of the service's may
 * have: those that it is shown, and plain ones. By these the table is what it was before, and a lock is taken behind
 * the last row.
 */
const replacing = (deallocate: string): string => `
  CREATE TABLE seen (name text);
  CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE
      names text[] := array(SELECT 's' || n FROM generate_series(1, 20) n);
      name text; BEGIN
    names := names || array(SELECT p.name FROM pg_prepared_statements p);
    INSERT INTO seen SELECT unnest(names) EXCEPT SELECT 's' || n FROM generate_series(1, 20) n;
    FOREACH name IN ARRAY names LOOP
      BEGIN EXECUTE ${deallocate}; EXCEPTION WHEN OTHERS THEN NULL; END;
    END LOOP;
    FOREACH name IN ARRAY names LOOP
      BEGIN EXECUTE format('PREPARE %I AS SELECT pg_advisory_lock_shared(4711)', name); EXCEPTION WHEN OTHERS THEN NULL; END;
    END LOOP;
    RETURN NULL; END $$;
  CREATE TRIGGER evil BEFORE INSERT ON kept FOR EACH ROW EXECUTE FUNCTION evil()`;

describe.each(testServers().map((server) => ({ server, major: server.major })))(
  'a trigger that replaces prepared statements of the service, on Postgres $major,',
  ({ server }) => {
    start(server);

    it.each([
      ['one after the other, a record', `format('DEALLOCATE %I', name)`, 1],
      ['one after the other, some records', `format('DEALLOCATE %I', name)`, 40],
      ['all at once, a record', `'DEALLOCATE ALL'`, 1],
      ['all at once, some records', `'DEALLOCATE ALL'`, 40],
    ])('is noticed at the first insert, and its lock is released: %s', async (_what, deallocate, records) => {
      const { project } = await newProject();
      const body = Array.from({ length: records }, () => RECORD);
      const insert = () => project.call('POST', '/api/cdp/data/kept', { body });
      // What this way needs is prepared.
      expect((await insert()).status).toBe(201);
      const [before] = await project.rows('SELECT count(*) AS n FROM kept');
      await project.rows(replacing(deallocate));
      expect((await insert()).body).toMatchObject({ success: true, inserted_rows: 0 });
      expect(await project.rows('SELECT pg_try_advisory_xact_lock(4711) AS free')).toEqual([{ free: true }]);
      expect(await project.rows('SELECT count(*) AS n FROM kept')).toEqual([before]);
      expect(await project.rows('SELECT name FROM seen')).toEqual([]);
      const asked = await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT pg_prepared_statement()' } });
      expectFailure(asked, 403, 'permission_denied');
    });
  },
);

describe('what a project did to itself', () => {
  start();

  it.each(TOLD)('causes a clear error on that table alone: %s', async (_what, text, status, code) => {
    const { project, readToken } = await newProject();
    await project.rows(text);
    for (const path of ['', '', '?return=ids']) {
      const response = await project.call('POST', `/api/cdp/data/kept${path}`, { body: [RECORD] });
      expectFailure(response, status, code);
    }
    const wrong: string[] = [];
    for await (const [name, response] of honestRequests(project, readToken)) {
      const about = name.startsWith('insert') || name === 'repeat' || name === 'table';
      if (response.status === 500 || (response.status >= 300 && (!about || name === 'insert into it'))) {
        wrong.push(`${name}: ${response.status} ${response.text}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it('causes an error on a table without rights until the project restores them', async () => {
    const { project, readToken } = await newProject();
    await project.rows('ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM CURRENT_USER; CREATE TABLE locked (a text)');
    expectFailure(await project.call('POST', '/api/cdp/data/locked', { body: [{ a: 'x' }] }), 403, 'permission_denied');
    await project.rows(
      'ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO CURRENT_USER; GRANT ALL ON locked TO CURRENT_USER',
    );
    await expectOrder(project, readToken);
  });

  it('ends in time if the commit takes long', async () => {
    const { project } = await newProject();
    const response = await project.call('POST', '/api/cdp/sql', {
      body: { sql: 'DECLARE c CURSOR WITH HOLD FOR SELECT pg_sleep(30)', timeout_ms: 300 },
    });
    expect([503, 504], response.text).toContain(response.status);
    expect(await project.rows('SELECT 1 AS n')).toEqual([{ n: 1 }]);
  });
});
