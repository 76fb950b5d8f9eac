/** Reading the feed: cursors, waiting, event streams, rights, snapshots; and while the project's server is stopped. */
import { once } from 'node:events';
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { bare, changesOf, changesUntilNow, type FeedChange, readChanges, withFeed, words } from '../../support/feed.js';
import {
  expectFailure,
  startOwnService,
  type TestProject,
  type TestResponse,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startOwnService();
  project = await service.project();
  await project.rows('CREATE TABLE items (id int PRIMARY KEY, name text, secret text)');
  await project.rows('CREATE TABLE other (id int PRIMARY KEY)');
  project = await withFeed(project);
});
afterAll(() => service.close());

const serverOf = async (of: TestProject): Promise<string> =>
  (await service.engine.projects.get(of.name)).placement.server;
const stopServer = async (of: TestProject): Promise<void> => {
  const { files } = service.engine.servers.defaultTenancy;
  await files?.stopIfUnused(await serverOf(of));
  expect(files?.isRunning(await serverOf(of))).toBe(false);
};
const isRunning = async (of: TestProject): Promise<boolean> =>
  service.engine.servers.defaultTenancy.files?.isRunning(await serverOf(of)) ?? false;

describe('cursors', () => {
  it('read any number of changes at a time, and go on between the changes of a transaction', async () => {
    const { cursor } = await readChanges(project);
    await project.rows(
      'INSERT INTO items SELECT n FROM generate_series(1, 7) n; TRUNCATE items, other; INSERT INTO items VALUES (8)',
    );
    const all = await changesUntilNow(project, cursor);
    expect(words(all)).toEqual([
      ...Array<string>(7).fill('insert items'),
      'truncate items',
      'truncate other',
      'insert items',
    ]);
    for (const limit of [1, 2, 3]) {
      const found: FeedChange[] = [];
      for (let after = cursor; found.length < all.length;) {
        const page = await readChanges(project, `?after=${after}&limit=${limit}`);
        expect(page.changes.length).toBeGreaterThan(0);
        found.push(...page.changes);
        after = page.cursor;
      }
      expect(found).toEqual(all);
    }
    // From the cursor of each change.
    for (const [i, change] of all.entries()) {
      expect((await readChanges(project, `?after=${change.cursor}`)).changes).toEqual(all.slice(i + 1));
    }
  });

  it('pass what the tables asked for do not have', async () => {
    const { cursor } = await readChanges(project);
    await project.rows('INSERT INTO items VALUES (10); INSERT INTO other VALUES (10); INSERT INTO items VALUES (11)');
    const page = await readChanges(project, `?after=${cursor}&tables=other,missing&wait=10`);
    expect(words(page.changes)).toEqual(['insert other']);
    const rest = await readChanges(project, `?after=${page.cursor}&tables=other`);
    expect(rest.changes).toEqual([]);
    expect((await readChanges(project)).cursor).toBe(rest.cursor);
  });

  it('are refused if they are none, of another project, or after everything', async () => {
    const other = await withFeed(await service.project());
    const { cursor } = await readChanges(project);
    const foreign = (await readChanges(other)).cursor;
    const [epoch, lsn] = cursor.split('.');
    const get = (query: string) => project.call('GET', `/api/cdp/changes${query}`);
    for (const wrong of [
      'x',
      '',
      `${epoch}`,
      `${epoch}.${lsn}`,
      `${epoch}.zz.1`,
      `${cursor}.1.1`,
      `${cursor}'`,
      `${epoch}.${lsn}.-1`,
    ])
      expectFailure(await get(`?after=${encodeURIComponent(wrong)}`), 400, 'invalid_request');
    expectFailure(await get(`?after=${epoch}.ffffffffffff.0`), 400, 'invalid_request');
    const gone = expectFailure(await get(`?after=${foreign}`), 410, 'cursor_expired');
    expect(gone.hint).toContain('/api/cdp/changes/snapshot');
    for (const query of ['?wait=61', '?wait=-1', '?wait=x', '?limit=0', '?limit=10001', '?tables=', '?from=1'])
      expectFailure(await get(query), 400, 'invalid_request');
  });
});

