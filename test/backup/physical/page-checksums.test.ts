/** The verification of page checksums, on files of real servers and on pages that a test has made or damaged. */
import { open, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { copyRunning } from '../../../src/backup/physical/copy-running.js';
import type { AddFile } from '../../../src/backup/physical/data-files.js';
import { DamagedPages, isValidPage, PageCheck } from '../../../src/backup/physical/page-checksums.js';
import { type OwnServer, type OwnServers, ownServers } from '../../support/own-server.js';
import { withClient } from '../../support/with-client.js';

const PAGE = 8_192;
const signal = new AbortController().signal;

let servers: OwnServers;
let number = 0;
beforeAll(async () => {
  servers = await ownServers();
});
afterAll(() => servers.close());

async function filled(): Promise<OwnServer> {
  const server = await servers.copy(`n${++number}`);
  await server.start();
  await server.rows(`CREATE TABLE t AS SELECT n, repeat('x', 300) AS pad FROM generate_series(1, 2000) n`);
  await server.rows('ALTER TABLE t ADD PRIMARY KEY (n)');
  await server.rows('VACUUM t');
  await server.rows('CHECKPOINT');
  return server;
}

const ignore: AddFile = async (_path, content) => {
  for await (const part of content) void part;
};

const save = ({ dataFolder: dataDirectory, login }: OwnServer, add = ignore) =>
  copyRunning({ dataDirectory, login, signal }, add);

const pathOf = async (server: OwnServer, relation: string): Promise<string> => {
  const [row] = await server.rows<{ path: string }>('SELECT pg_relation_filepath($1) AS path', [relation]);
  return (row as { path: string }).path;
};

/** Flips a bit of the file. */
async function flip(file: string, position: number): Promise<void> {
  const handle = await open(file, 'r+');
  const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, position);
  await handle.write(Buffer.of(buffer.readUInt8() ^ 1), 0, 1, position);
  await handle.close();
}

/** Verifies pages that begin at the start of the file, by a backup from 0/100 to 0/200. @returns what is passed on */
async function verified(path: string, pages: Buffer, again: Buffer = pages, partBytes = 3 * PAGE): Promise<Buffer> {
  const check = new PageCheck('0/100');
  const content = function* () {
    for (let at = 0; at < pages.length; at += partBytes) yield Buffer.from(pages.subarray(at, at + partBytes));
  };
  const readPage = (position: number, length: number) =>
    Promise.resolve(Buffer.from(again.subarray(position, position + length)));
  const passed: Buffer[] = [];
  for await (const part of check.verified(path, Readable.from(content()), readPage)) passed.push(part);
  const damage = check.damageUntil('0/200');
  if (damage !== null) throw damage;
  return Buffer.concat(passed);
}

/** A page with the right checksum. */
function pageOf(block: number, lsn: number, fill: number): Buffer {
  const page = Buffer.alloc(PAGE, fill);
  page.writeUInt32LE(0, 0);
  page.writeUInt32LE(lsn, 4);
  for (let sum = 1; sum < 65_536; sum++) {
    page.writeUInt16LE(sum, 8);
    if (isValidPage(page, block)) return page;
  }
  throw new Error('No checksum fits');
}

