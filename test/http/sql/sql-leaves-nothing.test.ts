/**
 * Nothing that a statement does outlives its request, and nothing that a project does to its own roles and rights locks
 * out the project or the service (contract C13.11 to C13.13).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedServer, testServers } from '../../support/postgres.js';
import {
  expectFailure,
  onServer,
  openConnections,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

const IDLE_MS = 100;

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let service: TestService;
  /** Closes what is idle at once, so that each request opens connections of its own. */
  let forgetful: TestService;

  beforeAll(async () => {
    service = await startTestService({}, server);
    forgetful = await startTestService({ 'idle-connection-ms': String(IDLE_MS) }, server);
  });
  afterAll(async () => {
    await service.close();
    await forgetful.close();
  });

  const sql = (project: TestProject, text: string, rest: object = {}): Promise<TestResponse> =>
    project.call('POST', '/api/cdp/sql', { body: { sql: text, ...rest } });

  /** What a session may carry from one request to the next. */
  const TRACES = `SELECT current_user = session_user AS own_role, current_setting('search_path') AS path,
    current_setting('work_mem') AS work_mem, current_setting('statement_timeout') AS timeout,
    current_setting('TimeZone') AS zone, current_setting('my.variable', true) AS variable,
    current_setting('default_transaction_read_only') AS ro,
    to_regclass('pg_temp.left_behind')::text AS temp,
    (SELECT count(*) FROM pg_cursors WHERE name <> '') AS cursors,
    (SELECT count(*) FROM pg_listening_channels()) AS listening,
    pg_try_advisory_xact_lock(77) AS lock_is_free`;

  describe('the next request', () => {
    const LEAVING = [
      "SET work_mem = '1MB'",
      "SET search_path = pg_catalog, pg_temp; SET statement_timeout = '5s'; SET TimeZone = 'Asia/Tokyo'",
      "SELECT set_config('search_path', 'pg_temp', false), set_config('my.variable', 'secret', false)",
      'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY',
      'CREATE TEMP TABLE left_behind AS SELECT 1',
      'CREATE TEMP TABLE left_behind (n int) ON COMMIT DELETE ROWS',
      'PREPARE left_behind AS SELECT 1',
      'DECLARE left_behind CURSOR WITH HOLD FOR SELECT generate_series(1, 1000)',
      'SELECT pg_advisory_lock(77), pg_advisory_lock(77)',
      'DO $$ BEGIN PERFORM pg_advisory_lock(77); PERFORM 1 / 0; END $$',
      "DO $$ BEGIN EXECUTE 'LISTEN channel'; END $$",
      'DO $$ BEGIN EXECUTE format($f$SET ROLE %I$f$, current_database()); END $$',
      'DO $$ BEGIN EXECUTE format($f$SET SESSION AUTHORIZATION %I$f$, current_user); END $$',
      "SET idle_in_transaction_session_timeout = '1ms'; SET lock_timeout = '1ms'; SET statement_timeout = '1ms'",
      'SET exit_on_error = on; SELECT 1 / 0',
      'DISCARD ALL',
      'CREATE TEMP TABLE left_behind (n int); SELECT 1 / 0',
    ];

    it('finds a clean session', async () => {
      const project = await service.project();
      const clean = await project.rows(TRACES);
      expect(clean).toMatchObject([{ own_role: true, path: 'data', temp: null, lock_is_free: true }]);
      for (const text of LEAVING) {
        await sql(project, text);
        expectFailure(await sql(project, 'EXECUTE left_behind'), 400, 'sql_error');
        const [found] = await project.rows(TRACES);
        // A variable of the caller's own stays known by name, without a value.
        expect({ text, found: { ...found, variable: found?.variable || null } }).toEqual({ text, found: clean[0] });
      }
    });

    it('never meets a session lock of the previous one, however soon it follows', async () => {
      const project = await service.project();
      for (let i = 0; i < 100; i++) {
        const [row] = await project.rows('SELECT pg_try_advisory_lock(78) AS free');
        expect({ i, ...row }).toEqual({ i, free: true });
      }
    });

    it('draws random numbers that the previous one could not choose', async () => {
      const project = await service.project();
      const draw = async () => {
        await project.rows('SELECT setseed(0.42)');
        return (await project.rows('SELECT random() AS r'))[0]?.r;
      };
      expect(await draw()).not.toBe(await draw());
    });

    it('never gets a connection that ran free SQL if it is an insert or a schema change', async () => {
      const project = await service.project();
      await project.table('watched', { n: 'INTEGER' });
      await project.rows('ALTER TABLE watched ADD pid int DEFAULT pg_backend_pid()');
      const sqlPids = new Set<unknown>();
      for (let i = 0; i < 5; i++) {
        sqlPids.add((await project.rows('SELECT pg_backend_pid() AS pid'))[0]?.pid);
        await project.call('POST', '/api/cdp/data/watched', { body: [{ n: i }] });
      }
      const inserted = await project.rows('SELECT DISTINCT pid FROM watched');
      expect(inserted.length).toBeGreaterThan(0);
      for (const { pid } of inserted) expect(sqlPids).not.toContain(pid);
    });

    it("finds no trace of the previous one's triggers if it is an insert", async () => {
      const project = await service.project();
      await project.table('triggered', { n: 'INTEGER' });
      await project.rows(`CREATE FUNCTION dirty() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          PERFORM set_config('search_path', 'pg_temp', false), set_config('my.variable', 'x', false);
          PERFORM pg_advisory_lock(79);
          EXECUTE 'CREATE TEMP TABLE IF NOT EXISTS triggered (id uuid, n bigint)';
          RETURN NEW;
        END $$;
        CREATE TRIGGER dirty BEFORE INSERT ON triggered FOR EACH ROW EXECUTE FUNCTION dirty()`);
      for (let i = 0; i < 4; i++) {
        const response = await project.call('POST', '/api/cdp/data/triggered', { body: [{ n: i }] });
        expect(response.status).toBe(201);
        expect(await project.rows('SELECT count(*) AS n FROM data.triggered')).toEqual([{ n: i + 1 }]);
        expect(await project.rows('SELECT pg_try_advisory_xact_lock(79) AS free')).toEqual([{ free: true }]);
      }
    });

    it('finds no trace, if it is an insert, of checks that a type change ran on an inheriting table', async () => {
      const project = await service.project();
      await project.table('parent', { n: 'INTEGER' });
      await project.rows(`CREATE FUNCTION dirty(anyelement) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
          PERFORM set_config('work_mem', '3MB', false), pg_advisory_lock(80); RETURN true;
        END $$;
        CREATE TABLE child (CHECK (dirty(n))) INHERITS (parent);
        INSERT INTO child (id, n) VALUES (_cdp.uuid_v7(), 1);
        CREATE TABLE witness (work_mem text DEFAULT current_setting('work_mem'))`);
      const change = { body: { new_type: 'FLOAT' } };
      expect((await project.call('PUT', '/api/cdp/schema/table/parent/column/n', change)).status).toBe(200);
      expect((await project.call('POST', '/api/cdp/data/witness', { body: [{}] })).status).toBe(201);
      expect(await project.rows("SELECT count(*) AS n FROM witness WHERE work_mem = '3MB'")).toEqual([{ n: 0 }]);
      expect(await project.rows('SELECT pg_try_advisory_xact_lock(80) AS free')).toEqual([{ free: true }]);
    });
  });

  describe('what a project does to its own role and rights', () => {
    const DAMAGE: [what: string, text: string][] = [
      ['a search_path', "ALTER ROLE CURRENT_USER SET search_path = 'pg_temp'"],
      [
        'a search_path in its database',
        'DO $$ BEGIN EXECUTE format($f$ALTER ROLE %I IN DATABASE %I SET search_path = pg_temp$f$, current_user, current_database()); END $$',
      ],
      ['a time limit', "ALTER ROLE CURRENT_USER SET statement_timeout = '1ms'"],
      ['read only transactions', 'ALTER ROLE CURRENT_USER SET default_transaction_read_only = on'],
      ['a library that does not exist', "ALTER ROLE CURRENT_USER SET local_preload_libraries = 'nonexistent'"],
      ['an amount of memory', "ALTER ROLE CURRENT_USER SET work_mem = '64kB'"],
      ['an encoding', "ALTER ROLE CURRENT_USER SET client_encoding = 'LATIN1'"],
      [
        'another role',
        'DO $$ BEGIN EXECUTE format($f$ALTER ROLE CURRENT_USER SET role = %L$f$, current_database()); END $$',
      ],
      ['an end at every error', 'ALTER ROLE CURRENT_USER SET exit_on_error = on'],
      [
        'many settings',
        "ALTER ROLE CURRENT_USER SET lock_timeout = '1ms'; ALTER ROLE CURRENT_USER SET enable_seqscan = off; ALTER ROLE CURRENT_USER SET row_security = off",
      ],
      ...(server.major >= 17
        ? ([['a limit on transactions', "ALTER ROLE CURRENT_USER SET transaction_timeout = '1ms'"]] as [
            string,
            string,
          ][])
        : []),
      ['a password', "ALTER ROLE CURRENT_USER PASSWORD 'x'"],
      ['no password', 'ALTER ROLE CURRENT_USER PASSWORD NULL'],
      [
        'a password and settings',
        "ALTER ROLE CURRENT_USER PASSWORD 'x'; ALTER ROLE CURRENT_USER SET work_mem = '64kB'",
      ],
      ['no settings', 'ALTER ROLE CURRENT_USER RESET ALL'],
      ['nothing that it owns', 'DROP OWNED BY CURRENT_USER'],
      ['nothing of its group', 'DO $$ BEGIN EXECUTE format($f$DROP OWNED BY %I$f$, current_database()); END $$'],
      ['its rights revoked', 'REVOKE ALL ON SCHEMA data FROM CURRENT_USER'],
      [
        'its rights in its database revoked',
        'DO $$ BEGIN EXECUTE format($f$REVOKE ALL ON DATABASE %I FROM CURRENT_USER, %1$I$f$, current_database()); END $$',
      ],
      [
        'no reader',
        `DO $$ DECLARE r record; BEGIN
           FOR r IN SELECT DISTINCT a.grantee::regrole AS reader FROM pg_default_acl d, aclexplode(d.defaclacl) a
               WHERE a.grantee <> d.defaclrole LOOP
             EXECUTE format('ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM %s', r.reader);
             EXECUTE format('ALTER DEFAULT PRIVILEGES REVOKE ALL ON SEQUENCES FROM %s', r.reader);
           END LOOP; END $$`,
      ],
      [
        'another owner',
        'DO $$ BEGIN EXECUTE format($f$REASSIGN OWNED BY CURRENT_USER TO %I$f$, current_database()); END $$',
      ],
    ];

    const times: [when: string, closed: boolean][] = [['when its connections were closed', true]];
    // The same on every server: it is the service that holds on to them.
    if (server === embeddedServer()) times.push(['while its connections live', false]);

    describe.each(times)('%s', (_when, closed) => {
      it.each(DAMAGE)('leaves the project usable: %s', async (_what, text) => {
        const project = await (closed ? forgetful : service).project();
        await project.table('kept', { n: 'INTEGER' });
        await project.call('POST', '/api/cdp/data/kept', { body: [{ n: 1 }] });
        await project.rows('SELECT 1');
        const readToken = await project.tokenWith('sql:read');
        const done = await sql(project, text);
        expect([200, 400, 403]).toContain(done.status);
        while (closed && openConnections(forgetful) > 0) await sleep(10);

        // Where connections live on, one request may be told what is wrong; the one after it works.
        const eventually = async (attempt: () => Promise<TestResponse>, status: number): Promise<TestResponse> => {
          let response = await attempt();
          if (!closed && response.status !== status) {
            expectFailure(response, 403, 'permission_denied');
            await sleep(20);
            response = await attempt();
          }
          expect(`${response.status} ${response.text}`).toMatch(new RegExp(`^${status} `));
          return response;
        };
        await eventually(
          () =>
            project.call('POST', '/api/cdp/schema/table', {
              body: { table_name: 'made_after', columns: [{ name: 'n', type: 'INTEGER' }] },
            }),
          201,
        );
        await eventually(() => project.call('POST', '/api/cdp/data/made_after', { body: [{ n: 1 }] }), 201);
        await eventually(
          () =>
            project.call('POST', '/api/cdp/data/made_after', {
              body: [{ n: 2 }],
              headers: { 'idempotency-key': 'k' },
            }),
          201,
        );
        await eventually(() => sql(project, 'CREATE TABLE by_sql (n int); INSERT INTO by_sql VALUES (3)'), 200);
        await eventually(() => sql(project, 'CREATE TEMP TABLE temporary (n int)'), 200);
        const written = await eventually(() => sql(project, 'SELECT n FROM made_after ORDER BY n'), 200);
        expect(written.body.rows).toEqual([{ n: 1 }, { n: 2 }]);
        // Its own default privileges for the reader are gone, and stay so.
        const status = /DROP OWNED BY CURRENT_USER|ALTER DEFAULT PRIVILEGES/.test(text) ? 403 : 200;
        const read = await eventually(
          () =>
            project.call('POST', '/api/cdp/sql', {
              token: readToken,
              body: { sql: 'SELECT n FROM made_after UNION ALL SELECT n FROM by_sql ORDER BY n' },
            }),
          status,
        );
        if (status === 200) expect(read.body.rows).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
      });
    });

    it('is refused if it would take away its schema or its role', async () => {
      const project = await service.project();
      for (const text of [
        'DROP SCHEMA data CASCADE',
        'ALTER SCHEMA data RENAME TO other',
        'ALTER SCHEMA data OWNER TO CURRENT_USER',
        'DROP ROLE CURRENT_USER',
        'ALTER ROLE CURRENT_USER NOLOGIN',
        'ALTER ROLE CURRENT_USER CONNECTION LIMIT 0',
        "ALTER ROLE CURRENT_USER VALID UNTIL '2000-01-01'",
        'ALTER ROLE CURRENT_USER SUPERUSER',
        'ALTER ROLE CURRENT_USER CREATEROLE',
        'ALTER ROLE CURRENT_USER RENAME TO other',
      ]) {
        const response = await sql(project, text);
        expect({ text, refused: [400, 403].includes(response.status) }).toEqual({ text, refused: true });
      }
      expect(await project.rows('SELECT 1 AS n')).toEqual([{ n: 1 }]);
    });

    it('is reset where an acknowledged write could be lost, when the next connection opens', async () => {
      const project = await forgetful.project();
      await sql(project, 'ALTER ROLE CURRENT_USER SET synchronous_commit = off');
      while (openConnections(forgetful) > 0) await sleep(10);
      await project.rows('SELECT 1');
      const { writer } = (await forgetful.engine.projects.get(project.name)).placement;
      const left = await onServer(server, (client) =>
        client.query('SELECT 1 FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole WHERE rolname = $1', [
          writer,
        ]),
      );
      expect(left.rows).toEqual([]);
    });
  });
});
