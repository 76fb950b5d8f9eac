/** Damaged pages of a project: what requests, sessions, backups and restores say of them, and what still works. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { backup } from '../../src/backup/backup.js';
import { restore } from '../../src/backup/restore.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import type { OwnServerTenancy } from '../../src/tenancy/own-server-tenancy.js';
import { withClient } from '../postgres-port/connect.js';
import { makeFolder } from '../support/folder.js';
import { startOwnService, type TestProject, type TestService } from '../support/service.js';

const folder = makeFolder('cdp-damaged-');
let service: TestService;
beforeAll(async () => {
  service = await startOwnService({ 'pg-port': '0' });
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const signal = new AbortController().signal;
const programSearch = { folder: null, path: '' };

async function save(name: string, projectName: string | null, jobs = 1) {
  const said: string[] = [];
  const file = join(folder, name);
  const options = {
    file,
    projectName,
    form: null,
    jobs,
    programSearch,
    signal,
    progress: (line: string) => said.push(line),
  };
  return { manifest: await backup(service.engine.backupServices(BY_ITSELF), options), said };
}

async function load(name: string, as: string) {
  const said: string[] = [];
  const options = {
    file: join(folder, name),
    as,
    at: null,
    missing: false,
    placementRequest: {},
    programSearch,
    signal,
  };
  const project = service.engine.backupServices(BY_ITSELF);
  const from = name.replace('.cdp', '');
  const done = await restore(project, { ...options, projectName: from, progress: (line) => said.push(line) });
  return { done, said };
}

/** A project with two tables, the pages of which are on disk and in no memory. */
async function atRest(name?: string): Promise<{ project: TestProject; data: string; path: string }> {
  const project = await service.project(name);
  await project.rows(`CREATE TABLE kept AS SELECT n, repeat('x', 200) AS pad FROM generate_series(1, 500) n`);
  await project.rows('CREATE TABLE other AS SELECT 1 AS n');
  const [row] = await project.rows(`SELECT pg_relation_filepath('kept') AS path`);
  const { files: fleet } = service.engine.servers.defaultTenancy as OwnServerTenancy;
  const { server } = (await service.engine.projects.get(project.name)).placement;
  await fleet.stop(server);
  return { project, data: (await fleet.folderOf(server)).data, path: (row as { path: string }).path };
}

const PAGE = 8_192;

async function flip(file: string, position: number): Promise<void> {
  const handle = await open(file, 'r+');
  const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, position);
  await handle.write(Buffer.of(buffer.readUInt8() ^ 1), 0, 1, position);
  await handle.close();
}

it('a request that reads a damaged page fails with 500, which nobody repeats; everything else works', async () => {
  const { project, data, path } = await atRest();
  await flip(join(data, path), 3 * PAGE + 5_000);
  const { corruption: damage } = service.engine;
  const before = damage.count;
  const read = (sql: string) => project.call('POST', '/api/cdp/sql', { body: { sql } });
  const { status, body, headers } = await read('SELECT count(pad) FROM kept');
  expect([status, body.error, headers.get('retry-after')]).toEqual([500, 'data_corrupted', null]);
  expect(body.message).toBe(
    'Data of the project is damaged on the disk of its Postgres server, and can only be restored from a backup',
  );
  expect(body.postgres).toEqual({ sqlstate: 'XX001' });
  expect(damage.count).toBe(before + 1);
  const streamed = await project.call('POST', '/api/cdp/sql', {
    body: { sql: 'SELECT n, pad FROM kept' },
    headers: { accept: 'application/x-ndjson' },
  });
  expect(streamed.text).toContain('data_corrupted');
  expect(damage.count).toBe(before + 2);
  for (let i = 0; i < 3; i++) expect((await read('SELECT n FROM other')).body.rows).toEqual([{ n: 1 }]);
  const inserted = await project.call('POST', '/api/cdp/data/other', { body: [{ n: 2 }] });
  expect(inserted.status).toBe(201);
  expect((await service.call('GET', '/readyz')).body).toEqual({ success: true, message: 'ready' });
  expect((await service.call('GET', '/metrics')).text).toMatch(
    new RegExp(`^cdp_damaged_data_total ${damage.count}$`, 'm'),
  );
});

