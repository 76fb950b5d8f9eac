/** A backup folder that is full, away, read-only, somebody else's or damaged; and what changes while a backup runs. */
import { createHash } from 'node:crypto';
import { execFile } from 'node:child_process';
import { cp, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { setArchiving } from '../../src/backup/archiving.js';
import { BackupFolder } from '../../src/backup/folder/backup-folder.js';
import { backupToFolder, copyArchives, type FolderBackupOptions } from '../../src/backup/folder/write-folder.js';
import { restoreInPlace } from '../../src/backup/restore-in-place.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { BackupPlan } from '../../src/engine/backup-plan.js';
import type { OwnServerTenancy } from '../../src/tenancy/own-server-tenancy.js';
import { endEverything, eventually, newDataDir, newFolder, runProgram, startServe } from '../support/program.js';
import { startOwnService, type TestProject, type TestService } from '../support/service.js';

const run = promisify(execFile);
const { signal } = new AbortController();

let service: TestService;
let projects: { a: TestProject; b: TestProject };
let folders: string;
beforeAll(async () => {
  service = await startOwnService();
  folders = await newFolder();
  projects = { a: await service.project('a'), b: await service.project('b') };
  for (const project of Object.values(projects)) await project.rows('CREATE TABLE kept (n int)');
});
afterAll(async () => {
  await service.close();
  await endEverything();
});

const installation = (of = service) => of.engine.backupServices(BY_ITSELF);
const filesOf = (of = service) => (of.engine.servers.defaultTenancy as OwnServerTenancy).files;
const serverOf = async (name: string) => (await service.engine.projects.get(name)).placement.server;

let counter = 0;
const newTarget = () => join(folders, `target-${++counter}`);

const backUp = (folder: string, more: Partial<FolderBackupOptions> = {}, of = service) =>
  backupToFolder(installation(of), {
    ...{ folder, isNew: false, programSearch: { folder: null, path: '' }, jobs: 1, archiveDays: 14, signal },
    ...{ progress: () => {}, ...more },
  });

async function faults(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const fault of (await BackupFolder.open(folder)).faults(signal)) found.push(fault);
  return found;
}

/** Everything in a folder, by its content. */
async function contents(folder: string): Promise<Record<string, string>> {
  const entries = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  const paths = entries.map((entry) => join(entry.parentPath, entry.name)).toSorted();
  const sums = paths.map(async (path) => [
    path,
    createHash('sha256')
      .update(await readFile(path))
      .digest('hex'),
  ]);
  return Object.fromEntries(await Promise.all(sums)) as Record<string, string>;
}

const message = (backup: Promise<unknown>): Promise<string> =>
  backup.then(
    () => 'it succeeded',
    (error: Error) => error.message,
  );

/** A tmpfs as a target. @returns null where it cannot be mounted */
async function smallTarget(mib: number) {
  const folder = newTarget();
  await mkdir(folder);
  try {
    await run('mount', ['-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', folder]);
  } catch {
    console.log(`${folder}: there is no right to mount a disk`);
    return null;
  }
  return {
    folder,
    mount: (options: string) => run('mount', ['-o', `remount,${options}`, folder]),
    close: () => run('umount', ['--lazy', folder]),
  };
}

