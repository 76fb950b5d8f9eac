/** Two projects side by side, one of them hostile: what a minute's test can show. The rest is in test/isolation. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Placement } from '../../../src/tenancy/placement.js';
import { testServers } from '../../support/postgres.js';
import { startTestService, type TestResponse, type TestProject, type TestService } from '../../support/service.js';

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

  const sql = (text: string, token = hostile.token): Promise<TestResponse> =>
    hostile.call('POST', '/api/cdp/sql', { token, body: { sql: text } });

  it('runs the SQL of a project as the role that logged in', async () => {
    const rows = await hostile.rows('SELECT current_user AS now, session_user AS login, current_database() AS at');
    expect(rows).toEqual([{ now: own.writer, login: own.writer, at: own.database }]);
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
      const response = await hostile.call('POST', '/api/cdp/sql', {
        body: { sql: `SELECT t::text FROM ${name} t`, max_rows: 100_000 },
      });
      const found = secrets.filter((secret) => response.text.includes(secret));
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

  it('fills id by its own function, whatever shadows its name', async () => {
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

  it('refuses a token of another project', async () => {
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
