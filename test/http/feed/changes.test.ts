/** What the feed says of rows: each committed change once, in the order of commits, however it was made. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bare, changesOf, changesUntilNow, readChanges, withFeed, words } from '../../support/feed.js';
import { startOwnService, type TestProject, type TestService } from '../../support/service.js';

const OTHER = '01a22d30-0000-7000-8000-000000000000';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startOwnService();
  project = await service.project();
  await project.table('customers', { email: 'TEXT', score: 'FLOAT', at: 'TIMESTAMP', tags: 'JSONB', ok: 'BOOLEAN' });
  project = await withFeed(project);
});
afterAll(() => service.close());

const run = (sql: string): Promise<unknown> => project.rows(sql);

describe('rows', () => {
  it('has the rows of a batch, with the values that SQL shows, and the transaction of its receipt', async () => {
    const records = [
      { email: 'ada@example.com', score: 0.1, at: '2026-01-31T09:30:00.5Z', tags: { a: [1, null] }, ok: true },
      { email: null, score: -0, at: null, tags: null, ok: false },
      { email: '"\\\n\u2028', score: 1e300, at: '+010000-01-01T00:00:00Z', tags: 'x', ok: null },
    ];
    const changes = await changesOf(project, async () => {
      const headers = { 'idempotency-key': 'k1' };
      const response = await project.call('POST', '/api/cdp/data/customers', { body: records, headers });
      expect(response.text).toContain('"success":true');
    });
    const rows = await project.rows('SELECT * FROM customers ORDER BY id');
    expect(bare(changes)).toEqual(
      rows.map((row) => ({ op: 'insert', table: 'customers', key: { id: row.id }, record: row })),
    );
    const { body } = await project.call('GET', '/api/cdp/receipts/k1');
    expect(JSON.stringify(body)).toContain(`"transaction_id":"${changes[0]?.transaction}"`);
  });

  it('has updates, deletes and TRUNCATE of SQL', async () => {
    const [row] = await project.rows("INSERT INTO customers (email) VALUES ('b') RETURNING id");
    const id = row?.id as string;
    const changes = await changesOf(project, async () => {
      await run(`UPDATE customers SET email = 'c' WHERE id = '${id}'`);
      await run(`UPDATE customers SET id = '${OTHER}' WHERE id = '${id}'`);
      await run(`DELETE FROM customers WHERE id = '${OTHER}'`);
      await run('TRUNCATE customers');
    });
    const [update, key, gone, truncated] = bare(changes);
    expect(update).toMatchObject({ op: 'update', key: { id }, record: { id, email: 'c' } });
    expect(update).not.toHaveProperty('old');
    expect(key).toMatchObject({ op: 'update', key: { id: OTHER }, old: { id } });
    expect(gone).toEqual({ op: 'delete', table: 'customers', key: { id: OTHER }, record: null });
    expect(truncated).toEqual({ op: 'truncate', table: 'customers', key: null, record: null });
    expect(changes).toHaveLength(4);
  });

  it('has every type as SQL shows it', async () => {
    await run(`CREATE TABLE every (id int PRIMARY KEY, n numeric, big bigint, r real, d date, ts timestamp, i interval, b bytea, u uuid,
      a int[], t text[][], tstz timestamptz[], f float8[], rng tstzrange, p point, boxes box[], j json, x xml, e inet, c char(3))`);
    await run(`INSERT INTO every VALUES (1, 123456789012345678901234567890.5, 9007199254740993, 0.1, '0044-03-15 BC', '2026-01-01 00:00:00.000001',
      '1 year -2 days 03:04:05.6', '\\x00ff', '${OTHER}', '{1,NULL,-3}', '{{"a,b","c\\"d"},{NULL,"null"}}', '{"2026-01-01 10:00+02",infinity}',
      '{NaN,1e-7,-0}', '[2026-01-01,)', '(1,1e20)', '{(1,2),(3,4);(5,6),(7,8)}', '{"a":  1}', '<a/>', '10.0.0.1/8', 'ab')`);
    const { cursor } = await readChanges(project);
    await run(
      'INSERT INTO every SELECT 2, n, big, r, d, ts, i, b, u, a, t, tstz, f, rng, p, boxes, j, x, e, c FROM every',
    );
    const response = await project.call('GET', `/api/cdp/changes?after=${cursor}&wait=10`);
    const shown = await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT * FROM every WHERE id = 2' } });
    // As text: both write the same bytes for each value.
    const row = /"rows":\[(\{.*?\})\],"row_count"/.exec(shown.text)?.[1];
    expect(row).toContain('"n":"123456789012345678901234567890.5"');
    expect(response.text).toContain(`"record":${row}`);
  });

  it('has the rare values of common types as SQL shows them', async () => {
    await run(
      'CREATE TABLE rare (id int PRIMARY KEY, n numeric, big bigint, at timestamptz, t text, ok boolean, j jsonb)',
    );
    const { cursor } = await readChanges(project);
    const long = `"${'ü'.repeat(300)}\\`;
    await run(`INSERT INTO rare (id, n, big, at, t) VALUES
      (1, 'NaN', 9007199254740991, 'infinity', ''), (2, '-Infinity', -9007199254740991, '-infinity', E'\x01\x7f'),
      (3, 9007199254740991.5, 9007199254740992, '0044-03-15 BC', E'\u2028🎉'), (4, 0.00000000000000000001, -9223372036854775808, '10000-01-01', '${long}'),
      (5, -999999999999999.25, 999999999999999, '0001-01-01', 'a "b" \ c'), (6, 1234567890123456.5, -1, '294276-12-31 23:59:59.999999', repeat('x', 70000)),
      (7, 100000000000000000000, 0, '2026-01-31 09:30:00.1+05:30', E'\n\t\r\b\f')`);
    await run(
      `INSERT INTO rare (id, ok, j) VALUES (8, true, '{"a": [1, "\\\\\\""]}'), (9, false, 'null'), (10, NULL, NULL)`,
    );
    const records: (string | undefined)[] = [];
    for (let after: unknown = cursor; records.length < 10;) {
      const { text, body } = await project.call('GET', `/api/cdp/changes?after=${String(after)}&wait=10`);
      records.push(...[...text.matchAll(/"record":(\{.*?\}),"committed_at"/gs)].map(([, record]) => record));
      after = body.cursor;
    }
    const shown = await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT * FROM rare ORDER BY id' } });
    const rows = /"rows":\[(\{.*\})\],"row_count"/s.exec(shown.text)?.[1]?.split(/(?<=\}),(?=\{"id":)/) ?? [];
    expect(rows).toHaveLength(10);
    expect(records).toEqual(rows);
  });

  it('names long values that did not change, and never calls them null', async () => {
    await run('CREATE TABLE long (id int PRIMARY KEY, body text, n int)');
    await run('ALTER TABLE long ALTER body SET STORAGE EXTERNAL');
    await run("INSERT INTO long VALUES (1, repeat('x', 100000), 1)");
    const [update] = await changesOf(project, () => run('UPDATE long SET n = 2'));
    expect(update).toMatchObject({ op: 'update', record: { id: 1, n: 2 }, unchanged: ['body'] });
    expect(update?.record).not.toHaveProperty('body');
  });

  it('leaves out what was rolled back', async () => {
    await run('CREATE TABLE ordered (n int PRIMARY KEY)');
    const changes = await changesOf(project, async () => {
      await project.call('POST', '/api/cdp/sql', { body: { sql: 'INSERT INTO ordered VALUES (1); SELECT 1/0' } });
      await run(`DO $$ BEGIN
        INSERT INTO ordered VALUES (2);
        BEGIN INSERT INTO ordered VALUES (3); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN END;
        INSERT INTO ordered VALUES (4);
      END $$`);
    });
    expect(changes.map(({ record }) => record)).toEqual([{ n: 2 }, { n: 4 }]);
    expect(new Set(changes.map(({ transaction }) => transaction)).size).toBe(1);
  });
});

describe('tables without a key', () => {
  it('can be updated, and have inserts and TRUNCATE only', async () => {
    await run('CREATE TABLE keyless (n int)');
    await run('CREATE TABLE deferred (n int PRIMARY KEY DEFERRABLE)');
    const changes = await changesOf(project, async () => {
      for (const table of ['keyless', 'deferred'])
        await run(
          `INSERT INTO ${table} VALUES (1); UPDATE ${table} SET n = 2; DELETE FROM ${table}; TRUNCATE ${table}`,
        );
    });
    expect(words(changes)).toEqual(['insert keyless', 'truncate keyless', 'insert deferred', 'truncate deferred']);
    const { body } = await project.call('GET', '/api/cdp/feed');
    const { table_list } = body.feed as { table_list: { name: string; changes: string }[] };
    const of = (name: string) => table_list.find((table) => table.name === name)?.changes;
    expect([of('keyless'), of('deferred'), of('customers')]).toEqual(['inserts', 'inserts', 'all']);
  });

  it('have all changes from the moment they get one, and keep working when they lose it', async () => {
    const changes = await changesOf(project, async () => {
      await run('INSERT INTO keyless VALUES (5); UPDATE keyless SET n = 6');
      await run('ALTER TABLE keyless ADD PRIMARY KEY (n); UPDATE keyless SET n = 7');
      await run('ALTER TABLE keyless DROP CONSTRAINT keyless_pkey');
      await run('UPDATE keyless SET n = 8');
    });
    expect(words(changes)).toEqual([
      'insert keyless',
      'schema keyless altered',
      'update keyless',
      'schema keyless altered',
    ]);
  });
});

describe('changes of the schema', () => {
  it('are at their place in the transaction', async () => {
    const changes = await changesOf(project, async () => {
      await run(
        'CREATE TABLE made (id int PRIMARY KEY); INSERT INTO made VALUES (1); ALTER TABLE made ADD note text; INSERT INTO made VALUES (2)',
      );
      await run('ALTER TABLE made RENAME note TO remark');
      await run('INSERT INTO made VALUES (3, null)');
      await run('ALTER TABLE made RENAME TO remade');
      await run('INSERT INTO remade VALUES (4)');
      await run('DROP TABLE remade');
      await run('CREATE TABLE remade (id int PRIMARY KEY); INSERT INTO remade VALUES (5)');
    });
    expect(words(changes)).toEqual([
      'schema made created',
      'insert made',
      'schema made altered',
      'insert made',
      'schema made altered',
      'insert made',
      'schema remade renamed',
      'insert remade',
      'schema remade dropped',
      'schema remade created',
      'insert remade',
    ]);
    expect(changes[4]).toMatchObject({
      key: ['id'],
      columns: [
        { name: 'id', type: 'integer' },
        { name: 'remark', type: 'text' },
      ],
    });
    expect(changes[5]?.record).toEqual({ id: 3, remark: null });
    expect(changes[6]).toMatchObject({ was: 'made', command: 'ALTER TABLE' });
  });

  it('say when a snapshot is needed', async () => {
    await run('CREATE TABLE filled (id int PRIMARY KEY, n int); INSERT INTO filled VALUES (1, 1)');
    const changes = await changesOf(project, async () => {
      await run('ALTER TABLE filled ALTER n TYPE bigint');
      await run("ALTER TABLE filled ADD c text DEFAULT 'x'");
      await run('ALTER TABLE filled ADD d text');
    });
    expect(words(changes)).toEqual([
      'schema filled rewritten snapshot',
      'schema filled altered',
      'schema filled altered snapshot',
      'schema filled altered',
    ]);
  });

  it('tell of partitions what their table does not', async () => {
    await run('CREATE TABLE parted (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)');
    const changes = await changesOf(project, async () => {
      await run("CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')");
      await run("CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')");
      await run("INSERT INTO parted VALUES (1, '2026-01-05')");
      await run("UPDATE parted SET day = '2026-02-05'");
      await run('TRUNCATE parted_2');
      await run('ALTER TABLE parted DETACH PARTITION parted_1');
      await run('DROP TABLE parted_2');
      await run("ALTER TABLE parted ATTACH PARTITION parted_1 FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')");
    });
    expect(words(changes)).toEqual([
      'insert parted',
      'delete parted',
      'insert parted',
      'schema parted partition_truncated snapshot',
      'schema parted partition_detached snapshot',
      'schema parted_1 created snapshot',
      'schema parted partition_dropped snapshot',
      'schema parted partition_attached snapshot',
      'schema parted_1 left',
    ]);
    expect(changes[3]).toMatchObject({ partition: 'parted_2' });
  });

  it('cannot be forged or silenced by the project', async () => {
    const { cursor } = await readChanges(project);
    for (const sql of [
      "INSERT INTO _cdp.feed_schema (change, command, snapshot) VALUES ('dropped', 'x', true)",
      'DELETE FROM _cdp.feed_settings',
      "SELECT _cdp.follow_schema('x')",
      'DROP EVENT TRIGGER cdp_feed_schema',
      'ALTER EVENT TRIGGER cdp_feed_schema DISABLE',
      'ALTER PUBLICATION cdp_feed DROP TABLE customers',
      'DROP PUBLICATION cdp_feed',
      'SET event_triggers = off',
      "SELECT pg_drop_replication_slot('cdp_feed')",
      "SELECT * FROM pg_logical_slot_get_changes('cdp_feed', null, null)",
    ]) {
      const response = await project.call('POST', '/api/cdp/sql', { body: { sql } });
      expect(response.status, `${sql}: ${response.text}`).toBeGreaterThanOrEqual(400);
    }
    expect(await changesUntilNow(project, cursor)).toEqual([]);
  });
});

describe('old rows', () => {
  it('are in changes if the feed keeps them, except where Postgres forbids it', async () => {
    const own = await service.project();
    await own.rows(
      'CREATE TABLE plain (id int PRIMARY KEY, body text, n int); ALTER TABLE plain ALTER body SET STORAGE EXTERNAL',
    );
    await own.rows(
      'CREATE TABLE keyless (n int); CREATE TABLE stored (id int PRIMARY KEY, n int, s int GENERATED ALWAYS AS (n * 2) STORED)',
    );
    await own.rows('CREATE TABLE virtual (id int PRIMARY KEY, n int, v int GENERATED ALWAYS AS (n * 2) VIRTUAL)');
    const kept = await withFeed(own, { old: true });
    const changes = await changesOf(kept, async () => {
      await kept.rows("INSERT INTO plain VALUES (1, repeat('x', 50000), 1); UPDATE plain SET n = 2; DELETE FROM plain");
      for (const table of ['keyless', 'stored', 'virtual']) {
        await kept.rows(`INSERT INTO ${table} (n) SELECT 1 WHERE '${table}' = 'keyless'`).catch(() => {});
        await kept.rows(
          table === 'keyless'
            ? 'UPDATE keyless SET n = 2'
            : `INSERT INTO ${table} (id, n) VALUES (1, 1); UPDATE ${table} SET n = 2`,
        );
      }
    });
    const updates = changes.filter(({ op }) => op === 'update');
    const long = 'x'.repeat(50_000);
    expect(updates[0]).toMatchObject({
      table: 'plain',
      key: { id: 1 },
      record: { id: 1, body: long, n: 2 },
      old: { id: 1, body: long, n: 1 },
    });
    expect(updates[0]).not.toHaveProperty('unchanged');
    expect(changes.find(({ op }) => op === 'delete')).toMatchObject({ key: { id: 1 }, old: { n: 2 } });
    expect(updates[1]).toMatchObject({ table: 'keyless', key: null, record: { n: 2 }, old: { n: 1 } });
    expect(updates[2]).toMatchObject({
      table: 'stored',
      key: { id: 1 },
      record: { id: 1, n: 2, s: 4 },
      old: { id: 1, n: 1, s: 2 },
    });
    expect(updates[3]).toMatchObject({ table: 'virtual', key: { id: 1 }, record: { id: 1, n: 2 } });
    expect(updates[3]).not.toHaveProperty('old');
    // Off again, nothing of it is left.
    expect((await kept.call('PUT', '/api/cdp/feed', { body: { old: false } })).status).toBe(200);
    expect(await kept.rows("SELECT relname FROM pg_class WHERE relreplident = 'f'")).toEqual([]);
    await kept.rows('ALTER TABLE plain ADD v int GENERATED ALWAYS AS (n * 2) VIRTUAL');
  });

  it('end where a column comes that Postgres forbids', async () => {
    const own = await service.project();
    await own.rows('CREATE TABLE plain (id int PRIMARY KEY, n int)');
    const kept = await withFeed(own, { old: true });
    await kept.rows('ALTER TABLE plain ADD v int GENERATED ALWAYS AS (n * 2) VIRTUAL');
    await kept.rows('INSERT INTO plain (id, n) VALUES (1, 1); UPDATE plain SET n = 2');
  });
});

describe('a list of tables', () => {
  it('has these only, also those made later', async () => {
    const own = await service.project();
    await own.table('one', { n: 'INTEGER' });
    await own.table('two', { n: 'INTEGER' });
    const kept = await withFeed(own, { tables: ['one', 'later'] });
    const changes = await changesOf(kept, async () => {
      await kept.rows('INSERT INTO one (n) VALUES (1)');
      await kept.rows('INSERT INTO two (n) VALUES (1)');
      await kept.table('later', { n: 'INTEGER' });
      await kept.rows('INSERT INTO later (n) VALUES (1)');
      await kept.rows('ALTER TABLE one RENAME TO "else"');
      await kept.rows('INSERT INTO "else" (n) VALUES (1)');
    });
    expect(words(changes)).toEqual(['insert one', 'schema later created', 'insert later', 'schema else left']);
  });
});
