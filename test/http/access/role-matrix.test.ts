/**
 * Each role at each door with each object: what SQL grants is what every door allows, and nothing else. On own servers, and
 * by address on each version of Postgres.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Scope } from '../../../src/contract/names.js';
import { tool } from '../../support/mcp.js';
import { testServers } from '../../support/postgres.js';
import { call, startOwnService, startTestService, type TestProject, type TestService } from '../../support/service.js';

const SETTINGS = { 'pg-port': '0', 'mcp-writes': 'true' };
const PLACES = [
  ['its own server', () => startOwnService(SETTINGS)],
  ...testServers().map((server) => [`Postgres ${server.major}`, () => startTestService(SETTINGS, server)] as const),
] as const;

const OBJECTS = {
  'a table': 'SELECT total FROM orders',
  'a granted column': 'SELECT country FROM customers',
  'another column': 'SELECT email FROM customers',
  'all columns': 'SELECT * FROM customers',
  'another table': 'SELECT * FROM secrets',
  'a view of it': 'SELECT * FROM offered',
  "a view with the caller's rights": 'SELECT * FROM kept',
  'a function of the writer': 'SELECT offered_count()',
  'a table of an own schema': 'SELECT * FROM app.facts',
  'keys of others': 'SELECT * FROM _cdp.idempotency_keys',
} as const;
type ObjectName = keyof typeof OBJECTS;
const ALL = Object.keys(OBJECTS) as ObjectName[];
const OF_SERVICE = 'keys of others';

/** What each may read; the service lets the reader see keys without their responses. */
const MAY_READ: Record<string, readonly ObjectName[]> = {
  writer: ALL,
  reader: ALL.filter((name) => name !== OF_SERVICE),
  intern: ['a table', 'a granted column', 'a view of it', 'a function of the writer'],
  partner: ['a function of the writer'],
};
const ROLES = Object.keys(MAY_READ);

const INSERTS = { orders: ['writer', 'partner'], customers: ['writer'], secrets: ['writer'] };

