/**
 * A project tries to reach beyond its database: files, programs, the network, other databases and roles, the server's
 * configuration, the service's own bookkeeping. Each attempt is refused, and afterward nothing has changed.
 */
import { existsSync, readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Credentials } from '../../src/tenancy/credentials.js';
import type { Placement } from '../../src/tenancy/placement.js';
import { testServers } from '../support/postgres.js';
import {
  onServer,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../support/service.js';
import { askEach } from './probes/probe.js';

/** By theme, one attempt a line. */
const ATTEMPTS = readFileSync(new URL('attempts.sql', import.meta.url), 'utf8')
  .split(/^-- theme: /m)
  .slice(1)
  .map((block) => {
    const [theme = '', ...lines] = block.split('\n');
    return { theme, lines: lines.filter((line) => line !== '' && !line.startsWith('--')) };
  });

/** Catalogs and views that tell of others. */
const CLOSED = [
  ...['pg_database', 'pg_roles', 'pg_user', 'pg_group', 'pg_shadow', 'pg_auth_members', 'pg_shdescription'],
  ...['pg_shdepend', 'pg_db_role_setting', 'pg_shseclabel', 'pg_seclabels', 'pg_prepared_xacts', 'pg_locks'],
  ...['pg_parameter_acl', 'pg_replication_origin', 'pg_replication_slots', 'pg_subscription', 'pg_stat_activity'],
  ...['pg_stat_database', 'pg_stat_database_conflicts', 'pg_stat_ssl', 'pg_stat_replication', 'pg_stat_bgwriter'],
  ...['pg_stat_wal', 'pg_stat_archiver', 'pg_stat_progress_copy', 'pg_stat_progress_create_index'],
];

/** Nothing may write here. */
const FORBIDDEN_FILE = '/tmp/cdp-attempt-should-not-exist';

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let service: TestService;
  let project: TestProject;
  let neighbour: TestProject;
  let own: Placement;
  let other: Placement;
  let readToken: string;

  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    neighbour = await service.project();
    own = (await service.engine.projects.get(project.name)).placement;
    other = (await service.engine.projects.get(neighbour.name)).placement;
    await project.table('mine', { n: 'TEXT' });
    await neighbour.table('theirs', { n: 'TEXT' });
    await neighbour.rows("INSERT INTO theirs (n) VALUES ('a')");
    readToken = await project.tokenWith('sql:read');
  });
  afterAll(() => service.close());

  const sql = (text: string, token = project.token): Promise<TestResponse> =>
    project.call('POST', '/api/cdp/sql', { token, body: { sql: text } });

  const named = (text: string): string =>
    text.replace(/\{(\w+)\}/g, (whole, name: string) => {
      const names: Record<string, string> = {
        ...{
          writer: other.writer,
          reader: other.reader,
          database: other.database,
          own: own.database,
          mine: own.writer,
          own_reader: own.reader,
        },
        ...{ superuser: server.connection.user, control: service.database, file: FORBIDDEN_FILE },
        ...{ socket: server.connection.host, port: String(server.connection.port) },
      };
      return names[name] ?? whole;
    });

  it("a project's database admits only its own roles, and the template none", async () => {
    const template = `cdp_template_${service.engine.control.instanceId}`;
    const databases = [own.database, other.database, template];
    const open = await onServer(server, async (client) => {
      const { rows } = await client.query<{ role: string; datname: string }>(
        `SELECT role, datname FROM pg_database, unnest($2::text[]) AS role
         WHERE datname = ANY ($1) AND has_database_privilege(role, oid, 'CONNECT, TEMPORARY') ORDER BY role`,
        [databases, ['public', own.reader, own.writer]],
      );
      return rows;
    });
    expect(open).toEqual([
      { role: own.reader, datname: own.database },
      { role: own.writer, datname: own.database },
    ]);
  });

  /**
   * Databases, roles and settings of the server, what the project's database holds that is not the project's, and a
   * neighbour's rows.
   */
  async function surroundings(): Promise<unknown> {
    const names = [own.writer, own.reader, own.database, other.writer, other.reader, other.database];
    const everywhere = [
      'SELECT datname, datdba, datconnlimit, datacl::text FROM pg_database WHERE datname = ANY ($1) ORDER BY 1',
      'SELECT * FROM pg_authid WHERE rolname = ANY ($1) ORDER BY rolname',
      `SELECT r.rolname, m.roleid FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member
       WHERE r.rolname = ANY ($1) ORDER BY 1, 2`,
      'SELECT setconfig FROM pg_db_role_setting JOIN pg_roles r ON r.oid = setrole WHERE r.rolname = ANY ($1)',
      "SELECT name FROM pg_settings WHERE sourcefile LIKE '%auto.conf' AND $1::text[] IS NOT NULL",
      'SELECT spcname FROM pg_tablespace WHERE $1::text[] IS NOT NULL ORDER BY 1',
    ];
    const within = [
      "SELECT relname, relacl::text, relowner FROM pg_class WHERE relnamespace = '_cdp'::regnamespace ORDER BY 1",
      `SELECT proname, prosrc, proowner, proacl::text FROM pg_proc WHERE pronamespace = '_cdp'::regnamespace ORDER BY 1, 2`,
      "SELECT relname, relkind, relacl::text FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace ORDER BY 1",
      'SELECT * FROM _cdp.migrations ORDER BY 1',
      'SELECT extname FROM pg_extension ORDER BY 1',
      "SELECT nspname, nspowner FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp' ORDER BY 1",
    ];
    const found: unknown[] = [await neighbour.rows('SELECT n FROM theirs')];
    await onServer(server, async (client) => {
      for (const text of everywhere) found.push((await client.query(text, [names])).rows);
    });
    await onServer(
      server,
      async (client) => {
        for (const text of within) found.push((await client.query(text)).rows);
      },
      own.database,
    );
    return found;
  }

  describe('refuses', () => {
    it.each(ATTEMPTS)('$theme', async ({ lines }) => {
      const before = await surroundings();
      const done: string[] = [];
      const probes = lines.map((line) => ({ name: line, sql: named(line) }));
      for (const token of [project.token, readToken]) {
        // Who creates a database elsewhere may hold the lock of a shared catalog: 503 says nothing yet.
        const ask = async (text: string, tries = 5): Promise<string> => {
          const { status } = await sql(text, token);
          return status === 503 && tries > 1 ? ask(text, tries - 1) : String(status);
        };
        await askEach(
          (text) => ask(text),
          probes,
          ({ name }, status) => {
            if (status !== '400' && status !== '403') done.push(`${status} ${name}`);
          },
        );
      }
      expect(done).toEqual([]);
      expect(await surroundings()).toEqual(before);
      expect(existsSync(FORBIDDEN_FILE)).toBe(false);
    });
  });

  describe('restricts', () => {
    it('the catalogs that reveal other projects', async () => {
      for (const name of CLOSED) {
        for (const token of [project.token, readToken]) {
          const response = await sql(`SELECT * FROM ${name}`, token);
          expect({ name, status: response.status, error: response.body.error }).toEqual({
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

  describe("the service's own bookkeeping", () => {
    it('fills ids, whatever the project revokes', async () => {
      // Without the right to revoke it, Postgres warns and revokes nothing: it writes the default rights down.
      const response = await sql('REVOKE EXECUTE ON FUNCTION _cdp.uuid_v7() FROM PUBLIC');
      expect([400, 403].includes(response.status) || response.body.type === 'REVOKE').toBe(true);
      const right = "SELECT has_function_privilege('public', '_cdp.uuid_v7()', 'EXECUTE') AS may";
      expect((await onServer(server, (client) => client.query(right), own.database)).rows).toEqual([{ may: true }]);
      const stored = await project.call('POST', '/api/cdp/data/mine?return=ids', { body: [{ n: 'a' }] });
      expect(stored.body.ids).toMatchObject([expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/)]);
    });

    it('is inaccessible, except for the keys of its own requests and its quarantine', async () => {
      const { rows } = await onServer(
        server,
        (client) =>
          client.query<{ name: string; may: string[] }>(
            `SELECT c.relname AS name, ARRAY(
               SELECT p FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p
               WHERE has_table_privilege($1, c.oid, p)) AS may
             FROM pg_class c WHERE c.relnamespace = '_cdp'::regnamespace AND c.relkind IN ('r', 'v', 'S') ORDER BY 1`,
            [own.writer],
          ),
        own.database,
      );
      const writable = rows.filter(({ may }) => may.some((right) => right !== 'SELECT'));
      const may = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'];
      expect(writable).toEqual([
        { name: 'erasures', may: ['SELECT', 'INSERT'] },
        { name: 'idempotency_keys', may },
        { name: 'quarantine', may },
        { name: 'quarantined', may },
        { name: 'stream_chunks', may },
      ]);
    });

    it('lets a project forge and delete the keys of its own requests, and no others', async () => {
      const post = (): Promise<TestResponse> =>
        project.call('POST', '/api/cdp/data/mine', { body: [{ n: 'once' }], headers: { 'Idempotency-Key': 'k' } });
      expect((await post()).status).toBe(201);
      expect((await post()).headers.get('idempotency-replayed')).toBe('true');
      await project.rows('DELETE FROM _cdp.idempotency_keys');
      expect((await post()).headers.get('idempotency-replayed')).toBeNull();
      expect((await sql('DELETE FROM _cdp.idempotency_keys', readToken)).status).toBe(403);
    });
  });

  describe('the server', () => {
    /** What a login comes to, past the service. */
    async function login(user: string, database: string, password?: string): Promise<string> {
      const client = new pg.Client({ ...server.connection, user, database, password });
      client.on('error', () => {});
      try {
        await client.connect();
        return 'in';
      } catch (error) {
        return (error as pg.DatabaseError).code ?? (error as Error).message;
      } finally {
        await client.end().catch(() => undefined);
      }
    }

    it('refuses a role with its password in the databases of other projects', async () => {
      const credentials = new Credentials(service.config.secret ?? '');
      for (const role of [own.writer, own.reader]) {
        const password = credentials.password(role);
        expect(await login(role, own.database, password)).toBe('in');
        for (const database of [other.database, `cdp_template_${service.engine.control.instanceId}`]) {
          expect({ database, code: await login(role, database, password) }).toEqual({
            database,
            code: expect.stringMatching(/^(28000|42501)$/) as string,
          });
        }
      }
    });

    it("refuses other roles in a project's database even if the project grants them access", async () => {
      // Without the right to grant it, Postgres warns and grants nothing.
      await sql(`GRANT ALL ON DATABASE ${own.database} TO ${other.writer}, PUBLIC`);
      const password = new Credentials(service.config.secret ?? '').password(other.writer);
      expect(await login(other.writer, own.database, password)).toMatch(/^(28000|42501)$/);
    });

    it('refuses to let the writer become the reader', async () => {
      expect([400, 403]).toContain((await sql(`SET ROLE ${own.reader}`)).status);
    });

    it('has only plain login roles for projects: no attributes, no memberships', async () => {
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

    it('refuses logins without a password, or with a wrong one', async () => {
      for (const role of [own.writer, own.reader, server.connection.user]) {
        expect(await login(role, own.database, '')).not.toBe('in');
        expect(await login(role, own.database, 'wrong')).toBe('28P01');
      }
    });
  });
});
