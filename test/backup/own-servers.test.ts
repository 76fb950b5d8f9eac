/**
 * Backup and restore of projects on servers of their own: the files of the server, its WAL, and points in time in
 * between.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createFirstProject } from '../../src/service.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { removeOldArchives, setArchiving } from '../../src/backup/archiving.js';
import { backup } from '../../src/backup/backup.js';
import { restore, type RestoreOptions } from '../../src/backup/restore.js';
import type { OwnServerTenancy } from '../../src/tenancy/own-server-tenancy.js';
import { makeFolder } from '../support/folder.js';
import { onServer, startOwnService, startTestService, type TestProject, type TestService } from '../support/service.js';

const folder = makeFolder('cdp-physical-');
let service: TestService;
beforeAll(async () => {
  service = await startOwnService();
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const programSearch = { folder: null, path: '' };
const signal = new AbortController().signal;
const common = { programSearch, signal, progress: () => undefined };

const save = (
  name: string,
  project: string | null,
  more: { signal?: AbortSignal; jobs?: number } = {},
  from = service,
) =>
  backup(from.engine.backupServices(BY_ITSELF), {
    ...common,
    file: join(folder, name),
    projectName: project,
    form: null,
    jobs: 1,
    ...more,
  });

const load = (name: string, more: Partial<RestoreOptions> = {}, into = service) =>
  restore(into.engine.backupServices(BY_ITSELF), {
    ...common,
    file: join(folder, name),
    projectName: null,
    as: null,
    at: null,
    missing: false,
    placementRequest: {},
    ...more,
  });

const tenancy = (): OwnServerTenancy => service.engine.servers.defaultTenancy as OwnServerTenancy;
const placementOf = async (name: string) => (await service.engine.projects.get(name)).placement;

/** A project with a table of numbers. */
async function numbered(rows: number): Promise<TestProject> {
  const project = await service.project();
  await project.table('kept', { n: 'INTEGER' });
  await project.rows(`INSERT INTO kept (n) SELECT generate_series(1, ${rows})`);
  return project;
}

const numbers = async (name: string): Promise<number[]> => {
  const project = await service.engine.projects.get(name);
  const { token } = await service.engine.tokens.create(project.id);
  const response = await service.call('POST', '/api/cdp/sql', {
    token,
    body: { sql: 'SELECT n FROM kept ORDER BY n' },
  });
  return (response.body.rows as { n: number }[]).map(({ n }) => n);
};

const upTo = (last: number) => Array.from({ length: last }, (_, i) => i + 1);

