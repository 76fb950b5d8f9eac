/** Archives of write-ahead logs: that a failing one is seen everywhere, and what a restore does with them. */
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { setArchiving } from '../../src/backup/archiving.js';
import { backup } from '../../src/backup/backup.js';
import { restore, type RestoreOptions } from '../../src/backup/restore.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { examineArchives } from '../../src/engine/doctor/doctor.js';
import type { ProjectLocation } from '../../src/contract/wire/admin-socket.js';
import { ADMIN_SOCKET_ROUTES } from '../../src/http/api/admin-socket-routes.js';
import type { OwnServerTenancy } from '../../src/tenancy/own-server-tenancy.js';
import { makeFolder } from '../support/folder.js';
import { startOwnService, type TestProject, type TestService } from '../support/service.js';

const folder = makeFolder('cdp-archives-');
let service: TestService;
beforeAll(async () => {
  service = await startOwnService();
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const signal = new AbortController().signal;
const programSearch = { folder: null, path: '' };
const installation = () => service.engine.backupServices(BY_ITSELF);
const fleet = () => (service.engine.servers.defaultTenancy as OwnServerTenancy).files;
const idOf = async (name: string) => (await service.engine.projects.get(name)).placement.server;

/** A project whose log is archived into the folder. */
async function archived(): Promise<{ project: TestProject; archive: string; status: string }> {
  const project = await service.project();
  await setArchiving(installation(), project.name, true);
  await project.rows('CREATE TABLE kept (n integer)');
  const id = await idOf(project.name);
  const { data } = await fleet().folderOf(id);
  return { project, archive: join(fleet().archives, id), status: join(data, 'pg_wal', 'archive_status') };
}

async function writeMuch(project: TestProject): Promise<void> {
  await project.rows('CREATE TABLE filler AS SELECT generate_series(1, 60000) AS n');
  await project.rows('DROP TABLE filler');
}

/** What operators see of the archive of this project. */
async function seen({ id, name }: TestProject) {
  await service.engine.archiveWatch.check();
  const findings = (await examineArchives(service.engine)).map(({ subject, health }) => [subject, health].join(' '));
  const ready = (await service.call('GET', '/readyz')).body;
  const metrics = (await service.call('GET', '/metrics')).text;
  return {
    failure: service.engine.archiveWatch.states.get(id)?.failure,
    doctor: findings.includes(`archive of ${name} problem`),
    ready: [ready.message, (ready.archives as string[] | undefined)?.includes(name) ?? false],
    metric: Number(/^cdp_archives_failing (\d+)$/m.exec(metrics)?.[1]) > 0,
  };
}

const WELL = { failure: null, doctor: false, ready: ['ready', false], metric: false };
const FAILING = { failure: expect.any(String) as string, doctor: true, ready: ['degraded', true], metric: true };

/** What `cdp project list` shows. */
async function listed(id: string): Promise<string | null | undefined> {
  const route = ADMIN_SOCKET_ROUTES.find(({ url }) => url === '/api/cdp/local/placements');
  const local = { engine: () => Promise.resolve(service.engine) };
  const response = (await route?.handle({ local } as never)) as { body: { placements: ProjectLocation[] } };
  return response.body.placements.find((one) => one.id === id)?.archive;
}

it('a folder into which Postgres cannot write is seen by all, at once, and its recovery, too', async () => {
  const { project, archive, status } = await archived();
  expect(await seen(project)).toEqual(WELL);
  expect(await listed(project.id)).toBe('on');
  chmodSync(archive, 0o500);
  await writeMuch(project);
  await expect.poll(() => seen(project), { timeout: 120_000, interval: 500 }).toEqual(FAILING);
  expect((await service.engine.archiveWatch.check()).get(project.id)).toMatchObject({
    failure: `Postgres cannot write to ${archive}`,
    waiting: readdirSync(status).filter((name) => name.endsWith('.ready')).length,
  });
  expect(await listed(project.id)).toBe('failing');
  chmodSync(archive, 0o700);
  // A start of the server tries again at once.
  await fleet().stop(await idOf(project.name));
  await project.rows('SELECT 1');
  await expect.poll(() => seen(project), { timeout: 120_000, interval: 500 }).toEqual(WELL);
});

it('a file in place of the folder is seen at once, and segments that wait of a stopped server after a while', async () => {
  const { project, archive, status } = await archived();
  expect(await seen(project)).toEqual(WELL);
  renameSync(archive, `${archive}.away`);
  writeFileSync(archive, '');
  expect(await seen(project)).toEqual({ ...FAILING, failure: `there is no folder ${archive}` });
  await writeMuch(project);
  await fleet().stop(await idOf(project.name));
  rmSync(archive);
  renameSync(`${archive}.away`, archive);
  const ready = readdirSync(status).filter((name) => name.endsWith('.ready'));
  expect(ready.length).toBeGreaterThan(0);
  const [before] = [new Date(Date.now() - 600_000)];
  for (const name of ready) utimesSync(join(status, name), before, before);
  expect(await seen(project)).toEqual({ ...FAILING, failure: 'its server ended before it was done' });
  expect((await service.engine.archiveWatch.check()).get(project.id)).toMatchObject({
    waiting: ready.length,
    since: before,
  });
  await project.rows('SELECT 1');
  await expect.poll(() => seen(project), { timeout: 120_000, interval: 500 }).toEqual(WELL);
});

it('one project whose files cannot be read hides no other', async () => {
  const [{ project, archive }, { project: other, status }] = [await archived(), await archived()];
  await fleet().stop(await idOf(other.name));
  renameSync(status, `${status}.away`);
  // A link to itself cannot be followed.
  symlinkSync(status, status);
  rmSync(archive, { recursive: true });
  const states = await service.engine.archiveWatch.check();
  expect(states.get(project.id)?.failure).toBe(`there is no folder ${archive}`);
  expect(states.get(other.id)?.failure).toMatch(/ELOOP/);
  rmSync(status);
  renameSync(`${status}.away`, status);
  mkdirSync(archive);
  for (const { name } of [project, other]) await service.engine.projects.delete(name, BY_ITSELF);
});

async function save(name: string, project: string) {
  const file = join(folder, name);
  await backup(installation(), {
    file,
    projectName: project,
    form: null,
    jobs: 1,
    programSearch,
    signal,
    progress: () => {},
  });
  return file;
}

const restored = (file: string, more: Partial<RestoreOptions>) =>
  restore(installation(), {
    ...{
      projectName: null,
      as: null,
      at: null,
      missing: false,
      placementRequest: {},
      programSearch,
      signal,
      progress: () => {},
    },
    ...{ file, ...more },
  });

async function load(file: string, more: Partial<RestoreOptions> = {}): Promise<string[]> {
  const said: string[] = [];
  await restored(file, { ...more, progress: (line) => said.push(line) });
  return said;
}

it('a restored project is archived again, and a copy of it is not; both are said', async () => {
  const { project } = await archived();
  const { name } = project;
  const plain = await service.project();
  const files = [await save('archived.cdp', name), await save('plain.cdp', plain.name)] as const;
  const copied = await load(files[0], { projectName: name, as: 'archived-copy' });
  expect(copied).toContain(
    'archived-copy: NOT ARCHIVED, unlike the original: cdp project archive archived-copy on archives the write-ahead log of this copy, too',
  );
  expect(await fleet().archivesWal(await idOf('archived-copy'))).toBe(false);
  for (const one of [name, plain.name]) await service.engine.projects.delete(one, BY_ITSELF);
  expect(await load(files[0])).toContain(
    `${name}: its write-ahead log is archived again. Make a backup: only a new one can be restored to a later moment`,
  );
  expect(await fleet().archivesWal(await idOf(name))).toBe(true);
  const again = await service.found(name);
  await again.rows('INSERT INTO kept VALUES (1)');
  await writeMuch(again);
  const archive = join(fleet().archives, await idOf(name));
  await expect.poll(() => readdirSync(archive).length, { timeout: 60_000 }).toBeGreaterThan(0);
  expect((await load(files[1])).join('\n')).not.toMatch(/archived/i);
  expect(await fleet().archivesWal(await idOf(plain.name))).toBe(false);
});

it('a restored project that cannot be archived again is complete, and the result says why', async () => {
  const { project } = await archived();
  const { name } = project;
  const file = await save('unarchivable.cdp', name);
  await service.engine.projects.delete(name, BY_ITSELF);
  const { archives } = fleet();
  const aside = `${archives}.aside`;
  renameSync(archives, aside);
  writeFileSync(archives, 'in the way');
  try {
    const said: string[] = [];
    const { projects, failed } = await restored(file, { progress: (line) => said.push(line) });
    expect([projects.map((one) => one.name), failed]).toEqual([[name], []]);
    expect(projects[0]?.not_archived).toMatch(/EEXIST|ENOTDIR/);
    expect(said).toContain(`${name}: NOT ARCHIVED, as it was before: ${projects[0]?.not_archived}`);
    expect(await (await service.found(name)).rows('SELECT count(*) AS n FROM kept')).toEqual([{ n: 0 }]);
  } finally {
    rmSync(archives);
    renameSync(aside, archives);
  }
});

it('a restore to a time that damaged segments do not reach says which time they reach', async () => {
  const { project, archive } = await archived();
  const file = await save('before.cdp', project.name);
  await project.rows('INSERT INTO kept VALUES (1)');
  for (let i = 0; i < 3; i++) await writeMuch(project);
  const at = new Date();
  await expect.poll(() => readdirSync(archive).length, { timeout: 60_000 }).toBeGreaterThan(4);
  const segments = readdirSync(archive)
    .filter((name) => /^[0-9A-F]{24}$/.test(name))
    .sort();
  const handle = await open(join(archive, segments.at(-2) ?? ''), 'r+');
  await handle.write(Buffer.alloc(300_000, 0x55), 0, 300_000, 100_000);
  await handle.close();
  const error = await load(file, { projectName: project.name, as: 'nowhere', at }).catch((error: unknown) => error);
  expect((error as Error).message).toMatch(
    /^A segment of the archived write-ahead log is damaged: the project can be restored to \S+Z at most$/,
  );
  await expect(service.engine.projects.get('nowhere')).rejects.toMatchObject({ code: 'not_found' });
});