describe('a target', () => {
  it('that is full keeps the earlier backup, says so, and works again once there is room', async () => {
    const target = await smallTarget(200);
    if (target === null) return;
    const { folder, close } = target;
    try {
      await backUp(folder);
      const before = await contents(folder);
      const ballast = join(folder, 'ballast');
      const isFull = await writeFile(ballast, Buffer.alloc(200 * 1024 * 1024)).catch(
        ({ code }: { code: string }) => code,
      );
      expect(isFull).toBe('ENOSPC');
      await projects.a.rows('INSERT INTO kept VALUES (1)');
      expect(await message(backUp(folder))).toBe(`${folder} has no room`);
      expect((await service.engine.control.backups.find(folder))?.error).toBe(`${folder} has no room`);
      await rm(ballast);
      expect(await contents(folder)).toEqual(before);
      expect((await backUp(folder))?.left_out).toEqual([]);
      expect(await faults(folder)).toEqual([]);
    } finally {
      await close();
    }
  });

  it('that is read-only fails, and is as it was', async () => {
    const target = await smallTarget(200);
    if (target === null) return;
    const { folder, close, mount } = target;
    try {
      await backUp(folder);
      const before = await contents(folder);
      await mount('ro');
      await projects.a.rows('INSERT INTO kept VALUES (1)');
      expect(await message(backUp(folder))).toBe(`${folder} can only be read`);
      expect(await contents(folder)).toEqual(before);
      await mount('rw');
      expect((await backUp(folder))?.left_out).toEqual([]);
    } finally {
      await close();
    }
  });

  it('that is not mounted gets nothing written into it', async () => {
    const folder = newTarget();
    await backUp(folder);
    await rename(folder, `${folder}.away`);
    await mkdir(folder);
    expect(await message(backUp(folder))).toMatch(/does not have the earlier backups: is its disk mounted\?/);
    await copyArchives(installation(), { folder, signal });
    expect(await readdir(folder)).toEqual([]);
    await rm(folder, { recursive: true });
    expect(await message(backUp(folder))).toMatch(/is its disk mounted\?/);
    expect((await backUp(folder, { isNew: true }))?.left_out).toEqual([]);
  });

  it('with other files, or a damaged marker, is not touched', async () => {
    const folder = newTarget();
    await mkdir(folder);
    await writeFile(join(folder, 'mine'), 'x');
    expect(await message(backUp(folder))).toMatch(/is not empty, and is not a backup folder of cdp/);
    await rm(join(folder, 'mine'));
    await writeFile(join(folder, 'epoch'), '{"installation":');
    expect(await message(backUp(folder))).toMatch(/is damaged: this is not a backup folder of cdp/);
    expect(await readdir(folder)).toEqual(['epoch']);
  });
});

describe('two installations with one target', () => {
  /** Made by its own first start, so that it is another one. */
  let other: string;
  beforeAll(async () => {
    other = await newDataDir();
    await (await startServe(['--data-dir', other])).end();
  });
  const backUpOther = async (folder: string): Promise<string> => {
    const { code, stderr } = await runProgram(['backup', '--to', folder, '--data-dir', other]);
    return code === 0 ? 'it succeeded' : stderr;
  };

  it('the second is refused, and changes nothing', async () => {
    const folder = newTarget();
    await backUp(folder);
    const before = await contents(folder);
    expect(await backUpOther(folder)).toMatch(/has the backup of another installation/);
    expect(await contents(folder)).toEqual(before);
  });

  it('of two that begin at once, at most one has it, and its backup is whole', async () => {
    const folder = newTarget();
    const theirs = backUpOther(folder);
    await eventually('they write', async () => (await stat(folder).catch(() => null)) !== null);
    const outcomes = [await message(backUp(folder)), await theirs];
    const succeeded = outcomes.filter((outcome) => outcome === 'it succeeded');
    expect(succeeded.length, outcomes.join('\n')).toBeLessThan(2);
    const later = [await message(backUp(folder)), await backUpOther(folder)];
    expect(later.filter((outcome) => outcome === 'it succeeded')).toHaveLength(1);
    expect(await faults(folder)).toEqual([]);
  });

  it('one that loses the folder during its backup replaces no more of it', async () => {
    const folder = newTarget();
    await backUp(folder);
    await projects.a.rows('INSERT INTO kept VALUES (1)');
    await projects.b.rows('INSERT INTO kept VALUES (1)');
    const epoch = join(folder, 'epoch');
    const own = JSON.parse(await readFile(epoch, 'utf8')) as { epoch: number };
    const before = await contents(join(folder, 'projects'));
    const progress = (line: string) => {
      // Another machine was restored from it.
      if (line === 'a: saving') void writeFile(epoch, JSON.stringify({ ...own, epoch: own.epoch + 1 }));
    };
    expect(await message(backUp(folder, { progress }))).toMatch(/was restored from .*another service continues it/);
    expect(await contents(join(folder, 'projects'))).toEqual(before);
    expect(await message(backUp(folder))).toMatch(/another service continues it/);
    expect(await message(copyArchives(installation(), { folder, signal }))).toMatch(/continues it/);
  });
});

