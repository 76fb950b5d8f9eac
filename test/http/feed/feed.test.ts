/** What readers of the feed rely on, and how it refuses what it does not have. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../support/program.js';
import {
  expectFailure,
  startOwnService,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

interface Change {
  cursor: string;
  op: string;
  table: string;
  [member: string]: unknown;
}

interface Page {
  changes: Change[];
  cursor: string;
}

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startOwnService();
  project = await service.project();
  await project.rows('CREATE TABLE customers (id int PRIMARY KEY, email text, secret text)');
  await project.rows('CREATE TABLE notes (text text)');
  const on = await project.call('PUT', '/api/cdp/feed', { body: {} });
  expect(on.status).toBe(200);
  project = await project.seenAnew();
});
afterAll(() => service.close());

const page = async (query = '', of = project): Promise<Page> => {
  const response = await of.call('GET', `/api/cdp/changes${query}`);
  expect(response.text).toMatch(/^\{"success":true/);
  return response.body as unknown as Page;
};

const now = async (): Promise<string> => (await page()).cursor;

/** As many changes after a cursor as are expected; fails if there are more. */
async function changesAfter(after: string, count: number, query = '', of = project): Promise<Change[]> {
  const found: Change[] = [];
  let cursor = after;
  for (const until = Date.now() + 20_000; found.length < count && Date.now() < until;) {
    const next = await page(`?after=${cursor}&wait=5${query}`, of);
    found.push(...next.changes);
    ({ cursor } = next);
  }
  expect(found).toHaveLength(count);
  return found;
}

