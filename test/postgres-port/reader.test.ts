/**
 * A reader's session stays READ ONLY whatever it sends. A SECURITY DEFINER function of the writer represents everything
 * that could write in its name: each attempt calls it in a transaction that the attempt tries to make READ WRITE.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  inProject,
  startOwnService,
  startTestService,
  type TestProject,
  type TestService,
} from '../support/service.js';
import { testServers } from '../support/postgres.js';
import {
  bind,
  errorOf,
  errorsIn,
  execute,
  FLUSH,
  login,
  message,
  type Message,
  parse,
  query,
  RawClient,
  run,
  SYNC,
  withClient,
} from './connect.js';

const SETTINGS = { 'pg-port': '0' };

/** Before 16 there is no reader: sessions.test.ts. */
const stages: [string, () => Promise<TestService>][] = [
  ['a server of its own', () => startOwnService(SETTINGS)],
  ...testServers()
    .filter(({ major }) => major >= 16)
    .map((server): [string, () => Promise<TestService>] => [
      `a shared Postgres ${server.major}`,
      () => startTestService(SETTINGS, server),
    ]),
];

const OFF = "SELECT set_config('default_transaction_read_only', 'off', false)";

/** Each is one Query message. */
const QUERIES = [
  'SELECT definer()',
  'BEGIN READ WRITE; SELECT definer(); COMMIT',
  'begin/**/read write; select definer(); commit',
  'START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE; SELECT definer(); COMMIT',
  'BEGIN; SET TRANSACTION READ WRITE; SELECT definer(); COMMIT',
  'SET TRANSACTION READ WRITE; SELECT definer()',
  'SET transaction_read_only = off; SELECT definer()',
  'SET "Transaction_Read_Only" TO 0; SELECT definer()',
  'SET LOCAL transaction_read_only = false; SELECT definer()',
  "SET transaction_read_only = 'no'; SELECT definer()",
  "SELECT set_config('transaction_read_only', 'off', true), definer()",
  "SELECT set_config('transaction_read_only', NULL, true), definer()",
  'RESET transaction_read_only; SELECT definer()',
  'SET transaction_read_only TO DEFAULT; SELECT definer()',
  'SET default_transaction_read_only = off; SELECT definer()',
  'SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; SELECT definer()',
  'RESET ALL; SELECT definer()',
  'DISCARD ALL',
  `${OFF}; COMMIT; SELECT definer()`,
  `${OFF}; COMMIT AND CHAIN; SELECT definer()`,
  `BEGIN; ${OFF}; END; SELECT definer()`,
  `${OFF}; COMMIT; BEGIN; SELECT definer(); COMMIT`,
  `${OFF}; PREPARE TRANSACTION 'x'; SELECT definer()`,
  'SELECT switches(); SELECT definer()',
  'SELECT writes_after_reset()',
  'DO $$ BEGIN PERFORM definer(); END $$',
  `DO $$ BEGIN PERFORM set_config('default_transaction_read_only', 'off', false); COMMIT; PERFORM definer(); END $$`,
  'CALL committing()',
  'VACUUM open; SELECT definer()',
  "SET standard_conforming_strings = off; SELECT 'x\\'; COMMIT; SELECT definer(); --'",
  'PREPARE p AS SELECT definer(); EXECUTE p',
  'DECLARE c CURSOR WITH HOLD FOR SELECT definer(); FETCH ALL FROM c',
  'EXPLAIN ANALYZE SELECT definer()',
  'EXPLAIN ANALYZE CREATE TABLE lax.made AS SELECT 1 AS n',
  'SELECT 1; explain (analyze) create materialized view lax.made AS SELECT 1 AS n',
  '/**/ EXPLAIN ANALYZE SELECT 1 AS n INTO lax.made',
  'EXPLAIN ANALYZE (SELECT 1 AS n INTO lax.made UNION SELECT 2) UNION SELECT 3',
  'PREPARE p AS SELECT 1 AS n; EXPLAIN ANALYZE CREATE TABLE lax.made AS EXECUTE p',
  'COPY (SELECT definer()) TO STDOUT',
  'COPY open FROM STDIN',
  'INSERT INTO open VALUES (1)',
  'CREATE TABLE made (n int)',
  'SELECT lo_create(0)',
  "SELECT query_to_xml('SELECT definer()', true, true, '')",
  'SET ROLE writer; SELECT definer()',
  'SET SESSION AUTHORIZATION writer; SELECT definer()',
];

const BREAK_OUT = 'COMMIT; BEGIN READ WRITE; SELECT definer(); COMMIT;';

/**
 * One SELECT with standard_conforming_strings on; without it the first string ends later, and five statements follow.
 */
const TWO_WAYS = `SELECT 'x\\', $$'; ${BREAK_OUT} --$$`;

