/** Physical backups with real servers: what was acknowledged is there, and what cannot be whole is refused. */
import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { archiveAll, archiveSettings, checkArchive, prepareArchive } from '../../src/backup/physical/archive.js';
import { archiveFolder } from '../../src/embedded/home.js';
import { readControlFile } from '../../src/backup/physical/control-file.js';
import type { Add, Copied } from '../../src/backup/physical/data-folder.js';
import { type BackupFile, layOut } from '../../src/backup/physical/lay-out.js';
import { isRecovered, type Recovery } from '../../src/backup/physical/recovery.js';
import { copyRunning } from '../../src/backup/physical/running.js';
import { copyStopped } from '../../src/backup/physical/stopped.js';
import { parseLsn, segmentName, segmentOf } from '../../src/backup/physical/wal.js';
import { withClient } from '../../src/postgres/server.js';
import { type OwnServer, type OwnServers, ownServers } from '../support/own-server.js';

const never = new AbortController().signal;

let servers: OwnServers;
let number = 0;
const unique = () => `n${++number}`;
beforeAll(async () => {
  servers = await ownServers();
});
afterAll(() => servers.close());

async function started(settings: Record<string, string> = {}): Promise<OwnServer> {
  const server = await servers.copy(unique());
  await server.start(settings);
  return server;
}

/** A backup in memory. */
class Saved {
  readonly files = new Map<string, Buffer>();
  copied!: Copied;

  readonly add: Add = async (path, content) => {
    const parts: Buffer[] = [];
    for await (const part of content) parts.push(part);
    if (this.files.has(path)) throw new Error(`${path} comes twice`);
    this.files.set(path, Buffer.concat(parts));
  };

  get list(): BackupFile[] {
    return [...this.files].map(([path, content]) => ({ path, content: [content] }));
  }
}

async function save(server: OwnServer, add?: (saved: Saved) => Add, signal = never): Promise<Saved> {
  const saved = new Saved();
  const { dataFolder, login } = server;
  saved.copied = await copyRunning({ dataFolder, login, signal }, add?.(saved) ?? saved.add);
  return saved;
}

/** Calls `act` once the copy is in its midst. */
const during =
  (act: () => Promise<void>) =>
  (saved: Saved): Add => {
    let done = false;
    return async (path, content) => {
      if (path === 'base/5/1259') {
        await act();
        done = true;
      }
      await saved.add(path, content);
      if (path === 'global/pg_control') expect(done).toBe(true);
    };
  };

async function laidOut(saved: Saved, recovery: Recovery = null): Promise<OwnServer> {
  const server = await servers.on(unique());
  const { account } = servers;
  await layOut(server.dataFolder, { folders: saved.copied.folders, files: saved.list, recovery, account });
  return server;
}

async function restored(saved: Saved, recovery: Recovery = null, settings: Record<string, string> = {}) {
  const server = await laidOut(saved, recovery);
  expect(await isRecovered(server.dataFolder)).toBe(false);
  await server.start(settings);
  expect(await isRecovered(server.dataFolder)).toBe(true);
  expect((await readControlFile(server.dataFolder)).timeline).toBe(saved.copied.timeline + 1);
  return server;
}

/** Reads every page of every table and index, which verifies their checksums. */
async function readAll(server: OwnServer): Promise<void> {
  await server.rows('CREATE EXTENSION IF NOT EXISTS pg_prewarm');
  await server.rows(
    `SELECT pg_prewarm(oid::regclass, 'buffer') FROM pg_class WHERE relkind IN ('r', 'i', 't', 'm', 'S') AND relpersistence = 'p'`,
  );
  const [row] = await server.rows<{ failures: number; checksums: string }>(
    `SELECT sum(checksum_failures)::int AS failures, current_setting('data_checksums') AS checksums FROM pg_stat_database`,
  );
  expect(row).toEqual({ failures: 0, checksums: 'on' });
}

/** Writes one row after another, and remembers what was acknowledged. */
async function writing<T>(server: OwnServer, work: (acknowledged: () => number) => Promise<T>): Promise<T> {
  await server.rows('CREATE TABLE IF NOT EXISTS t (n int PRIMARY KEY, pad text)');
  let [last, stop] = [0, false];
  const writer = withClient(server.login, async (client) => {
    for (let n = 1; !stop; n++) {
      await client.query('INSERT INTO t VALUES ($1, repeat($2, 500))', [n, String(n % 10)]);
      last = n;
      if (n % 50 === 0) await client.query('CHECKPOINT');
      // Files that come, grow, shrink and go.
      if (n % 20 === 0) {
        await client.query('CREATE TABLE passing AS SELECT * FROM t; DROP TABLE passing');
        await client.query('CREATE TEMP TABLE IF NOT EXISTS mine (a int); TRUNCATE mine; INSERT INTO mine VALUES (1)');
      }
    }
  });
  try {
    await vi.waitFor(() => expect(last).toBeGreaterThan(100), { timeout: 60_000, interval: 5 });
    return await work(() => last);
  } finally {
    stop = true;
    await writer;
  }
}

