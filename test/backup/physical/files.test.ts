/** Physical backups of real servers: every acknowledged row is in the copy, and an incomplete copy is refused. */
import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { CopiedFiles } from '../../../src/backup/manifest.js';
import { copyRunning } from '../../../src/backup/physical/copy-running.js';
import { type AddFile, copyFiles } from '../../../src/backup/physical/data-files.js';
import { type Recovery, restoreFiles } from '../../../src/backup/physical/physical.js';
import { parseLsn, segmentName, segmentOf } from '../../../src/backup/physical/wal.js';
import { archiveAll, archiveSettings, prepareArchive, segmentsFor } from '../../../src/backup/physical/wal-archive.js';
import { withClient } from '../../support/with-client.js';
import { type OwnServer, type OwnServers, ownServers } from '../../support/own-server.js';

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

const FACTS: Omit<CopiedFiles, 'folders' | 'bytes'> = {
  wal_start: '0/0',
  wal_stop: '0/0',
  timeline: 1,
  wal_segment_bytes: 1_048_576,
  checksum_version: 1,
  catalog_version: 0,
  started_at: new Date(0).toISOString(),
  ended_at: new Date(0).toISOString(),
};

/** A backup in memory. */
class Saved {
  readonly files = new Map<string, Buffer>();
  copied!: CopiedFiles;

  readonly add: AddFile = async (path, content) => {
    const parts: Buffer[] = [];
    for await (const part of content) parts.push(part);
    if (this.files.has(path)) throw new Error(`${path} comes twice`);
    this.files.set(path, Buffer.concat(parts));
  };

  get list() {
    return [...this.files].map(([path, content]) => ({ path, content: () => [content] }));
  }
}

async function save(server: OwnServer, add?: (saved: Saved) => AddFile, signal = never): Promise<Saved> {
  const saved = new Saved();
  const { dataFolder: dataDirectory, login } = server;
  saved.copied = await copyRunning({ dataDirectory, login, signal }, add?.(saved) ?? saved.add);
  return saved;
}