describe('works', () => {
  it.each([true, false])("restores a project's own schemas, and its right to create more: %s", async (may) => {
    const project = await numbered(1);
    await project.rows('CREATE SCHEMA drizzle CREATE TABLE done (n integer); INSERT INTO drizzle.done VALUES (1)');
    await service.engine.projects.setOwnSchemas(project.name, may, BY_ITSELF);
    await save(`own-${may}.cdp`, project.name);
    await load(`own-${may}.cdp`, { projectName: project.name, as: `own-${may}` });
    const { id, placement } = await service.engine.projects.get(`own-${may}`);
    expect(placement.ownSchemas).toBe(may);
    const { token } = await service.engine.tokens.create(id);
    const sql = async (text: string) => {
      const { status, body } = await service.call('POST', '/api/cdp/sql', { token, body: { sql: text } });
      return [status, body.rows];
    };
    expect(await sql('SELECT n FROM drizzle.done')).toEqual([200, [{ n: 1 }]]);
    expect(await sql('CREATE SCHEMA more')).toEqual(may ? [200, []] : [403, undefined]);
    expect((await sql('CREATE EXTENSION hstore'))[0]).toBe(403);
  });

  it.each([1, 3])(
    'saves running and stopped projects into one file that tar and sha256sum read: %i at a time',
    async (jobs) => {
      const file = `all-${jobs}.cdp`;
      const [running, stopped] = [await numbered(3), await numbered(2)];
      await tenancy().files.stop((await placementOf(stopped.name)).server);
      const manifest = await save(file, null, { jobs });
      expect(manifest.left_out).toEqual([]);
      expect(manifest.projects).toEqual(
        expect.arrayContaining(
          [running, stopped].map(({ name }): unknown =>
            expect.objectContaining({ name, kind: 'physical', postgres: 18 }),
          ),
        ),
      );
      const unpacked = mkdtempSync(join(folder, 'unpacked-'));
      execFileSync('tar', ['-xf', join(folder, file), '-C', unpacked]);
      expect(execFileSync('sha256sum', ['--quiet', '-c', 'SHA256SUMS'], { cwd: unpacked }).toString()).toBe('');
      // The stopped one ran for its backup only.
      expect(tenancy().isRunning(await placementOf(stopped.name))).toBe(false);
      expect(tenancy().isRunning(await placementOf(running.name))).toBe(true);
      for (const [project, rows] of [
        [running, 3],
        [stopped, 2],
      ] as const) {
        const as = `${project.name}-copy`;
        await load(file, { projectName: project.name, as });
        expect(await numbers(as)).toEqual(upTo(rows));
      }
      expect(readdirSync(folder).filter((name) => name.includes('.part'))).toEqual([]);
    },
  );

  it('restores a copy on its own server and a new timeline; the copy can be saved and restored again', async () => {
    const source = await numbered(1);
    await save('first.cdp', source.name);
    await load('first.cdp', { as: 'once', projectName: source.name });
    await source.rows('INSERT INTO kept (n) VALUES (2)');
    expect(await numbers('once')).toEqual([1]);
    const again = await save('second.cdp', 'once');
    expect(again.projects[0]).toMatchObject({ timeline: 2 });
    await load('second.cdp', { as: 'twice', projectName: 'once' });
    expect(await numbers('twice')).toEqual([1]);
    const ids = await Promise.all([source.name, 'once', 'twice'].map(placementOf));
    expect(new Set(ids.map(({ server }) => server)).size).toBe(3);
  });

  it('restores a deleted project under its name with its tokens, and refuses to overwrite an existing one', async () => {
    const project = await numbered(2);
    await save('deleted.cdp', project.name);
    await expect(load('deleted.cdp')).rejects.toMatchObject({ code: 'unique_violation' });
    expect(await numbers(project.name)).toEqual([1, 2]);
    await service.engine.projects.delete(project.name, BY_ITSELF);
    // As in a data folder that no service was started on.
    await onServer(service.server, (client) => client.query('UPDATE cdp.instance SET welcomed_at = NULL'));
    await load('deleted.cdp');
    expect(await createFirstProject(service.engine), 'a token of a first project beside those of the backup').toBe(
      null,
    );
    const { token } = project;
    const response = await service.call('POST', '/api/cdp/sql', {
      token,
      body: { sql: 'SELECT count(*) AS n FROM kept' },
    });
    expect(response.body.rows).toEqual([{ n: 2 }]);
  });

  it('restores a project to a point in time, even after it was deleted', async () => {
    const project = await numbered(1);
    await setArchiving(service.engine.backupServices(BY_ITSELF), project.name, true);
    await save('before.cdp', project.name);
    await project.rows('INSERT INTO kept (n) VALUES (2)');
    await sleep(50);
    const at = new Date();
    await sleep(50);
    await project.rows('INSERT INTO kept (n) VALUES (3)');
    await load('before.cdp', { as: 'at-that-time', projectName: project.name, at });
    expect(await numbers('at-that-time')).toEqual([1, 2]);
    const home = await tenancy().files.folderOf((await placementOf('at-that-time')).server);
    expect(readdirSync(home.data)).not.toContain('recovery-settings.conf');
    await service.engine.projects.delete(project.name, BY_ITSELF);
    await load('before.cdp', { as: 'later', projectName: project.name, at });
    expect(await numbers('later')).toEqual([1, 2]);
  });

  it('removes archived WAL that is older than the setting allows', async () => {
    const project = await numbered(1);
    await setArchiving(service.engine.backupServices(BY_ITSELF), project.name, true);
    await project.rows('CREATE TABLE filler AS SELECT generate_series(1, 100000) AS n');
    const archive = join(tenancy().files.archives, (await placementOf(project.name)).server);
    await expect.poll(() => readdirSync(archive).length, { timeout: 60_000 }).toBeGreaterThan(2);
    const archived = readdirSync(archive).filter((name) => /^[0-9A-F]{24}$/.test(name));
    await removeOldArchives(tenancy(), 1);
    expect(readdirSync(archive)).toEqual(expect.arrayContaining(archived));
    await removeOldArchives(tenancy(), -1);
    // Postgres may archive more meanwhile.
    expect(readdirSync(archive).filter((name) => archived.includes(name))).toEqual([]);
  });
});

