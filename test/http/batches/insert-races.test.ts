/**
 * Inserts while other requests change the table, lock it, or kill the connection: no 500, no false response, and nothing
 * stored that its column refuses (contract C6.15, C8.2).
 */
import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  expectFailure,
  onServer,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

const RACE_MS = 1_200;
const INSERTERS = 4;

describe('inserts', () => {
  let service: TestService;
  let project: TestProject;
  let database: string;
  beforeAll(async () => {
    service = await startTestService();
    project = await service.project();
    database = (await service.engine.projects.list())[0]?.placement.database ?? '';
  });
  afterAll(() => service.close());

  const insert = (table: string, body: unknown) => project.call('POST', `/api/cdp/data/${table}`, { body });
  const inDatabase = <T>(work: (client: pg.Client) => Promise<T>) => onServer(service.server, work, database);
  const killInserters = (client: pg.Client) =>
    client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND application_name = 'cdp write'`,
      [database],
    );

  it('many single records at once are each stored as sent', async () => {
    await project.table('singles', { n: 'INTEGER', note: 'TEXT' });
    // The first insert looks at the table; those behind it share their COPYs.
    expect((await insert('singles', [{ n: -1, note: 'first' }])).status).toBe(201);
    const records = Array.from({ length: 120 }, (_, n) => ({ n, note: `note ${n} `.repeat(1 + (n % 7)) }));
    // No more at once than may run and wait.
    for (let from = 0; from < records.length; from += 40) {
      const responses = await Promise.all(records.slice(from, from + 40).map((record) => insert('singles', [record])));
      expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 201));
    }
    expect(await project.rows('SELECT n, note FROM singles WHERE n >= 0 ORDER BY n')).toEqual(records);
  });

  it('many large batches at once are each stored whole or not at all, and only the bad ones are refused', async () => {
    await project.table('crowded', { n: 'INTEGER', note: 'TEXT' });
    await project.rows('ALTER TABLE crowded ADD UNIQUE (n)');
    const batch = (of: number) => Array.from({ length: 250 }, (_, i) => ({ n: of * 250 + i, note: `of ${of}` }));
    const wrong = (of: number) => [...batch(of).slice(1), { n: -1, note: 'stored before' }];
    expect((await insert('crowded', [{ n: -1, note: 'first' }])).status).toBe(201);
    const statuses: number[] = [];
    // No more at once than may run and wait.
    for (let from = 0; from < 90; from += 30) {
      const numbers = Array.from({ length: 30 }, (_, i) => from + i);
      const responses = await Promise.all(numbers.map((of) => insert('crowded', of % 9 === 4 ? wrong(of) : batch(of))));
      statuses.push(...responses.map(({ status }) => status));
    }
    expect(statuses).toEqual(statuses.map((_, of) => (of % 9 === 4 ? 409 : 201)));
    const stored = await project.rows(
      'SELECT note, count(*) AS n, min(n) AS least FROM crowded WHERE n >= 0 GROUP BY note ORDER BY least',
    );
    expect(stored).toEqual(
      statuses.flatMap((status, of) => (status === 201 ? { note: `of ${of}`, n: 250, least: of * 250 } : [])),
    );
  });

  it('batches that deadlock only when combined are stored one by one', async () => {
    await project.table('contested', { k: 'INTEGER' });
    await project.rows('ALTER TABLE contested ADD UNIQUE (k)');
    expect((await insert('contested', [{ k: 0 }])).status).toBe(201);
    /** @returns whether there was a deadlock: on a busy machine the two may have gone without each other */
    const meet = (first: number) =>
      inDatabase(async (other) => {
        await other.query('BEGIN');
        await other.query('INSERT INTO data.contested (k) VALUES ($1), ($2)', [first, first + 1]);
        // Behind the first, which waits for the other transaction, these two share a COPY, and the second waits as
        // well.
        const sent = [[first], [first + 2, first + 3], [first + 4, first + 1]].map((batch) =>
          insert(
            'contested',
            batch.map((k) => ({ k })),
          ),
        );
        await sleep(400);
        // Postgres ends who waits first: the COPY.
        const ended = await other.query('INSERT INTO data.contested (k) VALUES ($1)', [first + 2]).then(
          () => true,
          ({ code }: pg.DatabaseError) => code !== '23505',
        );
        await other.query('ROLLBACK');
        for (const { status, text } of await Promise.all(sent)) expect(status, text).toBe(201);
        return ended;
      });
    let met = false;
    let rows = 1;
    for (; !met && rows < 100; rows += 5) met = await meet(rows);
    expect(met).toBe(true);
    const stored = await project.rows('SELECT k FROM contested ORDER BY k');
    expect(stored).toEqual(Array.from({ length: rows }, (_, k) => ({ k })));
  });

  it('a batch uses COPY if the table is new to the service, and if it has changed since the last batch', async () => {
    await project.table('changing', { n: 'INTEGER' });
    const lastStatement = async () => {
      const { rows } = await inDatabase((client) =>
        client.query<{ query: string }>(
          `SELECT query FROM pg_stat_activity WHERE datname = $1 AND application_name = 'cdp write'
           ORDER BY query_start DESC LIMIT 1`,
          [database],
        ),
      );
      return rows[0]?.query;
    };
    const records = Array.from({ length: 50 }, (_, n) => ({ n }));
    for (const change of [null, 'TRUNCATE changing', 'ALTER TABLE changing ADD COLUMN more text']) {
      if (change !== null) await project.rows(change);
      expect((await insert('changing', records)).status).toBe(201);
      // The last that a COPY is followed by; after an INSERT it is COMMIT.
      expect(await lastStatement()).toContain('_cdp.table_version(');
    }
    expect((await insert('changing', [...records, { n: 50, more: 'text' }])).status).toBe(201);
    expect(await project.rows('SELECT count(*) AS n, count(more) AS more FROM changing')).toEqual([
      { n: 151, more: 1 },
    ]);
  });

  it('large bodies at once are each stored as sent, although they are read into the same memory', async () => {
    await project.table('bodies', { n: 'INTEGER', note: 'TEXT' });
    expect((await insert('bodies', [{ n: -1, note: 'first' }])).status).toBe(201);
    // From a few KB to 600 KB, long and short ones in turn; every third under a key.
    const notes = Array.from({ length: 36 }, (_, n) => `body ${n} `.repeat(1 + ((n * 7919) % 60_000)));
    for (let from = 0; from < notes.length; from += 12) {
      const responses = await Promise.all(
        notes.slice(from, from + 12).map((note, i) =>
          project.call('POST', '/api/cdp/data/bodies', {
            body: [{ n: from + i, note }],
            ...(i % 3 === 0 ? { headers: { 'Idempotency-Key': randomUUID() } } : {}),
          }),
        ),
      );
      expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 201));
    }
    expect(await project.rows('SELECT n, md5(note) AS note FROM bodies WHERE n >= 0 ORDER BY n')).toEqual(
      notes.map((note, n) => ({ n, note: createHash('md5').update(note).digest('hex') })),
    );
  });

  interface Sent {
    id: string;
    response: TestResponse;
  }

  /** Sends batches of one record from several clients at once while `disturb` runs again and again. */
  const race = async (
    table: string,
    cells: readonly Record<string, unknown>[],
    disturb: (round: number) => Promise<unknown>,
  ): Promise<Sent[]> => {
    const until = performance.now() + RACE_MS;
    const sent: Sent[] = [];
    const inserter = async (first: number) => {
      for (let i = first; performance.now() < until; i++) {
        const id = randomUUID();
        sent.push({ id, response: await insert(table, [{ id, ...cells[i % cells.length] }]) });
      }
    };
    const disturber = async () => {
      for (let round = 0; performance.now() < until; round++) {
        await disturb(round);
        await sleep(10);
      }
    };
    await Promise.all([disturber(), ...Array.from({ length: INSERTERS }, (_, i) => inserter(i))]);
    return sent;
  };

  /** Every response is one of these, and the table holds exactly the records whose response was 201. */
  const expectHonest = async (table: string, sent: readonly Sent[], refusals: readonly string[]) => {
    const stored = new Set((await project.rows(`SELECT id FROM ${table}`)).map(({ id }) => id));
    for (const { id, response } of sent) {
      const code = String(response.body.error);
      if (response.status !== 201) expectFailure(response, response.status, code);
      expect(['undefined', ...refusals]).toContain(code);
      if (code !== 'outcome_unknown') expect([code, stored.has(id)]).toEqual([code, response.status === 201]);
    }
    expect(sent.filter(({ response }) => response.status === 201).length).toBeGreaterThan(0);
  };

  describe('inserts stay correct while the schema changes:', () => {
    it('a type changes from INTEGER to FLOAT and back', async () => {
      await project.table('typed', { v: 'INTEGER', w: 'TEXT' });
      const cells = [{ v: 1, w: 'x' }, { v: 1.5 }, { v: '0x10' }, { v: '9007199254740993' }, { w: 'y' }, { v: '7' }];
      const sent = await race('typed', cells, (round) =>
        project.rows(
          round % 2 === 0
            ? 'ALTER TABLE typed ALTER v TYPE double precision'
            : 'ALTER TABLE typed ALTER v TYPE bigint USING floor(v)::bigint',
        ),
      );
      await expectHonest('typed', sent, ['invalid_value', 'table_busy']);
      const wrong = 'v NOT IN (1, 1.5, 7, 9007199254740992, 9007199254740993)';
      expect(await project.rows(`SELECT v FROM typed WHERE ${wrong}`)).toEqual([]);
    });

    it('a type changes between single records on one connection, which has prepared their INSERT', async () => {
      await project.table('retyped', { n: 'INTEGER', v: 'INTEGER' });
      const values: [type: string, v: unknown][] = [
        ['bigint', 7],
        ['double precision', 1.5],
        ['text', 'x'],
        ['timestamptz', '2026-01-31T09:30:00Z'],
        ['bigint', 8],
      ];
      for (const [type, v] of values) {
        await project.rows(`DELETE FROM retyped; ALTER TABLE retyped ALTER v TYPE ${type} USING NULL`);
        // The first is refused by the check, the second reads the shape for those behind it.
        for (let n = 0; n < 4; n++) expect((await insert('retyped', [{ n, v }])).status).toBe(201);
        const right = await project.rows(`SELECT n FROM retyped WHERE v = '${String(v)}' ORDER BY n`);
        expect([type, right]).toEqual([type, [{ n: 0 }, { n: 1 }, { n: 2 }, { n: 3 }]]);
      }
    });

    it('a trigger is added while operators of the project shadow those of Postgres', async () => {
      await project.rows(`CREATE FUNCTION agree(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN true;
        CREATE OPERATOR = (FUNCTION = agree, LEFTARG = text, RIGHTARG = text);
        CREATE FUNCTION agree(integer, integer) RETURNS integer LANGUAGE sql IMMUTABLE RETURN 1;
        CREATE OPERATOR / (FUNCTION = agree, LEFTARG = integer, RIGHTARG = integer);
        CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$
          BEGIN PERFORM set_config('search_path', 'data, pg_catalog', false); RETURN NULL; END $$;
        CREATE TABLE witness (path text DEFAULT current_setting('search_path'))`);
      await insert('witness', [{}]);
      const ways: [table: string, records: object[]][] = [
        ['swallows_one', [{ n: 1 }]],
        ['swallows_many', Array.from({ length: 50 }, (_, n) => ({ n }))],
      ];
      for (const [table, records] of ways) {
        await project.table(table, { n: 'INTEGER' });
        expect((await insert(table, records)).status).toBe(201);
        await project.rows(`CREATE TRIGGER swallow BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION swallow()`);
        expect([table, (await insert(table, records)).body]).toMatchObject([table, { inserted_rows: 0 }]);
        await insert('witness', [{}]);
      }
      expect(await project.rows('SELECT count(DISTINCT path) AS paths FROM witness')).toEqual([{ paths: 1 }]);
    });

    it('columns swap their names: no value ends up in a column that would refuse it', async () => {
      await project.table('traded', { a: 'INTEGER', b: 'TEXT', c: 'TIMESTAMP', d: 'JSONB' });
      // All of them are texts that Postgres itself would read as a number or a time.
      const cells = [{ a: '0x10' }, { b: 'now' }, { c: ' 1' }, { d: 'infinity' }, { a: 'now', b: '1_000' }, {}];
      const sent = await race('traded', cells, () =>
        project.rows(`ALTER TABLE traded RENAME a TO x; ALTER TABLE traded RENAME b TO a;
          ALTER TABLE traded RENAME c TO b; ALTER TABLE traded RENAME d TO c; ALTER TABLE traded RENAME x TO d`),
      );
      await expectHonest('traded', sent, ['invalid_value', 'table_busy']);
      const byType = await project.rows(`SELECT attname AS name FROM pg_attribute
        WHERE attrelid = 'traded'::regclass AND attnum > 0 AND atttypid IN ('bigint'::regtype, 'timestamptz'::regtype)`);
      for (const { name } of byType) {
        expect(await project.rows(`SELECT count(*) AS n FROM traded WHERE "${String(name)}" IS NOT NULL`)).toEqual([
          { n: 0 },
        ]);
      }
    });

    it('a column is added and dropped', async () => {
      await project.table('growing', { a: 'TEXT' });
      const cells = [{ a: 'x' }, { a: 'x', b: 1 }, { b: 2 }];
      const sent = await race('growing', cells, (round) =>
        round % 2 === 0
          ? project.call('POST', '/api/cdp/schema/table/growing/column', { body: { name: 'b', type: 'INTEGER' } })
          : project.call('DELETE', '/api/cdp/schema/table/growing/column/b'),
      );
      await expectHonest('growing', sent, ['unknown_column', 'table_busy']);
    });

    it('a default, a check and a trigger are added and dropped', async () => {
      await project.table('ruled', { v: 'INTEGER' });
      await project.rows(`CREATE FUNCTION negate() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN NEW.v := -NEW.v; RETURN NEW; END $$`);
      const changes = [
        'ALTER TABLE ruled ALTER v SET DEFAULT 5',
        'ALTER TABLE ruled ADD CHECK (v < 3) NOT VALID',
        'CREATE TRIGGER negate BEFORE INSERT ON ruled FOR EACH ROW EXECUTE FUNCTION negate()',
        'DROP TRIGGER negate ON ruled; ALTER TABLE ruled DROP CONSTRAINT ruled_v_check, ALTER v DROP DEFAULT',
      ];
      const sent = await race('ruled', [{ v: 1 }, {}, { v: 4 }], (round) => project.rows(changes[round % 4] as string));
      await expectHonest('ruled', sent, ['constraint_violation', 'table_busy']);
    });

    it('the table is dropped and recreated with other columns', async () => {
      await project.table('reborn', { v: 'INTEGER' });
      const made = (type: string) => `DROP TABLE reborn;
        CREATE TABLE reborn (id uuid PRIMARY KEY DEFAULT _cdp.uuid_v7(), v ${type})`;
      const sent = await race('reborn', [{ v: 1 }, { v: '0x10' }, { v: 'now' }], (round) =>
        project.rows(made(['text', 'timestamptz', 'bigint'][round % 3] as string)),
      );
      for (const { response } of sent) {
        if (response.status === 201) continue;
        const code = String(response.body.error);
        expect(['invalid_value', 'table_busy']).toContain(code);
        expectFailure(response, response.status, code);
      }
      await project.rows(made('bigint'));
      expectFailure(await insert('reborn', [{ v: '0x10' }]), 400, 'invalid_value');
      expect((await insert('reborn', [{ v: 1 }])).status).toBe(201);
    });

    it('a change by free SQL, or outside the service, is visible to the very next insert', async () => {
      await project.table('seen', { v: 'INTEGER' });
      expect((await insert('seen', [{ v: 1 }])).status).toBe(201);
      await project.rows('ALTER TABLE seen ALTER v TYPE text');
      expect((await insert('seen', [{ v: 'text' }])).status).toBe(201);
      await project.rows('ALTER TABLE seen RENAME v TO w');
      expectFailure(await insert('seen', [{ v: 'text' }]), 400, 'unknown_column');
      await inDatabase((client) => client.query('ALTER TABLE data.seen ADD COLUMN v bigint'));
      expectFailure(await insert('seen', [{ v: 'text' }]), 400, 'invalid_value');
      expect((await insert('seen', [{ v: 2, w: 'x' }])).status).toBe(201);
      await project.rows('ALTER TABLE seen RENAME TO gone');
      expectFailure(await insert('seen', [{ v: 2 }]), 404, 'table_not_found');
    });
  });

  describe('while another transaction locks the table', () => {
    it('inserts wait for it, and are refused as busy if it takes too long', async () => {
      await project.table('held', { v: 'INTEGER' });
      expect((await insert('held', [{ v: 0 }])).status).toBe(201);
      await inDatabase(async (client) => {
        await client.query('BEGIN; ALTER TABLE data.held ADD COLUMN w text');
        const patient = insert('held', [{ v: 1, w: 'x' }]);
        await sleep(300);
        await client.query('COMMIT');
        expect((await patient).status).toBe(201);

        await client.query('BEGIN; ALTER TABLE data.held DROP COLUMN w');
        const started = performance.now();
        const keyed = { body: [{ v: 2 }], headers: { 'idempotency-key': 'held' } };
        const responses = await Promise.all([
          insert('held', [{ v: 2 }]),
          project.call('POST', '/api/cdp/data/held', keyed),
        ]);
        expect(performance.now() - started).toBeLessThan(20_000);
        for (const response of responses) {
          expectFailure(response, 503, 'table_busy');
          expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
        }
        await client.query('ROLLBACK');
      });
      expect((await insert('held', [{ v: 3 }])).status).toBe(201);
      expect(await project.rows('SELECT v FROM held ORDER BY v')).toEqual([{ v: 0 }, { v: 1 }, { v: 3 }]);
    });

    it('an insert waits for a unique value that another transaction holds', async () => {
      await project.rows('CREATE TABLE unique_v (v bigint UNIQUE)');
      await inDatabase(async (client) => {
        await client.query('BEGIN; INSERT INTO data.unique_v VALUES (1)');
        const patient = insert('unique_v', [{ v: 2 }, { v: 1 }]);
        await sleep(300);
        await client.query('COMMIT');
        expect(expectFailure(await patient, 409, 'unique_violation').errors).toMatchObject([{ record: 1 }]);
      });
      expect(await project.rows('SELECT v FROM unique_v')).toEqual([{ v: 1 }]);
    });
  });

  describe('if connections end', () => {
    it('one that was killed while idle is replaced without an error', async () => {
      await project.table('idle', { v: 'INTEGER' });
      for (let round = 0; round < 5; round++) {
        await Promise.all(Array.from({ length: 4 }, (_, v) => insert('idle', [{ v }])));
        await inDatabase(killInserters);
        await sleep(50);
        const responses = await Promise.all(Array.from({ length: 4 }, (_, v) => insert('idle', [{ v }])));
        expect(responses.map(({ status }) => status)).toEqual([201, 201, 201, 201]);
      }
      expect(await project.rows('SELECT count(*) AS n FROM idle')).toEqual([{ n: 40 }]);
    });

    it('inserts get 503, and never a 201 for rows that are not stored', async () => {
      await project.table('killed', { v: 'INTEGER' });
      const sent = await inDatabase((client) =>
        race('killed', [{ v: 1 }, { v: 2 }], () => sleep(100).then(() => killInserters(client))),
      );
      await expectHonest('killed', sent, ['database_unavailable', 'outcome_unknown']);
      for (const { response } of sent) {
        expect([201, 503]).toContain(response.status);
        const isUnknown = response.body.error === 'outcome_unknown';
        if (response.status === 503) expect(response.headers.get('retry-after') === null).toBe(isUnknown);
      }
      expect((await insert('killed', [{ v: 3 }])).status).toBe(201);
    });
  });
});