it('a session of the Postgres port that reads a damaged page is counted, too; an error of its own code is not', async () => {
  const { project, data, path } = await atRest();
  await flip(join(data, path), 5_000);
  const { corruption: damage } = service.engine;
  const before = damage.count;
  const client = { host: '127.0.0.1', port: service.postgresPort ?? 0, database: project.name, user: 'writer' };
  await withClient({ ...client, password: project.token }, async (session) => {
    const raised = `DO $$ BEGIN RAISE EXCEPTION 'invalid page in block 7' USING ERRCODE = 'XX001'; END $$`;
    await expect(session.query(raised)).rejects.toMatchObject({ code: 'XX001' });
    expect(damage.count).toBe(before);
    await expect(session.query('SELECT count(pad) FROM kept')).rejects.toMatchObject({ code: 'XX001' });
    expect(damage.count).toBe(before + 1);
  });
});

it('a table whose file is gone is damaged data', async () => {
  const { project, data, path } = await atRest();
  rmSync(join(data, path));
  const { status, body } = await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT count(pad) FROM kept' } });
  expect([status, body.error]).toEqual([500, 'data_corrupted']);
});

it.each([1, 3])(
  'a backup names the project, the file and the block, and saves the others: %i at a time',
  async (jobs) => {
    const { project, data, path } = await atRest();
    const { project: good } = await atRest();
    const before = service.engine.corruption.count;
    await flip(join(data, path), 2 * PAGE + 5_000);
    const alone = `damaged-alone-${jobs}.cdp`;
    await expect(save(alone, project.name)).rejects.toThrow(
      `The project "${project.name}" was not saved: 1 page of its files is damaged, by the checksums: block 2 of ${path}`,
    );
    expect(existsSync(join(folder, alone))).toBe(false);
    const { manifest, said } = await save(`damaged-all-${jobs}.cdp`, null, jobs);
    const reason = `1 page of its files is damaged, by the checksums: block 2 of ${path}`;
    expect(manifest.left_out).toContainEqual({ name: project.name, reason });
    expect(said).toContain(`${project.name}: SKIPPED, it could not be saved: ${reason}`);
    expect(manifest.projects.map(({ name }) => name)).toContain(good.name);
    expect(service.engine.corruption.count).toBeGreaterThanOrEqual(before + 2);
    await flip(join(data, path), 2 * PAGE + 5_000);
    await save(`damaged-no-more-${jobs}.cdp`, project.name);
  },
);

it('a restore of files that were damaged before they were saved says so', async () => {
  const { project, path } = await atRest('rotten');
  await save('rotten.cdp', project.name);
  expect((await load('rotten.cdp', 'sound')).done.projects).toEqual([
    { name: 'sound', tables: null, left_out: [], damage: null, not_archived: null },
  ]);
  // As an earlier version saved it, without looking.
  const place = mkdtempSync(join(folder, 'repack-'));
  const tar = (...args: string[]) => execFileSync('tar', args, { cwd: place }).toString();
  tar('-xf', join(folder, 'rotten.cdp'));
  const member = `projects/rotten/data/${path}`;
  await flip(join(place, member), PAGE + 5_000);
  const sums = readFileSync(join(place, 'SHA256SUMS'), 'utf8');
  const sum = execFileSync('sha256sum', [member], { cwd: place }).toString();
  await writeFile(join(place, 'SHA256SUMS'), sums.replace(new RegExp(`^.*  ${member}\\n`, 'm'), sum));
  await writeFile(join(place, 'members'), tar('-tf', join(folder, 'rotten.cdp')));
  rmSync(join(folder, 'rotten.cdp'));
  tar('--format=ustar', '-cf', join(folder, 'rotten.cdp'), '--no-recursion', '-T', 'members');
  const { done, said } = await load('rotten.cdp', 'unsound');
  const damage = `1 page of its files is damaged, by the checksums: block 1 of ${path}`;
  expect(done.projects).toEqual([{ name: 'unsound', tables: null, left_out: [], damage, not_archived: null }]);
  expect(said).toContain(`unsound: DAMAGED, as it was saved: ${damage}`);
});