/** Calls `act` once the copy is in its midst. */
const during =
  (act: () => Promise<void>) =>
  (saved: Saved): AddFile => {
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

async function laidOut(saved: Saved, recovery: Recovery | null = null): Promise<OwnServer> {
  const server = await servers.on(unique());
  const { account } = servers;
  const { folders } = saved.copied;
  await restoreFiles(server.dataFolder, { folders, files: saved.list, recovery, account, signal: never });
  return server;
}

async function restored(saved: Saved, recovery: Recovery | null = null) {
  const server = await laidOut(saved, recovery);
  expect(await readdir(server.dataFolder)).toContain('recovery.signal');
  await server.start();
  expect(await readdir(server.dataFolder)).not.toContain('recovery.signal');
  expect(await timelineOf(server)).toBe(saved.copied.timeline + 1);
  return server;
}

async function timelineOf(server: OwnServer): Promise<number | undefined> {
  const [row] = await server.rows<{ timeline: number }>('SELECT timeline_id AS timeline FROM pg_control_checkpoint()');
  return row?.timeline;
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
  it('copies all acknowledged rows while they are written, onto a new timeline', async () => {
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
    expect(parseLsn(copied.wal_stop)).toBeGreaterThan(parseLsn(copied.wal_start));
    expect(copied).toMatchObject({ timeline: 1, wal_segment_bytes: 1_048_576, checksum_version: 1 });
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

  it('copies a restored server again, and again: each copy gets the next timeline', async () => {
    const server = await started();
    await server.rows('CREATE TABLE t AS SELECT 1 AS n');
    const second = await restored(await save(server));
    await second.rows('INSERT INTO t VALUES (2)');
    const third = await restored(await save(second));
    expect(await rowsOf(third)).toEqual([1, 2]);
    expect(await timelineOf(third)).toBe(3);
  });
});

describe('a running server, refuses:', () => {
  it('a copy during which too much WAL is written, at no cost to the server', async () => {
    const server = await started({ max_slot_wal_keep_size: '8MB', max_wal_size: '4MB', min_wal_size: '2MB' });
    await server.rows('CREATE TABLE t (n int)');
    const big = async () => {
      for (let i = 0; i < 16; i++) {
        await server.rows(`INSERT INTO t SELECT generate_series(1, 20000)`);
        await server.rows('CHECKPOINT');
      }
    };
    await expect(save(server, during(big))).rejects.toThrow(
      /it wrote more WAL during the copy than max_slot_wal_keep_size allows/,
    );
    expect(await server.rows('SELECT count(*)::int AS n FROM t')).toEqual([{ n: 320_000 }]);
    // No other copy here: with so little room, any checkpoint after its end may take the log from it.
    expect(await slots(server)).toEqual([]);
  });

  it('to go on after an abort at any moment, and leaves no slot', async () => {
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
    const sessions = async (count: number) => {
      const rows = await server.rows<{ pid: number }>(
        `SELECT pid FROM pg_stat_activity WHERE application_name = 'cdp backup'`,
      );
      expect(rows).toHaveLength(count);
      return rows;
    };
    // Those of the copies before may still be ending.
    await vi.waitFor(() => sessions(0), { timeout: 60_000 });
    const held = vi.waitFor(() => sessions(1), { timeout: 60_000, interval: 5 });
    const waiting = (saved: Saved): AddFile => {
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

  it('a copy whose server is killed halfway; the next copy is good', async () => {
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

describe('the files of a stopped server, as earlier versions copied them,', () => {
  it('are restored with a new timeline', async () => {
    const server = await started();
    await server.rows('CREATE TABLE t AS SELECT generate_series(1, 5000) AS n');
    const [row] = await server.rows<{ segment: string }>('SELECT pg_walfile_name(pg_current_wal_lsn()) AS segment');
    await server.stop();
    const saved = new Saved();
    const { folders, bytes } = await copyFiles(server.dataFolder, saved.add, never, null);
    for (const name of (await readdir(join(server.dataFolder, 'pg_wal'))).filter((name) => name >= row!.segment)) {
      if (/^[0-9A-F]{24}$/.test(name)) {
        await saved.add(`pg_wal/${name}`, [await readFile(join(server.dataFolder, 'pg_wal', name))]);
      }
    }
    saved.copied = { ...FACTS, folders, bytes };
    const copy = await restored(saved);
    expect(await rowsOf(copy)).toEqual(upTo(5_000));
    await readAll(copy);
  });
});

describe('a restore', () => {
  it('refuses a path outside its folder', async () => {
    for (const path of ['../x', '/etc/x', 'a/../../x', 'a//b', '', 'a\0b']) {
      const place = await mkdtemp(join(servers.folder, 'out-'));
      const files = [{ path, content: () => [] }];
      const options = { folders: [], files, recovery: null, account: servers.account, signal: never };
      await expect(restoreFiles(join(place, 'data'), options)).rejects.toThrow(/would not be in the data directory/);
      expect(await readdir(place)).toEqual(['data']);
    }
  });

  it('refuses what no backup contains, such as settings that a server would follow', async () => {
    const added = [
      ...['postgresql.auto.conf', 'POSTGRESQL.AUTO.CONF', 'recovery-settings.conf', 'postgresql.conf.tmp'],
      ...['postmaster.pid', 'recovery.signal', 'standby.signal', 'tablespace_map', 'backup_label.old'],
      ...['pg_replslot/slot/state', 'pg_wal/archive_status/x', 'base/5/pg_internal.init', 'pg_stat_tmp/x'],
    ];
    for (const path of added) {
      for (const isFolder of [false, true]) {
        const place = await mkdtemp(join(servers.folder, 'added-'));
        const files = isFolder ? [] : [{ path, content: () => [] }];
        const options = { folders: isFolder ? [path] : [], files, recovery: null, account: servers.account };
        await expect(restoreFiles(join(place, 'data'), { ...options, signal: never }), path).rejects.toThrow(
          /which no backup of a server has/,
        );
        expect(await readdir(join(place, 'data'))).toEqual([]);
      }
    }
  });
});

describe('an archive', () => {
  const odd = `it's "50%" \\ of $HOME`;

  /** A server that archives, a backup of it, and a row after that. */
  async function archiving(root: string, serverId: string) {
    const folder = join(root, serverId);
    await prepareArchive(folder, servers.account);
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
    return { server, folder, saved, between, after };
  }
  let root: string;
  let a: Awaited<ReturnType<typeof archiving>>;
  let b: Awaited<ReturnType<typeof archiving>>;
  beforeAll(async () => {
    root = join(servers.folder, odd);
    await mkdir(root, { mode: 0o711 });
    [a, b] = await Promise.all([archiving(root, 'server-a'), archiving(root, 'server-b')]);
  });

  const recovery = async (folder: string, saved: Saved, until: Date): Promise<Recovery> => {
    const segments = await segmentsFor(folder, saved.copied, until);
    return { archive: folder, segments, until };
  };

  it('restores a server to a time between two inserts, or after both, in a folder of any name', async () => {
    for (const [until, rows] of [
      [a.between, [1, 2]],
      [a.after, [1, 2, 3]],
    ] as const) {
      const copy = await restored(a.saved, await recovery(a.folder, a.saved, until));
      expect(await rowsOf(copy)).toEqual(rows);
      await readAll(copy);
      await copy.stop();
    }
  });

  it('continues after a restart of its server', async () => {
    const { server, folder, saved } = await archiving(root, 'server-c');
    await server.stop();
    await prepareArchive(folder, servers.account);
    await server.start(archiveSettings(folder));
    await server.rows('INSERT INTO t VALUES (4)');
    const after = new Date();
    await new Promise((resolve) => setTimeout(resolve, 20));
    await archiveAll(folder, server.login, never);
    expect(await rowsOf(await restored(saved, await recovery(folder, saved, after)))).toEqual([1, 2, 3, 4]);
  });

  it('is refused if it ends too early or has a gap, and the message names what is missing', async () => {
    const { server, folder, saved } = b;
    const wanted = saved.copied;
    await archiveAll(folder, server.login, never);
    const check = (until: Date) => segmentsFor(folder, wanted, until);
    await expect(segmentsFor(join(folder, 'no'), wanted, b.after)).rejects.toThrow(/no archived WAL/);
    await expect(check(new Date(Date.parse(wanted.ended_at) - 1))).rejects.toThrow(/restore an earlier backup/);
    await expect(check(new Date(Date.now() + 60_000))).rejects.toThrow(/can be restored to 20.* at most/);
    const first = segmentOf(parseLsn(wanted.wal_start), wanted.wal_segment_bytes);
    const name = (i: bigint) => segmentName(1, first + i, wanted.wal_segment_bytes);
    const long = new Date(Date.parse(wanted.ended_at) - 60_000);
    await utimes(join(folder, name(0n)), long, long);
    const content = await readFile(join(folder, name(1n)));
    await rm(join(folder, name(1n)));
    const lacks = new RegExp(`lacks the WAL segment ${name(1n)}, .* can be restored to `);
    await expect(check(b.between)).rejects.toThrow(lacks);
    await writeFile(join(folder, name(1n)), content.subarray(0, 1_000));
    await expect(check(b.between)).rejects.toThrow(lacks);
    await writeFile(join(folder, name(1n)), content);
    expect((await check(b.between)).slice(0, 2)).toEqual([name(0n), name(1n)]);
    await rm(join(folder, name(0n)));
    await expect(check(b.between)).rejects.toThrow(/the backup begins in it/);
  });

  it('never replaces the contents of a file that it already has', async () => {
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