describe('refuses', () => {
  it('another platform, another major version, and a shared server, which cannot archive either', async () => {
    const project = await numbered(1);
    await save('elsewhere.cdp', project.name);
    for (const [from, to] of [
      [`"platform": "${process.platform}-`, '"platform": "plan9-'],
      ['"postgres": 18', '"postgres": 17'],
    ] as const) {
      const file = await repacked('elsewhere.cdp', (text) => text.replace(from, to));
      const elsewhere = load(file, { as: 'nowhere', projectName: project.name });
      await expect(elsewhere).rejects.toThrow(/was made on .* with Postgres 1[78], and this is/);
    }
    const shared = await startTestService();
    try {
      const there = load('elsewhere.cdp', { as: 'nowhere', projectName: project.name }, shared);
      await expect(there).rejects.toThrow(/and projects here share one server/);
      const { name } = await shared.project();
      const archiving = setArchiving(shared.engine.backupServices(BY_ITSELF), name, true);
      await expect(archiving).rejects.toMatchObject({ code: 'invalid_request' });
    } finally {
      await shared.close();
    }
    await expect(service.engine.projects.get('nowhere')).rejects.toMatchObject({ code: 'not_found' });
  });

  it('a time before the backup, a time in the future, and a time without archived WAL', async () => {
    const project = await numbered(1);
    const early = new Date();
    await save('times.cdp', project.name);
    const at = (time: Date) => load('times.cdp', { as: 'nowhere', projectName: project.name, at: time });
    await expect(at(new Date())).rejects.toThrow(/There is no archived WAL of this server/);
    await setArchiving(service.engine.backupServices(BY_ITSELF), project.name, true);
    await project.rows('SELECT 1');
    await save('archived.cdp', project.name);
    const then = (time: Date) => load('archived.cdp', { as: 'nowhere', projectName: project.name, at: time });
    await expect(then(early)).rejects.toThrow(/restore an earlier backup/);
    await expect(then(new Date(Date.now() + 3_600_000))).rejects.toThrow(/can be restored to .* at most/);
    await expect(service.engine.projects.get('nowhere')).rejects.toMatchObject({ code: 'not_found' });
  });

  it('a file that was changed after the backup', async () => {
    const project = await numbered(1);
    await save('whole.cdp', project.name);
    const bytes = readFileSync(join(folder, 'whole.cdp'));
    bytes.writeUInt8(bytes.readUInt8(Math.floor(bytes.length / 2)) ^ 1, Math.floor(bytes.length / 2));
    await writeFile(join(folder, 'damaged.cdp'), bytes);
    await expect(load('damaged.cdp', { as: 'nowhere', projectName: project.name })).rejects.toThrow();
    await expect(service.engine.projects.get('nowhere')).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('protects', () => {
  it('the project if the operator aborts a backup or a restore: leaves nothing half done', async () => {
    const project = await numbered(1);
    const ended = new AbortController();
    const saving = save('ended.cdp', project.name, { signal: ended.signal });
    ended.abort(new Error('the operator ended it'));
    await expect(saving).rejects.toThrow('the operator ended it');
    expect(existsSync(join(folder, 'ended.cdp'))).toBe(false);
    await save('good.cdp', project.name);
    const again = new AbortController();
    const loading = load('good.cdp', { as: 'ended', projectName: project.name, signal: again.signal });
    setTimeout(() => again.abort(new Error('the operator ended it')), 30);
    await expect(loading).rejects.toThrow('the operator ended it');
    await expect(service.engine.projects.get('ended')).rejects.toMatchObject({ code: 'not_found' });
    expect(await project.rows('SELECT count(*) AS n FROM kept')).toEqual([{ n: 1 }]);
  });
});

/** A copy of a good backup with another manifest. */
async function repacked(name: string, change: (text: string) => string): Promise<string> {
  const place = mkdtempSync(join(folder, 'repack-'));
  execFileSync('tar', ['-xf', join(folder, name), '-C', place]);
  const manifest = join(place, 'manifest.json');
  await writeFile(manifest, change(readFileSync(manifest, 'utf8')));
  const sum = execFileSync('sha256sum', ['manifest.json'], { cwd: place }).toString();
  const sums = readFileSync(join(place, 'SHA256SUMS'), 'utf8').replace(/^.* {2}manifest\.json\n/m, sum);
  await writeFile(join(place, 'SHA256SUMS'), sums);
  const members = execFileSync('tar', ['-tf', join(folder, name)])
    .toString()
    .trim();
  await writeFile(join(place, 'members'), `${members}\n`);
  const file = `repacked-${Math.random().toString(36).slice(2)}.cdp`;
  execFileSync('tar', ['--format=ustar', '-cf', join(folder, file), '--no-recursion', '-T', 'members'], { cwd: place });
  return file;
}