describe('while a backup runs,', () => {
  /** Does something once a project is being saved. The project after it in the list is saved later. */
  async function backUpWhile(folder: string, name: string, change: () => Promise<unknown>) {
    const changes: Promise<unknown>[] = [];
    const progress = (line: string) => {
      if (line.startsWith(`${name}: `) && changes.length === 0) changes.push(change());
    };
    const done = await backUp(folder, { progress });
    await Promise.all(changes);
    expect(changes).toHaveLength(1);
    return done;
  }

  /** What a restore of the folder would bring back. */
  async function expectWhole(folder: string): Promise<string[]> {
    expect(await faults(folder)).toEqual([]);
    return (await BackupFolder.open(folder)).manifest.projects.map(({ name }) => name).toSorted();
  }

  /** The change may have come after the backup had read the list of projects; the next one has it. */
  async function expectWholeAndNext(folder: string): Promise<string[]> {
    await expectWhole(folder);
    await backUp(folder);
    return expectWhole(folder);
  }

  it('a project is created, deleted, renamed, or another takes its name', async () => {
    const folder = newTarget();
    const made = await service.project('c-early');
    await made.rows('CREATE TABLE kept (n int)');
    await backUpWhile(folder, 'a', () => service.project('c-late'));
    expect(await expectWhole(folder)).not.toContain('c-late');
    await backUpWhile(folder, 'a', () => service.engine.projects.rename('c-early', 'c-renamed', BY_ITSELF));
    expect(await expectWholeAndNext(folder)).toContain('c-renamed');
    await backUpWhile(folder, 'c-renamed', () => service.engine.projects.delete('c-late', BY_ITSELF));
    expect(await expectWholeAndNext(folder)).not.toContain('c-late');
    await made.rows('INSERT INTO kept VALUES (1)');
    await backUpWhile(folder, 'c-renamed', () => service.engine.projects.delete('c-renamed', BY_ITSELF));
    expect(await expectWholeAndNext(folder)).not.toContain('c-renamed');
    await backUpWhile(folder, 'a', async () => {
      await service.engine.projects.rename('b', 'b-old', BY_ITSELF);
      await service.project('b');
    });
    expect(await expectWholeAndNext(folder)).toContain('b-old');
    expect((await backUp(folder))?.left_out).toEqual([]);
    expect(await expectWhole(folder)).toEqual(expect.arrayContaining(['a', 'b', 'b-old']));
    await service.engine.projects.delete('b', BY_ITSELF);
    await service.engine.projects.rename('b-old', 'b', BY_ITSELF);
  });

  it('a project is restored in place', async () => {
    const folder = newTarget();
    await backUp(folder);
    const earlier = newTarget();
    await cp(folder, earlier, { recursive: true, preserveTimestamps: true });
    const inPlace = { projectName: 'b', as: null, at: null, missing: false, placementRequest: {} };
    await backUpWhile(folder, 'a', () =>
      restoreInPlace(installation(), {
        ...{ file: earlier, ...inPlace, programSearch: { folder: null, path: '' }, signal, progress: () => {} },
      }),
    );
    await expectWhole(folder);
    expect((await backUp(folder))?.left_out).toEqual([]);
    expect(await expectWhole(folder)).toEqual(expect.arrayContaining(['a', 'b', 'b-replaced']));
    await service.engine.projects.delete('b-replaced', BY_ITSELF);
  });

  async function exchange(): Promise<void> {
    const { projects: all } = service.engine;
    await all.rename('a', 'x', BY_ITSELF);
    await all.rename('b', 'a', BY_ITSELF);
    await all.rename('x', 'b', BY_ITSELF);
  }

  it('two projects exchange their names, and it ends before its end', async () => {
    const folder = newTarget();
    await backUp(folder);
    await exchange();
    const stop = new AbortController();
    const progress = (line: string) => {
      if (/^a: .* bytes$/.test(line)) stop.abort(new Error('killed'));
    };
    expect(await message(backUp(folder, { signal: stop.signal, progress }))).toBe('killed');
    expect(await expectWhole(folder)).toEqual(expect.arrayContaining(['a', 'b']));
    await backUp(folder);
    expect(await expectWhole(folder)).toEqual(expect.arrayContaining(['a', 'b']));
    await exchange();
  });

  it('and ends early after a project was renamed, the backup before it is still whole', async () => {
    const folder = newTarget();
    await backUp(folder);
    await service.engine.projects.rename('b', 'b-renamed', BY_ITSELF);
    const stop = new AbortController();
    const progress = () => stop.abort(new Error('killed'));
    expect(await message(backUp(folder, { signal: stop.signal, progress }))).toBe('killed');
    expect(await expectWhole(folder)).toContain('b');
    await service.engine.projects.rename('b-renamed', 'b', BY_ITSELF);
  });

  it('archived log is copied by two at once', async () => {
    const folder = newTarget();
    await backUp(folder);
    await setArchiving(installation(), 'a', true);
    await projects.a.rows('SELECT 1');
    const archive = join(filesOf().archives, await serverOf('a'));
    for (let i = 0; i < 6; i++) {
      await projects.a.rows('CREATE TABLE filler AS SELECT generate_series(1, 60000) AS n');
      await projects.a.rows('DROP TABLE filler');
    }
    await expect.poll(async () => (await readdir(archive)).length).toBeGreaterThan(5);
    const options = { folder, signal };
    await Promise.all([1, 2, 3].map(() => copyArchives(installation(), options)));
    const copied = join(folder, 'archive', await serverOf('a'));
    const names = (await readdir(copied)).toSorted();
    expect(names.length).toBeGreaterThan(5);
    for (const name of names)
      expect((await readFile(join(copied, name))).equals(await readFile(join(archive, name))), name).toBe(true);
    await setArchiving(installation(), 'a', false);
  });
});

