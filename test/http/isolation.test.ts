/** Two projects side by side, one of them hostile (findings on tenant isolation). */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Credentials } from '../../src/tenancy/credentials.js';
import type { Placement } from '../../src/tenancy/placement.js';
import { testServers } from '../support/postgres.js';
import { onServer, startTestService, type TestAnswer, type TestProject, type TestService } from '../support/service.js';

const CANARY = 'canary_7f3a';

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let service: TestService;
  let hostile: TestProject;
  let victim: TestProject;
  let own: Placement;
  let other: Placement;

  beforeAll(async () => {
    service = await startTestService({}, server);
    hostile = await service.project('hostile');
    victim = await service.project('victim');
    own = (await service.engine.projects.get('hostile')).placement;
    other = (await service.engine.projects.get('victim')).placement;
    await victim.table(`${CANARY}_table`, { [`${CANARY}_column`]: 'TEXT' });
    await victim.rows(`INSERT INTO ${CANARY}_table (${CANARY}_column) VALUES ('${CANARY}_value');
      COMMENT ON TABLE ${CANARY}_table IS '${CANARY}_comment';
      CREATE FUNCTION ${CANARY}_function() RETURNS int LANGUAGE sql AS 'SELECT 1';
      SELECT lo_from_bytea(0, '${CANARY}')`);
    await hostile.table('mine', { n: 'INTEGER' });
  });
  afterAll(() => service.close());

  const sql = (text: string, token = hostile.token): Promise<TestAnswer> =>
    hostile.call('POST', '/api/cdp/sql', { token, body: { sql: text } });

  /** Logs in as a project's role, past the service. */
  async function loginTo(role: string, database: string): Promise<void> {
    const password = new Credentials(service.config.secret ?? '').password(role);
    const client = new pg.Client({ ...server.connection, user: role, password, database });
    client.on('error', () => {});
    await client.connect();
    await client.end();
  }

  const refusedLogin = (role: string, database: string): Promise<void> =>
    expect(loginTo(role, database), database).rejects.toMatchObject({
      code: expect.stringMatching(/^(28000|42501)$/) as string,
    });

  describe('a role', () => {
    it('may log in to its own database, and to no other project’s', async () => {
      const template = `cdp_template_${service.engine.control.instanceId}`;
      for (const role of [own.writer, own.reader]) {
        await loginTo(role, own.database);
        for (const database of [other.database, template]) await refusedLogin(role, database);
      }
    });

    it('cannot let others in', async () => {
      // Without the right to grant it, Postgres warns and grants nothing.
      await sql(`GRANT ALL ON DATABASE ${own.database} TO ${other.writer}, PUBLIC`);
      await refusedLogin(other.writer, own.database);
    });

    it('is nothing more than a login: no attribute, no membership', async () => {
      await onServer(server, async (client) => {
        const { rows } = await client.query(
          `SELECT rolname, rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls,
             ARRAY(SELECT roleid::regrole::text FROM pg_auth_members WHERE member = r.oid) AS groups
           FROM pg_roles r WHERE rolname = ANY ($1)`,
          [[own.writer, own.reader]],
        );
        expect(rows.length).toBe(2);
        for (const row of rows as Record<string, unknown>[]) {
          expect(row).toMatchObject({
            rolsuper: false,
            rolcreaterole: false,
            rolcreatedb: false,
            rolreplication: false,
            rolbypassrls: false,
            groups: [],
          });
        }
      });
    });

    it('that runs the SQL is the one that logged in', async () => {
      const rows = await hostile.rows('SELECT current_user AS now, session_user AS login, current_database() AS at');
      expect(rows).toEqual([{ now: own.writer, login: own.writer, at: own.database }]);
    });
  });

  describe('refuses a project', () => {
    const superuser = server.connection.user;

    const attempts = (): string[] => [
      `SET ROLE ${superuser}`,
      `SET ROLE ${other.writer}`,
      `SET ROLE ${own.reader}`,
      `SET SESSION AUTHORIZATION ${superuser}`,
      `SET SESSION AUTHORIZATION ${other.writer}`,
      `SELECT set_config('role', '${other.writer}', false)`,
      `DO $$ BEGIN EXECUTE 'SET ROLE ${superuser}'; END $$`,
      `GRANT ${own.writer} TO ${other.writer}`,
      `GRANT ${other.writer} TO CURRENT_USER`,
      'GRANT pg_read_server_files TO CURRENT_USER',
      'CREATE EXTENSION dblink',
      'CREATE EXTENSION postgres_fdw',
      'CREATE EXTENSION adminpack',
      'CREATE EXTENSION hstore',
      'CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw',
      'CREATE FOREIGN DATA WRAPPER w',
      "CREATE FUNCTION f() RETURNS int LANGUAGE c AS '$libdir/plpgsql', 'plpgsql_call_handler'",
      "CREATE FUNCTION f() RETURNS int LANGUAGE internal AS 'pg_backend_pid'",
      'CREATE LANGUAGE plperlu',
      'DO LANGUAGE plpython3u $$ 1 $$',
      "LOAD '/tmp/nothing'",
      "SELECT pg_read_file('/etc/passwd')",
      "SELECT pg_read_binary_file('PG_VERSION')",
      "SELECT pg_ls_dir('/')",
      "SELECT pg_stat_file('/etc/passwd')",
      "SELECT lo_import('/etc/passwd')",
      "SELECT lo_export(1, '/tmp/cdp-should-not-exist')",
      "COPY mine FROM '/etc/passwd'",
      "COPY mine TO '/tmp/cdp-should-not-exist'",
      "COPY mine FROM PROGRAM 'id'",
      "COPY mine TO PROGRAM 'cat'",
      "ALTER SYSTEM SET work_mem = '1GB'",
      'SELECT pg_reload_conf()',
      'SELECT pg_rotate_logfile()',
      'CREATE DATABASE d',
      `CREATE DATABASE d TEMPLATE ${other.database}`,
      `DROP DATABASE ${other.database}`,
      `ALTER DATABASE ${own.database} RENAME TO d`,
      `ALTER DATABASE ${own.database} SET search_path = pg_temp`,
      `ALTER DATABASE ${other.database} CONNECTION LIMIT 0`,
      'CREATE ROLE r',
      `ALTER ROLE ${other.writer} PASSWORD 'x'`,
      `ALTER ROLE ${own.reader} PASSWORD 'x'`,
      `ALTER ROLE ${own.reader} SET work_mem = '64kB'`,
      `DROP ROLE ${other.writer}`,
      `DROP OWNED BY ${other.writer}`,
      `REASSIGN OWNED BY ${other.writer} TO CURRENT_USER`,
      "CREATE TABLESPACE s LOCATION '/tmp'",
      'CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION e()',
      'CREATE PUBLICATION p FOR ALL TABLES',
      "CREATE SUBSCRIPTION s CONNECTION 'dbname=postgres' PUBLICATION p",
      'CREATE EXTENSION hstore',
      'CREATE SCHEMA _cdp_s',
      'CREATE CAST (text AS int) WITHOUT FUNCTION',
      'SET session_replication_role = replica',
      "SET log_statement = 'none'",
      "SET temp_file_limit = '-1'",
      'CHECKPOINT',
      'SELECT pg_switch_wal()',
      "SELECT pg_create_physical_replication_slot('s')",
      "SELECT pg_create_logical_replication_slot('s', 'pgoutput')",
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity',
      'SELECT pg_terminate_backend(1)',
      'SELECT pg_cancel_backend(pg_backend_pid())',
      'SELECT pg_stat_reset()',
      'SELECT pg_export_snapshot()',
      'SELECT pg_logical_slot_get_changes($$s$$, NULL, NULL)',
      'SELECT * FROM pg_authid',
      'SELECT * FROM pg_largeobject',
      'SELECT * FROM pg_statistic',
      'SELECT * FROM pg_hba_file_rules',
      'SELECT * FROM pg_file_settings',
      'UPDATE pg_class SET relowner = relowner',
      'CREATE TABLE pg_catalog.t (n int)',
      'CREATE TABLE information_schema.t (n int)',
      'CREATE FUNCTION pg_catalog.f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$',
    ];

    it('everything that reaches beyond its database', async () => {
      for (const text of attempts()) {
        const answer = await sql(text);
        expect({ text, refused: [400, 403].includes(answer.status) }).toEqual({ text, refused: true });
      }
      expect(await victim.rows(`SELECT ${CANARY}_column AS c FROM ${CANARY}_table`)).toEqual([
        { c: `${CANARY}_value` },
      ]);
    });

    const CLOSED = [
      ...['pg_database', 'pg_roles', 'pg_user', 'pg_group', 'pg_shadow', 'pg_auth_members', 'pg_shdescription'],
      ...['pg_shdepend', 'pg_db_role_setting', 'pg_shseclabel', 'pg_seclabels', 'pg_prepared_xacts', 'pg_locks'],
      ...['pg_parameter_acl', 'pg_replication_origin', 'pg_replication_slots', 'pg_subscription', 'pg_stat_activity'],
      ...['pg_stat_database', 'pg_stat_database_conflicts', 'pg_stat_ssl', 'pg_stat_replication', 'pg_stat_bgwriter'],
      ...['pg_stat_wal', 'pg_stat_archiver', 'pg_stat_progress_copy', 'pg_stat_progress_create_index'],
    ];

    it('the catalogs that tell of others', async () => {
      const readToken = await hostile.tokenWith('sql:read');
      for (const name of CLOSED) {
        for (const token of [hostile.token, readToken]) {
          const answer = await sql(`SELECT * FROM ${name}`, token);
          expect({ name, status: answer.status, error: answer.body.error }).toEqual({
            name,
            status: 403,
            error: 'permission_denied',
          });
        }
      }
      for (const call of [
        'pg_stat_get_activity(NULL)',
        'pg_stat_get_backend_idset()',
        'pg_lock_status()',
        'pg_prepared_xact()',
        `pg_database_size('${other.database}')`,
        'pg_blocking_pids(1)',
        'pg_stat_get_db_numbackends(1)',
        "pg_identify_object('pg_database'::regclass, 1, 0)",
      ]) {
        expect({ call, status: (await sql(`SELECT * FROM ${call}`)).status }).toEqual({ call, status: 403 });
      }
    });
  });

  it('shows nothing of another project in what can be read', async () => {
    const { rows: readable } = (
      await sql(`SELECT c.oid::regclass::text AS name FROM pg_class c
        WHERE relnamespace IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) AND relkind IN ('r', 'v')
          AND has_table_privilege(c.oid, 'SELECT')`)
    ).body as { rows: { name: string }[] };
    expect(readable.length).toBeGreaterThan(80);
    const secrets = [CANARY, other.database, other.writer, other.reader, 'victim'];
    for (const { name } of readable) {
      const answer = await hostile.call('POST', '/api/cdp/sql', {
        body: { sql: `SELECT t::text FROM ${name} t`, max_rows: 100_000 },
      });
      const found = secrets.filter((secret) => answer.text.includes(secret));
      expect({ name, found }).toEqual({ name, found: [] });
    }
  });

  it('shows a project its own objects', async () => {
    await hostile.rows("COMMENT ON TABLE mine IS 'my comment'");
    const rows = await hostile.rows(`
      SELECT (SELECT string_agg(column_name, ',' ORDER BY ordinal_position) FROM information_schema.columns
                WHERE table_schema = 'data' AND table_name = 'mine') AS columns,
        (SELECT count(*) FROM information_schema.tables WHERE table_schema = 'data') AS tables,
        (SELECT count(*) FROM information_schema.table_constraints WHERE table_name = 'mine'
           AND constraint_type = 'PRIMARY KEY') AS keys,
        (SELECT count(*) >= 0 FROM information_schema.domains) AS domains,
        (SELECT count(*) >= 0 FROM information_schema.routines) AS routines,
        obj_description('mine'::regclass) AS comment, pg_get_indexdef('mine_pkey'::regclass) IS NOT NULL AS index,
        pg_table_size('mine') >= 0 AS size, has_table_privilege('mine', 'SELECT') AS may`);
    expect(rows).toMatchObject([
      {
        columns: 'id,n',
        tables: 1,
        keys: 1,
        domains: true,
        routines: true,
        comment: 'my comment',
        index: true,
        size: true,
      },
    ]);
  });

  it("does not let a project touch the service's own functions and table", async () => {
    for (const text of [
      'CREATE OR REPLACE FUNCTION _cdp.uuid_v7() RETURNS uuid LANGUAGE sql AS $$ SELECT NULL::uuid $$',
      'CREATE FUNCTION _cdp.mine() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$',
      'DROP FUNCTION _cdp.uuid_v7() CASCADE',
      'ALTER FUNCTION _cdp.uuid_v7() RENAME TO other',
      'ALTER FUNCTION _cdp.uuid_v7() OWNER TO CURRENT_USER',
      'ALTER FUNCTION _cdp.uuid_v7() SET search_path = data',
      'REVOKE EXECUTE ON FUNCTION _cdp.uuid_v7() FROM PUBLIC',
      'DROP TABLE _cdp.idempotency_keys',
      'ALTER TABLE _cdp.idempotency_keys ADD COLUMN x int',
      'CREATE INDEX ON _cdp.idempotency_keys (answer)',
      'TRUNCATE _cdp.idempotency_keys',
      'CREATE TRIGGER t BEFORE INSERT ON _cdp.idempotency_keys EXECUTE FUNCTION suppress_redundant_updates_trigger()',
      'CREATE RULE r AS ON INSERT TO _cdp.idempotency_keys DO INSTEAD NOTHING',
      'CREATE TABLE child () INHERITS (_cdp.idempotency_keys)',
      'CREATE TABLE _cdp.mine (n int)',
      'DROP SCHEMA _cdp CASCADE',
      'ALTER SCHEMA _cdp RENAME TO other',
      'DROP SCHEMA data CASCADE',
    ]) {
      const answer = await sql(text);
      // A REVOKE without the right to it only warns.
      const refused = [400, 403].includes(answer.status) || answer.body.type === 'REVOKE';
      expect({ text, refused }).toEqual({ text, refused: true });
    }
    const answer = await hostile.call('POST', '/api/cdp/data/mine?return=ids', { body: [{ n: 1 }] });
    expect(answer.body.ids).toMatchObject([expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/)]);
  });

  it('fills id by its own function, whatever stands in the way of its name', async () => {
    const project = await service.project();
    await project.table('rows', { n: 'INTEGER' });
    await project.rows(`
      CREATE FUNCTION data.uuid_v7() RETURNS uuid LANGUAGE sql AS $$ SELECT '00000000-0000-0000-0000-000000000000'::uuid $$;
      CREATE FUNCTION data.uuidv7() RETURNS uuid LANGUAGE sql AS $$ SELECT '00000000-0000-0000-0000-000000000000'::uuid $$;
      CREATE FUNCTION data.gen_random_uuid() RETURNS uuid LANGUAGE sql AS $$ SELECT '00000000-0000-0000-0000-000000000000'::uuid $$;
      CREATE FUNCTION data.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'epoch'::timestamptz $$;
      CREATE FUNCTION data.wrong(bigint, integer) RETURNS bigint LANGUAGE sql AS $$ SELECT 0::bigint $$;
      CREATE OPERATOR data.% (LEFTARG = bigint, RIGHTARG = integer, FUNCTION = data.wrong);
      CREATE OPERATOR data./ (LEFTARG = bigint, RIGHTARG = integer, FUNCTION = data.wrong)`);
    const started = Date.now();
    for (const path of ['data', 'data, pg_catalog', 'pg_temp, data, pg_catalog']) {
      await project.rows(
        `SET search_path = ${path}; INSERT INTO data.rows (n) SELECT pg_catalog.generate_series(1, 3)`,
      );
    }
    await project.call('POST', '/api/cdp/data/rows', { body: [{ n: 1 }, { n: 2 }] });
    const ids = await project.rows('SELECT id::text AS id FROM data.rows');
    expect(ids.length).toBe(11);
    expect(new Set(ids.map(({ id }) => id)).size).toBe(11);
    for (const { id } of ids as { id: string }[]) {
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      const at = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
      expect(Math.abs(at - started)).toBeLessThan(60_000);
    }
  });

  it('lets nobody in by a token of another project', async () => {
    const byVictim = await victim.call('GET', '/api/cdp/schema');
    expect(byVictim.text).toContain(CANARY);
    for (const token of [hostile.token, await hostile.tokenWith('schema:read')]) {
      expect((await hostile.call('GET', '/api/cdp/schema', { token })).text).not.toContain(CANARY);
    }
    const missing = await hostile.call('GET', `/api/cdp/schema/table/${CANARY}_table`);
    expect(missing.status).toBe(404);
    const insert = await hostile.call('POST', `/api/cdp/data/${CANARY}_table`, { body: [{}] });
    expect(insert.status).toBe(404);
    expect((await sql(`SELECT * FROM ${CANARY}_table`)).status).toBe(400);
    expect((await sql(`SELECT * FROM ${other.database}.data.${CANARY}_table`)).status).toBe(400);
  });
});