describe('works', () => {
  it('shows the settings, and what it has of each table', async () => {
    const { body } = await project.call('GET', '/api/cdp/feed');
    expect(body).toMatchObject({
      feed: {
        ...{ tables: 'all', old: false, retention_hours: 72, retention_mib: 1_024, status: 'reading', reason: null },
        table_list: [
          { name: 'customers', changes: 'all', old: false },
          { name: 'notes', changes: 'inserts', old: false },
        ],
      },
    });
  });

  it('goes on after any cursor, also in the middle of a transaction, with the same changes in the same order', async () => {
    const start = await now();
    await project.rows(`INSERT INTO customers SELECT i, 'c' || i FROM generate_series(1, 5) i RETURNING id`);
    await project.rows(`UPDATE customers SET email = 'x' WHERE id < 3 RETURNING id`);
    const all = await changesAfter(start, 7);
    expect(all.map(({ op, key }) => [op, key])).toEqual([
      ...[1, 2, 3, 4, 5].map((id) => ['insert', { id }]),
      ...[1, 2].map((id) => ['update', { id }]),
    ]);
    expect(new Set(all.slice(0, 5).map(({ transaction }) => transaction)).size).toBe(1);
    for (const [i, { cursor }] of all.entries())
      expect((await page(`?after=${cursor}&limit=10`)).changes).toEqual(all.slice(i + 1));
    let cursor = start;
    for (const change of all) {
      const one = await page(`?after=${cursor}&limit=1`);
      expect(one.changes).toEqual([change]);
      ({ cursor } = one);
    }
  });

  it('has the columns of a table and its rows in their order, when the schema changes', async () => {
    const start = await now();
    await project.rows('CREATE TABLE orders (id int PRIMARY KEY)');
    await project.rows('INSERT INTO orders VALUES (1); ALTER TABLE orders ADD total int DEFAULT 5');
    await project.rows('ALTER TABLE orders RENAME TO sales');
    await project.rows('INSERT INTO sales VALUES (2, 6)');
    const changes = await changesAfter(start, 5, '&tables=orders,sales');
    const told = changes.map(({ op, table, change, snapshot, was, record }) => ({
      op,
      table,
      change,
      snapshot,
      was,
      record,
    }));
    expect(told).toEqual([
      { op: 'schema', table: 'orders', change: 'created', snapshot: false },
      { op: 'insert', table: 'orders', record: { id: 1 } },
      { op: 'schema', table: 'orders', change: 'altered', snapshot: true },
      { op: 'schema', table: 'sales', change: 'renamed', snapshot: false, was: 'orders' },
      { op: 'insert', table: 'sales', record: { id: 2, total: 6 } },
    ]);
    await project.rows('DROP TABLE sales');
    const [dropped] = await changesAfter(changes[4]?.cursor ?? '', 1);
    expect(dropped).toMatchObject({ op: 'schema', table: 'sales', change: 'dropped', snapshot: false });
    expect(changes[2]?.['columns']).toEqual([
      { name: 'id', type: 'integer' },
      { name: 'total', type: 'integer' },
    ]);
    expect(changes[0]?.['key']).toEqual(['id']);
  });

  it('has new rows and TRUNCATE of tables without a key, on which UPDATE and DELETE still work', async () => {
    const start = await now();
    await project.rows(`INSERT INTO notes VALUES ('a')`);
    await project.rows(`UPDATE notes SET text = 'b'`);
    await project.rows('DELETE FROM notes');
    await project.rows('TRUNCATE notes');
    const changes = await changesAfter(start, 2, '&tables=notes');
    expect(changes).toMatchObject([
      { op: 'insert', key: null, record: { text: 'a' } },
      { op: 'truncate', key: null, record: null },
    ]);
  });

  it('names long values that stayed the same, and never says that they are null', async () => {
    await project.rows('CREATE TABLE long (id int PRIMARY KEY, n int, text text)');
    await project.rows('ALTER TABLE long ALTER text SET STORAGE EXTERNAL');
    await project.rows(`INSERT INTO long VALUES (1, 1, repeat('x', 100000))`);
    const start = await now();
    await project.rows('UPDATE long SET n = 2');
    expect(await changesAfter(start, 1)).toMatchObject([{ record: { id: 1, n: 2 }, unchanged: ['text'] }]);
    expect((await changesAfter(start, 1))[0]?.['record']).not.toHaveProperty('text');
  });

  it('sends events with the cursor as their id, and goes on after Last-Event-ID', async () => {
    const start = await now();
    await project.rows(`INSERT INTO customers VALUES (100, 'a'), (101, 'b')`);
    const [first, second] = await changesAfter(start, 2);
    const events = async (headers: Record<string, string>, count: number): Promise<string> => {
      const controller = new AbortController();
      const response = await fetch(`${service.url}/api/cdp/changes?after=${start}`, {
        headers: { authorization: `Bearer ${project.token}`, accept: 'text/event-stream', ...headers },
        signal: controller.signal,
      });
      expect(response.headers.get('content-type')).toBe('text/event-stream');
      let text = '';
      const decoder = new TextDecoder();
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
        text += decoder.decode(chunk, { stream: true });
        if (text.split('\ndata: ').length > count && text.endsWith('\n\n')) break;
      }
      controller.abort();
      return text;
    };
    const text = (change: Change | undefined) => `id: ${change?.cursor}\ndata: ${JSON.stringify(change)}\n\n`;
    expect(await events({}, 2)).toBe(text(first) + text(second));
    expect(await events({ 'last-event-id': first?.cursor ?? '' }, 1)).toBe(text(second));
  });
});