describe('waiting', () => {
  it('ends with the first change, or after its time', async () => {
    const { cursor } = await readChanges(project);
    const waiting = Array.from({ length: 100 }, () => readChanges(project, `?after=${cursor}&wait=30`));
    await sleep(200);
    await project.rows('INSERT INTO items VALUES (20)');
    for (const page of await Promise.all(waiting)) expect(words(page.changes)).toEqual(['insert items']);
    const from = performance.now();
    const { cursor: now } = await readChanges(project);
    expect(await readChanges(project, `?after=${now}&wait=1`)).toMatchObject({ changes: [], cursor: now });
    expect(performance.now() - from).toBeGreaterThan(900);
  });

  it('is bounded for a project, and the others go on', async () => {
    const { cursor } = await readChanges(project);
    const controller = new AbortController();
    const refused: TestResponse[] = [];
    const ask = async (): Promise<void> => {
      const { signal } = controller;
      refused.push(await project.call('GET', `/api/cdp/changes?after=${cursor}&wait=60`, { signal }));
    };
    const all = Array.from({ length: 300 }, () => ask().catch(() => {}));
    while (refused.length < 50) await sleep(20);
    for (const response of refused) expectFailure(response, 429, 'rate_limited');
    // Who does not wait is answered, and so are the other projects.
    expect((await readChanges(project, `?after=${cursor}`)).changes).toEqual([]);
    controller.abort();
    await Promise.all(all);
    await expect
      .poll(() => project.call('GET', `/api/cdp/changes?after=${cursor}&wait=1`))
      .toMatchObject({ status: 200 });
  });

  it('ends when the token is revoked', async () => {
    const { token, details } = await service.engine.tokens.create(project.id);
    const { cursor } = await readChanges(project);
    const waiting = project.call('GET', `/api/cdp/changes?after=${cursor}&wait=60`, { token });
    await sleep(300);
    await service.engine.tokens.revoke(details.id, { now: true }, BY_ITSELF);
    expectFailure(await waiting, 401, 'unauthorized');
  });

  it('shows nothing that is committed after its token was revoked', async () => {
    const { token, details } = await service.engine.tokens.create(project.id);
    const { cursor } = await readChanges(project);
    const waiting = project.call('GET', `/api/cdp/changes?after=${cursor}&wait=60`, { token });
    await sleep(300);
    await service.engine.tokens.revoke(details.id, {}, BY_ITSELF);
    // A revocation is known everywhere after a second (contract C3.8).
    await sleep(1_000);
    await project.rows('INSERT INTO items VALUES (25)');
    expectFailure(await waiting, 401, 'unauthorized');
  });
});

describe('an event stream', () => {
  /** Reads events until there are enough. */
  const events = async (count: number, headers: Record<string, string>, work: () => Promise<unknown>) => {
    const { hostname, port } = new URL(service.url);
    const sent = { authorization: `Bearer ${project.token}`, accept: 'text/event-stream', ...headers };
    const stream = request({ hostname, port, path: '/api/cdp/changes', headers: sent });
    stream.end();
    const [response] = (await once(stream, 'response')) as [
      NodeJS.ReadableStream & { headers: Record<string, string> },
    ];
    expect(response.headers['content-type']).toBe('text/event-stream');
    await work();
    let text = '';
    for await (const part of response) {
      text += String(part);
      if (text.split('\n\n').filter((event) => event.includes('data: ')).length >= count) break;
    }
    stream.destroy();
    return text
      .split('\n\n')
      .filter((event) => event.includes('data: '))
      .map((event) => ({
        id: /^id: (.*)$/m.exec(event)?.[1],
        data: JSON.parse(/^data: (.*)$/m.exec(event)?.[1] ?? '') as FeedChange,
      }));
  };

  it('has each change with its cursor as the id, and goes on after the last one that was seen', async () => {
    const { cursor } = await readChanges(project);
    const first = await events(2, {}, () =>
      project.rows('INSERT INTO items VALUES (30); INSERT INTO items VALUES (31)'),
    );
    expect(first.map(({ id, data }) => [id, data.key])).toEqual(first.map(({ data }) => [data.cursor, data.key]));
    const again = await events(2, { 'last-event-id': first[0]?.id ?? '' }, () =>
      project.rows('INSERT INTO items VALUES (32)'),
    );
    expect(again.map(({ data }) => data.key)).toEqual([{ id: 31 }, { id: 32 }]);
    const page = await readChanges(project, `?after=${cursor}`);
    expect(page.changes.map(({ key }) => key)).toEqual([{ id: 30 }, { id: 31 }, { id: 32 }]);
  });
});

