/**
 * Roles that a project makes: what one may do is decided by GRANT and policies alone, at every door. On own servers, and by
 * address on each version of Postgres.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { testServers } from '../../support/postgres.js';
import {
  call,
  expectFailure,
  inProject,
  startOwnService,
  startTestService,
  type TestProject,
  type TestResponse,
  type TestService,
} from '../../support/service.js';
import { tool } from '../../support/mcp.js';

const SQL = '/api/cdp/sql';
const PORT = { 'pg-port': '0' };

const PLACES = [
  ['its own server', () => startOwnService(PORT)],
  ...testServers().map((server) => [`Postgres ${server.major}`, () => startTestService(PORT, server)] as const),
] as const;

describe.each(PLACES)('on %s', (place, start) => {
  let service: TestService;
  let project: TestProject;
  /** Names of roles in SQL. */
  let intern: string;
  let partner: string;
  let reads: string;
  let appends: string;

  const as = (token: string, method: string, path: string, body?: unknown, headers = {}): Promise<TestResponse> =>
    call(service.url, method, path, { token, headers, ...(body === undefined ? {} : { body }) });
  const sql = (token: string, text: string): Promise<TestResponse> => as(token, 'POST', SQL, { sql: text });
  const create = async (name: string): Promise<string> => {
    const response = await project.call('POST', '/api/cdp/schema/role', { body: { name } });
    expect([response.status, response.text]).toMatchObject([201, expect.any(String)]);
    return (response.body['role'] as { postgres_name: string }).postgres_name;
  };
  const connect = async (user: string, token: string): Promise<pg.Client> => {
    const client = new pg.Client({
      host: '127.0.0.1',
      port: service.postgresPort ?? 0,
      database: project.name,
      user,
      password: token,
    });
    await client.connect();
    return client;
  };

  beforeAll(async () => {
    service = await start();
    project = await service.project();
    await project.table('customers', { email: 'TEXT', country: 'TEXT' });
    await project.table('orders', { total: 'FLOAT' });
    await project.table('secrets', { text: 'TEXT' });
    await project.rows(
      `INSERT INTO customers (email, country) VALUES ('ada@example.com', 'GB'), ('bob@example.com', 'US')`,
    );
    await project.rows(`INSERT INTO secrets (text) VALUES ('hidden')`);
    [intern, partner] = [await create('intern'), await create('partner')];
    await project.rows(
      `GRANT SELECT (id, country) ON customers TO ${intern}; GRANT SELECT ON orders TO ${intern}; GRANT INSERT ON orders TO ${partner}`,
    );
    reads = await project.tokenAs('intern', 'schema:read', 'sql:read');
    appends = await project.tokenAs('partner', 'data:write');
  });
  afterAll(() => service.close());

  it('lets the intern read two tables, but not the column with e-mail addresses', async () => {
    expect((await sql(reads, 'SELECT country FROM customers ORDER BY 1')).body['rows']).toEqual([
      { country: 'GB' },
      { country: 'US' },
    ]);
    expect((await sql(reads, 'SELECT count(*) AS n FROM orders')).status).toBe(200);
    for (const text of [
      'SELECT email FROM customers',
      'SELECT * FROM customers',
      'SELECT * FROM secrets',
      'TABLE secrets',
    ])
      expectFailure(await sql(reads, text), 403, 'permission_denied');
    expect((await sql(reads, 'SELECT current_user AS who')).body['rows']).toEqual([{ who: intern }]);
  });

  it('shows it only those tables and columns', async () => {
    const { body } = await as(reads, 'GET', '/api/cdp/schema');
    const shown = (body['tables'] as { name: string; columns: { name: string }[] }[]).map(({ name, columns }) => [
      name,
      columns.map((column) => column.name),
    ]);
    expect(shown).toEqual([
      ['customers', ['id', 'country']],
      ['orders', ['id', 'total']],
    ]);
    expectFailure(await as(reads, 'GET', '/api/cdp/schema/table/secrets'), 404, 'table_not_found');
    expect(expectFailure(await as(reads, 'GET', '/api/cdp/schema/table/secret'), 404, 'table_not_found').hint).toBe(
      undefined,
    );
  });

  it('lets the partner append to one table, also under a key, and do nothing else', async () => {
    const path = '/api/cdp/data/orders';
    const headers = { 'idempotency-key': 'first' };
    const first = await as(appends, 'POST', path, [{ total: 1 }], headers);
    expect(first).toMatchObject({ status: 201, body: { inserted_rows: 1 } });
    const again = await as(appends, 'POST', path, [{ total: 1 }], headers);
    expect(again).toMatchObject({ status: 201, body: { inserted_rows: 1 } });
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expectFailure(await as(appends, 'POST', path, [{ total: 2 }], headers), 422, 'idempotency_key_reused');
    expect(await as(appends, 'POST', path, [{ total: 3 }, { total: 4 }])).toMatchObject({ status: 201 });
    expect(await project.rows('SELECT total FROM orders ORDER BY 1')).toEqual([
      { total: 1 },
      { total: 3 },
      { total: 4 },
    ]);
    expectFailure(await as(appends, 'POST', '/api/cdp/data/customers', [{ country: 'FR' }]), 403, 'permission_denied');
    expectFailure(await sql(appends, 'SELECT 1'), 403, 'insufficient_scope');
  });

  it('keeps the keys of roles apart, and from free SQL', async () => {
    const path = '/api/cdp/data/orders';
    const headers = { 'idempotency-key': 'shared' };
    expect((await project.call('POST', path, { body: [{ total: 10 }], headers })).status).toBe(201);
    const other = await as(appends, 'POST', path, [{ total: 11 }], headers);
    expect(other.status).toBe(201);
    expect(other.headers.get('idempotency-replayed')).toBe(null);
    const receipt = { keys: ['shared', 'first'], table: 'orders' };
    const mine = await as(appends, 'POST', '/api/cdp/receipts/query', receipt);
    expect(mine.body['receipts']).toMatchObject([
      { status: 'stored', rows: 1 },
      { status: 'stored', table: 'orders' },
    ]);
    const ours = await project.call('POST', '/api/cdp/receipts/query', { body: { keys: ['shared', 'first'] } });
    expect(ours.body['receipts']).toMatchObject([{ status: 'stored', rows: 1 }, { status: 'not_stored' }]);
    const writes = await project.tokenAs('partner', 'sql:write');
    const store = (path: string) =>
      sql(writes, `SELECT _cdp.store_key_of_role('${path}', 'next', 'x', '{}', 'x', 1, '1 day')`);
    for (const path of ['orders', 'ROLE intern orders', 'ROLE partner2 orders', 'ROLE partner'])
      expectFailure(await store(path), 403, 'permission_denied');
    expect((await store('ROLE partner orders')).status).toBe(200);
    const own = await sql(writes, `SELECT path FROM _cdp.keys_of_role('{shared,first}') ORDER BY path, key`);
    expect(own.body['rows']).toEqual([{ path: 'ROLE partner orders' }, { path: 'ROLE partner orders' }]);
    for (const text of [
      'SELECT * FROM _cdp.idempotency_keys',
      `INSERT INTO _cdp.idempotency_keys (path, key) VALUES ('ROLE partner a', 'b')`,
      `INSERT INTO _cdp.idempotency_keys AS k (path, key) VALUES ('orders', 'shared') ON CONFLICT (path, key) DO UPDATE SET path = 'ROLE partner x'`,
      `DELETE FROM _cdp.idempotency_keys`,
      'LOCK TABLE _cdp.idempotency_keys IN ACCESS SHARE MODE',
    ])
      expectFailure(await sql(writes, text), 403, 'permission_denied');
    for (const mode of ['ACCESS EXCLUSIVE', 'EXCLUSIVE', 'SHARE'])
      for (const table of ['idempotency_keys', 'quarantine', 'quarantined'])
        expectFailure(await sql(reads, `LOCK TABLE _cdp.${table} IN ${mode} MODE`), 403, 'permission_denied');
    const again = await project.call('POST', path, { body: [{ total: 10 }], headers });
    expect(again.headers.get('idempotency-replayed')).toBe('true');
  });

  it('answers for a key under which a role has stored thousands, and lets others wait for nothing', async () => {
    const writes = await project.tokenAs('partner', 'sql:write', 'data:write');
    const many = `SELECT count(_cdp.store_key_of_role('ROLE partner t' || i || repeat('z', 400), 'many', 'x', '{}', 'x', 1, '1 day'))
      FROM generate_series(1, 1000) i`;
    expect((await sql(writes, many)).status).toBe(200);
    const { body } = await as(writes, 'POST', '/api/cdp/receipts/query', { keys: ['many'] });
    expect(body['receipts']).toHaveLength(1_000);
    const one = expectFailure(await as(writes, 'GET', '/api/cdp/receipts/many'), 400, 'invalid_request');
    expect(one.message.length).toBeLessThan(10_000);
  });

  it('settles keys of the role, and forgets them with it', async () => {
    const settled = await as(appends, 'POST', '/api/cdp/receipts/query', {
      keys: ['never'],
      table: 'orders',
      settle: true,
    });
    expect(settled.body['receipts']).toMatchObject([{ status: 'not_stored', settled: true }]);
    const headers = { 'idempotency-key': 'never' };
    expectFailure(await as(appends, 'POST', '/api/cdp/data/orders', [{ total: 1 }], headers), 409, 'key_settled');
    const brief = await create('brief');
    await project.rows(`GRANT INSERT ON orders TO ${brief}`);
    const first = await project.tokenAs('brief', 'data:write');
    const insert = (token: string) =>
      as(token, 'POST', '/api/cdp/data/orders', [{ total: 1 }], { 'idempotency-key': 'b' });
    expect((await insert(first)).status).toBe(201);
    await project.call('DELETE', '/api/cdp/schema/role/brief');
    await create('brief');
    await project.rows(`GRANT INSERT ON orders TO ${brief}`);
    const anew = await insert(await project.tokenAs('brief', 'data:write'));
    expect([anew.status, anew.headers.get('idempotency-replayed')]).toEqual([201, null]);
    await project.call('DELETE', '/api/cdp/schema/role/brief');
  });

  it('quarantines for a table that the role may insert into, and shows records of tables that it may read', async () => {
    const path = '/api/cdp/data/orders?on_error=quarantine';
    const response = await as(appends, 'POST', path, [{ total: 5 }, { total: 'much' }]);
    expect(response).toMatchObject({ body: { inserted_rows: 1, quarantined_rows: 1 } });
    expect((await project.call('GET', '/api/cdp/quarantine')).body['records']).toHaveLength(1);
    expect((await as(reads, 'GET', '/api/cdp/quarantine')).body['records']).toHaveLength(1);
    const blind = await project.tokenAs('partner', 'sql:read');
    expect((await as(blind, 'GET', '/api/cdp/quarantine')).body['records']).toEqual([]);
    const writes = await project.tokenAs('partner', 'sql:write');
    const into = (table: string) =>
      sql(writes, `INSERT INTO _cdp.quarantine (table_name, record, errors) VALUES ('${table}', '{}', '[]')`);
    expectFailure(await into('secrets'), 403, 'permission_denied');
    for (const values of [
      `('orders', 'no JSON', '[]')`,
      `('orders', '{}', '{}')`,
      `('orders', '{}', '[null]')`,
      `('orders', '{}', '[{}]')`,
      `('orders', '{}', '[]')`,
      `('orders', '{}', '[{"error": "a", "message": "b", "column": 5}]')`,
      `('orders', '{}', '[{"error": "a", "message": "b", "columns": [5]}]')`,
      `('orders', '{}', '[{"error": "a", "message": "b", "more": "c"}]')`,
      `('orders', repeat('[', 100) || repeat(']', 100), '[{"error": "a", "message": "b"}]')`,
      `('orders', to_json(repeat('x', 10485760))::text, '[{"error": "a", "message": "b"}]')`,
      `('orders', '{}', jsonb_build_array(jsonb_build_object('error', 'a', 'message', repeat('x', 1048576))))`,
    ]) {
      const response = await sql(writes, `INSERT INTO _cdp.quarantine (table_name, record, errors) VALUES ${values}`);
      expect([values, response.status]).toEqual([values, 400]);
    }
    const deep = `INSERT INTO _cdp.quarantine (table_name, record, errors)
      VALUES ('orders', repeat('[', 99) || '"]["' || repeat(']', 99), '[{"error": "a", "message": "b", "columns": ["c"], "hint": "d"}]')`;
    expect((await sql(writes, deep)).status).toBe(200);
    expect((await project.call('POST', '/api/cdp/quarantine/replay', { body: { table: 'orders' } })).status).toBe(200);
    // What a replay by the writer would do there is not what the role may do.
    await project.rows(`CREATE VIEW through WITH (security_invoker) AS SELECT * FROM secrets; CREATE TABLE signed (who text);
      CREATE FUNCTION sign() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.who := session_user; RETURN NEW; END $$;
      CREATE TRIGGER sign BEFORE INSERT ON signed FOR EACH ROW EXECUTE FUNCTION sign();
      GRANT INSERT ON through, signed TO ${partner}`);
    for (const table of ['through', 'signed']) expectFailure(await into(table), 403, 'permission_denied');
    const chosen = `INSERT INTO _cdp.quarantine (id, quarantined_at, table_name, record, errors)
      VALUES ('00000000-0000-0000-0000-000000000003', 'infinity', 'orders', '{}', '[{"error": "invalid_value", "message": "m"}]')`;
    expect((await sql(writes, chosen)).status).toBe(200);
    const odd = `SELECT count(*) AS n FROM _cdp.quarantined WHERE id = '00000000-0000-0000-0000-000000000003' OR quarantined_at = 'infinity'`;
    expect(await project.rows(odd)).toEqual([{ n: 0 }]);
    expectFailure(await sql(writes, 'DELETE FROM _cdp.quarantined'), 403, 'permission_denied');
  });

  it('lets policies decide which rows a role sees', async () => {
    await project.rows(`CREATE TABLE visits (owner text, page text);
      INSERT INTO visits VALUES ('intern', 'a'), ('partner', 'b');
      ALTER TABLE visits ENABLE ROW LEVEL SECURITY;
      GRANT SELECT, INSERT ON visits TO ${intern}, ${partner};
      CREATE POLICY own ON visits USING (owner = _cdp.role_name()) WITH CHECK (owner = _cdp.role_name())`);
    expect((await sql(reads, 'SELECT page FROM visits')).body['rows']).toEqual([{ page: 'a' }]);
    const insert = (owner: string) => as(appends, 'POST', '/api/cdp/data/visits', [{ owner, page: 'c' }]);
    expect((await insert('partner')).status).toBe(201);
    expectFailure(await insert('intern'), 403, 'permission_denied');
    expectFailure(await sql(reads, 'SET row_security = off; SELECT page FROM visits'), 403, 'permission_denied');
    // A replay would store it with the rights of the writer.
    const path = '/api/cdp/data/visits?on_error=quarantine';
    const foreign = [
      { owner: 'partner', page: 'd' },
      { owner: 'intern', page: 'e' },
    ];
    expectFailure(await as(appends, 'POST', path, foreign), 403, 'permission_denied');
    expectFailure(
      await as(appends, 'POST', path, [{ owner: 'partner', page: { not: 'text' }, more: 1 }]),
      403,
      'permission_denied',
    );
    expect(await project.rows(`SELECT count(*) AS n FROM _cdp.quarantined WHERE table_name = 'visits'`)).toEqual([
      { n: 0 },
    ]);
  });

  it('serves the role at the Postgres port, and no other', async () => {
    if (service.server.major >= 16) {
      const client = await connect('intern', reads);
      try {
        expect((await client.query('SELECT country FROM customers')).rowCount).toBe(2);
        await expect(client.query('SELECT email FROM customers')).rejects.toThrow('permission denied');
        await expect(client.query('INSERT INTO orders (total) VALUES (1)')).rejects.toThrow();
      } finally {
        await client.end();
      }
    }
    for (const user of ['reader', 'writer', 'partner'])
      await expect(connect(user, reads)).rejects.toThrow(`role "${user}" does not exist`);
    const writes = await project.tokenAs('partner', 'sql:write');
    const client = await connect('partner', writes);
    try {
      await client.query('INSERT INTO orders (total) VALUES (7)');
      await expect(client.query('SELECT * FROM orders')).rejects.toThrow('permission denied');
    } finally {
      await client.end();
    }
    await expect(connect('intern', await project.tokenWith('sql:read'))).rejects.toThrow('does not exist');
  });

  it("serves it to Neon's driver, by MCP, as a stream, and in a dry run", async () => {
    const neon = (user: string, token: string) =>
      as(
        token,
        'POST',
        '/sql',
        { query: 'SELECT current_user AS who', params: [] },
        {
          'neon-connection-string': `postgresql://${user}:${token}@localhost/${project.name}`,
        },
      );
    expect((await neon('intern', reads)).body).toMatchObject({ rows: [{ who: intern }] });
    expectFailure(await neon('reader', reads), 400, 'invalid_request');
    expectFailure(await neon('writer', reads), 400, 'invalid_request');

    const query = await tool(service, reads, 'query', { sql: 'SELECT email FROM customers' });
    expect(query).toMatchObject({ isError: true });
    expect(JSON.stringify(query)).toContain('permission denied');
    expect(JSON.stringify(await tool(service, reads, 'list_tables', {}))).not.toContain('secrets');
    const described = JSON.stringify(await tool(service, reads, 'describe_table', { table: 'customers' }));
    expect(described).toContain('country');
    expect(described).not.toContain('email');

    const stream = (text: string) => as(reads, 'POST', SQL, { sql: text }, { accept: 'text/csv' });
    expect((await stream('SELECT country FROM customers ORDER BY 1')).text).toBe('country\nGB\nUS\n');
    expectFailure(await stream('SELECT * FROM customers'), 403, 'permission_denied');

    const writes = await project.tokenAs('partner', 'sql:write', 'data:write');
    const tried = await as(writes, 'POST', '/api/cdp/data/orders?dry_run=true', [{ total: 9 }]);
    expect(tried).toMatchObject({ status: 201, body: { dry_run: true } });
    const dry = (text: string) => as(writes, 'POST', `${SQL}?dry_run=true`, { sql: text });
    expect((await dry('INSERT INTO orders (total) VALUES (9)')).status).toBe(200);
    expectFailure(await dry('DELETE FROM orders'), 403, 'permission_denied');
  });

  it('gives it no way to become another role', async () => {
    const { placement } = await service.engine.projects.get(project.name);
    const writes = await project.tokenAs('intern', 'sql:write');
    const refused = [
      `SET ROLE ${placement.writer}`,
      `SET ROLE ${partner}`,
      `SET SESSION AUTHORIZATION ${placement.writer}`,
      `SELECT set_config('role', '${placement.reader}', false)`,
      `GRANT ${placement.writer} TO ${intern}`,
      `GRANT ${intern} TO ${partner}`,
      `ALTER ROLE ${partner} PASSWORD 'x'`,
      `DROP OWNED BY ${partner}`,
      'CREATE TABLE mine (a int)',
      'CREATE TEMP TABLE mine (a int)',
      `ALTER DEFAULT PRIVILEGES FOR ROLE ${placement.writer} GRANT SELECT ON TABLES TO ${intern}`,
      `GRANT SELECT ON secrets TO ${intern}`,
      'SELECT * FROM secrets',
      `COPY secrets TO STDOUT`,
      'LOCK TABLE secrets',
      `SELECT pg_catalog.lo_export(1, '/tmp/x')`,
    ];
    for (const text of refused) {
      const response = await sql(writes, text);
      expect([text, response.status]).toEqual([
        text,
        response.status >= 400 && response.status < 500 ? response.status : 0,
      ]);
    }
    for (const text of ['RESET ROLE', 'RESET SESSION AUTHORIZATION'])
      expect((await sql(writes, `${text}; SELECT current_user AS who`)).body['rows']).toEqual([{ who: intern }]);
    expect((await sql(writes, `SELECT * FROM pg_stats WHERE tablename = 'secrets'`)).body['rows']).toEqual([]);
  });

  it('shows it what Postgres shows every role, and does for it what the writer has offered', async () => {
    await project.rows(`CREATE FUNCTION count_secrets() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM data.secrets';
      CREATE FUNCTION read_secrets() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM data.secrets';
      CREATE VIEW offered AS SELECT text FROM secrets; CREATE VIEW kept WITH (security_invoker) AS SELECT text FROM secrets;
      GRANT SELECT ON offered, kept TO ${intern}`);
    expect((await sql(reads, 'SELECT count_secrets() AS n')).body['rows']).toEqual([{ n: 1 }]);
    expect((await sql(reads, 'SELECT text FROM offered')).body['rows']).toEqual([{ text: 'hidden' }]);
    for (const text of [
      'SELECT read_secrets()',
      'SELECT text FROM kept',
      'EXPLAIN SELECT * FROM secrets',
      'EXPLAIN ANALYZE SELECT * FROM secrets',
    ])
      expectFailure(await sql(reads, text), 403, 'permission_denied');
    // A condition that fails tells nothing about rows that the role may not see.
    expectFailure(
      await sql(reads, `SELECT 1 / (SELECT count(*) FROM secrets WHERE text = 'hidden')`),
      403,
      'permission_denied',
    );
    const sessions = await sql(
      reads,
      `SELECT query FROM pg_catalog.pg_stat_activity WHERE usename <> current_user AND query ~ 'secrets'`,
    );
    expect(sessions.status === 403 || (sessions.body['rows'] as unknown[]).length === 0).toBe(true);
  });

  it('shares no session with another role', async () => {
    const writes = await project.tokenAs('intern', 'sql:write');
    const others = await project.tokenAs('partner', 'sql:write');
    await sql(writes, `PREPARE mine AS SELECT 1; SET my.setting = 'intern'; LISTEN news`);
    for (const token of [others, project.token, writes]) {
      expectFailure(await sql(token, 'EXECUTE mine'), 400, 'sql_error');
      expect(
        (await sql(token, `SELECT current_setting('my.setting', true) AS it, session_user AS who`)).body['rows'],
      ).not.toMatchObject([{ it: 'intern' }]);
    }
  });

  it('does not let settings of the role change what it may do', async () => {
    const { placement } = await service.engine.projects.get(project.name);
    const writes = await project.tokenAs('intern', 'sql:write');
    await sql(writes, `ALTER ROLE ${intern} SET search_path = pg_temp; ALTER ROLE ${intern} PASSWORD 'known'`);
    await sql(writes, `ALTER ROLE ${intern} IN DATABASE ${placement.database} SET role = ${placement.writer}`);
    service.engine.databaseAccess.recheckRights(project.id);
    expect((await sql(reads, 'SELECT country FROM customers')).status).toBe(200);
    expect((await sql(reads, 'SELECT current_user AS who')).body['rows']).toEqual([{ who: intern }]);
    expectFailure(await sql(reads, 'SELECT email FROM customers'), 403, 'permission_denied');
  });

  it('shows its owner what a role may do, and its tokens; a role cannot manage roles', async () => {
    const { body } = await project.call('GET', '/api/cdp/schema/role/intern');
    expect(body['role']).toMatchObject({
      name: 'intern',
      postgres_name: intern,
      tables: expect.arrayContaining([
        {
          schema: 'data',
          table: 'customers',
          privileges: [],
          columns: { SELECT: ['id', 'country'] },
          row_security: false,
        },
        { schema: 'data', table: 'orders', privileges: ['SELECT'], columns: {}, row_security: false },
      ]) as unknown,
    });
    const list = await project.call('GET', '/api/cdp/schema/role');
    expect((list.body['roles'] as { name: string }[]).map(({ name }) => name)).toEqual(['intern', 'partner']);
    const manages = await project.tokenAs('intern', 'schema:write', 'schema:read');
    for (const [method, path, body] of [
      ['POST', '', { name: 'more' }],
      ['GET', '', undefined],
      ['GET', '/partner', undefined],
      ['DELETE', '/partner', undefined],
    ] as const)
      expectFailure(await as(manages, method, `/api/cdp/schema/role${path}`, body), 403, 'insufficient_scope');
    expectFailure(
      await as(manages, 'POST', '/api/cdp/schema/table', { table_name: 't', columns: [{ name: 'a', type: 'TEXT' }] }),
      403,
      'permission_denied',
    );
  });

  it('refuses names that are not its own to give', async () => {
    const named = (name: unknown) => project.call('POST', '/api/cdp/schema/role', { body: { name } });
    for (const name of [
      'writer',
      'reader',
      'public',
      'none',
      'pg_x',
      'cdp_service',
      'postgres',
      'user',
      'order',
      'w_0123456789abcdef0123',
    ])
      expectFailure(await named(name), 400, 'reserved_name');
    for (const name of ['Intern', '1st', 'a-b', 'a b', '', 'x'.repeat(41), '"; DROP ROLE x', 'é'])
      expectFailure(await named(name), 400, 'invalid_name');
    expectFailure(await named('intern'), 409, 'unique_violation');
    expectFailure(await project.call('DELETE', '/api/cdp/schema/role/nobody'), 404, 'not_found');
    await expect(project.tokenAs('nobody', 'sql:read')).rejects.toThrow('has no role "nobody"');
  });

  it('takes a role away at once, with its tokens, sessions and rights', async () => {
    const temp = await create('temp');
    await project.rows(`GRANT SELECT, INSERT ON orders TO ${temp}`);
    const token = await project.tokenAs('temp', 'sql:write', 'sql:read', 'data:write');
    expect((await sql(token, 'SELECT lo_create(0)')).status).toBe(200);
    const client = await connect('temp', token);
    const ended = new Promise((resolve) => client.on('error', resolve));
    const dropped = await project.call('DELETE', '/api/cdp/schema/role/temp');
    expect(dropped).toMatchObject({ status: 200, body: { role: 'temp', revoked_tokens: 1, dropped_large_objects: 1 } });
    await ended;
    await expect.poll(async () => (await sql(token, 'SELECT 1')).status).toBe(401);
    expect(
      await project.rows(`SELECT relacl::text LIKE '%temp%' AS has FROM pg_class WHERE relname = 'orders'`),
    ).toEqual([{ has: false }]);
    // A new role of the name begins without rights.
    await create('temp');
    const next = await project.tokenAs('temp', 'sql:read');
    expectFailure(await sql(next, 'SELECT * FROM orders'), 403, 'permission_denied');
    expect((await project.call('DELETE', '/api/cdp/schema/role/temp')).status).toBe(200);
  });

  // On a server of its own there is no other project.
  if (place !== 'its own server')
    it('drops a role, and a project, that another project has granted something', async () => {
      const [other, gone] = [await service.project(), await service.project()];
      const make = async (one: TestProject) => {
        const { body } = await one.call('POST', '/api/cdp/schema/role', { body: { name: 'temp' } });
        return (body['role'] as { postgres_name: string }).postgres_name;
      };
      const { writer } = (await service.engine.projects.get(gone.name)).placement;
      await other.rows(
        `CREATE TABLE bait (a int); GRANT SELECT ON bait TO ${await make(project)}, ${await make(gone)}, ${writer}`,
      );
      expect(await project.call('DELETE', '/api/cdp/schema/role/temp')).toMatchObject({ status: 200 });
      await service.engine.projects.delete(gone.name, BY_ITSELF);
      expect(
        await other.rows(`SELECT relacl::text ~ 'temp|${writer}' AS has FROM pg_class WHERE relname = 'bait'`),
      ).toEqual([{ has: false }]);
    });

  it('keeps what the project has revoked, through log-ins and repairs', async () => {
    await project.rows(`REVOKE SELECT ON orders FROM ${intern}`);
    for (const restored of [false, true]) {
      if (restored) await service.engine.projects.repair(project.name, BY_ITSELF);
      service.engine.databaseAccess.recheckRights(project.id);
      expectFailure(await sql(reads, 'SELECT * FROM orders'), 403, 'permission_denied');
    }
    await project.rows(`GRANT SELECT ON orders TO ${intern}`);
    // What it can lose, but not revoke, is restored.
    const { placement } = await service.engine.projects.get(project.name);
    await inProject(service, placement, (client) => client.query(`REVOKE USAGE ON SCHEMA data FROM ${intern}`));
    service.engine.databaseAccess.recheckRights(project.id);
    expect((await sql(reads, 'SELECT country FROM customers')).status).toBe(200);
  });
});