describe('refuses', () => {
  it('what is no cursor, and those of other logs, which have expired', async () => {
    const get = (after: string) => project.call('GET', `/api/cdp/changes?after=${encodeURIComponent(after)}`);
    for (const wrong of ['', 'now', '1.2', '9f3a01c7.1a2b3c4.2 ', `${await now()}.0-`, 'x'.repeat(5_000)])
      expectFailure(await get(wrong), 400, 'invalid_request');
    const { hint } = expectFailure(await get('00000000.1.0'), 410, 'cursor_expired');
    expect(hint).toContain('GET /api/cdp/changes/snapshot?table=');
    const [epoch] = (await now()).split('.');
    expectFailure(await get(`${epoch}.ffffffffffffff.0`), 400, 'invalid_request');
    expectFailure(await get(`${epoch}.1.0`), 410, 'cursor_expired');
  });

  it('values out of range, a table that is none, and a project without a feed', async () => {
    for (const wrong of ['wait=61', 'wait=-1', 'wait=1.5', 'limit=0', 'limit=10001', 'tables=', 'since=1'])
      expectFailure(await project.call('GET', `/api/cdp/changes?${wrong}`), 400, 'invalid_request');
    for (const body of [{ tables: [] }, { retention_hours: 0 }, { retention_mib: 1 }, { old: 'yes' }, { table: 'a' }])
      expectFailure(await project.call('PUT', '/api/cdp/feed', { body }), 400, 'invalid_request');
    expectFailure(await project.call('GET', '/api/cdp/changes/snapshot?table=missing'), 404, 'table_not_found');
    const other = await service.project();
    expectFailure(await other.call('GET', '/api/cdp/changes'), 404, 'not_found');
  });

  it('a feed for a project on a server by address', async () => {
    const byAddress = await startTestService();
    try {
      const other = await byAddress.project();
      expectFailure(await other.call('PUT', '/api/cdp/feed', { body: {} }), 409, 'not_supported');
      expect((await other.call('GET', '/api/cdp/feed')).body).toMatchObject({ feed: null });
    } finally {
      await byAddress.close();
    }
  });
});

describe('protects', () => {
  it('what the role of a token may not read: other tables, other columns, and tables with row security', async () => {
    expect((await project.call('POST', '/api/cdp/schema/role', { body: { name: 'intern' } })).status).toBe(201);
    await project.rows('GRANT SELECT (id, email) ON customers TO intern');
    await project.rows('CREATE TABLE own (id int PRIMARY KEY)');
    await project.rows('ALTER TABLE own ENABLE ROW LEVEL SECURITY');
    await project.rows('GRANT SELECT ON own TO intern');
    const token = await project.tokenAs('intern', 'sql:read', 'schema:read');
    const intern: TestProject = {
      ...project,
      call: (method, path, given = {}) => project.call(method, path, { token, ...given }),
    };
    expectFailure(await intern.call('GET', '/api/cdp/feed'), 403, 'insufficient_scope');
    const start = await now();
    await project.rows(`INSERT INTO notes VALUES ('secret')`);
    await project.rows('INSERT INTO own VALUES (1)');
    await project.rows(`INSERT INTO customers VALUES (200, 'a', 'secret')`);
    expect(await changesAfter(start, 1, '', intern)).toMatchObject([
      { table: 'customers', key: { id: 200 }, record: { id: 200, email: 'a' } },
    ]);
    expect((await page(`?after=${start}`, intern)).changes[0]?.['record']).not.toHaveProperty('secret');
    expectFailure(await intern.call('GET', '/api/cdp/changes/snapshot?table=own'), 403, 'permission_denied');
    const rows = await intern.call('GET', '/api/cdp/changes/snapshot?table=customers');
    expect(rows.text).toContain('"email"');
    expect(rows.text).not.toContain('secret');
    await project.rows('REVOKE SELECT (id, email) ON customers FROM intern');
    await eventually('nothing is read', async () => (await page(`?after=${start}`, intern)).changes.length === 0);
  });

  it('tokens without a scope for it', async () => {
    const token = await project.tokenWith('data:write');
    for (const path of ['/api/cdp/changes', '/api/cdp/changes/snapshot?table=customers', '/api/cdp/feed'])
      expectFailure(await project.call('GET', path, { token }), 403, 'insufficient_scope');
    expectFailure(await project.call('PUT', '/api/cdp/feed', { token, body: {} }), 403, 'insufficient_scope');
    expectFailure(await project.call('DELETE', '/api/cdp/feed', { token }), 403, 'insufficient_scope');
  });
});