describe('rights', () => {
  it('decide about tables and columns, at once when they change', async () => {
    const own = await service.project();
    await own.rows(
      'CREATE TABLE open (id int PRIMARY KEY, name text, secret text); CREATE TABLE closed (id int PRIMARY KEY); CREATE TABLE guarded (id int PRIMARY KEY)',
    );
    await own.call('POST', '/api/cdp/schema/role', { body: { name: 'intern' } });
    await own.rows(
      'GRANT SELECT (id, name) ON open TO intern; GRANT SELECT ON guarded TO intern; ALTER TABLE guarded ENABLE ROW LEVEL SECURITY; REVOKE ALL ON closed FROM reader',
    );
    const of = await withFeed(own);
    const intern = await of.tokenAs('intern', 'sql:read');
    const reader = await of.tokenWith('sql:read');
    const { cursor } = await readChanges(of);
    await of.rows(
      "INSERT INTO open VALUES (1, 'n', 's'); INSERT INTO closed VALUES (1); INSERT INTO guarded VALUES (1)",
    );
    const tables = async (token?: string) => (await readChanges(of, `?after=${cursor}`, token)).changes;
    await changesUntilNow(of, cursor);
    expect(words(await tables())).toEqual(['insert open', 'insert closed', 'insert guarded']);
    expect((await tables(intern)).map(({ record }) => record)).toEqual([{ id: 1, name: 'n' }]);
    expect(words(await tables(reader))).toEqual(['insert open']);
    const waiting = readChanges(of, `?after=${(await readChanges(of)).cursor}&wait=3`, intern);
    await sleep(200);
    await of.rows("REVOKE SELECT (id, name) ON open FROM intern; INSERT INTO open VALUES (2, 'n', 's')");
    expect((await waiting).changes).toEqual([]);
    expect(await tables(intern)).toEqual([]);
    // Also while the server is stopped.
    await stopServer(of);
    expect(await tables(intern)).toEqual([]);
    expect(words(await tables(reader))).toEqual(['insert open', 'insert open']);
    expect(await isRunning(of)).toBe(false);
    const snapshot = await of.call('GET', '/api/cdp/changes/snapshot?table=closed', { token: reader });
    expectFailure(snapshot, 403, 'permission_denied');
    expectFailure(await of.call('PUT', '/api/cdp/feed', { body: {}, token: intern }), 403, 'insufficient_scope');
  });
});

describe('a stopped server', () => {
  it('is not started by readers, who read what there is and wait for more', async () => {
    const { cursor } = await readChanges(project);
    await project.rows('INSERT INTO items VALUES (40)');
    await stopServer(project);
    const page = await readChanges(project, `?after=${cursor}`);
    expect(words(page.changes)).toEqual(['insert items']);
    const waiting = readChanges(project, `?after=${page.cursor}&wait=30`);
    expect((await project.call('GET', '/api/cdp/feed')).body.feed).toMatchObject({ status: 'at_rest' });
    await sleep(300);
    expect(await isRunning(project)).toBe(false);
    await project.rows('INSERT INTO items VALUES (41)');
    expect((await waiting).changes.map(({ key }) => key)).toEqual([{ id: 41 }]);
  });

  it('has stored every change, whenever it stops', async () => {
    const { cursor } = await readChanges(project);
    for (let i = 0; i < 5; i++) {
      await project.rows(`INSERT INTO items SELECT ${100 * (i + 1)} + n FROM generate_series(1, 50) n`);
      await stopServer(project);
    }
    const changes = await changesUntilNow(project, cursor);
    expect(changes.map(({ key }) => (key as { id: number }).id)).toEqual(
      Array.from({ length: 250 }, (_, i) => 100 * (Math.floor(i / 50) + 1) + (i % 50) + 1),
    );
  });
});