describe.each(PLACES)('on %s', (_, start) => {
  let service: TestService;
  let project: TestProject;
  const tokens = new Map<string, string>();
  const names = new Map<string, string>();

  const tokenOf = async (role: string, ...scopes: Scope[]): Promise<string> => {
    const key = [role, ...scopes].join(' ');
    const known = tokens.get(key);
    if (known !== undefined) return known;
    const token = names.has(role) ? await project.tokenAs(role, ...scopes) : await project.tokenWith(...scopes);
    tokens.set(key, token);
    return token;
  };
  const sendSql = async (
    role: string,
    scope: Scope,
    sql: string,
    path = '/api/cdp/sql',
    headers = {},
  ): Promise<boolean> => {
    const body = path === '/sql' ? { query: sql, params: [] } : { sql };
    const response = await call(service.url, 'POST', path, { token: await tokenOf(role, scope), body, headers });
    if (response.status !== 200 && response.status !== 403 && !response.text.includes('permission denied'))
      throw new Error(response.text);
    return response.status === 200;
  };
  const atPort = async (role: string, scope: Scope, sql: string): Promise<boolean> => {
    const user = names.has(role) ? role : scope === 'sql:read' ? 'reader' : 'writer';
    const password = await tokenOf(role, scope);
    const client = new pg.Client({
      host: '127.0.0.1',
      port: service.postgresPort ?? 0,
      database: project.name,
      user,
      password,
    });
    await client.connect();
    try {
      await client.query(sql);
      return true;
    } catch (error) {
      if ((error as { code?: string }).code !== '42501') throw error;
      return false;
    } finally {
      await client.end();
    }
  };
  const byMcp = async (role: string, scope: Scope, name: string, args: object): Promise<boolean> => {
    const result = await tool(service, await tokenOf(role, scope), name, args);
    if (result.isError && !result.text.includes('permission')) throw new Error(result.text);
    return !result.isError;
  };

  beforeAll(async () => {
    service = await start();
    project = await service.project();
    await project.table('customers', { email: 'TEXT', country: 'TEXT' });
    await project.table('orders', { total: 'FLOAT' });
    await project.table('secrets', { text: 'TEXT' });
    for (const name of ['intern', 'partner']) {
      const { body } = await project.call('POST', '/api/cdp/schema/role', { body: { name } });
      names.set(name, (body['role'] as { postgres_name: string }).postgres_name);
    }
    await project.rows(`CREATE VIEW offered AS SELECT * FROM secrets; CREATE VIEW kept WITH (security_invoker) AS SELECT * FROM secrets;
      CREATE FUNCTION offered_count() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM data.secrets';
      CREATE SCHEMA app CREATE TABLE facts (n int);
      GRANT SELECT ON orders, offered, kept TO ${names.get('intern')}; GRANT SELECT (id, country) ON customers TO ${names.get('intern')};
      GRANT SELECT ON app.facts TO ${names.get('intern')}; GRANT INSERT ON orders TO ${names.get('partner')}`);
  });
  afterAll(() => service.close());

  const readers: Record<string, (role: string, sql: string) => Promise<boolean>> = {
    'free SQL': (role, sql) => sendSql(role, role === 'writer' ? 'sql:write' : 'sql:read', sql),
    'a stream': (role, sql) =>
      sendSql(role, role === 'writer' ? 'sql:write' : 'sql:read', sql, '/api/cdp/sql', { accept: 'text/csv' }),
    'a dry run': (role, sql) =>
      role === 'reader' ? sendSql(role, 'sql:read', sql) : sendSql(role, 'sql:write', sql, '/api/cdp/sql?dry_run=true'),
    "Neon's driver": (role, sql) => sendSql(role, role === 'writer' ? 'sql:write' : 'sql:read', sql, '/sql'),
    MCP: (role, sql) =>
      role === 'writer' ? byMcp(role, 'sql:write', 'dry_run_sql', { sql }) : byMcp(role, 'sql:read', 'query', { sql }),
    // Before Postgres 16, a session that only reads is refused.
    'the Postgres port': (role, sql) =>
      role === 'reader' && service.server.major < 16
        ? sendSql(role, 'sql:read', sql)
        : atPort(role, role === 'reader' ? 'sql:read' : 'sql:write', sql),
  };

  it.each(Object.keys(readers))('%s reads what was granted, and nothing else', async (door) => {
    const found: Record<string, readonly string[]> = {};
    for (const role of ROLES) {
      const seen: string[] = [];
      for (const name of ALL) if (await readers[door]?.(role, OBJECTS[name])) seen.push(name);
      found[role] = seen;
    }
    expect(found).toEqual(MAY_READ);
  });

  const writers: Record<string, (role: string, table: string) => Promise<boolean>> = {
    ...Object.fromEntries(
      ['', '?on_error=quarantine', '?dry_run=true'].flatMap((query) =>
        [{}, { 'idempotency-key': `the same for all roles${query}` }].map((headers) => [
          `an insert${query}${'idempotency-key' in headers ? ' under a key' : ''}`,
          async (role: string, table: string) => {
            const token = await tokenOf(role, 'data:write');
            const keyed = query === '?dry_run=true' ? {} : headers;
            const response = await call(service.url, 'POST', `/api/cdp/data/${table}${query}`, {
              token,
              headers: keyed,
              body: [{}],
            });
            if (response.status !== 201 && response.status !== 403) throw new Error(response.text);
            return response.status === 201;
          },
        ]),
      ),
    ),
    'free SQL': (role, table) => sendSql(role, 'sql:write', `INSERT INTO ${table} DEFAULT VALUES`),
    'the Postgres port': (role, table) => atPort(role, 'sql:write', `INSERT INTO ${table} DEFAULT VALUES`),
    MCP: (role, table) => byMcp(role, 'data:write', 'insert', { table, records: [{}] }),
  };

  it.each(Object.keys(writers))('%s writes what was granted, and nothing else', async (door) => {
    const found: Record<string, string[]> = {};
    for (const table of Object.keys(INSERTS)) {
      const able: string[] = [];
      // No token that writes acts as the reader.
      for (const role of ROLES) if (role !== 'reader' && (await writers[door]?.(role, table))) able.push(role);
      found[table] = able;
    }
    expect(found).toEqual(INSERTS);
  });
});
