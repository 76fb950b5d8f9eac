/** Bounded reads at a streaming replica, which is held back, halted, killed and promoted. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { CdpClient } from '../../src/client/client.js';
import type { Placement } from '../../src/tenancy/placement.js';
import { type Cluster, startCluster } from '../faults/support/cluster.js';
import { variableWith } from '../support/added-server.js';
import { makeFolder } from '../support/folder.js';
import { connected } from '../support/postgres.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../support/service.js';
import { debianMajors, PASSWORD, type ThrowawayServer } from '../support/throwaway-postgres.js';

interface Stage {
  readonly service: TestService;
  /** Of the server with a replica. */
  readonly server: string;
}

const ROLE = `CREATE ROLE cdp LOGIN CREATEDB CREATEROLE PASSWORD '${PASSWORD}'`;

/** As an operator adds it, with a role that is no superuser. */
async function asAddedServer(cluster: Cluster): Promise<Stage> {
  await onServer(cluster.primary(), (client) => client.query(ROLE));
  await onServer(cluster.primary(), (client) => client.query('CREATE DATABASE cdp OWNER cdp'));
  const service = await startTestService();
  const admin = (await service.engine.tokens.create(null)).token;
  const body = { name: 'second', url_reference: `env:${variableWith(urlOf(cluster.primary(), 'cdp', 'cdp'))}` };
  expect((await service.call('POST', '/api/cdp/admin/servers', { token: admin, body })).status).toBe(201);
  return { service, server: 'second' };
}

/** With the control database in it. */
async function asFirstServer(cluster: Cluster): Promise<Stage> {
  const { connection } = cluster.primary();
  return { service: await startTestService({}, { major: debianMajors()[0] ?? 18, connection }), server: 'default' };
}

const onServer = <T>({ connection }: ThrowawayServer, work: (client: pg.Client) => Promise<T>): Promise<T> =>
  connected(connection, work);