describe('a snapshot', () => {
  it('and the changes after its cursor are the table, while it is written to', async () => {
    await project.rows('CREATE TABLE busy (id int PRIMARY KEY, n int)');
    let isOver = false;
    const writer = async (first: number): Promise<void> => {
      for (let i = 0; !isOver; i++) {
        await project.rows(
          `INSERT INTO busy VALUES (${first + (i % 50)}, ${i}) ON CONFLICT (id) DO UPDATE SET n = excluded.n;
           DELETE FROM busy WHERE id = ${first + ((i * 7) % 50)} AND ${i} % 3 = 0`,
        );
      }
    };
    const writers = [0, 1_000, 2_000, 3_000].map(writer);
    const mirrors: { rows: Map<number, unknown>; cursor: string }[] = [];
    for (let i = 0; i < 8; i++) {
      await sleep(100);
      const { text } = await project.call('GET', '/api/cdp/changes/snapshot?table=busy');
      const lines = text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(lines.at(-1)).toMatchObject({ done: true, row_count: lines.length - 2 });
      const rows = new Map(lines.slice(1, -1).map((row) => [row.id as number, row]));
      mirrors.push({ rows, cursor: lines[0]?.cursor as string });
    }
    isOver = true;
    await Promise.all(writers);
    const table = await project.rows('SELECT * FROM busy ORDER BY id');
    for (const { rows, cursor } of mirrors) {
      for (const { op, key, record } of await changesUntilNow(project, cursor, '&tables=busy')) {
        const { id } = key as { id: number };
        // An insert of what is there, or a change of what is not, would be a change twice or one that is missing.
        expect(rows.has(id), `${op} ${id}`).toBe(op !== 'insert');
        if (op === 'delete') rows.delete(id);
        else rows.set(id, record);
      }
      expect([...rows.values()].sort((a, b) => (a as { id: number }).id - (b as { id: number }).id)).toEqual(table);
    }
  });

  it('says what it does not find', async () => {
    const get = (table: string) => project.call('GET', `/api/cdp/changes/snapshot?table=${table}`);
    expectFailure(await get('missing'), 404, 'table_not_found');
    expectFailure(await get('a.b.c'), 404, 'table_not_found');
    await project.rows('CREATE UNLOGGED TABLE not_logged (id int PRIMARY KEY)');
    const { message } = expectFailure(await get('not_logged'), 404, 'table_not_found');
    expect(message).toBe('The feed does not have the changes of "not_logged"');
    expectFailure(await get(''), 400, 'invalid_request');
  });
});

