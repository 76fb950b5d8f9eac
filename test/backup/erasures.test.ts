/** Whoever was erased stays erased after a restore: of a file, of a folder, to any moment, and of a whole installation. */
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { setArchiving } from '../../src/backup/archiving.js';
import { backup } from '../../src/backup/backup.js';
import { saveLedger } from '../../src/backup/folder/ledger-files.js';
import { findPrograms } from '../../src/backup/logical/client-programs.js';
import { backupToFolder, copyArchives } from '../../src/backup/folder/write-folder.js';
import { restore, type RestoreOptions } from '../../src/backup/restore.js';
import { restoreInPlace } from '../../src/backup/restore-in-place.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { restoreInstallation } from '../../src/restore-installation.js';
import { startService } from '../../src/service.js';
import { makeFolder } from '../support/folder.js';
import { BOB, erased, numbersIn, WITH_BOTH, WITHOUT_ADA, withPeople } from '../support/people.js';
import { testServers } from '../support/postgres.js';
import { call, startOwnService, startTestService, type TestProject, type TestService } from '../support/service.js';

const root = makeFolder('cdp-erasures-');
let service: TestService;
beforeAll(async () => {
  service = await startOwnService();
});
afterAll(async () => {
  await service.close();
  rmSync(root, { recursive: true, force: true });
});

const signal = new AbortController().signal;
const services = (of = service) => of.engine.backupServices(BY_ITSELF);

let count = 0;
const programSearch = { folder: null, path: '' };
const common = { programSearch, signal };

/** Those whose pg_dump is on this machine. */
const servers: ReturnType<typeof testServers> = [];
for (const server of testServers()) {
  const found = await findPrograms(programSearch, server.major).catch(() => null);
  if (found !== null) servers.push(server);
}

async function saved(project: TestProject, of = service): Promise<string> {
  const file = join(root, `backup-${++count}.cdp`);
  await backup(services(of), {
    ...common,
    file,
    projectName: project.name,
    format: null,
    form: null,
    jobs: 1,
    progress: () => undefined,
  } as never);
  return file;
}

/** @returns what was said, and the restored project */
async function restored(
  file: string,
  project: TestProject,
  more: Partial<RestoreOptions> = {},
  how = restore,
  of = service,
): Promise<{ said: string[]; copy: TestProject }> {
  const said: string[] = [];
  const as = how === restoreInPlace ? null : `${project.name}-${++count}`;
  const options = { projectName: project.name, as, at: null, missing: false, placementRequest: {}, ...more };
  await how(services(of), { ...common, file, ...options, progress: (line) => void said.push(line) });
  return { said, copy: await of.found(as ?? project.name) };
}

it('is erased again from a backup before, and left alone in one after, also if the person came back', async () => {
  const project = await withPeople(await service.project());
  const before = await saved(project);
  expect((await erased(project)).state).toBe('done');
  await project.rows(`INSERT INTO customers VALUES (1001, 'ada@example.com', 'Paris')`);
  const after = await saved(project);

  const first = await restored(before, project);
  expect(await numbersIn(first.copy)).toEqual(WITHOUT_ADA);
  expect(first.said.join('\n')).toContain('1 erasure made after the backup applied, 4 rows erased again');
  expect(await first.copy.rows('SELECT name FROM orders ORDER BY id')).toEqual([
    { name: expect.stringMatching(/^erased-/) as string },
    { name: 'Bob' },
  ]);

  const second = await restored(after, project);
  expect(await numbersIn(second.copy)).toEqual(['1001', ...WITHOUT_ADA]);
  expect(second.said.join('\n')).not.toMatch(/erase/i);
});

describe.each(servers)('in a database of Postgres $major', (server) => {
  it('is erased again from a logical backup, too, which also knows what it contains', async () => {
    const own = await startTestService({}, server);
    try {
      const project = await withPeople(await own.project());
      const before = await saved(project, own);
      await erased(project);
      const after = await saved(project, own);
      const first = await restored(before, project, {}, restore, own);
      expect(await numbersIn(first.copy)).toEqual(WITHOUT_ADA);
      expect(first.said.join('\n')).toContain('1 erasure made after the backup applied, 4 rows erased again');
      const second = await restored(after, project, {}, restore, own);
      expect(await numbersIn(second.copy)).toEqual(WITHOUT_ADA);
      expect(second.said.join('\n')).not.toMatch(/erase/i);
    } finally {
      await own.close();
    }
  });
});