const rowsOf = async (server: OwnServer): Promise<number[]> =>
  (await server.rows<{ n: number }>('SELECT n FROM t ORDER BY n')).map(({ n }) => n);
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1);
const slots = (server: OwnServer) => server.rows('SELECT slot_name FROM pg_replication_slots');

describe('a running server, works:', () => {
  it('is copied while it is written to: every acknowledged row is there, and the timeline is a new one', async () => {
    const server = await started();
    await server.rows('CREATE UNLOGGED TABLE u AS SELECT generate_series(1, 1000) AS a');
    const { saved, least, most } = await writing(server, async (acknowledged) => {
      let least = 0;
      const saved = await save(server, (into) => async (path, content) => {
        // The last but what follows the end of the backup.
        if (path === 'global/pg_control') least = acknowledged();
        await new Promise((resolve) => setTimeout(resolve, 1));
        await into.add(path, content);
      });
      return { saved, least, most: acknowledged() + 1 };
    });
    const { copied, files } = saved;
    expect(parseLsn(copied.walStop)).toBeGreaterThan(parseLsn(copied.walStart));
    expect(copied).toMatchObject({ timeline: 1, segmentBytes: 1_048_576, checksumVersion: 1 });
    expect(copied.bytes).toBe([...files.values()].reduce((sum, file) => sum + file.length, 0));
    expect([...files.keys()].filter((path) => /postmaster|pg_internal|pgsql_tmp|\/t\d/.test(path))).toEqual([]);
    const copy = await restored(saved);
    const rows = await rowsOf(copy);
    expect(rows).toEqual(upTo(rows.length));
    expect(rows.length).toBeGreaterThanOrEqual(least);
    expect(rows.length).toBeLessThanOrEqual(most);
    expect(least).toBeGreaterThan(100);
    await readAll(copy);
    expect(await copy.rows('SELECT * FROM u')).toEqual([]);
    await copy.rows('INSERT INTO t SELECT max(n) + 1 FROM t');
    expect(await slots(server)).toEqual([]);
    for (const [path, mode] of [
      ['', 0o40700],
      ['pg_wal', 0o40700],
      ['PG_VERSION', 0o100600],
    ] as const) {
      const { mode: found, uid } = await stat(join(copy.dataFolder, path));
      expect([path, found, uid]).toEqual([path, mode, servers.account.uid]);
    }
  });

  it('is copied again out of a restored one, and a second time: timelines go on', async () => {
    const server = await started();
    await server.rows('CREATE TABLE t AS SELECT 1 AS n');
    const second = await restored(await save(server));
    await second.rows('INSERT INTO t VALUES (2)');
    await second.stop();
    const again = new Saved();
    again.copied = await copyStopped(second.dataFolder, again.add, never);
    const third = await restored(again);
    expect(await rowsOf(third)).toEqual([1, 2]);
    expect((await readControlFile(third.dataFolder)).timeline).toBe(3);
  });
});

