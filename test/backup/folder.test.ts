/** Backups into a folder: what is in it, what is written again, and what can be restored from it. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { setArchiving } from '../../src/backup/archiving.js';
import { BackupFolder } from '../../src/backup/folder/backup-folder.js';
import { backupToFolder, copyArchives } from '../../src/backup/folder/write-folder.js';
import { restore, type RestoreOptions } from '../../src/backup/restore.js';
import { restoreInPlace } from '../../src/backup/restore-in-place.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import type { FolderBackupDone } from '../../src/contract/wire/admin-socket.js';
import type { OwnServerTenancy } from '../../src/tenancy/own-server-tenancy.js';
import { makeFolder } from '../support/folder.js';
import { startOwnService, type TestProject, type TestService } from '../support/service.js';

const root = makeFolder('cdp-folder-');
let service: TestService;
beforeAll(async () => {
  service = await startOwnService();
});
// A backup saves all projects.
afterEach(async () => {
  for (const { name } of await service.engine.projects.list()) await service.engine.projects.delete(name, BY_ITSELF);
});
afterAll(async () => {
  await service.close();
  rmSync(root, { recursive: true, force: true });
});

const signal = new AbortController().signal;
const common = { programSearch: { folder: null, path: '' }, signal, progress: () => undefined };
const services = (from = service) => from.engine.backupServices(BY_ITSELF);

let count = 0;
const newTarget = () => join(root, `target-${++count}`);

async function save(folder: string, from = service): Promise<FolderBackupDone> {
  const options = { ...common, folder, isNew: false, jobs: 2, archiveDays: 14 };
  const done = await backupToFolder(services(from), options);
  if (done === null) throw new Error('The backup was not due');
  return done;
}

const load = (folder: string, name: string, more: Partial<RestoreOptions> = {}, how = restore) =>
  how(services(), {
    ...common,
    file: folder,
    projectName: name,
    as: null,
    at: null,
    missing: false,
    placementRequest: {},
    ...more,
  });

async function faultsOf(folder: string): Promise<string[]> {
  const faults: string[] = [];
  for await (const fault of (await BackupFolder.open(folder)).faults(signal)) faults.push(fault);
  return faults;
}

const files = () => (service.engine.servers.defaultTenancy as OwnServerTenancy).files;
const serverOf = async (name: string) => (await service.engine.projects.get(name)).placement.server;

async function numbered(rows: number): Promise<TestProject> {
  const project = await service.project();
  await project.table('kept', { n: 'INTEGER' });
  await project.rows(`INSERT INTO kept (n) SELECT generate_series(1, ${rows})`);
  return project;
}

async function sumOf(name: string): Promise<number> {
  const { id } = await service.engine.projects.get(name);
  const { token } = await service.engine.tokens.create(id);
  const sql = 'SELECT coalesce(sum(n), 0)::float AS sum FROM kept';
  const { body } = await service.call('POST', '/api/cdp/sql', { token, body: { sql } });
  return (body.rows as { sum: number }[])[0]?.sum ?? NaN;
}

const stateOf = ({ projects }: FolderBackupDone, name: string) =>
  projects.find((one) => one.name === name)?.unchanged === true ? 'unchanged' : 'written';

const inodeOf = (folder: string, name: string) => statSync(join(folder, 'projects', name)).ino;

describe('is a folder of plain files', () => {
  it('that sha256sum checks, of mode 600, with the times of the originals', async () => {
    const project = await numbered(3);
    const target = newTarget();
    await save(target);
    const part = join(target, 'projects', project.name);
    for (const checked of [part, join(target, 'control')])
      expect(execFileSync('sha256sum', ['--quiet', '-c', 'SHA256SUMS'], { cwd: checked }).toString()).toBe('');
    expect(statSync(join(part, 'data', 'PG_VERSION')).mode & 0o777).toBe(0o600);
    const { data } = await files().folderOf(await serverOf(project.name));
    const [copied, original] = [part, join(data, '..')].map(
      (path) => statSync(join(path, 'data', 'PG_VERSION')).mtimeMs,
    );
    expect(copied).toBeCloseTo(original ?? NaN, 0);
    expect(readdirSync(target).sort()).toEqual(['control', 'epoch', 'projects']);
    expect(await faultsOf(target)).toEqual([]);
  });
});

describe('writes only what has changed', () => {
  it('leaves the part of a project alone that was not started since, and replaces one that was written to', async () => {
    const [idle, busy] = [await numbered(5), await numbered(5)];
    const target = newTarget();
    expect(stateOf(await save(target), idle.name)).toBe('written');
    const before = [inodeOf(target, idle.name), inodeOf(target, busy.name)];
    await busy.rows('INSERT INTO kept (n) VALUES (100)');
    const second = await save(target);
    expect([stateOf(second, idle.name), stateOf(second, busy.name)]).toEqual(['unchanged', 'written']);
    expect(inodeOf(target, idle.name)).toBe(before[0]);
    expect(inodeOf(target, busy.name)).not.toBe(before[1]);
    await load(target, busy.name, { as: `${busy.name}-copy` });
    expect(await sumOf(`${busy.name}-copy`)).toBe(115);
  });

  it('saves a row that is written between the copy and the stop of the server', async () => {
    const project = await numbered(1);
    const target = newTarget();
    // It is busy all the time, so it is not stopped, and the next backup must not take it for unchanged.
    const stop = new AbortController();
    let last = 1;
    const writing = (async () => {
      while (!stop.signal.aborted) await project.rows(`INSERT INTO kept (n) VALUES (${++last})`);
    })();
    await save(target);
    stop.abort();
    await writing;
    await files().stop(await serverOf(project.name));
    await save(target);
    await load(target, project.name, { as: `${project.name}-copy` });
    expect(await sumOf(`${project.name}-copy`)).toBe((last * (last + 1)) / 2);
  });

  it('saves an unchanged project again if its log was not archived then, so that it can be restored to a moment', async () => {
    const project = await numbered(1);
    const target = newTarget();
    await save(target);
    await setArchiving(services(), project.name, true);
    expect(stateOf(await save(target), project.name)).toBe('written');
    const before = new Date();
    await sleep(20);
    await project.rows('INSERT INTO kept (n) VALUES (10)');
    await load(target, project.name, { as: `${project.name}-before`, at: before });
    expect(await sumOf(`${project.name}-before`)).toBe(1);
  });

  it('follows a rename without writing, and removes the part of a deleted project', async () => {
    const [renamed, deleted] = [await numbered(2), await numbered(2)];
    const target = newTarget();
    await save(target);
    const inode = inodeOf(target, renamed.name);
    await service.engine.projects.rename(renamed.name, `${renamed.name}-new`, BY_ITSELF);
    await service.engine.projects.delete(deleted.name, BY_ITSELF);
    const done = await save(target);
    expect(stateOf(done, `${renamed.name}-new`)).toBe('unchanged');
    expect(done.removed).toEqual([deleted.name]);
    expect(inodeOf(target, `${renamed.name}-new`)).toBe(inode);
    expect(readdirSync(join(target, 'projects'))).not.toContain(deleted.name);
    await load(target, `${renamed.name}-new`, { as: `${renamed.name}-copy` });
    expect(await sumOf(`${renamed.name}-copy`)).toBe(3);
  });

  it('gives each of two projects that have exchanged their names its own part', async () => {
    const [a, b] = [await numbered(1), await numbered(2)];
    const target = newTarget();
    await save(target);
    const rename = (from: string, to: string) => service.engine.projects.rename(from, to, BY_ITSELF);
    await rename(a.name, 'between');
    await rename(b.name, a.name);
    await rename('between', b.name);
    await save(target);
    await load(target, a.name, { as: `${a.name}-copy` });
    expect(await sumOf(`${a.name}-copy`)).toBe(3);
  });
});

describe('keeps the earlier copy', () => {
  it('of a project whose files are damaged, and names it', async () => {
    const [project] = [await numbered(1_000), await numbered(1)];
    const target = newTarget();
    await save(target);
    const inode = inodeOf(target, project.name);
    const relation = String((await project.rows("SELECT pg_relation_filepath('data.kept') AS path"))[0]?.path);
    await project.rows('INSERT INTO kept (n) VALUES (1)');
    const server = await serverOf(project.name);
    await files().stop(server);
    const path = join((await files().folderOf(server)).data, relation);
    const damaged = readFileSync(path);
    damaged.fill(0x55, 4_000, 4_100);
    await writeFile(path, damaged);
    const done = await save(target);
    expect(done.left_out.map(({ name }) => name)).toEqual([project.name]);
    expect(inodeOf(target, project.name)).toBe(inode);
    expect(await faultsOf(target)).toEqual([]);
    const state = await service.engine.control.backups.find(target);
    expect(state?.error).toBe(`Not saved: ${project.name}`);
    await load(target, project.name, { as: `${project.name}-good` });
    expect(await sumOf(`${project.name}-good`)).toBe(500_500);
  });

  it('between the two renames of a part, and puts it back with the next backup', async () => {
    const project = await numbered(2);
    const target = newTarget();
    await save(target);
    await mkdir(join(target, '.old', 'projects'), { recursive: true });
    await rename(join(target, 'projects', project.name), join(target, '.old', 'projects', project.name));
    await mkdir(join(target, '.new', 'projects', project.name), { recursive: true });
    expect(await faultsOf(target)).toEqual([]);
    await load(target, project.name, { as: `${project.name}-copy` });
    expect(await sumOf(`${project.name}-copy`)).toBe(3);
    expect(stateOf(await save(target), project.name)).toBe('unchanged');
    expect(readdirSync(target).sort()).toEqual(['archive', 'control', 'epoch', 'projects']);
  });
});

describe('names every fault', () => {
  it('of a file that is missing, one with another byte, and one that is not of the backup', async () => {
    const [a, b, c] = [await numbered(1), await numbered(1), await numbered(1)];
    const target = newTarget();
    await save(target);
    const inPart = (project: TestProject, name: string) => join(target, 'projects', project.name, name);
    rmSync(inPart(a, 'data/PG_VERSION'));
    const conf = readFileSync(inPart(b, 'data/global/pg_control'));
    conf[100] = (conf[100] ?? 0) ^ 1;
    await writeFile(inPart(b, 'data/global/pg_control'), conf);
    await writeFile(inPart(c, 'data/stranger.conf'), '');
    expect((await faultsOf(target)).sort()).toEqual(
      [
        `projects/${a.name}: It has no data/PG_VERSION`,
        `projects/${b.name}: It is damaged: the checksum of data/global/pg_control is wrong`,
        `projects/${c.name}: data/stranger.conf is not of the backup`,
      ].sort(),
    );
    for (const project of [a, b])
      await expect(load(target, project.name, { as: `${project.name}-copy` })).rejects.toThrow(
        /^It (has no|is damaged)/,
      );
  });

  it('before a restore changes anything', async () => {
    const project = await numbered(1);
    const target = newTarget();
    await save(target);
    const manifest = join(target, 'projects', project.name, 'manifest.json');
    await writeFile(manifest, readFileSync(manifest, 'utf8').replace('"physical"', '"physica1"'));
    await expect(load(target, project.name)).rejects.toThrow(
      `${target} does not have the project "${project.name}": It is damaged: the checksum of manifest.json is wrong`,
    );
  });
});

describe('belongs to one installation', () => {
  it('refuses the folder of another, a folder with other files, and one whose backups are gone', async () => {
    const target = newTarget();
    await save(target);
    await writeFile(join(target, 'epoch'), '{"installation":"other","epoch":1}');
    await expect(save(target)).rejects.toThrow(`${target} has the backup of another installation`);
    const full = newTarget();
    await mkdir(full);
    await writeFile(join(full, 'letter.txt'), '');
    await expect(save(full)).rejects.toThrow(`${full} is not empty, and is not a backup folder of cdp`);
    const unmounted = newTarget();
    await save(unmounted);
    await rename(unmounted, `${unmounted}-elsewhere`);
    await mkdir(unmounted);
    await expect(save(unmounted)).rejects.toThrow('does not have the earlier backups: is its disk mounted?');
    expect(readdirSync(unmounted)).toEqual([]);
    expect((await service.engine.control.backups.find(unmounted))?.error).toMatch('is its disk mounted?');
    await expect(save(join(root, 'missing', 'folder'))).rejects.toThrow('ENOENT');
  });

  it('refuses to save, and to copy archives, once another service continues it', async () => {
    const target = newTarget();
    await save(target);
    const { control } = service.engine;
    await writeFile(join(target, 'epoch'), JSON.stringify({ installation: control.instanceId, epoch: 2 }));
    const message = `This installation was restored from ${target}`;
    await expect(save(target)).rejects.toThrow(message);
    const archives = copyArchives(services(), { folder: target, signal });
    await expect(archives).rejects.toThrow(message);
  });

  it('allows one backup at a time', async () => {
    const [first, second] = await Promise.allSettled([save(newTarget()), save(newTarget())]);
    const failed = [first, second].filter(({ status }) => status === 'rejected');
    expect(failed).toMatchObject([{ reason: { code: 'request_in_flight' } }]);
  });
});

describe('restores a project', () => {
  it('to the end of its archived log, or to a moment', async () => {
    const project = await numbered(1);
    const target = newTarget();
    await setArchiving(services(), project.name, true);
    await save(target);
    await project.rows('INSERT INTO kept (n) VALUES (10)');
    const before = new Date();
    await sleep(20);
    // Fills a segment.
    await project.rows('INSERT INTO kept (n) SELECT 0 FROM generate_series(1, 50000)');
    const archive = join(target, 'archive', await serverOf(project.name));
    const copied = async () => {
      await copyArchives(services(), { folder: target, signal });
      return readdirSync(archive, { withFileTypes: true }).length;
    };
    await expect.poll(copied, { timeout: 60_000 }).toBeGreaterThan(3);
    await load(target, project.name, { as: `${project.name}-end` });
    expect(await sumOf(`${project.name}-end`)).toBe(11);
    await load(target, project.name, { as: `${project.name}-then`, at: before });
    expect(await sumOf(`${project.name}-then`)).toBe(11);
  });

  it('in the place of the existing one, with the tokens, the quota and the roles of now', async () => {
    const project = await numbered(3);
    const target = newTarget();
    const { tokens, projects, control } = service.engine;
    const { id } = await projects.get(project.name);
    const { token: revoked, details } = await tokens.create(id);
    await save(target);
    await tokens.revoke(details.id, {}, BY_ITSELF);
    const { token: newer } = await tokens.create(id);
    await projects.setQuota(project.name, 123_000_000, BY_ITSELF);
    await project.rows('INSERT INTO kept (n) VALUES (100)');
    const checked = await load(target, project.name, { check: true }, restoreInPlace);
    expect(checked).toEqual({ projects: [], failed: [] });
    expect((await projects.get(project.name)).id).toBe(id);

    const done = await load(target, project.name, {}, restoreInPlace);
    expect(done.projects).toMatchObject([{ name: project.name, not_archived: null }]);
    const [now, kept] = [await projects.get(project.name), await projects.get(`${project.name}-replaced`)];
    expect(now).toMatchObject({ status: 'active', quotaBytes: 123_000_000 });
    expect(kept).toMatchObject({ id, status: 'inactive' });
    const select = (token: string) =>
      service.call('POST', '/api/cdp/sql', { token, body: { sql: 'SELECT sum(n)::integer AS sum FROM kept' } });
    for (const token of [project.token, newer]) expect((await select(token)).body.rows).toEqual([{ sum: 6 }]);
    expect((await select(revoked)).status).toBe(401);
    expect(await control.tokens.list(id)).toEqual([]);
    await projects.setActive(`${project.name}-replaced`, true, BY_ITSELF);
    expect(await sumOf(`${project.name}-replaced`)).toBe(106);
  });

  it('and leaves the existing one as it was if that fails', async () => {
    const project = await numbered(3);
    const target = newTarget();
    await save(target);
    rmSync(join(target, 'projects', project.name, 'data', 'global', 'pg_control'));
    await expect(load(target, project.name, {}, restoreInPlace)).rejects.toThrow('It has no data/global/pg_control');
    expect(await service.engine.projects.get(project.name)).toMatchObject({ status: 'active' });
    expect(await sumOf(project.name)).toBe(6);
    expect((await service.engine.projects.list()).map(({ name }) => name)).not.toContain(`${project.name}-restored`);
  });
});