/** Each is sent in one piece; what follows a Sync is another group. */
const PIPELINES: Record<string, Buffer[]> = {
  'a new default, and a query in the next group': [query(OFF), query('SELECT definer()')],
  'the same with extended messages': [run(OFF), SYNC, run('SELECT definer()'), SYNC],
  'a new default and COMMIT in one group': [run(OFF), run('COMMIT'), run('SELECT definer()'), SYNC],
  'a COMMIT that was prepared before': [
    ...[parse('COMMIT', 'c'), parse('SELECT definer()', 'd'), SYNC],
    ...[run(OFF), bind('c'), execute(), bind('d'), execute(), SYNC],
  ],
  'a portal of COMMIT from the group before': [
    ...[query('BEGIN'), parse('COMMIT', 'c'), bind('c', 'p'), SYNC],
    ...[run(OFF), execute('p'), run('SELECT definer()'), SYNC],
  ],
  'a COMMIT whose name an error kept from being given again': [
    ...[parse('COMMIT', 'c'), parse('SELECT definer()', 'd'), SYNC],
    ...[run('SELECT 1 / 0'), message('C', 'Sc\0'), parse('SELECT 1', 'c'), SYNC],
    ...[run(OFF), bind('c'), execute(), bind('d'), execute(), SYNC],
  ],
  'the unnamed COMMIT after an error': [
    ...[parse('SELECT definer()', 'd'), parse(OFF, 'o'), parse('COMMIT'), SYNC],
    ...[parse('SELECT 1 / 0', 'x'), bind('x'), execute(), parse('SELECT 1'), SYNC],
    ...[bind('o', 'q'), execute('q'), bind('', 'p'), execute('p'), bind('d'), execute(), SYNC],
  ],
  'a COMMIT whose name Postgres cuts to that of another': [
    ...[parse('COMMIT', `${'n'.repeat(63)}1`), parse(OFF, 'o'), bind('o'), execute()],
    ...[bind(`${'n'.repeat(63)}2`), execute(), run('SELECT definer()'), SYNC],
  ],
  'a portal of COMMIT whose name Postgres cuts': [
    ...[parse('COMMIT', 'c'), bind('c', `${'p'.repeat(63)}1`), run(OFF)],
    ...[execute(`${'p'.repeat(63)}2`), run('SELECT definer()'), SYNC],
  ],
  'a COMMIT whose name looks like that of another, as UTF-8': [
    ...[query("SET client_encoding = 'LATIN1'"), message('P', Buffer.from('\xe9\0COMMIT\0\0\0', 'latin1'))],
    ...[message('P', Buffer.from(`\xe8\0${OFF}\0\0\0`, 'latin1'))],
    ...[message('B', Buffer.from('\0\xe8\0\0\0\0\0\0\0', 'latin1')), execute()],
    ...[message('B', Buffer.from('\0\xe9\0\0\0\0\0\0\0', 'latin1')), execute()],
    ...[run('SELECT definer()'), SYNC],
  ],
  'a COMMIT, and a Bind that evaluates a constant': [
    ...[run(OFF), run('COMMIT'), parse('SELECT folded()'), bind(), SYNC],
  ],
  'a COMMIT, and a Bind of what was prepared before': [
    ...[parse('SELECT folded()', 'f'), SYNC, run(OFF), run('COMMIT'), bind('f'), SYNC],
  ],
  'a COMMIT, and a Parse that checks the constant of a domain': [
    ...[run(OFF), run('COMMIT'), parse("SELECT '{1}'::checked[]"), SYNC],
  ],
  'a COMMIT, and a Describe that parses again': [
    ...[query('SET search_path = lax'), parse("SELECT '{1}'::checked[]::text", 'd'), SYNC],
    ...[query('SET search_path = data'), run(OFF), run('COMMIT'), message('D', 'Sd\0'), SYNC],
  ],
  'EXPLAIN ANALYZE of a CREATE TABLE that was prepared by a message': [
    ...[parse('CREATE TABLE lax.made AS SELECT 1 AS n', 'c'), SYNC, query('EXPLAIN ANALYZE EXECUTE c')],
  ],
  'EXPLAIN ANALYZE of a SELECT INTO that was prepared by a message': [
    ...[parse('SELECT 1 AS n INTO lax.made', 's'), SYNC, run('EXPLAIN ANALYZE EXECUTE s'), SYNC],
  ],
  'a Flush instead of a Sync': [run(OFF), FLUSH, run('COMMIT'), FLUSH, run('SELECT definer()'), FLUSH, SYNC],
  'a Query within a group': [run(OFF), query('COMMIT'), query('SELECT definer()')],
  'another way to read strings, within a group': [run('SET standard_conforming_strings = off'), query(TWO_WAYS)],
  'another way to read strings, from the group before': [
    query('SET standard_conforming_strings = off'),
    query(TWO_WAYS),
  ],
  'READ WRITE as the first of a group': [run('SET TRANSACTION READ WRITE'), run('SELECT definer()'), SYNC],
  'BEGIN READ WRITE by itself': [query('BEGIN READ WRITE'), query('SELECT definer()'), query('COMMIT')],
  'BEGIN READ WRITE, prepared': [
    parse('BEGIN READ WRITE', 'b'),
    bind('b'),
    execute(),
    run('SELECT definer()'),
    run('COMMIT'),
    SYNC,
  ],
  'another encoding, and what it makes of a text': [
    query("SET client_encoding = 'SJIS'"),
    query('BEGIN READ WRITE; SELECT definer(); COMMIT'),
  ],
  'LATIN1, in which two tags differ that look alike as UTF-8': [
    query("SET client_encoding = 'LATIN1'"),
    message('Q', Buffer.from(`SELECT $\xe9$ $\xe8$, $\xe9$; ${BREAK_OUT} SELECT $\xe8$,$\xe8$ --$\xe8$\0`, 'latin1')),
  ],
  'a function call message': [message('F', Buffer.from([0, 0, 0x04, 0xd2, 0, 0, 0, 0, 0, 0]))],
  'DISCARD ALL and a query behind it': [run(OFF), run('DISCARD ALL'), run('SELECT definer()'), SYNC],
  'VACUUM, which commits': [run('VACUUM open'), run('SELECT definer()'), SYNC],
};