describe('a running server, refuses:', () => {
  it('a copy that the log outgrows, which costs the server nothing', async () => {
    const server = await started({ max_slot_wal_keep_size: '8MB', max_wal_size: '4MB', min_wal_size: '2MB' });
    await server.rows('CREATE TABLE t (n int)');
    const big = async () => {
      for (let i = 0; i < 16; i++) {
        await server.rows(`INSERT INTO t SELECT generate_series(1, 20000)`);
        await server.rows('CHECKPOINT');
      }
    };
    await expect(save(server, during(big))).rejects.toThrow(
      /wrote more than 8MB of log while it was copied \(max_slot_wal_keep_size\)/,
    );
    expect(await server.rows('SELECT count(*)::int AS n FROM t')).toEqual([{ n: 320_000 }]);
    expect(await slots(server)).toEqual([]);
    expect(await rowsOf(await restored(await save(server)))).toHaveLength(320_000);
  });

  it('a copy whose signal is aborted, at any moment, and leaves no slot', async () => {
    const server = await started();
    await server.rows('CREATE TABLE t AS SELECT 1 AS n');
    const before = new AbortController();
    before.abort(new Error('no more'));
    await expect(save(server, undefined, before.signal)).rejects.toThrow('no more');
    const midst = new AbortController();
    const abort = () => Promise.resolve(midst.abort(new Error('no more')));
    await expect(save(server, during(abort), midst.signal)).rejects.toThrow('no more');
    // A server that says nothing any more.
    const silent = new AbortController();
    const stop = async () => {
      process.kill(server.pid, 'SIGSTOP');
      const [{ pid }] = (await held) as [{ pid: number }];
      process.kill(pid, 'SIGSTOP');
      stopped = pid;
      setTimeout(() => silent.abort(new Error('no more')), 100);
    };
    let stopped = 0;
    const held = vi.waitFor(
      async () => {
        const rows = await server.rows<{ pid: number }>(
          `SELECT pid FROM pg_stat_activity WHERE application_name = 'cdp backup'`,
        );
        expect(rows).toHaveLength(1);
        return rows;
      },
      { timeout: 60_000, interval: 5 },
    );
    const waiting = (saved: Saved): Add => {
      const midway = during(stop)(saved);
      return async (path, content) => {
        await held;
        await midway(path, content);
      };
    };
    try {
      await expect(save(server, waiting, silent.signal)).rejects.toThrow('no more');
    } finally {
      process.kill(stopped, 'SIGCONT');
      process.kill(server.pid, 'SIGCONT');
    }
    await vi.waitFor(async () => expect(await slots(server)).toEqual([]), { timeout: 60_000 });
    expect(await rowsOf(await restored(await save(server)))).toEqual([1]);
  });

  it('a copy whose server is killed in its midst; the next one is good', async () => {
    const server = await started();
    await server.rows('CREATE TABLE t AS SELECT 1 AS n');
    await expect(
      save(
        server,
        during(() => server.stop('SIGQUIT')),
      ),
    ).rejects.toThrow();
    await server.start();
    expect(await slots(server)).toEqual([]);
    expect(await rowsOf(await restored(await save(server)))).toEqual([1]);
  });

  it('a copy that cannot be written', async () => {
    const server = await started();
    const full = async () => Promise.reject(new Error('ENOSPC'));
    await expect(save(server, during(full))).rejects.toThrow('ENOSPC');
    await vi.waitFor(async () => expect(await slots(server)).toEqual([]), { timeout: 60_000 });
  });
});

describe('a stopped server', () => {
  it('is copied, and restored with a new timeline', async () => {
    const server = await started();
    await server.rows('CREATE TABLE t AS SELECT generate_series(1, 5000) AS n');
    await server.stop();
    const saved = new Saved();
    saved.copied = await copyStopped(server.dataFolder, saved.add, never);
    const copy = await restored(saved);
    expect(await rowsOf(copy)).toEqual(upTo(5_000));
    await readAll(copy);
  });

  it('is refused where it runs, was killed, or was started meanwhile', async () => {
    const server = await started();
    const copy = (add = new Saved().add) => copyStopped(server.dataFolder, add, never);
    await expect(copy()).rejects.toThrow(/A server runs in/);
    await server.stop('SIGQUIT');
    await rm(join(server.dataFolder, 'postmaster.pid'), { force: true });
    await expect(copy()).rejects.toThrow(/did not end cleanly \(in production\)/);
    await server.start();
    await server.stop();
    const saved = new Saved();
    const run = async () => {
      await server.start();
      await server.stop();
    };
    await expect(copy(during(run)(saved))).rejects.toThrow(/ran while it was copied/);
    await writeFile(join(server.dataFolder, 'global/pg_control'), Buffer.alloc(8_192));
    await expect(copy()).rejects.toThrow(/is of version 0/);
  });
});

describe('a restore', () => {
  it('refuses a path that leads out of its folder', async () => {
    for (const path of ['../x', '/etc/x', 'a/../../x', 'a//b', '', 'a\0b']) {
      const place = await mkdtemp(join(servers.folder, 'out-'));
      const options = { folders: [], files: [{ path, content: [] }], recovery: null, account: servers.account };
      await expect(layOut(join(place, 'data'), options)).rejects.toThrow(/would not be in the data folder/);
      expect(await readdir(place)).toEqual(['data']);
    }
  });
});