describe('a folder', () => {
  let folder: string;
  beforeAll(async () => {
    folder = newTarget();
    await backUp(folder);
  });
  afterEach(async () => {
    expect(await faults(folder)).toEqual([]);
  });

  /** Of each kind. */
  const FILES = [
    'projects/a/data/PG_VERSION',
    'projects/a/data/global/pg_control',
    'projects/a/data/backup_label',
    'projects/a/manifest.json',
    'projects/a/SHA256SUMS',
    'control/data/global/pg_control',
    'control/control.json',
    'control/manifest.json',
    'control/SHA256SUMS',
  ];

  /** The faults that are named, or why it cannot be read at all. */
  const found = async (): Promise<string> =>
    faults(folder).then(
      (all) => all.join('\n'),
      (error: Error) => error.message,
    );

  it('of which a file is missing is not whole, whichever it is', async () => {
    for (const name of FILES) {
      const path = join(folder, name);
      await rename(path, join(folders, 'away'));
      expect(await found(), name).toContain(name.split('/').at(-1));
      await rename(join(folders, 'away'), path);
    }
    await rename(join(folder, 'projects/a'), join(folders, 'away'));
    expect(await found()).toBe('projects/a: the project is not in the backup');
    await rename(join(folders, 'away'), join(folder, 'projects/a'));
  });

  it('of which one bit is another is not whole, whichever it is', async () => {
    for (const name of FILES) {
      const path = join(folder, name);
      const { size } = await stat(path);
      for (const position of [0, Math.floor(size / 2), size - 1]) {
        await flip(path, position);
        expect(await found(), `${name} at ${position}`).not.toBe('');
        await flip(path, position);
      }
    }
  });

  it('with a file that nobody saved says so, and the program ends with 1', async () => {
    await writeFile(join(folder, 'projects/a/data/stranger'), '');
    const { code, stdout } = await runProgram(['backup', 'verify', folder]);
    expect([code, stdout]).toEqual([
      1,
      expect.stringContaining('FAULT: projects/a: data/stranger is not of the backup'),
    ]);
    await rm(join(folder, 'projects/a/data/stranger'));
  });

  it('that is damaged restores nothing of what is damaged, and leaves no data folder', async () => {
    const dataDir = await newDataDir();
    for (const name of ['control/control.json', 'control/data/global/pg_control', 'control/SHA256SUMS']) {
      const path = join(folder, name);
      await flip(path, 10);
      const { code, stderr } = await runProgram(['restore', '--from', folder, '--data-dir', dataDir]);
      expect([code, stderr], name).toEqual([1, expect.stringMatching(/damaged|checksum/)]);
      await flip(path, 10);
      await expect(stat(dataDir), name).rejects.toMatchObject({ code: 'ENOENT' });
    }
  });

  it('of which one project is damaged restores the others', async () => {
    // What is restored takes the folder over.
    const copy = newTarget();
    await cp(folder, copy, { recursive: true, preserveTimestamps: true });
    const manifest = join(copy, 'projects/a/manifest.json');
    await flip(manifest, 20);
    const { manifest: read } = await BackupFolder.open(copy);
    expect(read.projects.map(({ name }) => name).toSorted()).toEqual(['b', 'default']);
    const dataDir = await newDataDir();
    const { code, stdout, stderr } = await runProgram(['restore', '--from', copy, '--data-dir', dataDir]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('Not restored: a')]);
    expect(stdout.trimEnd().split('\n').toSorted()).toEqual(['Project b restored', 'Project default restored']);
    await flip(manifest, 20);
    const again = ['restore', '--from', copy, '--project', 'a', '--as', 'a-again', '--data-dir', dataDir];
    const one = await runProgram(again);
    expect([one.code, one.stdout]).toEqual([0, 'Project a-again restored\n']);
  });

  it('of a newer version is not read', async () => {
    for (const [part, number] of [['control', '"format_version": 1']] as const) {
      const manifest = join(folder, part, 'manifest.json');
      const text = await readFile(manifest, 'utf8');
      expect(text).toContain(number);
      const newer = text.replace(number, '"format_version": 99');
      await replace(part, text, newer);
      expect(await found()).toMatch(/It has format 99, and this program supports \d+: use a newer one/);
      const { code, stderr } = await runProgram(['restore', '--from', folder, '--data-dir', await newDataDir()]);
      expect([code, stderr]).toEqual([1, expect.stringContaining('use a newer one')]);
      await replace(part, newer, text);
    }
  });

  async function replace(part: string, old: string, text: string): Promise<void> {
    const sum = (content: string) => createHash('sha256').update(content).digest('hex');
    const sums = join(folder, part, 'SHA256SUMS');
    await writeFile(join(folder, part, 'manifest.json'), text);
    await writeFile(sums, (await readFile(sums, 'utf8')).replace(sum(old), sum(text)));
  }

  it('a damaged part is written anew by the next backup, although the project has not changed', async () => {
    await backUp(folder);
    await rm(join(folder, 'projects/a/manifest.json'));
    const done = await backUp(folder);
    expect(done?.projects.find(({ name }) => name === 'a')?.unchanged).toBe(false);
  });

  it('keeps the last good copy of a project with a damaged page', async () => {
    const project = await service.project('rotten');
    await project.rows(`CREATE TABLE kept AS SELECT n, repeat('x', 200) AS pad FROM generate_series(1, 500) n`);
    await backUp(folder);
    const part = join(folder, 'projects/rotten');
    const before = await contents(part);
    await project.rows('UPDATE kept SET n = n + 1 WHERE n < 5');
    const [row] = await project.rows(`SELECT pg_relation_filepath('kept') AS path`);
    const server = await serverOf('rotten');
    await filesOf().stop(server);
    await flip(join((await filesOf().folderOf(server)).data, String(row?.['path'])), 3 * 8_192 + 5_000);
    const done = await backUp(folder);
    expect(done?.left_out).toEqual([{ name: 'rotten', reason: expect.stringMatching(/damaged/) as string }]);
    expect(await contents(part)).toEqual(before);
    expect(await faults(folder)).toEqual([]);
    expect((await service.engine.control.backups.find(folder))?.error).toBe('Not saved: rotten');
    await service.engine.projects.delete('rotten', BY_ITSELF);
    await backUp(folder);
  });
});

