/** BRIN's `autosummarize`, by which a project could crash the server for all others, stays off. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Placement } from '../../src/tenancy/placement.js';
import { testServers } from '../support/postgres.js';
import { failure, onServer, startTestService, type TestProject, type TestService } from '../support/service.js';

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let service: TestService;
  let project: TestProject;
  let placement: Placement;

  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    ({ placement } = await service.engine.projects.get(project.name));
    await project.rows('CREATE TABLE t (n int, plain text); CREATE TABLE parts (n int) PARTITION BY RANGE (n)');
    await project.rows('CREATE INDEX there ON t USING brin (n) WITH (pages_per_range = 1)');
  });
  afterAll(() => service.close());

  const asSuperuser = (text: string, database = placement.database) =>
    onServer(server, (client) => client.query<Record<string, unknown>>(text), database);

  const run = (sql: string) => project.call('POST', '/api/cdp/sql', { body: { sql } });

  /** Indexes of the project with their options, and its tables. */
  const inventory = async () =>
    (
      await asSuperuser(`SELECT relname, reloptions, relkind FROM pg_class
        WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname !~ '^pg_') AND relkind IN ('i', 'I', 'r', 'p')
        ORDER BY relname`)
    ).rows;

  const reconnect = () =>
    asSuperuser(
      `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '${placement.writer}'`,
      'postgres',
    );

  /** As the database was before: an older program has made it, or left the parameter where it was. */
  const asBefore = async (text: string) => {
    await asSuperuser(`DROP EVENT TRIGGER cdp_autosummarize; DROP EVENT TRIGGER cdp_autosummarize_concurrently;
      SET ROLE ${placement.writer}; ${text}`);
  };

  const ON = 'WITH (autosummarize = on)';

  describe('refuses', () => {
    it.each([
      `CREATE INDEX i ON t USING brin (n) ${ON}`,
      'CREATE INDEX i ON t USING brin (n) WITH (pages_per_range = 1, AutoSummarize)',
      'CREATE INDEX i ON t USING brin (n) WITH (pages_per_range = 1, autosummarize = tr)',
      `CREATE INDEX i ON t USING brin (n) WITH ("autosummarize" = '1')`,
      String.raw`CREATE INDEX i ON t USING brin (n) WITH (U&"\0061utosummarize" = yes)`,
      `CREATE INDEX CONCURRENTLY i ON t USING brin (n) ${ON}`,
      `/* x */ create index /* x */ concurrently i ON t USING brin (n) WITH (AUTOSUMMARIZE)`,
      String.raw`CREATE INDEX CONCURRENTLY i ON t USING brin (n) WITH (u&"\0061utosummarize" = on)`,
      `CREATE INDEX i ON parts USING brin (n) ${ON}`,
      `CREATE INDEX i ON ONLY parts USING brin (n) ${ON}`,
      'ALTER INDEX there SET (autosummarize = on)',
      'ALTER TABLE there SET (autosummarize = true)',
      'ALTER INDEX IF EXISTS there SET (pages_per_range = 2, autosummarize)',
      `DO $$ BEGIN CREATE INDEX i ON t USING brin (n) ${ON}; END $$`,
      `DO $$ BEGIN EXECUTE 'CREATE TABLE u (n int)'; EXECUTE 'CREATE INDEX i ON u USING brin (n) ${ON}'; END $$`,
      `CREATE TABLE u (n int); CREATE INDEX i ON u USING brin (n) ${ON}`,
      `CREATE TEMPORARY TABLE u (n int); CREATE INDEX i ON u USING brin (n) ${ON}`,
      `CREATE TEMPORARY TABLE pg_class (oid oid, relkind "char", reloptions text[]); SET search_path = pg_temp, data, pg_catalog;
        CREATE INDEX i ON data.t USING brin (n) ${ON}`,
    ])('%s', async (text) => {
      const before = await inventory();
      const error = failure(await run(text), 400, 'sql_error');
      expect(error).toMatchObject({
        message: 'autosummarize is not offered here',
        hint: expect.stringContaining('VACUUM summarizes') as string,
      });
      expect(error.postgres?.sqlstate).toBe('0A000');
      expect(await inventory()).toEqual(before);
    });

    it('it among the elements of a new schema', async () => {
      const { database, writer } = placement;
      await asSuperuser(`GRANT CREATE ON DATABASE ${database} TO ${writer}`);
      const before = await inventory();
      const made = `CREATE SCHEMA s CREATE TABLE u (n int) CREATE INDEX i ON u USING brin (n) ${ON}`;
      expect(failure(await run(made), 400, 'sql_error').message).toBe('autosummarize is not offered here');
      expect(await inventory()).toEqual(before);
      await asSuperuser(`REVOKE CREATE ON DATABASE ${database} FROM ${writer}`);
    });

    it('what keeps it off from being changed by the project', async () => {
      for (const text of [
        'ALTER EVENT TRIGGER cdp_autosummarize DISABLE',
        'DROP EVENT TRIGGER cdp_autosummarize_concurrently',
        'DROP FUNCTION _cdp.refuse_autosummarize() CASCADE',
        'ALTER FUNCTION _cdp.refuse_autosummarize() RENAME TO f',
        'DROP SCHEMA _cdp CASCADE',
        'SET session_replication_role = replica',
        'CREATE OR REPLACE FUNCTION _cdp.refuse_autosummarize() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN END$$',
        'SELECT _cdp.refuse_autosummarize()',
      ]) {
        expect((await run(text)).body.success, text).toBe(false);
      }
      await run('DROP OWNED BY CURRENT_USER CASCADE');
      await reconnect();
      await project.rows('CREATE TABLE t (n int, plain text); CREATE TABLE parts (n int) PARTITION BY RANGE (n)');
      await project.rows('CREATE INDEX there ON t USING brin (n) WITH (pages_per_range = 1)');
      failure(await run('ALTER INDEX there SET (autosummarize = on)'), 400, 'sql_error');
    });
  });

  it('the attack that crashed the server: nothing of it stays', async () => {
    const before = await inventory();
    const attack = `CREATE TABLE other (n int); INSERT INTO other VALUES (1);
      CREATE FUNCTION data.vol() RETURNS void LANGUAGE plpgsql AS $$BEGIN ANALYZE data.other; END$$;
      CREATE FUNCTION data.nest(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
        $$BEGIN IF session_user <> current_user THEN PERFORM data.vol(); END IF; RETURN n; END$$;
      CREATE TABLE wi (n int) WITH (fillfactor = 10, autovacuum_enabled = off);
      CREATE INDEX ON wi USING brin (data.nest(n)) WITH (pages_per_range = 1, autosummarize = on);
      INSERT INTO wi SELECT generate_series(1, 300)`;
    failure(await run(attack), 400, 'sql_error');
    expect(await inventory()).toEqual(before);
  });

  it('takes BRIN without it, where it is off, and concurrently', async () => {
    for (const text of [
      'CREATE INDEX a ON t USING brin (n)',
      'CREATE INDEX b ON t USING brin (n) WITH (pages_per_range = 4, autosummarize = off)',
      `ALTER INDEX b SET (autosummarize = 'false')`,
      'ALTER INDEX b RESET (autosummarize)',
      'ALTER TABLE t SET (fillfactor = 10)',
      'CREATE INDEX CONCURRENTLY c ON t USING brin (n)',
      'REINDEX INDEX CONCURRENTLY c',
      'CREATE TABLE l (LIKE t INCLUDING ALL)',
      'CREATE INDEX ON parts USING brin (n)',
      'CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (10)',
      `SELECT brin_summarize_new_values('a')`,
      'VACUUM t',
      'DROP TABLE l; DROP INDEX a, b; DROP INDEX c; DROP TABLE part',
    ]) {
      expect((await run(text)).body, text).toMatchObject({ success: true });
    }
  });

  describe('is put right', () => {
    it('in a database of an older program, at its next connection: the parameter goes, what is beside it stays', async () => {
      await asBefore(`CREATE INDEX old ON data.t USING brin (n) WITH (pages_per_range = 7, autosummarize = on);
        CREATE INDEX olds ON data.parts USING brin (n) WITH (autosummarize = on);
        CREATE TABLE data.part PARTITION OF data.parts FOR VALUES FROM (0) TO (10)`);
      await reconnect();
      const rows = await project.rows(`SELECT relname::text, reloptions::text FROM pg_class
        WHERE relname IN ('old', 'olds', 'part_n_idx') ORDER BY 1`);
      expect(rows).toEqual([
        { relname: 'old', reloptions: '{pages_per_range=7}' },
        { relname: 'olds', reloptions: null },
        { relname: 'part_n_idx', reloptions: null },
      ]);
      failure(await run('ALTER INDEX old SET (autosummarize = on)'), 400, 'sql_error');
      failure(await run(`CREATE INDEX CONCURRENTLY i ON t USING brin (n) ${ON}`), 400, 'sql_error');
      await project.rows('DROP TABLE part; DROP INDEX old, olds');
    });

    it('where the event trigger was switched off by hand', async () => {
      await asSuperuser('ALTER EVENT TRIGGER cdp_autosummarize DISABLE');
      await reconnect();
      failure(await run('ALTER INDEX there SET (autosummarize = on)'), 400, 'sql_error');
    });

    it('by a repair', async () => {
      await asSuperuser('ALTER EVENT TRIGGER cdp_autosummarize DISABLE');
      await asSuperuser('ALTER INDEX data.there SET (autosummarize = on)');
      const { repaired } = await service.engine.projects.repair(project.name);
      expect(repaired).toEqual(['the database is not prepared (hardening, extensions)']);
      failure(await run('ALTER INDEX there SET (autosummarize = on)'), 400, 'sql_error');
      expect(JSON.stringify(await inventory())).not.toContain('autosummarize');
    });
  });
});
