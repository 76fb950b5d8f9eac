/** Sessions of the Postgres port: clients can do what they do in Postgres itself; and which clients may open one. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startOwnService, startTestService, type TestProject, type TestService } from '../support/service.js';
import { projectOutOfReach } from '../support/added-server.js';
import { testServers } from '../support/postgres.js';
import { cancelRequest, errorOf, errorsIn, login, query, RawClient, refusedLogin, withClient } from './connect.js';

const SETTINGS = { 'pg-port': '0', 'pg-sessions': '4', 'pg-sessions-total': '6' };

const stages: [string, number, () => Promise<TestService>][] = [
  ['a server of its own', 18, () => startOwnService(SETTINGS)],
  ...testServers().map((server): [string, number, () => Promise<TestService>] => [
    `a shared Postgres ${server.major}`,
    server.major,
    () => startTestService(SETTINGS, server),
  ]),
];

describe.each(stages)('on %s', (_name, major, start) => {
  let service: TestService;
  let project: TestProject;

  beforeAll(async () => {
    service = await start();
    project = await service.project();
    await project.rows('CREATE TABLE numbers (n int)');
  });

  afterAll(() => service?.close());

  const sessions = () => {
    const { writer = 0, reader = 0 } = service.engine.sessions?.load.sessions ?? {};
    return writer + reader;
  };

  describe('works', () => {
    it('like Postgres: queries, parameters, transactions, errors, LISTEN', async () => {
      await withClient(login(service, project), async (client) => {
        await client.query('INSERT INTO numbers (n) VALUES ($1), ($2)', [1, 2]);
        expect((await client.query('SELECT n FROM numbers ORDER BY n')).rows).toEqual([{ n: 1 }, { n: 2 }]);
        await client.query('BEGIN');
        await client.query('DELETE FROM numbers');
        expect((await errorOf(client.query('SELECT 1 / 0'))).code).toBe('22012');
        await client.query('ROLLBACK');
        expect((await client.query('SELECT count(*)::int AS n FROM numbers')).rows).toEqual([{ n: 2 }]);
        const told = new Promise((resolve) => client.once('notification', resolve));
        await client.query('LISTEN news');
        await client.query("NOTIFY news, 'hello'");
        const { processID } = client as unknown as { processID: number };
        expect(await told).toMatchObject({ channel: 'news', payload: 'hello', processId: processID });
        expect((await client.query('SELECT pg_backend_pid() AS pid')).rows).toEqual([{ pid: processID }]);
        expect((await client.query('SELECT session_user = current_user AS same')).rows).toEqual([{ same: true }]);
      });
    });

    it.each(['writer', ...(major < 16 ? [] : ['reader'])] as ('writer' | 'reader')[])(
      'and show what the session of a %s has prepared, and nothing of others',
      async (user) => {
        const config = login(service, project, user);
        await withClient(login(service, project), async (other) => {
          await other.query('PREPARE of_another AS SELECT 1');
          await withClient(config, async (client) => {
            await client.query({ name: 'by protocol', text: 'SELECT $1::int AS n', values: [1] });
            await client.query('PREPARE by_sql AS SELECT 2');
            const { rows } = await client.query(
              'SELECT name, statement, parameter_types, from_sql FROM pg_prepared_statements ORDER BY name',
            );
            expect(rows).toEqual([
              { name: 'by protocol', statement: 'SELECT $1::int AS n', parameter_types: '{integer}', from_sql: false },
              { name: 'by_sql', statement: 'PREPARE by_sql AS SELECT 2', parameter_types: '{}', from_sql: true },
            ]);
          });
        });
      },
    );

    it("with the database's name in Postgres", async () => {
      const { placement } = await service.engine.projects.get(project.name);
      await withClient({ ...login(service, project), database: placement.database }, async (client) => {
        expect((await client.query('SELECT current_database() AS name')).rows).toEqual([{ name: placement.database }]);
      });
    });

    it('with a result larger than every buffer, byte for byte', async () => {
      await withClient(login(service, project), async (client) => {
        const { rows } = await client.query("SELECT n, repeat('x', n % 5000) AS text FROM generate_series(1, 20000) n");
        const wrong = (rows as { n: number; text: string }[]).filter(({ n, text }) => text.length !== n % 5000);
        expect([rows.length, wrong]).toEqual([20_000, []]);
      });
    });

    it('with the settings of the startup packet, which RESET ALL restores', async () => {
      const config = {
        ...login(service, project),
        application_name: 'a test',
        options: '-c work_mem=5MB --TimeZone=Asia/Tokyo',
      };
      await withClient(config, async (client) => {
        await client.query('SET work_mem = 9000; RESET ALL');
        const { rows } = await client.query(
          `SELECT current_setting('work_mem') AS mem, current_setting('timezone') AS zone,
             current_setting('application_name') AS name, current_setting('search_path') AS path`,
        );
        expect(rows).toEqual([{ mem: '5MB', zone: 'Asia/Tokyo', name: 'a test', path: 'data' }]);
      });
    });

    it('for a cancel request, which ends only the statement of its session', async () => {
      const one = await RawClient.open(service.postgresPort ?? 0);
      const keyData = (await one.logIn('writer', project.name, project.token)).find(({ type }) => type === 'K')?.body;
      const forged = Buffer.from(keyData ?? '');
      forged[7] = 255 - (forged[7] ?? 0);
      one.send(query("DO $$ BEGIN RAISE NOTICE 'asleep'; PERFORM pg_sleep(60); END $$"));
      // Postgres ignores a cancel request that arrives before the statement.
      await one.until('N');
      const cancel = async (key: Buffer) => {
        const other = await RawClient.open(service.postgresPort ?? 0);
        other.send(cancelRequest(key));
        expect(await other.rest()).toEqual(Buffer.alloc(0));
      };
      await cancel(forged);
      await cancel(keyData ?? Buffer.alloc(8));
      expect(errorsIn(await one.until('Z'))).toEqual(['57014']);
      one.send(query('SELECT 1'));
      expect(errorsIn(await one.until('Z'))).toEqual([]);
      one.close();
    });

    it('without leaving a backend when clients disconnect, idle or active', async () => {
      const idle = await RawClient.open(service.postgresPort ?? 0);
      const busy = await RawClient.open(service.postgresPort ?? 0);
      for (const client of [idle, busy]) await client.logIn('writer', project.name, project.token);
      busy.send(query("SET client_connection_check_interval = 0; SELECT pg_sleep(600), 'left behind'"));
      expect(sessions()).toBe(2);
      idle.close();
      busy.close();
      await vi.waitFor(() => expect(sessions()).toBe(0), 20_000);
      const left = await project
        .rows(
          `SELECT count(*)::int AS n FROM pg_stat_activity WHERE query LIKE '%left ' || 'behind%' AND state = 'active'
           AND pid <> pg_backend_pid()`,
        )
        .catch(() => [{ n: 0 }]);
      expect(left).toEqual([{ n: 0 }]);
    });
  });

  describe('refuses', () => {
    it('wrong tokens, users, databases and scopes with the SQLSTATE of each', async () => {
      const other = await service.project();
      const config = login(service, project);
      const [reading, writing] = [await project.tokenWith('sql:read'), await project.tokenWith('sql:write')];
      expect({
        noToken: await refusedLogin({ ...config, password: '' }),
        wrongToken: await refusedLogin({ ...config, password: `${project.token.slice(0, -1)}-` }),
        wrongUser: await refusedLogin({ ...config, user: 'postgres' }),
        upperCase: await refusedLogin({ ...config, user: 'Writer' }),
        otherProject: await refusedLogin({ ...config, database: other.name }),
        template: await refusedLogin({ ...config, database: 'template1' }),
        readerWrites: await refusedLogin({ ...config, password: reading }),
        writerReads: await refusedLogin({ ...config, user: 'reader', password: writing }),
        admin: await refusedLogin({ ...config, password: (await service.engine.tokens.create(null)).token }),
        role: await refusedLogin({ ...config, options: '-c role=cdp_service' }),
        unknown: await refusedLogin({ ...config, options: '-c no_such_setting=1' }),
        superuser: await refusedLogin({ ...config, options: '-c log_statement=all' }),
        flag: await refusedLogin({ ...config, options: '-O' }),
        wrongValue: await refusedLogin({ ...config, options: '-c work_mem=much' }),
        replication: await refusedLogin({ ...config, replication: 'database' } as object),
      }).toEqual({
        noToken: '28P01',
        wrongToken: '28P01',
        wrongUser: '28000',
        upperCase: '28000',
        otherProject: '3D000',
        template: '3D000',
        readerWrites: '28000',
        writerReads: '28000',
        admin: '28000',
        role: '0A000',
        unknown: '42704',
        superuser: '42501',
        flag: '42601',
        wrongValue: '22023',
        replication: '0A000',
      });
      await vi.waitFor(() => expect(sessions()).toBe(0), { timeout: 20_000 });
    });

    it('a project whose server this instance cannot reach, for that reason each time', async () => {
      const name = 'out-of-reach';
      const { token } = await service.engine.tokens.create(await projectOutOfReach(service, name));
      const config = { ...login(service, project), database: name, password: token };
      const codes = new Set<string | undefined>();
      for (let i = 0; i < 5; i++) codes.add(await refusedLogin(config));
      expect(codes).toEqual(new Set(['57P03']));
      expect(sessions()).toBe(0);
    });

    it('more sessions than a project may have, and more than all may have', async () => {
      const other = await service.project();
      const clients = [];
      for (const [at, count] of [
        [project, 4],
        [other, 2],
      ] as const) {
        for (let i = 0; i < count; i++) {
          const client = await RawClient.open(service.postgresPort ?? 0);
          await client.logIn('writer', at.name, at.token);
          clients.push(client);
        }
        expect(await errorOf(withClient(login(service, at), () => Promise.resolve()))).toMatchObject({
          code: '53300',
          hint: `The operator can raise the setting ${at === project ? 'pg-sessions' : 'pg-sessions-total'}.`,
        });
      }
      for (const client of clients) client.close();
      await vi.waitFor(() => expect(sessions()).toBe(0), 20_000);
      await withClient(login(service, project), (client) => client.query('SELECT 1'));
    });

    it('the reader before Postgres 16, which cannot enforce READ ONLY, but not later', async () => {
      const login16 = withClient(login(service, project, 'reader'), (client) =>
        client.query('SHOW transaction_read_only'),
      );
      const outcome = await login16.then(
        ({ rows }) => (rows as { transaction_read_only: string }[])[0]?.transaction_read_only,
        (error: { code?: string }) => error.code,
      );
      expect(outcome).toBe(major < 16 ? '0A000' : 'on');
    });
  });
});
