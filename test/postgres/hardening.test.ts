/** Hardening: what a project sees of the server, when that is looked at and put right, and when the start refuses. */
import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Placement } from '../../src/tenancy/placement.js';
import { startService } from '../../src/service.js';
import { testServers } from '../support/postgres.js';
import { failure, onServer, startTestService, type TestProject, type TestService } from '../support/service.js';

const quiet = pino({ level: 'silent' });

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let service: TestService;
  let project: TestProject;
  let placement: Placement;
  let neighbour: Placement;

  const placementOf = async ({ name }: TestProject) => (await service.engine.projects.get(name)).placement;

  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    placement = await placementOf(project);
    const other = await service.project();
    neighbour = await placementOf(other);
    await other.rows('SELECT 1');
  });
  afterAll(() => service.close());

  /** As the superuser in a database; default: the project's. */
  const asSuperuser = (text: string, database = placement.database) =>
    onServer(server, (client) => client.query<Record<string, unknown>>(text), database);

  /** The project's connections are closed, so that the next request opens one. */
  const reconnect = () =>
    asSuperuser(
      `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '${placement.writer}'`,
      'postgres',
    );

  const seesDatabases = async () =>
    (await project.rows(`SELECT has_table_privilege('_cdp_pg_database', 'SELECT') AS yes`))[0]?.yes;

  const preparation = async () => (await asSuperuser('SELECT * FROM _cdp.preparation')).rows[0];

  describe('works', () => {
    it('shows a project its own roles, the owner, and those that every server has', async () => {
      const rows = await project.rows('SELECT rolname, oid FROM pg_roles WHERE oid >= 16384');
      const own = [placement.database, placement.writer, placement.reader];
      expect(rows.map(({ rolname }) => rolname)).toEqual(expect.arrayContaining(own));
      const users = await project.rows('SELECT usename FROM pg_user UNION SELECT groname FROM pg_group');
      const all = JSON.stringify([rows, users]);
      for (const name of Object.values(neighbour)) if (name !== 'data') expect(all).not.toContain(name);
      expect(all).toContain(placement.writer);
    });

    it('shows a project what it runs and has locked, and nothing of anybody else', async () => {
      const rows = await project.rows(
        `SELECT a.usename, a.query, count(l.*) > 0 AS locks FROM pg_stat_activity a LEFT JOIN pg_locks l USING (pid)
         WHERE a.pid = pg_backend_pid() GROUP BY a.usename, a.query`,
      );
      expect(rows).toEqual([
        { usename: placement.writer, query: expect.stringContaining('pg_stat_activity') as string, locks: true },
      ]);
      const prepared = await project.call('POST', '/api/cdp/sql', {
        body: { sql: 'PREPARE its_own AS SELECT 1; SELECT array_agg(name) AS names FROM pg_prepared_statements' },
      });
      expect(prepared.text).toContain('"names":["its_own"]');
      const everybody = await project.rows('SELECT DISTINCT usename::text AS name FROM pg_stat_activity');
      for (const { name } of everybody) expect([placement.writer, placement.reader]).toContain(name);
    });
  });

  describe('protects', () => {
    it('what views leave out from conditions that cost less than those of the views', async () => {
      const names = [neighbour.database, neighbour.writer, neighbour.reader];
      // In two halves, since the text of the function can be read, too.
      const halves = names.map((name) => `'${name.slice(0, 9)}' || '${name.slice(9)}'`);
      await project.rows(`
        CREATE OR REPLACE FUNCTION spies(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS $$ BEGIN
          IF $1 ~ concat_ws('|', ${halves.join(', ')}) THEN RAISE EXCEPTION 'It has seen %', $1; END IF;
          RETURN true; END $$`);
      const columns = await project.rows(`SELECT format('%s.%I', a.attrelid::regclass, a.attname) AS name,
          format('SELECT count(*) FROM %s v WHERE data.spies(v.%I::text)', a.attrelid::regclass, a.attname) AS question
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
        WHERE c.relkind = 'v' AND c.relnamespace IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
          AND has_table_privilege(c.oid, 'SELECT') AND a.attname ~ 'rol|use|gra|owner|datname|authorization'
          AND COALESCE(NULLIF(t.typbasetype, 0), t.oid) IN ('name'::regtype, 'text'::regtype, 'varchar'::regtype)`);
      expect(columns.length).toBeGreaterThan(40);
      const seen: string[] = [];
      for (const { name, question } of columns) {
        const { text } = await project.call('POST', '/api/cdp/sql', { body: { sql: question, timeout_ms: 60_000 } });
        if (!text.startsWith('{"success":true')) seen.push(`${String(name)}: ${text}`);
      }
      expect(seen).toEqual([]);
    });
  });

  describe('is done again', () => {
    it('at the next connection, when somebody opened the catalog again', async () => {
      await asSuperuser('GRANT SELECT ON _cdp_pg_database TO PUBLIC');
      await reconnect();
      expect(await seesDatabases()).toBe(false);
    });

    it.each([
      ['an older program', 'hardening = 0'],
      ['another major version of Postgres', 'server = 14'],
      ['a database of another name, whose dump this one was restored from', `database = 'elsewhere'`],
    ])('at the next connection, where the row was written by %s', async (_by, change) => {
      const before = await preparation();
      await asSuperuser(`UPDATE _cdp.preparation SET ${change}`);
      expect(await preparation()).not.toEqual(before);
      await reconnect();
      expect(await seesDatabases()).toBe(false);
      expect(await preparation()).toEqual(before);
    });

    it('in the template, at the next start', async () => {
      const template = `cdp_template_${service.engine.control.instanceId}`;
      await asSuperuser('GRANT SELECT ON _cdp_pg_database TO PUBLIC', template);
      await (await startService(service.config, quiet)).close();
      const { rows } = await asSuperuser(
        `SELECT has_table_privilege('public', '_cdp_pg_database', 'SELECT') AS yes`,
        template,
      );
      expect(rows).toEqual([{ yes: false }]);
    });
  });

  describe('extensions', () => {
    it('of the list can be used in new projects and in those that were there before', async () => {
      failure(
        await project.call('POST', '/api/cdp/sql', { body: { sql: 'CREATE EXTENSION citext' } }),
        403,
        'permission_denied',
      );
      const second = await startService({ ...service.config, extensions: ['citext', 'pg_trgm'] }, quiet);
      try {
        const fresh = `fresh-${randomBytes(4).toString('hex')}`;
        const { id } = await second.engine.projects.create(fresh);
        for (const token of [project.token, (await second.engine.tokens.create(id)).token]) {
          const answer = await fetch(`${second.url}/api/cdp/sql`, {
            method: 'POST',
            headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
            body: JSON.stringify({ sql: `SELECT 'A'::citext = 'a' AS same, similarity('one', 'one') AS close` }),
          });
          expect(await answer.json()).toMatchObject({ rows: [{ same: true, close: 1 }] });
        }
      } finally {
        await second.close();
      }
    });

    it('that the server does not have refuse the start', async () => {
      await expect(startService({ ...service.config, extensions: ['no_such'] }, quiet)).rejects.toThrow(
        'This Postgres has no extension "no_such" (setting extensions)',
      );
    });
  });
});
