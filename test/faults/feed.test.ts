/**
 * The feed while everything is killed: whoever replays it has the table, each transaction comes once, and a server that ends without
 * a word is asked for what it still has.
 */
import { readdir, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import type { ChangesPage, FeedChange } from '../support/feed.js';
import {
  endEverything,
  eventually,
  freePort,
  firstToken,
  preparedDataDir,
  projectPostmaster,
  type RunningService,
  serverOf,
  startServe,
  superuserOfProject,
} from '../support/program.js';
import { call } from '../support/service.js';
import { limitedFiles, smallDisk } from './support/disk.js';
import { onDatabase } from './support/stage.js';

afterAll(endEverything);

interface Place {
  readonly dataDir: string;
  readonly url: string;
  readonly token: string;
  readonly start: () => Promise<RunningService>;
  readonly sql: (sql: string) => Promise<Record<string, unknown>[] | null>;
}

/** A service with a project, a table and a feed. */
async function place(args: readonly string[] = [], folder?: string): Promise<Place & { first: RunningService }> {
  const dataDir = folder ?? (await preparedDataDir());
  const port = String(await freePort());
  const start = () => startServe(['--port', port, '--data-dir', dataDir, ...args]);
  const first = await start();
  const [url, token] = [`http://127.0.0.1:${port}`, await firstToken(dataDir)];
  const sql = async (text: string) => {
    const response = await call(url, 'POST', '/api/cdp/sql', { token, body: { sql: text } }).catch(() => null);
    return response?.status === 200 ? (response.body.rows as Record<string, unknown>[]) : null;
  };
  expect(await sql('CREATE TABLE kept (id int PRIMARY KEY, n bigint NOT NULL)')).not.toBeNull();
  const on = await call(url, 'PUT', '/api/cdp/feed', { token, body: {} });
  expect(on.text).toContain('"status":"reading"');
  return { dataDir, url, token, start, sql, first };
}

/** Replays the feed, and says what is wrong with it. */
class Mirror {
  readonly rows = new Map<number, string>();
  readonly wrong: string[] = [];
  changes = 0;
  private readonly passed = new Set<string>();
  private transaction = '';
  private isOver = false;
  private readonly reading: Promise<void>;

  constructor(
    private readonly at: Place,
    public cursor: string,
  ) {
    this.reading = this.follow();
  }

  private async follow(): Promise<void> {
    while (!this.isOver) {
      const page = await this.page('&wait=1').catch(() => null);
      if (page === null) await sleep(50);
      else page.changes.forEach((change) => this.apply(change));
      // A reader that is killed has forgotten what it had not stored.
      if (page !== null) this.cursor = page.cursor;
    }
  }

  private async page(query: string): Promise<ChangesPage | null> {
    const response = await call(
      this.at.url,
      'GET',
      `/api/cdp/changes?after=${this.cursor}&tables=kept&limit=100${query}`,
      { token: this.at.token },
    );
    if (response.status === 410 || response.status === 400) this.wrong.push(response.text);
    return response.status === 200 ? (response.body as unknown as ChangesPage) : null;
  }

  private apply({ op, key, record, transaction }: FeedChange): void {
    this.changes++;
    if (transaction !== this.transaction) {
      if (this.passed.has(transaction)) this.wrong.push(`the transaction ${transaction} comes twice`);
      this.passed.add(transaction);
      this.transaction = transaction;
    }
    const { id } = (key ?? { id: -1 }) as { id: number };
    if (op === 'truncate') this.rows.clear();
    else if (this.rows.has(id) === (op === 'insert')) this.wrong.push(`${op} of ${id} in ${transaction}`);
    else if (op === 'delete') this.rows.delete(id);
    else this.rows.set(id, String((record as { n: unknown }).n));
  }

  /** Reads to the end. */
  async end(): Promise<void> {
    await eventually('the feed is read to its end', async () => {
      const now = await call(this.at.url, 'GET', '/api/cdp/changes', { token: this.at.token }).catch(() => null);
      return (
        now?.status === 200 && (await this.page(''))?.cursor === now.body.cursor && this.cursor === now.body.cursor
      );
    });
    this.isOver = true;
    await this.reading;
  }
}

/** Writers that change the same rows in every way, until they are stopped. */
function writers(at: Place, count: number): () => Promise<void> {
  let isOver = false;
  const write = async (seed: number): Promise<void> => {
    for (let i = 0; !isOver; i++) {
      const id = (seed * 31 + i * 7) % 40;
      const n = seed * 1_000_000 + i;
      if (i % 11 === 0) {
        const body = [{ id, n }];
        await call(at.url, 'POST', '/api/cdp/data/kept?on_conflict=id', { token: at.token, body }).catch(() => {});
      } else if (i % 13 === 0) await at.sql(`DELETE FROM kept WHERE id = ${id}; INSERT INTO kept VALUES (${id}, ${n})`);
      else if (i % 97 === 0) await at.sql('TRUNCATE kept');
      else
        await at.sql(
          `INSERT INTO kept VALUES (${id}, ${n}), (${id + 100}, ${n}) ON CONFLICT (id) DO UPDATE SET n = excluded.n`,
        );
      if (i % 5 === 0) await at.sql(`DELETE FROM kept WHERE id = ${id}`);
    }
  };
  const all = Array.from({ length: count }, (_, seed) => write(seed));
  return async () => {
    isOver = true;
    await Promise.all(all);
  };
}

const cursorOf = async ({ url, token }: Place): Promise<string> => {
  const { text, body } = await call(url, 'GET', '/api/cdp/changes', { token });
  expect(text).toMatch(/^\{"success":true/);
  return body.cursor as string;
};

const killServer = async ({ dataDir }: Place): Promise<void> => {
  const pid = await projectPostmaster(dataDir);
  if (pid !== undefined) process.kill(pid, 'SIGKILL');
};

/** Outside the table, and rolled back if anything of it fails. */
const BALLAST = "SELECT pg_logical_emit_message(true, '', repeat('x', 4000000))";

describe('the feed', () => {
  it('is the table, however often the service and its server are killed', async () => {
    const at = await place();
    let service = at.first;
    const mirror = new Mirror(at, await cursorOf(at));
    const stop = writers(at, 4);
    for (let kill = 0; kill < 6; kill++) {
      const { changes } = mirror;
      await eventually('changes are read', () => Promise.resolve(mirror.changes > changes + 20));
      await sleep(Math.random() * 300);
      if (kill % 3 === 2) {
        await service.end('SIGKILL');
        service = await at.start();
      } else if (kill % 3 === 1) {
        await killServer(at);
        await service.end('SIGKILL');
        service = await at.start();
      } else await killServer(at);
    }
    await stop();
    const table = await eventually('the table is read', () => at.sql('SELECT id, n::text FROM kept ORDER BY id'));
    await mirror.end();
    expect(mirror.wrong).toEqual([]);
    expect([...mirror.rows].sort(([a], [b]) => a - b)).toEqual(table.map(({ id, n }) => [id, n]));
    expect(mirror.changes).toBeGreaterThan(120);
    expect((await service.end()).code).toBe(0);
  }, 300_000);

  it('has what a server that was killed had not told yet, although nobody uses the project', async () => {
    const at = await place();
    const cursor = await cursorOf(at);
    // A reader that does not answer: what is committed stays in the WAL.
    const settings = await superuserOfProject(at.dataDir);
    await onDatabase(settings, async (client) => {
      const { rows } = await client.query<{ pid: number }>(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsender'",
      );
      process.kill(rows[0]?.pid as number, 'SIGSTOP');
      await at.sql('INSERT INTO kept VALUES (1, 1)');
      expect(
        (await call(at.url, 'GET', `/api/cdp/changes?after=${cursor}&wait=1`, { token: at.token })).body.changes,
      ).toEqual([]);
    });
    await at.first.end('SIGKILL');
    await killServer(at);
    const service = await at.start();
    const found = await eventually('the change is in the feed', async () => {
      const page = await call(at.url, 'GET', `/api/cdp/changes?after=${cursor}&wait=5`, { token: at.token }).catch(
        () => null,
      );
      return (page?.body.changes as FeedChange[] | undefined)?.[0];
    });
    expect(found).toMatchObject({ op: 'insert', key: { id: 1 } });
    expect((await service.end()).code).toBe(0);
  }, 120_000);

  it('reads again what a loss of power has taken from its files', async () => {
    const at = await place();
    const cursor = await cursorOf(at);
    await at.sql('INSERT INTO kept SELECT n, n FROM generate_series(1, 500) n');
    await at.sql('DELETE FROM kept WHERE id > 100');
    await eventually('all is read', async () => {
      const page = await call(at.url, 'GET', `/api/cdp/changes?after=${cursor}&limit=10000`, { token: at.token });
      expect(page.text).toMatch(/^\{"success":true/);
      return (page.body.changes as FeedChange[]).length === 900;
    });
    const folder = join(at.dataDir, 'postgres/projects', await serverOf(at.dataDir), 'feed');
    await at.first.end('SIGKILL');
    await killServer(at);
    // The last bytes were not flushed: the server has not been told that they are stored.
    const [segment = ''] = (await readdir(folder)).filter((name) => name.endsWith('.log'));
    await truncate(join(folder, segment), 3_000);
    const service = await at.start();
    const changes = await eventually('all is read again', async () => {
      const page = await call(at.url, 'GET', `/api/cdp/changes?after=${cursor}&limit=10000&wait=5`, {
        token: at.token,
      });
      const found = page.body.changes as FeedChange[] | undefined;
      return found?.length === 900 && found;
    });
    expect(changes[0]).toMatchObject({ op: 'insert', key: { id: 1 } });
    expect((await service.end()).code).toBe(0);
  }, 120_000);

  it('is the table after the disk was full', async () => {
    const disk = (await smallDisk()) ?? (await limitedFiles());
    const at = await place(['--disk-reserve-mib', '0'], disk.dataDir);
    const service = at.first.process.pid as number;
    const mirror = new Mirror(at, await cursorOf(at));
    const stop = writers(at, 2);
    const more = () => {
      const { changes } = mirror;
      return eventually('changes are read', () => Promise.resolve(mirror.changes > changes + 20));
    };
    await more();
    await disk.break(service);
    await eventually('nothing can be written', async () => (await at.sql(`SELECT 1; ${BALLAST}`)) === null);
    await disk.makeRoom(service);
    await more();
    await stop();
    const table = await eventually('the table is read', () => at.sql('SELECT id, n::text FROM kept ORDER BY id'));
    await mirror.end();
    expect(mirror.wrong).toEqual([]);
    expect([...mirror.rows].sort(([a], [b]) => a - b)).toEqual(table.map(({ id, n }) => [id, n]));
    expect((await at.first.end()).code).toBe(0);
    await disk.close();
  }, 180_000);

  it('says what is lost if the server has given it up, or its files are gone, and goes on', async () => {
    const at = await place();
    const cursor = await cursorOf(at);
    await at.sql('INSERT INTO kept VALUES (1, 1)');
    const folder = join(at.dataDir, 'postgres/projects', await serverOf(at.dataDir), 'feed');
    await at.first.end();
    await rm(folder, { recursive: true });
    const service = await at.start();
    await at.sql('INSERT INTO kept VALUES (2, 2)');
    const gone = await eventually('the feed begins anew', async () => {
      const response = await call(at.url, 'GET', `/api/cdp/changes?after=${cursor}`, { token: at.token });
      return response.status === 410 && response;
    });
    expect(gone.body).toMatchObject({ error: 'cursor_expired' });
    expect(gone.text).toContain('the files of the feed were lost');
    const snapshot = await call(at.url, 'GET', '/api/cdp/changes/snapshot?table=kept', { token: at.token });
    const [head, ...rows] = snapshot.text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(rows).toHaveLength(3);
    await at.sql('INSERT INTO kept VALUES (3, 3)');
    const page = await call(at.url, 'GET', `/api/cdp/changes?after=${String(head?.cursor)}&wait=10`, {
      token: at.token,
    });
    expect((page.body.changes as FeedChange[]).map(({ key }) => key)).toEqual([{ id: 3 }]);
    expect((await service.end()).code).toBe(0);
  }, 120_000);

  it('says what is lost if its server has given up what was not read, and goes on', async () => {
    const at = await place();
    const cursor = await cursorOf(at);
    // A setting of the operator's own: very little WAL is kept.
    await writeFile(
      join(at.dataDir, 'postgres/projects', await serverOf(at.dataDir), 'local.conf'),
      'max_slot_wal_keep_size = 2MB\nmax_wal_size = 2MB\n',
    );
    await at.first.end();
    const service = await at.start();
    await at.sql('INSERT INTO kept VALUES (1, 1)');
    await onDatabase(await superuserOfProject(at.dataDir), async (client) => {
      const { rows } = await client.query<{ pid: number }>(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsender'",
      );
      const pid = rows[0]?.pid as number;
      process.kill(pid, 'SIGSTOP');
      for (let i = 0; i < 5; i++)
        await at.sql(`INSERT INTO kept SELECT n, n FROM generate_series(${10_000 * i + 2}, ${10_000 * i + 10_000}) n`);
      // A checkpoint gives up the WAL, for which it ends the sender.
      const given = client.query('CHECKPOINT');
      await sleep(500);
      process.kill(pid, 'SIGCONT');
      await given;
    });
    const gone = await eventually('the feed begins anew', async () => {
      const response = await call(at.url, 'GET', `/api/cdp/changes?after=${cursor}`, { token: at.token });
      return response.status === 410 && response;
    });
    expect(gone.text).toMatch(
      /Postgres has given up the WAL with them: it has those up to [0-9a-f]+, and the feed goes on at [0-9a-f]+/,
    );
    expect(await at.sql('INSERT INTO kept VALUES (1000000, 3)')).not.toBeNull();
    const start = /is after (\S+)\./.exec(gone.text)?.[1] ?? '';
    const insert = await eventually('the change is read', async () => {
      const page = await call(at.url, 'GET', `/api/cdp/changes?after=${start}&limit=10000&wait=5`, { token: at.token });
      // Before it or after it, the new feed describes its tables.
      return (page.body.changes as FeedChange[]).find(({ op }) => op === 'insert');
    });
    expect(insert).toMatchObject({ key: { id: 1_000_000 } });
    expect((await service.end()).code).toBe(0);
  }, 120_000);
});