describe('an erasure', () => {
  it('leaves nothing of a person but the keys of deleted rows, and every cursor', async () => {
    const own = await service.project();
    await own.rows('CREATE TABLE people (id int PRIMARY KEY, email text, n int); CREATE TABLE notes (body text)');
    const of = await withFeed(own, { old: true });
    const { cursor } = await readChanges(of);
    await of.rows(
      "INSERT INTO people VALUES (1, 'ada@example.com', 1), (2, 'bob@example.com', 2); INSERT INTO notes VALUES ('ada@example.com')",
    );
    await of.rows('UPDATE people SET n = n + 1');
    await of.rows(
      "UPDATE people SET email = NULL WHERE id = 1; DELETE FROM people WHERE id = 1; DELETE FROM notes WHERE body = 'ada@example.com'",
    );
    const before = await changesUntilNow(of, cursor);
    const feed = await service.engine.feeds.of(await service.engine.projects.get(of.name));
    const tellsOf = (_: string, record: Readonly<Record<string, string | null>>) =>
      Object.values(record).includes('ada@example.com');
    expect(await feed.erase(tellsOf, () => undefined)).toBe(5);
    const after = await changesUntilNow(of, cursor);
    expect(JSON.stringify(after)).not.toContain('ada@');
    expect(words(after)).toEqual(['insert people', 'update people', 'update people', 'delete people']);
    expect(after[2]).toMatchObject({ key: { id: 1 }, record: { id: 1, email: null, n: 2 } });
    expect(after[2]).not.toHaveProperty('old');
    expect(bare(after)[3]).toEqual({
      op: 'delete',
      table: 'people',
      key: { id: 1 },
      record: null,
      old: { id: 1, email: null, n: 2 },
    });
    for (const { cursor: one } of before) await readChanges(of, `?after=${one}`);
    expect(await feed.erase(tellsOf, () => undefined)).toBe(0);
  });
});

describe('the feed', () => {
  it('ends without a trace, and begins anew', async () => {
    const own = await service.project();
    await own.rows(
      'CREATE TABLE parted (id int) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (9)',
    );
    const of = await withFeed(own, { old: true });
    const { cursor } = await readChanges(of);
    expect((await of.call('DELETE', '/api/cdp/feed')).body.feed).toBeNull();
    const off = await of.seenAnew();
    expectFailure(await off.call('GET', '/api/cdp/changes'), 404, 'not_found');
    const left =
      await off.rows(`SELECT (SELECT count(*) FROM pg_publication) AS publications, (SELECT count(*) FROM pg_replication_slots) AS slots,
      (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'cdp%') AS triggers, (SELECT count(*) FROM pg_event_trigger WHERE evtname LIKE 'cdp_feed%') AS events,
      (SELECT count(*) FROM pg_class WHERE relreplident = 'f') AS identities`);
    expect(left).toEqual([{ publications: 0, slots: 0, triggers: 0, events: 0, identities: 0 }]);
    await stopServer(off);
    expect(await off.rows("SELECT current_setting('wal_level') AS level")).toEqual([{ level: 'replica' }]);
    const again = await withFeed(off);
    const gone = expectFailure(await again.call('GET', `/api/cdp/changes?after=${cursor}`), 410, 'cursor_expired');
    expect(gone.message).toContain('former feed');
    expect(words(await changesOf(again, () => again.rows('INSERT INTO parted VALUES (1)')))).toEqual(['insert parted']);
  });

  it('keeps its changes within its size, and says where to go on', async () => {
    const of = await withFeed(await service.project(), { retention_mib: 16, old: true });
    await of.rows('CREATE TABLE wide (id int PRIMARY KEY, body text)');
    const { cursor } = await readChanges(of);
    for (let i = 0; i < 8; i++)
      await of.rows(
        `INSERT INTO wide SELECT ${i} * 1000 + n, repeat(md5(n::text), 160) FROM generate_series(1, 1000) n`,
      );
    const { cursor: end } = await readChanges(of);
    await of.call('PUT', '/api/cdp/feed', { body: { retention_mib: 16, old: true } });
    const { feed } = (await of.call('GET', '/api/cdp/feed')).body as {
      feed: { bytes: number; start: string; end: string };
    };
    expect(feed.bytes).toBeLessThan(26 * 1024 * 1024);
    expect(feed.end).toBe(end);
    const gone = expectFailure(await of.call('GET', `/api/cdp/changes?after=${cursor}`), 410, 'cursor_expired');
    expect(gone.hint).toContain(feed.start);
    const changes = await changesUntilNow(of, feed.start);
    expect(changes.at(-1)?.key).toEqual({ id: 8_000 });
    expect(changes.length).toBeGreaterThan(1_000);
  });
});