async function flip(file: string, position: number): Promise<void> {
  const handle = await open(file, 'r+');
  const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, position);
  await handle.write(Buffer.of(buffer.readUInt8() ^ 1), 0, 1, position);
  await handle.close();
}

describe('a clock that jumps', () => {
  afterEach(() => vi.useRealTimers());

  it('neither puts off a backup nor repeats one', () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const at = (time: string) => vi.setSystemTime(new Date(time));
    at('2026-03-10T12:00:00');
    const plan = new BackupPlan(service.engine.control, '/unused', '0 3 * * *');
    expect(plan.isDue(null)).toBe(false);
    at('2026-03-11T03:00:10');
    expect(plan.isDue(null)).toBe(true);
    const last = new Date('2026-03-11T03:00:10');
    expect(plan.isDue(last)).toBe(false);
    // Back by a year: the next is made at its hour, and not in a year.
    at('2025-03-11T02:59:00');
    expect(plan.isDue(last)).toBe(false);
    at('2025-03-12T03:00:10');
    expect(plan.isDue(new Date('2025-03-11T03:00:01'))).toBe(true);
    // Forward by a year: one backup, not 365.
    at('2027-03-11T12:00:00');
    expect(plan.isDue(last)).toBe(true);
    expect(plan.isDue(new Date())).toBe(false);
  });
});