describe('works:', () => {
  it('every page of a real server is valid, in its own place only', async () => {
    const server = await filled();
    await server.stop();
    let [pages, elsewhere] = [0, 0];
    for (const folder of [
      'global',
      ...(await readdir(join(server.dataFolder, 'base'))).map((name) => `base/${name}`),
    ]) {
      for (const name of await readdir(join(server.dataFolder, folder))) {
        if (!/^\d+(_\w+)?$/.test(name)) continue;
        const file = await readFile(join(server.dataFolder, folder, name));
        for (let block = 0; block * PAGE < file.length; block++, pages++) {
          const page = file.subarray(block * PAGE, (block + 1) * PAGE);
          expect([folder, name, block, isValidPage(page, block)]).toEqual([folder, name, block, true]);
          if (isValidPage(page, block + 1)) elsewhere++;
        }
      }
    }
    expect(pages).toBeGreaterThan(1_000);
    // Pages of zeros are valid everywhere.
    expect(elsewhere).toBeLessThan(pages / 10);
  });

  it('accepts pages of zeros, and passes other files on as they are', async () => {
    const pages = Buffer.concat([pageOf(0, 1, 7), Buffer.alloc(PAGE), pageOf(2, 1, 9)]);
    expect(await verified('base/5/16384', pages)).toEqual(pages);
    for (const path of ['base/5/pg_filenode.map', 'base/5/PG_VERSION', 'pg_xact/0000', 'global/16384.conf']) {
      expect(await verified(path, Buffer.alloc(PAGE + 7, 7))).toEqual(Buffer.alloc(PAGE + 7, 7));
    }
  });

  it('counts pages over the files of a relation, however its content is split', async () => {
    const pages = Buffer.concat([pageOf(131_072, 1, 7), pageOf(131_073, 1, 8), pageOf(131_074, 1, 9)]);
    for (const partBytes of [PAGE, 5_000, 20_000]) {
      expect(await verified('base/5/16384.1', pages, pages, partBytes)).toEqual(pages);
      await expect(verified('base/5/16384', pages, pages, partBytes)).rejects.toThrow(/^3 pages .*block 0 of base/);
    }
    pages.writeUInt8(1, PAGE + 4_000);
    await expect(verified('base/5/16384.1', pages)).rejects.toThrow(
      /^1 page of its files is damaged, by the checksums: block 131073 of base\/5\/16384\.1$/,
    );
  });

  it('reads a page once more that was being written, and passes on what it then finds', async () => {
    const [old, now] = [pageOf(0, 1, 7), pageOf(0, 1, 8)];
    const torn = Buffer.concat([now.subarray(0, PAGE / 2), old.subarray(PAGE / 2)]);
    expect(await verified('base/5/16384', torn, now)).toEqual(now);
    await expect(verified('base/5/16384', torn)).rejects.toThrow(DamagedPages);
    // Truncated meanwhile.
    expect(await verified('base/5/16384', torn, Buffer.alloc(0))).toEqual(torn);
  });

  it('leaves alone a page that the WAL of the backup replaces, but no later one: its position is damaged', async () => {
    const during = pageOf(0, 0x150, 7);
    during.writeUInt8(1, 4_000);
    expect(await verified('base/5/16384', during)).toEqual(during);
    const later = pageOf(0, 0x150, 7);
    later.writeUInt32LE(1, 0);
    await expect(verified('base/5/16384', later)).rejects.toThrow(/block 0 of base\/5\/16384/);
  });

  it('takes the end of a file that is being extended, or that a full disk has cut off, but no half of a page', async () => {
    const pages = Buffer.concat([pageOf(0, 1, 7), pageOf(1, 1, 8)]);
    const cut = pages.subarray(0, PAGE + 4_096);
    expect(await verified('base/5/16384', cut, pages)).toEqual(cut);
    const zeros = Buffer.concat([pageOf(0, 1, 7), Buffer.alloc(4_096)]);
    expect(await verified('base/5/16384', zeros)).toEqual(zeros);
    await expect(verified('base/5/16384', cut)).rejects.toThrow(/block 1 of base\/5\/16384/);
  });

  it('finds no damage in copies of a server that writes all the time', async () => {
    const server = await filled();
    await server.rows('CREATE UNLOGGED TABLE u AS SELECT n, 0 AS m FROM generate_series(1, 5000) n');
    let stop = false;
    const writers = Array.from({ length: 3 }, (_, one) =>
      withClient(server.login, async (client) => {
        for (let i = 0; !stop; i++) {
          await client.query(`INSERT INTO t SELECT n, repeat('y', 300) FROM generate_series($1::int, $1 + 99) n`, [
            1_000_000 * (one + 1) + i * 100,
          ]);
          // Each its own rows, so that none waits for another.
          await client.query('UPDATE u SET m = m + 1 WHERE n % 3 = $1', [one]);
          await client.query('DELETE FROM t WHERE n / 1000000 = $1 AND n % 5 = 0', [one + 1]);
          if (i % 5 === 0) await client.query('CHECKPOINT');
          if (one === 0 && i % 20 === 0) await client.query('VACUUM t');
          // A copy must not take longer and longer.
          await sleep(10);
        }
      }),
    );
    try {
      for (let copies = 0; copies < 4; copies++) await save(server);
    } finally {
      stop = true;
      await Promise.all(writers);
    }
  });
});

describe('refuses:', () => {
  it.each([
    ['a table', 't', ''],
    ['an index', 't_pkey', ''],
    ['a free space map', 't', '_fsm'],
    ['a visibility map', 't', '_vm'],
    ['a catalog that all databases share', 'pg_authid', ''],
  ])('a copy with a flipped bit in %s, by its file and block', async (_what, relation, fork) => {
    const server = await filled();
    const path = `${await pathOf(server, relation)}${fork}`;
    const { length } = await readFile(join(server.dataFolder, path));
    const block = length / PAGE - 1;
    await flip(join(server.dataFolder, path), block * PAGE + 4_321);
    const error = await save(server).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(DamagedPages);
    expect((error as DamagedPages).places).toEqual([{ path, block }]);
    expect((error as DamagedPages).message).toContain(`block ${block} of ${path}`);
    await flip(join(server.dataFolder, path), block * PAGE + 4_321);
    await save(server);
  });

  it('leaves out unlogged tables, which are empty after a restore, but keeps what they are created from', async () => {
    const server = await filled();
    await server.rows('CREATE UNLOGGED TABLE u AS SELECT generate_series(1, 1000) AS a');
    await server.rows('CHECKPOINT');
    const path = await pathOf(server, 'u');
    await flip(join(server.dataFolder, path), 4_321);
    const paths: string[] = [];
    await save(server, async (file, content) => {
      paths.push(file);
      await ignore(file, content);
    });
    expect(paths.filter((file) => file.startsWith(path))).toEqual([`${path}_init`]);
  });
});