describe.each(stages)('on %s', (_name, start) => {
  let service: TestService;
  let project: TestProject;

  beforeAll(async () => {
    service = await start();
    project = await service.project();
    await project.rows(`
      CREATE TABLE open (n int);
      GRANT ALL ON open TO PUBLIC;
      CREATE FUNCTION definer() RETURNS int LANGUAGE sql SECURITY DEFINER AS $$ INSERT INTO data.open VALUES (1) RETURNING n $$;
      CREATE FUNCTION switches() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
        $$ BEGIN SET transaction_read_only = off; END $$;
      CREATE FUNCTION writes_after_reset() RETURNS int LANGUAGE plpgsql SECURITY DEFINER
        SET default_transaction_read_only = off AS
        $$ BEGIN RESET transaction_read_only; RETURN data.definer(); END $$;
      CREATE PROCEDURE committing() LANGUAGE plpgsql AS $$ BEGIN
        PERFORM set_config('default_transaction_read_only', 'off', false); COMMIT; PERFORM data.definer(); COMMIT; END $$;
      CREATE FUNCTION folded() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN data.definer(); END $$;
      CREATE DOMAIN checked AS int CHECK (data.definer() = 1);
      CREATE SCHEMA lax;
      CREATE DOMAIN lax.checked AS int;
      GRANT ALL ON SCHEMA lax TO PUBLIC;
      CREATE PROCEDURE definer_procedure() LANGUAGE sql SECURITY DEFINER AS $$ INSERT INTO data.open VALUES (1) $$`);
  });

  afterAll(() => service?.close());

  const reader = () => login(service, project, 'reader');
  const rows = async () => Number((await project.rows('SELECT count(*) AS n FROM open'))[0]?.n);
  /** What was made where everybody may make tables. */
  const made = async () =>
    Number((await project.rows("SELECT count(*) AS n FROM pg_class WHERE relname = 'made'"))[0]?.n);
  const large = async () => Number((await project.rows('SELECT count(*) AS n FROM pg_largeobject_metadata'))[0]?.n);

  const raw = async (): Promise<RawClient> => {
    const client = await RawClient.open(service.postgresPort ?? 0);
    await client.logIn('reader', project.name, project.token);
    return client;
  };

  /** What comes until the reader's last group is answered, or its session has ended. */
  const settle = async (client: RawClient): Promise<Message[]> => {
    const seen: Message[] = [];
    for (;;) {
      const part = await client.until('Z');
      seen.push(...part);
      if (part.at(-1)?.type !== 'Z' || part.some(({ type, body }) => type === 'D' && body.includes('the end')))
        return seen;
    }
  };

  describe('protects', () => {
    it.each(QUERIES)('from %s', async (sql) => {
      const client = await raw();
      // Whatever the attempt leaves open is used by another one, and committed.
      client.send(query(sql));
      if ((await client.until('Z')).at(-1)?.type === 'Z') {
        client.send(query('SELECT definer()'), query('COMMIT'), query("SELECT 'the end'"));
        await settle(client);
      }
      client.close();
      expect([await rows(), await made(), await large()]).toEqual([0, 0, 0]);
    });

    it.each(Object.entries(PIPELINES))('from %s', async (_name, messages) => {
      const client = await raw();
      client.send(...messages);
      client.send(query('SELECT definer()'), query('COMMIT'), query("SELECT 'the end'"));
      const seen = await settle(client);
      client.close();
      expect(errorsIn(seen).length).toBeGreaterThan(0);
      expect([await rows(), await made()]).toEqual([0, 0]);
    });

    it('from EXECUTE of a COMMIT prepared by a Parse message', async () => {
      const client = await raw();
      client.send(parse('COMMIT', 'c'), parse('DISCARD ALL', 'd'), SYNC);
      client.send(query(`${OFF}; EXECUTE c; SELECT folded()`), query('SELECT definer()'));
      client.send(query(`${OFF}; EXECUTE d; SELECT folded()`), query('SELECT definer()'));
      client.send(query("SELECT 'the end'"));
      expect(errorsIn(await settle(client))).toContain('25006');
      client.close();
      expect(await rows()).toBe(0);
    });
  });

  describe('works', () => {
    it('queries, transactions, cursors, prepared statements, SET, SHOW, COPY TO and EXPLAIN', async () => {
      await withClient(reader(), async (client) => {
        for (const sql of [
          'BEGIN',
          'BEGIN; SELECT 1',
          'COMMIT',
          'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
          'DECLARE c CURSOR FOR SELECT n FROM generate_series(1, 10) n; FETCH 3 FROM c',
          'SAVEPOINT s; SELECT 1; ROLLBACK TO s; RELEASE s',
          'ROLLBACK;',
          "SET TimeZone = 'Asia/Tokyo'; SET search_path = data, pg_catalog",
          'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, ISOLATION LEVEL REPEATABLE READ',
          'SET default_transaction_read_only = on',
          'SHOW ALL',
          'EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM open',
          'EXPLAIN INSERT INTO open VALUES (1)',
          'LISTEN x; UNLISTEN *',
          'PREPARE p AS SELECT $1::int; EXECUTE p (1); DEALLOCATE p',
          '(SELECT 1) UNION (SELECT 2)',
          '',
          'SELECT 1; SELECT 2',
          'RESET ALL',
          'DISCARD ALL',
        ]) {
          await client.query(sql);
        }
        expect((await client.query('SELECT $1::text AS text', ['ü'])).rows).toEqual([{ text: 'ü' }]);
        expect((await client.query('SELECT n FROM generate_series(1, 50000) n')).rows).toHaveLength(50_000);
      });
    });

    it('pipelines, which are answered in order', async () => {
      const client = await raw();
      for (let i = 0; i < 200; i++) client.send(run(`SELECT ${i}`), SYNC);
      const values: number[] = [];
      for (let i = 0; i < 200; i++) {
        const row = (await client.until('Z')).find(({ type }) => type === 'D');
        values.push(Number(row?.body.toString('latin1', 6)));
      }
      client.close();
      expect(values).toEqual(Array.from({ length: 200 }, (_, i) => i));
    });
  });

  it('importing a snapshot that another session has exported, without writing in it', async () => {
    const { placement } = await service.engine.projects.get(project.name);
    await inProject(service, placement, async (other) => {
      await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      const { rows } = await other.query<{ id: string }>('SELECT pg_export_snapshot() AS id');
      const take = `BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '${rows[0]?.id}'`;
      await withClient(reader(), async (client) => {
        await client.query(take);
        expect((await client.query('SELECT count(*)::int AS n FROM open')).rows).toEqual([{ n: 0 }]);
        await client.query('ROLLBACK');
        expect((await errorOf(client.query(`${take}; SELECT definer()`))).code).toBe('25006');
        await client.query('ROLLBACK');
        const readWrite = "SELECT set_config('transaction_read_only', 'off', true)";
        expect((await errorOf(client.query(`${take}; ${readWrite}`))).code).toBe('25001');
      });
    });
  });

  it('except for LOCK on the table that CREATE EXTENSION of the writer locks', async () => {
    const lock = 'BEGIN; LOCK TABLE _cdp.idempotency_keys IN ACCESS SHARE MODE';
    await withClient(reader(), async (client) => expect((await errorOf(client.query(lock))).code).toBe('42501'));
  });

  it('after a refused statement, which fails the transaction like any error, until a ROLLBACK', async () => {
    await withClient(reader(), async (client) => {
      await client.query('BEGIN');
      expect(await errorOf(client.query('CALL definer_procedure()'))).toMatchObject({
        code: '25006',
        severity: 'ERROR',
        hint: 'Connect as the user writer, with a token that has the scope sql:write.',
        where: undefined,
      });
      expect((await errorOf(client.query('SELECT 1'))).code).toBe('25P02');
      await client.query('ROLLBACK');
      expect((await errorOf(client.query('SELECT definer()'))).code).toBe('25006');
      expect((await errorOf(client.query('SELEC 1'))).code).toBe('42601');
      expect((await client.query('SELECT 1 AS n')).rows).toEqual([{ n: 1 }]);
    });
  });
});