const urlOf = ({ connection: { host, port, user } }: ThrowawayServer, role = user, database = 'postgres'): string =>
  `postgres://${role}:${PASSWORD}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;

describe.each([
  ['an added server', asAddedServer],
  ['the first server', asFirstServer],
] as const)('%s with a replica', (_name, setUp) => {
  let cluster: Cluster;
  let service: TestService;
  let admin: string;
  let server: string;
  let replica: string;
  let project: TestProject;

  beforeAll(async () => {
    cluster = await startCluster(['max_standby_streaming_delay=100ms']);
    ({ service, server } = await setUp(cluster));
    admin = (await service.engine.tokens.create(null)).token;
    const role = server === 'default' ? undefined : 'cdp';
    replica = `env:${variableWith(urlOf(cluster.standby(), role, server === 'default' ? 'postgres' : 'cdp'))}`;
    project = await service.project(undefined, server);
    await project.table('events', { n: 'INTEGER' });
  });
  afterAll(async () => {
    await service.close();
    await cluster.close();
  });

  const set = (body: object) => service.call('PUT', `/api/cdp/admin/servers/${server}`, { token: admin, body });

  /** A write. @returns its position */
  const insert = async (n: number, to = project): Promise<string> => {
    const { status, text, headers } = await to.call('POST', '/api/cdp/data/events', { body: [{ n }] });
    expect(status, text).toBe(201);
    return headers.get('x-consistency') ?? 'none';
  };

  const read = async (
    sql: string,
    { position, of = project, ...body }: { position?: string; of?: TestProject; consistency?: string } = {},
  ) => {
    const headers: Record<string, string> = position === undefined ? {} : { 'x-consistency': position };
    const all = { sql, read_only: true, consistency: 'bounded', ...body };
    const response = await of.call('POST', '/api/cdp/sql', { body: all, headers });
    return { response, rows: response.body.rows as object[], at: response.headers.get('x-served-by') };
  };

  const has = async (n: number, options: { position?: string; consistency?: string } = {}) => {
    const { response, rows, at } = await read(`SELECT count(*) FROM events WHERE n = ${n}`, options);
    expect(response.status, response.text).toBe(200);
    return { count: (rows as { count: number }[])[0]?.count, at };
  };

  const onStandby = (work: (client: pg.Client) => Promise<unknown>) => onServer(cluster.standby(), work);
  const hold = () =>
    onStandby(async (client) => {
      await client.query('SELECT pg_wal_replay_pause()');
      const asked = 'SELECT pg_get_wal_replay_pause_state() AS state';
      const state = async () => (await client.query<{ state: string }>(asked)).rows;
      await expect.poll(state).toEqual([{ state: 'paused' }]);
    });
  const letGo = () => onStandby((client) => client.query('SELECT pg_wal_replay_resume()'));

  /** The replica answers, and shows what was written so far. */
  const atReplica = async (): Promise<void> => {
    const position = await insert(0);
    await expect.poll(async () => (await has(0, { position })).at).toBe('replica');
  };

  it('returns a position only if there is a replica', async () => {
    expect(await insert(1)).toBe('none');
    expect(await has(1)).toEqual({ count: 1, at: null });
  });

  it('accepts only a replica of its own', async () => {
    const primary = `env:${variableWith(urlOf(cluster.primary()))}`;
    expectFailure(await set({ replicas: [primary] }), 400, 'invalid_request');
    expectFailure(await set({ replicas: ['env:CDP_TEST_NOWHERE'] }), 400, 'invalid_request');
    const { body } = await service.call('GET', `/api/cdp/admin/servers/${server}`, { token: admin });
    expect(body.server).toMatchObject({ replicas: [], consistency: 'strong' });
  });

  it('serves reads as the reader, and only if the request asks for it', async () => {
    const changed = await set({ replicas: [replica] });
    expect(changed.body.server, changed.text).toMatchObject({ replicas: [replica], consistency: 'strong' });
    const checked = await service.call('POST', `/api/cdp/admin/servers/${server}/check`, { token: admin });
    const found = {
      subject: `replica ${replica}`,
      health: 'ok',
      found: expect.stringMatching(/^it is \d+ bytes behind$/) as string,
    };
    expect(checked.body.findings).toContainEqual(expect.objectContaining(found));
    // An instance learns of it within seconds.
    await expect.poll(async () => (await has(1)).at).toBe('replica');
    await atReplica();
    const { placement } = await service.engine.projects.get(project.name);
    const who = 'SELECT pg_is_in_recovery() AS standby, current_user AS role, current_database() AS database';
    const { reader: role, database } = placement;
    expect((await read(who)).rows).toEqual([{ standby: true, role, database }]);
    expect((await read(who, { consistency: 'strong' })).rows).toEqual([{ standby: false, role, database }]);
    expect(await project.rows(who)).toEqual([{ standby: false, role: placement.writer, database }]);
    const lines = await project.call('POST', '/api/cdp/sql', {
      body: { sql: who, read_only: true, consistency: 'bounded' },
      headers: { accept: 'application/x-ndjson' },
    });
    expect(lines.headers.get('x-served-by')).toBe('replica');
    expect(lines.text).toContain('"standby":true');
  });

  it('reads at the address in the URL file of the replica, even if that changes', async () => {
    const folder = makeFolder('cdp-replica-');
    const file = join(folder, 'replica.url');
    const [, variable = ''] = replica.split(':');
    const url = process.env[variable] ?? '';
    const say = async (text: string) => {
      await writeFile(`${file}.new`, text);
      await rename(`${file}.new`, file);
    };
    const at = async () => (await has(1)).at;
    try {
      await say(url);
      expect((await set({ replicas: [`file:${file}`] })).status).toBe(200);
      await expect.poll(at).toBe('replica');
      await say(url.replace(/port=\d+/, 'port=1'));
      await expect.poll(at).toBe('primary');
      // Somebody is writing it.
      await say('');
      await say(url);
      await expect.poll(at).toBe('replica');
    } finally {
      await set({ replicas: [replica] });
      await rm(folder, { recursive: true });
    }
    await expect.poll(at).toBe('replica');
  });

  it('writes nothing at the replica, and shows each project only its own data', async () => {
    const other = await service.project(undefined, server);
    await other.table('events', { n: 'INTEGER' });
    const position = await insert(2, other);
    const count = 'SELECT count(*) FROM events WHERE n = 2';
    const seen = async () => (await read(count, { of: other, position })).at;
    await expect.poll(seen).toBe('replica');
    expect((await read(count, { of: other, position })).rows).toEqual([{ count: 1 }]);
    expect(await has(2, { position })).toMatchObject({ count: 0 });
    const { database } = (await service.engine.projects.get(other.name)).placement;
    for (const sql of [
      'INSERT INTO events (n) VALUES (3)',
      'SET TRANSACTION READ WRITE; INSERT INTO events (n) VALUES (3)',
      'SET default_transaction_read_only = off; INSERT INTO events (n) VALUES (3)',
      `SELECT * FROM ${database}.data.events`,
    ]) {
      expect([400, 403], sql).toContain((await read(sql)).response.status);
    }
    expect(await has(3, { consistency: 'strong' })).toEqual({ count: 0, at: null });
  });

  it('while it lags: strong reads are never stale, bounded ones may be, and reads with a position are not', async () => {
    await atReplica();
    await hold();
    try {
      const position = await insert(4);
      expect(await has(4, { consistency: 'strong' })).toEqual({ count: 1, at: null });
      expect(await has(4)).toEqual({ count: 0, at: 'replica' });
      expect(await has(4, { position })).toEqual({ count: 1, at: 'primary' });
      for (const unknown of ['unknown', `1${position}`, position.replace(/\.\d+\./, '.9.')]) {
        expect(await has(4, { position: unknown })).toEqual({ count: 1, at: 'primary' });
      }
    } finally {
      await letGo();
    }
  });

  it('while it lags briefly: a read with a position waits', async () => {
    let n = 100;
    const waits = async () => {
      await hold();
      const position = await insert(++n);
      const reading = has(n, { position });
      await sleep(30);
      await letGo();
      const { count, at } = await reading;
      expect(count).toBe(1);
      return at;
    };
    await expect.poll(waits).toBe('replica');
  });

  it('shows each of many writes to reads with its position', async () => {
    const wrong: object[] = [];
    await Promise.all(
      Array.from({ length: 8 }, async (_, client) => {
        for (let i = 0; i < 10; i++) {
          const n = 1_000 + 100 * client + i;
          const { count, at } = await has(n, { position: await insert(n) });
          if (count !== 1) wrong.push({ n, at });
        }
      }),
    );
    expect(wrong).toEqual([]);
  });

  it('shows a client what it wrote', async () => {
    const client = new CdpClient({ url: service.url, token: project.token });
    const bounded = { read_only: true, consistency: 'bounded' } as const;
    await hold();
    try {
      await client.insert('events', [{ n: 6 }]);
      const { rows } = await client.query('SELECT n FROM events WHERE n = $1', [6], bounded);
      expect(rows).toEqual([{ n: 6 }]);
      const another = new CdpClient({ url: service.url, token: project.token });
      expect((await another.query('SELECT n FROM events WHERE n = $1', [6], bounded)).rows).toEqual([]);
    } finally {
      await letGo();
    }
  });

  it('returns positions for schema changes and free SQL, and none for reads and dry runs', async () => {
    await project.table('more', { n: 'INTEGER' });
    const tells = async (method: string, path: string, body?: object) =>
      (await project.call(method, path, body === undefined ? {} : { body })).headers.has('x-consistency');
    expect(await tells('POST', '/api/cdp/schema/table/more/column', { name: 'm', type: 'TEXT' })).toBe(true);
    expect(await tells('POST', '/api/cdp/sql', { sql: 'UPDATE more SET n = 1' })).toBe(true);
    expect(await tells('POST', '/api/cdp/sql?dry_run=true', { sql: 'UPDATE more SET n = 1' })).toBe(false);
    expect(await tells('POST', '/api/cdp/sql', { sql: 'SELECT 1', read_only: true })).toBe(false);
    expect(await tells('GET', '/api/cdp/schema')).toBe(false);
    expect(await tells('HEAD', '/api/cdp/schema')).toBe(false);
  });

  it('a write during which the URL of its server is replaced succeeds, with an unknown position', async () => {
    // The URL of the first server is a setting.
    if (server === 'default') return;
    await set({ replicas: [replica] });
    await expect.poll(() => insert(0)).not.toBe('none');
    await expect.poll(() => service.engine.serverWatch.states.length).toBe(1);
    const { placement } = await service.engine.projects.get(project.name);
    const [, before = ''] = placement.added?.urlReference.split(':') ?? [];
    const after = variableWith(process.env[before] ?? '');
    const { connection } = cluster.primary();
    const { status, text, headers } = await connected(
      { ...connection, database: placement.database },
      async (client) => {
        await client.query('BEGIN; LOCK TABLE data.events IN SHARE MODE');
        const body = { sql: 'INSERT INTO events (n) VALUES (77)', timeout_ms: 60_000 };
        const writing = project.call('POST', '/api/cdp/sql', { body });
        const waiting = `SELECT FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
        await expect.poll(async () => (await client.query(waiting)).rowCount).toBe(1);
        expect((await set({ url_reference: `env:${after}` })).status).toBe(200);
        delete process.env[before];
        await expect.poll(() => wasForgotten(placement)).toBe(true);
        await client.query('COMMIT');
        return writing;
      },
    );
    expect([status, headers.get('x-consistency')], text).toEqual([200, 'unknown']);
    expect((await has(77, { position: 'unknown' })).count).toBe(1);
  });

  /** A server at a former URL. */
  function wasForgotten(placement: Placement): boolean {
    try {
      service.engine.servers.serverOf(placement);
      return false;
    } catch {
      return true;
    }
  }

  it('passes on to the primary what a standby refuses or cancels', async () => {
    await project.rows('CREATE UNLOGGED TABLE fleeting (n int); INSERT INTO fleeting VALUES (1)');
    await atReplica();
    expect(await read('SELECT n FROM fleeting')).toMatchObject({ rows: [{ n: 1 }], at: 'primary' });
    const slow = read('SELECT count(*) > 0 AS some FROM events, pg_sleep(2)');
    const active = `SELECT FROM pg_stat_activity WHERE query LIKE '%pg_sleep(2)%' AND state = 'active' AND pid <> pg_backend_pid()`;
    await onStandby((client) => expect.poll(async () => (await client.query(active)).rowCount).toBe(1));
    await project.rows('ALTER TABLE events ADD COLUMN later int');
    const { response, rows, at } = await slow;
    expect([rows, at], response.text).toEqual([[{ some: true }], 'primary']);
  });

  it('can set the consistency of reads that do not specify it', async () => {
    await set({ consistency: 'bounded' });
    const body = { sql: 'SELECT pg_is_in_recovery() AS standby', read_only: true };
    const asked = async () => (await project.call('POST', '/api/cdp/sql', { body })).body.rows;
    await expect.poll(asked).toEqual([{ standby: true }]);
    expect((await read(body.sql, { consistency: 'strong' })).rows).toEqual([{ standby: false }]);
    await set({ consistency: 'strong' });
    await expect.poll(asked).toEqual([{ standby: false }]);
  });

  it.each(['SIGSTOP', 'SIGKILL'] as const)(
    '%s: reads go to the primary, and later back to the replica',
    async (signal) => {
      await atReplica();
      let ends = false;
      const places = new Set<string | null>();
      const reading = Array.from({ length: 4 }, async () => {
        while (!ends) places.add((await has(0)).at);
      });
      await cluster.signal(signal, cluster.standby());
      try {
        await expect.poll(async () => (await has(0)).at).toBe('primary');
      } finally {
        await (signal === 'SIGSTOP' ? cluster.signal('SIGCONT', cluster.standby()) : cluster.restartStandby());
      }
      await expect.poll(async () => (await has(0)).at).toBe('replica');
      ends = true;
      await Promise.all(reading);
      expect([...places].sort()).toEqual(['primary', 'replica']);
    },
  );

  it('stops reading from the replica once it is promoted', async () => {
    await atReplica();
    await cluster.promote();
    const position = await insert(5);
    expect(await has(5, { position })).toEqual({ count: 1, at: 'primary' });
    await expect.poll(async () => (await has(5)).at).toBe('primary');
  });
});