it('by every identifier that the links found, in tables that were renamed since, and after --replace for later backups, too', async () => {
  const project = await withPeople(await service.project());
  await project.rows(`UPDATE customers SET email = 'old@example.com' WHERE no = 1001`);
  const before = await saved(project);
  await project.rows(`UPDATE customers SET email = 'ada@example.com' WHERE no = 1001`);
  await project.rows('ALTER TABLE events RENAME TO visits');
  const response = await project.call('GET', '/api/cdp/subjects');
  const { subjects } = response.body as { subjects: { person: { tables: Record<string, unknown> } } };
  const { events, ...others } = subjects.person.tables;
  const renamed = { person: { ...subjects.person, tables: { ...others, visits: events } } };
  expect((await project.call('PUT', '/api/cdp/subjects', { body: { subjects: renamed } })).status).toBe(200);
  await erased(project);
  const { copy } = await restored(before, project, {}, restoreInPlace);
  expect(await numbersIn(copy)).toEqual(WITHOUT_ADA);
  // The restored one continues it: what is erased there holds for backups of the one before.
  await copy.rows('ALTER TABLE events RENAME TO visits');
  await erased(copy, BOB);
  expect(await numbersIn((await restored(before, project)).copy)).toEqual(['1003']);
});

it('at any moment of the archived log: erased before it is contained, erased after it is applied', async () => {
  const project = await withPeople(await service.project());
  await setArchiving(services(), project.name, true);
  const file = await saved(project);
  const now = async () => String((await project.rows('SELECT clock_timestamp()::text AS now'))[0]?.now);
  const beforeBoth = await now();
  await project.rows('SELECT pg_sleep(0.1)');
  await erased(project);
  await project.rows('SELECT pg_sleep(0.1)');
  const between = await now();
  await project.rows('SELECT pg_sleep(0.1)');
  await erased(project, BOB);
  await project.rows('CREATE TABLE filler AS SELECT generate_series(1, 60000) AS n');
  for (const at of [beforeBoth, between]) {
    const { copy, said } = await restored(file, project, { at: new Date(at) });
    expect(await numbersIn(copy)).toEqual(['1003']);
    expect(said.join('\n')).toContain(at === between ? '1 erasure made' : '2 erasures made');
  }
});

it('with a whole installation from its folder, where the ledger of the last minutes is; without the secret, it says so', async () => {
  const own = await startOwnService();
  const folder = join(root, 'folder');
  const target = join(root, 'restored');
  try {
    const project = await withPeople(await own.project());
    const ofOwn = own.engine.backupServices(BY_ITSELF);
    await backupToFolder(ofOwn, {
      ...common,
      folder,
      isNew: false,
      jobs: 1,
      archiveDays: 14,
      progress: () => undefined,
    });
    await erased(project);
    await saveLedger({ control: own.engine.control }, folder);
    await copyArchives(ofOwn, { folder, signal });
    // Keyed hashes, whose key only the secret opens.
    const files = readdirSync(join(folder, 'erasures'));
    expect(files).toHaveLength(2);
    const texts = files.map((file) => readFileSync(join(folder, 'erasures', file), 'utf8')).join('');
    expect(texts).not.toMatch(/ada@|1001/);
    expect(texts).toContain('caseless-1');

    for (const hasSecret of [false, true]) {
      const dataDir = `${target}-${String(hasSecret)}`;
      if (hasSecret) {
        await mkdir(dataDir);
        await copyFile(join(own.config.dataDir, 'secret'), join(dataDir, 'secret'));
      }
      const said: string[] = [];
      const config = { ...own.config, dataDir };
      const options = { from: folder, at: null, check: false, signal, waiting: () => undefined };
      const done = await restoreInstallation(config, { ...options, progress: (line) => void said.push(line) });
      expect(done.failed).toEqual([]);
      const spoken = said.join('\n');
      expect(spoken).toContain(
        hasSecret ? '1 erasure made after the backup applied, 4 rows' : 'NOT ERASED AGAIN: 1 of its',
      );
      const again = await startService(config);
      try {
        const body = { sql: 'SELECT count(*)::int AS n FROM customers WHERE no = 1001' };
        const response = await call(again.url, 'POST', '/api/cdp/sql', { token: project.token, body });
        expect(response.body.rows).toEqual([{ n: hasSecret ? 0 : 1 }]);
      } finally {
        again.breakOff();
        await again.close();
      }
    }
  } finally {
    await own.close();
  }
});

it('an installation that has no ledger of the project says what it could not apply', async () => {
  const other = await startOwnService();
  try {
    const project = await withPeople(await other.project());
    const file = join(root, 'other.cdp');
    const options = { ...common, file, projectName: project.name, form: null, jobs: 1, progress: () => undefined };
    await backup(other.engine.backupServices(BY_ITSELF), options);
    const { said, copy } = await restored(file, project);
    expect(said.join('\n')).toContain('NOT ERASED AGAIN: this installation has no ledger');
    expect(await numbersIn(copy)).toEqual(WITH_BOTH);
  } finally {
    await other.close();
  }
});