describe('an archive', () => {
  const odd = `it's "50%" \\ of $HOME`;

  /** A server that archives, a backup of it, and a row after that. */
  async function archiving(root: string, serverId: string) {
    const folder = archiveFolder(root, serverId);
    await prepareArchive(folder, serverId, servers.account);
    const server = await started(archiveSettings(folder));
    await server.rows(`CREATE TABLE t AS SELECT 1 AS n`);
    const saved = await save(server);
    await server.rows('INSERT INTO t VALUES (2)');
    const now = async () => {
      const [row] = await server.rows<{ now: Date }>('SELECT clock_timestamp() AS now');
      await new Promise((resolve) => setTimeout(resolve, 20));
      return (row as { now: Date }).now;
    };
    await new Promise((resolve) => setTimeout(resolve, 20));
    const between = await now();
    await server.rows('INSERT INTO t VALUES (3)');
    const after = await now();
    await archiveAll(folder, server.login, never);
    const wanted = { ...saved.copied, serverId };
    return { server, folder, saved, between, after, wanted };
  }
  let root: string;
  let a: Awaited<ReturnType<typeof archiving>>;
  let b: Awaited<ReturnType<typeof archiving>>;
  beforeAll(async () => {
    root = join(servers.folder, odd);
    await mkdir(root, { mode: 0o711 });
    [a, b] = await Promise.all([archiving(root, 'server-a'), archiving(root, 'server-b')]);
  });

  it('brings a server to a time between two inserts, or to its end, in a folder of any name', async () => {
    for (const [until, rows] of [
      [a.between, [1, 2]],
      [a.after, [1, 2, 3]],
      [null, [1, 2, 3]],
    ] as const) {
      await checkArchive(a.folder, { ...a.wanted, until });
      const copy = await restored(a.saved, { archive: a.folder, until });
      expect(await rowsOf(copy)).toEqual(rows);
      await readAll(copy);
      await copy.stop();
    }
  });

  it('of a stopped server reaches on too, and goes on over a restart', async () => {
    const { server, folder, saved } = await archiving(root, 'server-c');
    await server.stop();
    const cold = new Saved();
    cold.copied = await copyStopped(server.dataFolder, cold.add, never);
    await prepareArchive(folder, 'server-c', servers.account);
    await server.start(archiveSettings(folder));
    await server.rows('INSERT INTO t VALUES (4)');
    await archiveAll(folder, server.login, never);
    for (const from of [saved, cold]) {
      await checkArchive(folder, { ...from.copied, serverId: 'server-c', until: null });
      expect(await rowsOf(await restored(from, { archive: folder, until: null }))).toEqual([1, 2, 3, 4]);
    }
  });

  it('of another server is refused, though both have one system identifier', async () => {
    const identifier = async (server: OwnServer) => server.rows('SELECT system_identifier FROM pg_control_system()');
    expect(await identifier(a.server)).toEqual(await identifier(b.server));
    const wrong = checkArchive(b.folder, { ...a.wanted, until: a.between });
    await expect(wrong).rejects.toThrow(/is of the server server-b, not of server-a/);
    await expect(prepareArchive(b.folder, 'server-a', servers.account)).rejects.toThrow(/of the server server-b/);
    const none = checkArchive(dirname(a.folder), { ...a.wanted, until: a.between });
    await expect(none).rejects.toThrow(/no archive of a server's log/);
  });

  it('that does not reach, or has a gap, is refused with what is missing', async () => {
    const { server, folder, wanted } = b;
    await archiveAll(folder, server.login, never);
    const check = (until: Date | null) => checkArchive(folder, { ...wanted, until });
    await expect(check(new Date(wanted.endedAt.getTime() - 1))).rejects.toThrow(/an earlier one is needed/);
    await expect(check(new Date(Date.now() + 60_000))).rejects.toThrow(/The log in .* ends at 20/);
    const first = segmentOf(parseLsn(wanted.walStart), wanted.segmentBytes);
    const name = (i: bigint) => segmentName(1, first + i, wanted.segmentBytes);
    const long = new Date(wanted.endedAt.getTime() - 60_000);
    await utimes(join(folder, name(0n)), long, long);
    const content = await readFile(join(folder, name(1n)));
    await rm(join(folder, name(1n)));
    await expect(check(b.between)).rejects.toThrow(new RegExp(`lacks ${name(1n)}, so the log can be replayed to `));
    await expect(check(null)).rejects.toThrow(new RegExp(`lacks ${name(1n)}`));
    await writeFile(join(folder, name(1n)), content.subarray(0, 1_000));
    await expect(check(b.between)).rejects.toThrow(/is not whole: it has 1000 of 1048576 bytes/);
    await writeFile(join(folder, name(1n)), content);
    await check(null);
    await rm(join(folder, name(0n)));
    await expect(check(b.between)).rejects.toThrow(/the segment of the log that the backup begins in/);
  });

  it('never takes another content under a name that it has', async () => {
    const { server, folder } = a;
    const [row] = await server.rows<{ name: string }>('SELECT pg_walfile_name(pg_current_wal_insert_lsn()) AS name');
    const { name } = row as { name: string };
    await writeFile(join(folder, name), 'something else');
    await server.rows('SELECT pg_current_xact_id()');
    await server.rows('SELECT pg_switch_wal()');
    await vi.waitFor(
      async () => expect(await server.rows('SELECT FROM pg_stat_archiver WHERE failed_count > 0')).toHaveLength(1),
      { timeout: 60_000 },
    );
    expect(await readFile(join(folder, name), 'utf8')).toBe('something else');
    await truncate(join(folder, name), 0);
    await rm(join(folder, name));
  });
});
