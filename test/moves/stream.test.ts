/** Copies projects to another server while clients write to them. */
import { setImmediate as turn } from 'node:timers/promises';
import { chmod, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { schemaEntries } from '../../src/moves/copy.js';
import { catalogsOf, NotStreamable } from '../../src/moves/stream-obstacles.js';
import { streamDatabase } from '../../src/moves/stream.js';
import { visibleIn } from '../../src/pg/index.js';
import { NEVER_ABORTED } from '../../src/db/backend-request.js';
import type { Placement } from '../../src/tenancy/placement.js';
import { withServiceSession } from '../../src/tenancy/service-pool.js';
import { serverRefOf } from '../../src/tenancy/control/server-rows.js';
import type { Tenancy } from '../../src/tenancy/tenancy.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { makeFolder } from '../support/folder.js';
import { connected, testServers } from '../support/postgres.js';
import { inProject, onServer, startTestService, type TestProject, type TestService } from '../support/service.js';
import { startThrowaway, type ThrowawayServer } from '../support/throwaway-postgres.js';

let other: AddedServer;
beforeAll(async () => {
  other = await startAddedServer(18);
  await connected(other.connection, (client) => client.query('ALTER ROLE cdp SUPERUSER'));
});
afterAll(() => other.close());

/** What a project may have that changes are streamed of. */
/** A schema of the project's own, whose name looks like a part of a dump. */
const MINE = '"My; Type: ACL; Schema: _cdp; Owner: -\né."';

const SCHEMA = `
CREATE TABLE people (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text, tags text[], size numeric, at timestamptz,
  span interval, picture bytea, facts jsonb, "odd ""name" text DEFAULT 'x', twice numeric GENERATED ALWAYS AS (size * 2) STORED);
CREATE TABLE pairs (a integer, b text, "value" text, PRIMARY KEY (b, a));
CREATE TABLE parents (id integer PRIMARY KEY);
CREATE TABLE children (id integer PRIMARY KEY, parent integer REFERENCES parents ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE events (day date, id integer, note text, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE TABLE emptied (id integer PRIMARY KEY);
CREATE TABLE log (id serial PRIMARY KEY, what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO data.log (what) VALUES (TG_OP); RETURN NULL; END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON pairs FOR EACH ROW EXECUTE FUNCTION note();
CREATE TABLE swapped (id integer PRIMARY KEY, place integer UNIQUE DEFERRABLE);
CREATE SEQUENCE numbers;
CREATE TABLE codes (code varchar PRIMARY KEY, n integer);
CREATE FUNCTION never(varchar, varchar) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false';
CREATE OPERATOR data.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = never);
CREATE SCHEMA ${MINE};
CREATE TYPE ${MINE}.mood AS ENUM ('good', 'bad');
CREATE TABLE ${MINE}.moods (mood ${MINE}.mood PRIMARY KEY, is_good boolean)`;

const TABLES = ['people', 'pairs', 'parents', 'children', 'events_1', 'events_2', 'emptied', 'log', 'swapped', 'codes'];

const SEQUENCES = ['numbers', 'log_id_seq', 'people_id_seq'].map(
  (name) => `(SELECT last_value, is_called FROM ${name})`,
);

const ROWS = `
INSERT INTO people (name, tags, size, at, picture, facts) SELECT 'p' || n, ARRAY['a', NULL, E'b"\\\\\\n,'], n, now(), '\\x00ff', '{"a": 1}'
  FROM generate_series(1, 1000) n;
INSERT INTO people (name) SELECT string_agg(md5(n::text), '') FROM generate_series(1, 1000) n;
INSERT INTO pairs SELECT n, 'b' || n % 3, E'tab\\tline\\nback\\\\slash\\r' FROM generate_series(1, 100) n;
INSERT INTO parents SELECT generate_series(1, 100);
INSERT INTO children SELECT n, n % 100 + 1 FROM generate_series(1, 300) n;
INSERT INTO events SELECT '2026-01-15', n, 'e' FROM generate_series(1, 100) n;
INSERT INTO emptied SELECT generate_series(1, 100);
INSERT INTO swapped SELECT n, n FROM generate_series(1, 10) n;
INSERT INTO codes VALUES ('a', 1), ('b', 2);
INSERT INTO ${MINE}.moods VALUES ('good', true)`;

/** Each in a transaction of its own. */
const CHANGES = [
  `INSERT INTO people (name, tags, size, at, span, picture, facts) VALUES
    (NULL, '{}', 'NaN', 'infinity', '1 mon -2 days', '', 'null'), (E'\\\\N', '{{1,2},{3,4}}', 1e300, '-infinity', NULL, '\\x5c', '[]'),
    ('', NULL, 0.10, '2026-01-01 00:00:00.123456+14', '-1 us', NULL, '"\\u00e9"')`,
  `UPDATE people SET size = size + 1, "odd ""name" = E'\\t' WHERE length(name) > 1000`, // a long value stays as it is
  `UPDATE people SET name = NULL, tags = NULL WHERE id BETWEEN 10 AND 20`,
  `UPDATE people SET id = DEFAULT WHERE id = 5`,
  `DELETE FROM people WHERE id BETWEEN 30 AND 40`,
  `UPDATE pairs SET a = a + 1000, value = NULL WHERE b = 'b1'; DELETE FROM pairs WHERE b = 'b2'`,
  `INSERT INTO pairs VALUES (1, 'x', 'new'); UPDATE pairs SET value = 'newer' WHERE b = 'x'; DELETE FROM pairs WHERE b = 'x';
   INSERT INTO pairs VALUES (1, 'x', 'again')`,
  `DELETE FROM parents WHERE id <= 10; UPDATE parents SET id = id + 1000 WHERE id > 90`,
  `INSERT INTO events VALUES ('2026-02-10', 1000, NULL); UPDATE events SET day = '2026-02-11' WHERE id < 10; DELETE FROM events WHERE id = 50`,
  `TRUNCATE events_2; INSERT INTO events VALUES ('2026-02-12', 7, 'after')`,
  `TRUNCATE emptied; INSERT INTO emptied VALUES (7)`,
  `TRUNCATE parents CASCADE; INSERT INTO parents VALUES (1); INSERT INTO children VALUES (1, 1)`,
  `UPDATE swapped SET place = 11 - place`,
  `INSERT INTO ${MINE}.moods VALUES ('bad', NULL); UPDATE ${MINE}.moods SET is_good = false WHERE mood = 'bad'`,
  `UPDATE codes SET n = 3 WHERE n = 1; DELETE FROM codes WHERE n = 2`,
  `SELECT nextval('numbers') FROM generate_series(1, 5)`,
  `BEGIN; INSERT INTO emptied VALUES (8); SAVEPOINT a; INSERT INTO emptied VALUES (9); ROLLBACK TO a; INSERT INTO emptied VALUES (10); COMMIT`,
  `BEGIN; INSERT INTO emptied VALUES (11); ROLLBACK`,
];

describe.each(testServers().map(({ major }) => ({ major })))('from Postgres $major', ({ major }) => {
  let folder: string;
  let server: ThrowawayServer;
  let service: TestService;
  let project: TestProject;
  let source: { tenancy: Tenancy; placement: Placement };
  let target: { tenancy: Tenancy; placement: Placement };
  beforeAll(async () => {
    folder = makeFolder('cdp-stream-');
    await chmod(folder, 0o711);
    server = await startThrowaway(join(folder, 'server'), { major, settings: ['wal_level=logical'] });
    service = await startTestService({}, { major, connection: server.connection });
    const admin = (await service.engine.tokens.create(null)).token;
    const body = { name: 'eu-1', url_reference: `env:${variableWith(other.url)}` };
    const added = await service.call('POST', '/api/cdp/admin/servers', { token: admin, body });
    if (added.status !== 201) throw new Error(added.text);
    const row = await service.engine.control.servers.get('eu-1');
    if (row === null) throw new Error('It was added');
    const tenancy = service.engine.servers.tenancyOf(serverRefOf(row));
    target = { tenancy, placement: await tenancy.newPlacement() };
  });
  afterAll(async () => {
    await target.tenancy.drop(target.placement);
    await service.close();
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  });

  beforeEach(async () => {
    project = await service.project(undefined, 'default');
    const { placement } = await service.engine.projects.get(project.name);
    source = { tenancy: service.engine.servers.tenancyOf(placement), placement };
    return async () => {
      // Whatever became of the stream.
      expect(await leftThere()).toEqual([]);
      await service.engine.projects.delete(project.name, BY_ITSELF);
    };
  });

  const leftThere = async (): Promise<string[]> => {
    const query = `SELECT slot_name::text AS name FROM pg_replication_slots UNION ALL SELECT rolname FROM pg_roles WHERE rolname ~ '^b_'`;
    const { rows } = await onServer(service.server, (client) => client.query<{ name: string }>(query));
    const published = await here((client) => client.query('SELECT 1 FROM pg_publication'));
    return [...rows.map(({ name }) => name), ...published.rows.map(() => 'a publication')];
  };

  const here = <T>(work: (client: pg.Client) => Promise<T>): Promise<T> => inProject(service, source.placement, work);

  const there = <T>(work: (client: pg.Client) => Promise<T>): Promise<T> =>
    connected({ ...other.connection, database: target.placement.database }, work);

  /** @param endWrites makes changes that come last */
  const stream = async (endWrites: () => Promise<void> = () => Promise.resolve(), signal = NEVER_ABORTED) => {
    await target.tenancy.drop(target.placement);
    await target.tenancy.create(target.placement);
    return streamDatabase({ source, target, verify: 'full', signal, endWrites });
  };

  const refusal = async (endWrites?: () => Promise<void>): Promise<string> => {
    const error: unknown = await stream(endWrites).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(NotStreamable);
    return (error as NotStreamable).message;
  };

  /** As the project's writer, with its own search path. */
  const write = (statements: string) =>
    here(async (client) => {
      await client.query(`SET search_path = data; SET synchronous_commit = off; SET ROLE ${source.placement.writer}`);
      await client.query(statements);
    });

  const contents = (tables: readonly string[]) => async (client: pg.Client) => {
    await client.query(`SET search_path = data; SET TimeZone = UTC`);
    const all: Record<string, unknown[]> = {};
    for (const table of tables) {
      const { rows } = await client.query({
        text: `SELECT ROW(t.*)::text FROM ${table} t ORDER BY 1`,
        rowMode: 'array',
      });
      all[table] = rows.flat();
    }
    return all;
  };

  it('copies every change once, including what triggers and foreign keys did', async () => {
    await write(SCHEMA);
    await write(ROWS);
    await project.table('visits', { page: 'TEXT', count: 'INTEGER' });
    const visit = (n: number) =>
      project.call('POST', '/api/cdp/data/visits?on_error=quarantine', {
        body: [{ page: `p${n}`, count: n }, { count: 'not a number' }],
        headers: { 'idempotency-key': `key ${n}` },
      });
    // From before the slot is made until writes end: in the copy, in the stream, and never in both.
    let [isOver, visits] = [false, 0];
    const visiting = (async () => {
      const responses = new Set<number>();
      for (; !isOver; await turn()) responses.add((await visit(++visits)).status);
      return [...responses];
    })();
    await stream(async () => {
      isOver = true;
      expect(await visiting).toEqual([201]);
      for (const change of CHANGES) await write(change);
      await write('UPDATE visits SET count = -count WHERE count % 2 = 0');
    }).finally(() => (isOver = true));
    expect(visits).toBeGreaterThan(2);
    const tables = [...TABLES, `${MINE}.moods`, 'visits', '_cdp.idempotency_keys', '_cdp.quarantine', ...SEQUENCES];
    const [before, after] = [await here(contents(tables)), await there(contents(tables))];
    expect(after).toEqual(before);
    expect(after.visits).toHaveLength(visits);
    expect(after['_cdp.idempotency_keys']).toHaveLength(visits);
    // Triggers, foreign keys and identity columns work from now on.
    await there(async (client) => {
      await client.query(`SET search_path = data; SET ROLE ${target.placement.writer}`);
      const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM log');
      await client.query(`INSERT INTO pairs VALUES (5, 'y'); INSERT INTO people (name) VALUES ('z')`);
      expect((await client.query('SELECT count(*)::int - $1 AS n FROM log', [rows[0]?.n])).rows).toEqual([{ n: 1 }]);
      await expect(client.query('INSERT INTO children VALUES (9, 9)')).rejects.toMatchObject({ code: '23503' });
      await expect(client.query('SET session_replication_role = replica')).rejects.toMatchObject({ code: '42501' });
    });
  });

  it.each([
    ['CREATE TABLE t (a integer)', 'table data.t has no primary key'],
    ['CREATE TABLE t (a integer PRIMARY KEY DEFERRABLE)', 'table data.t has no primary key'],
    ['CREATE UNLOGGED TABLE t (a integer PRIMARY KEY)', 'table data.t is unlogged'],
    [
      'CREATE TABLE t (a integer PRIMARY KEY); CREATE TABLE s (PRIMARY KEY (a)) INHERITS (t)',
      'table data.s inherits from another one',
    ],
    ['CREATE MATERIALIZED VIEW m AS SELECT 1 AS a', 'materialized view data.m has rows'],
    [
      'CREATE TABLE t (a integer PRIMARY KEY); ALTER TABLE t ENABLE ROW LEVEL SECURITY; ALTER TABLE t FORCE ROW LEVEL SECURITY',
      'row security of table data.t is forced',
    ],
    ['SELECT lo_create(4713)', 'it has large objects'],
    [
      `CREATE TABLE t (a integer PRIMARY KEY); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
       CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f(); ALTER TABLE t ENABLE ALWAYS TRIGGER g`,
      'trigger g is enabled for replicas',
    ],
  ])('refuses before it starts: %s', async (statements, reason) => {
    await write(statements);
    expect(await refusal()).toBe(reason);
  });

  it('refuses triggers that would run again on the target', async () => {
    await write('CREATE TABLE t (a integer PRIMARY KEY, b integer REFERENCES t)');
    await connected(other.connection, (client) => client.query('ALTER ROLE cdp NOSUPERUSER'));
    try {
      expect(await refusal()).toContain('GRANT SET ON PARAMETER session_replication_role');
    } finally {
      await connected(other.connection, (client) => client.query('ALTER ROLE cdp SUPERUSER'));
    }
  });

  const changes = [
    ['CREATE TABLE later (a integer PRIMARY KEY)', 'columns of its tables have changed'],
    ['ALTER TABLE t ADD COLUMN c integer', 'columns of its tables have changed'],
    [
      'ALTER TABLE t ALTER COLUMN b TYPE text; ALTER TABLE t ALTER COLUMN b TYPE integer USING b::integer',
      'columns of its tables have changed',
    ],
    ['CREATE INDEX ON t (b)', 'data.t_b_idx (INDEX): differs'],
    [`COMMENT ON TABLE t IS 'x'`, 'data.TABLE t (COMMENT): differs'],
    ['CREATE FUNCTION f() RETURNS integer LANGUAGE sql RETURN 1', 'data.f() (FUNCTION): differs'],
    ['SELECT lo_create(4714)', 'it has large objects'],
  ] as const;

  // Each is a stream of its own. What a schema is, each major is asked by the next test.
  it.each(major === 18 ? changes : changes.slice(0, 1))(
    'refuses a schema that changes near the end: %s',
    async (change, reason) => {
      await write('CREATE TABLE t (a integer PRIMARY KEY, b integer)');
      expect(await refusal(() => write(change).then(() => {}))).toContain(reason);
    },
  );

  it('a dump and a TRUNCATE do not change the catalogs; a grant and a new function do', async () => {
    await write('CREATE TABLE t (a integer PRIMARY KEY)');
    const { address } = source.tenancy.serverOf(source.placement);
    const after = async (change: () => Promise<unknown>): Promise<string> => {
      await change();
      return withServiceSession(address, source.placement.database, catalogsOf);
    };
    const dump = () => schemaEntries(source, NEVER_ABORTED);
    const before = await after(dump);
    expect(await after(dump)).toBe(before);
    expect(await after(() => write('TRUNCATE t'))).toBe(before);
    const granted = await after(() => write(`GRANT INSERT ON t TO ${source.placement.reader}`));
    expect(granted).not.toBe(before);
    const sayMore = 'CREATE FUNCTION f() RETURNS integer LANGUAGE sql RETURN 1';
    expect(await after(() => write(sayMore))).not.toBe(granted);
  });

  it('does not take a temporary table or a TRUNCATE for a change of the schema', async () => {
    await write('CREATE TABLE t (a integer PRIMARY KEY); INSERT INTO t VALUES (1)');
    await stream(() => write('CREATE TEMPORARY TABLE x (a integer); TRUNCATE t').then(() => {}));
    expect(await there(contents(['t']))).toEqual({ t: [] });
  });

  // The rest is the same on each major.
  if (major !== 18) return;

  it('copies a transaction whole even if its changes do not fit into one batch', async () => {
    await write('CREATE TABLE many (id integer PRIMARY KEY, n integer)');
    await stream(() =>
      write(`INSERT INTO many SELECT n, n FROM generate_series(1, 30000) n; UPDATE many SET n = n + 1 WHERE id % 3 = 0;
        DELETE FROM many WHERE id % 5 = 0`).then(() => {}),
    );
    const tables = contents(['many']);
    expect(await there(tables)).toEqual(await here(tables));
  });

  it('detects a row that differs on the target', async () => {
    await write('CREATE TABLE t (a integer PRIMARY KEY, b integer); INSERT INTO t VALUES (1, 1), (2, 2)');
    const reason = await refusal(async () => {
      await there((client) => client.query('DELETE FROM data.t WHERE a = 1'));
      await write('UPDATE t SET b = 3');
    });
    expect(reason).toBe('a changed row of data.t was not found on the target');
  });

  it('leaves nothing behind if writes cannot be stopped, or after an abort', async () => {
    await write('CREATE TABLE t (a integer PRIMARY KEY)');
    const reason = new Error('not now');
    await expect(stream(() => Promise.reject(reason))).rejects.toBe(reason);
    const abort = new AbortController();
    const aborted = stream(() => {
      abort.abort(reason);
      return Promise.resolve();
    }, abort.signal);
    await expect(aborted).rejects.toBe(reason);
  });
});

it('tells for each transaction whether a snapshot includes it', () => {
  const is = visibleIn('100:105:101,103');
  expect([99, 100, 101, 102, 103, 104, 105, 200].map(is)).toEqual([true, true, false, true, false, true, false, false]);
  // After 2^32 transactions the low halves begin anew.
  const late = visibleIn(`${2 ** 32 - 2}:${2 ** 32 + 2}:${2 ** 32 - 1}`);
  expect([2 ** 32 - 3, 2 ** 32 - 2, 2 ** 32 - 1, 0, 1, 2].map(late)).toEqual([true, true, false, true, true, false]);
});
