/** Physical backups in a backup's file: projects with a server of their own, saved and restored without any program. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { archiveAll, archiveFolder, archiveSettings, prepareArchive } from '../../../src/backup/physical/archive.js';
import { isRecovered } from '../../../src/backup/physical/recovery.js';
import { BY_ITSELF } from '../../../src/engine/audit/audit.js';
import { backup } from '../../../src/engine/backup/backup.js';
import type { OwnServers as Known } from '../../../src/engine/backup/physical.js';
import { restore, type RestoreOptions } from '../../../src/engine/backup/restore.js';
import { type OwnServer, type OwnServers, ownServers } from '../../support/own-server.js';
import { startTestService, type TestService } from '../../support/service.js';

const folder = mkdtempSync('/tmp/cdp-physical-');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** No program of Postgres is found. */
const places = { folder, path: '' };
const never = new AbortController().signal;

let service: TestService;
let servers: OwnServers;
/** The servers of projects by name, and what a supervisor does with them. */
const running = new Map<string, { server: OwnServer; isStopped: boolean }>();
let known: Known;

beforeAll(async () => {
  [service, servers] = await Promise.all([startTestService(), ownServers()]);
  known = {
    major: 18,
    hold: (project, work) => {
      const { server, isStopped } = running.get(project.name) as { server: OwnServer; isStopped: boolean };
      const locale = { localeProvider: 'builtin', locale: 'C.UTF-8' };
      const { dataFolder, login } = server;
      return work({ id: project.name, version: '18.4', ...locale, dataFolder, login: isStopped ? null : login });
    },
    archive: async (serverId) => {
      const at = archiveFolder(servers.folder, serverId);
      const { server } = running.get(serverId) ?? {};
      if (server !== undefined) await archiveAll(at, server.login, never);
      return at;
    },
    adopt: async (name, _by, fill) => {
      const server = await servers.on(name);
      try {
        const { id } = await service.engine.projects.create(name);
        const { dataFolder } = server;
        const status = await fill({ id, dataFolder, account: servers.account });
        await service.engine.projects.setActive(name, status === 'active');
        await server.start();
        expect(await isRecovered(dataFolder)).toBe(true);
        running.set(name, { server, isStopped: false });
      } catch (error) {
        await service.engine.deleteProject(name);
        await rm(dirname(server.dataFolder), { recursive: true });
        throw error;
      }
    },
  };
  for (const name of ['busy', 'idle']) {
    await service.project(name);
    const archive = archiveFolder(servers.folder, name);
    await prepareArchive(archive, name, servers.account);
    const server = await servers.copy(name);
    await server.start(archiveSettings(archive));
    await server.rows(`CREATE TABLE t AS SELECT '${name}' AS a`);
    if (name === 'idle') await server.stop();
    running.set(name, { server, isStopped: name === 'idle' });
  }
  await save('all.cdp');
});
afterAll(async () => {
  await Promise.all([service.close(), servers.close()]);
});

const save = (name: string, more: { signal?: AbortSignal } = {}) =>
  backup(service.engine.installation, {
    file: join(folder, name),
    project: null,
    places,
    ownServers: known,
    version: '0.0.0',
    by: BY_ITSELF,
    signal: never,
    progress: () => undefined,
    ...more,
  });

const load = (name: string, more: Partial<RestoreOptions> = {}) =>
  restore(service.engine.installation, {
    file: join(folder, name),
    project: 'busy',
    as: 'copy',
    at: null,
    places,
    ownServers: known,
    by: BY_ITSELF,
    signal: never,
    progress: () => undefined,
    ...more,
  });

const rowsOf = (name: string) => running.get(name)?.server.rows('SELECT a FROM t ORDER BY a');

function unpacked(name: string): string {
  const place = mkdtempSync(join(folder, 'unpacked-'));
  execFileSync('tar', ['-xf', join(folder, name), '-C', place]);
  return place;
}

describe('works:', () => {
  it('running and stopped projects are saved into one file, which tar and sha256sum read', async () => {
    const place = unpacked('all.cdp');
    execFileSync('sha256sum', ['--quiet', '-c', 'SHA256SUMS'], { cwd: place });
    const manifest = JSON.parse(await readFile(join(place, 'manifest.json'), 'utf8')) as { projects: object[] };
    const common = { kind: 'physical', postgres: 18, version: '18.4', platform: `${process.platform}-${process.arch}` };
    const more = { locale_provider: 'builtin', locale: 'C.UTF-8', checksum_version: 1, timeline: 1 };
    expect(manifest).toMatchObject({ format_version: 2, left_out: [] });
    expect(manifest.projects).toEqual(
      ['busy', 'idle'].map((name) => expect.objectContaining({ ...common, ...more, name, server_id: name }) as object),
    );
    expect(await readdir(join(place, 'projects/busy/data'))).toContain('backup_label');
  });

  it('a project comes back under another name, from a running and from a stopped one', async () => {
    for (const name of ['busy', 'idle']) {
      const { projects } = await load('all.cdp', { project: name, as: `${name}-copy` });
      expect(projects).toEqual([{ name: `${name}-copy`, tables: null, leftOut: [] }]);
      expect(await rowsOf(`${name}-copy`)).toEqual([{ a: name }]);
      expect(await service.engine.projects.get(`${name}-copy`)).toMatchObject({ status: 'active' });
    }
  });

  it('a project comes back as it was at a time', async () => {
    const { server } = running.get('busy') as { server: OwnServer };
    await server.rows(`INSERT INTO t VALUES ('good')`);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const at = new Date();
    await new Promise((resolve) => setTimeout(resolve, 20));
    await server.rows(`DELETE FROM t`);
    await load('all.cdp', { as: 'as-it-was', at });
    expect(await rowsOf('as-it-was')).toEqual([{ a: 'busy' }, { a: 'good' }]);
  });

  it('one that cannot be reached, or copied to its end, is named, and nothing of it is in the file', async () => {
    const idle = running.get('idle') as { server: OwnServer; isStopped: boolean };
    const leftOut = async (name: string, reason: string) => {
      const manifest = await save(name);
      expect(manifest.projects.map((project) => project.name)).not.toContain('idle');
      expect(manifest.left_out).toEqual([{ name: 'idle', reason: expect.stringContaining(reason) as string }]);
      const place = unpacked(name);
      expect(await readdir(join(place, 'projects'))).not.toContain('idle');
      execFileSync('sha256sum', ['--quiet', '-c', 'SHA256SUMS'], { cwd: place });
    };
    // Its server does not run: a copy of a running one cannot log in.
    idle.isStopped = false;
    await leftOut('unreached.cdp', 'ENOENT');
    idle.isStopped = true;
    const link = join(idle.server.dataFolder, 'pg_tblspc/1');
    await symlink('/tmp', link);
    await leftOut('linked.cdp', 'neither a file nor a folder');
    await rm(link);
  });
});

describe('refuses, and makes nothing:', () => {
  async function refused(work: () => Promise<unknown>, message: RegExp) {
    const before = await service.engine.projects.list();
    await expect(work()).rejects.toThrow(message);
    expect(await service.engine.projects.list()).toEqual(before);
    expect(await readdir(servers.folder)).not.toContain('copy');
  }

  async function repacked(name: string, from: string | RegExp, to: string): Promise<string> {
    const place = unpacked('all.cdp');
    const manifest = join(place, 'manifest.json');
    await writeFile(manifest, (await readFile(manifest, 'utf8')).replaceAll(from, to));
    execFileSync('sh', ['-c', `find * -type f ! -name SHA256SUMS | sort | xargs sha256sum > SHA256SUMS`], {
      cwd: place,
    });
    const members = `find * -type f ! -name SHA256SUMS | sort > ../list; echo SHA256SUMS >> ../list`;
    execFileSync('sh', ['-c', `${members}; tar --format=ustar -cf "../${name}" -T ../list`], { cwd: place });
    return name;
  }

  it('another platform, another major, a server by address', async () => {
    const here = `${process.platform}-${process.arch}`;
    const elsewhere = await repacked('elsewhere.cdp', `"${here}"`, '"plan9-mips"');
    await refused(
      () => load(elsewhere),
      new RegExp(`"busy" was made on plan9-mips with Postgres 18; here is ${here} with Postgres 18`),
    );
    await refused(
      () => load('all.cdp', { ownServers: { ...known, major: 19 } }),
      new RegExp(`made on ${here} with Postgres 18; here is ${here} with Postgres 19`),
    );
    await refused(() => load('all.cdp', { ownServers: null }), /here is projects have no server of their own/);
  });

  it('a time before the backup, and a time that has not come', async () => {
    await refused(() => load('all.cdp', { at: new Date(0) }), /an earlier one is needed/);
    await refused(() => load('all.cdp', { at: new Date(Date.now() + 3_600_000) }), /The log in .* ends at/);
  });

  it('the archive of another server', async () => {
    const other = await repacked('other.cdp', '"server_id": "busy"', '"server_id": "another"');
    const archive = () => Promise.resolve(archiveFolder(servers.folder, 'busy'));
    const confused = { ...known, archive };
    await refused(
      () => load(other, { at: new Date(), ownServers: confused }),
      /of the server busy, not of another: it must not be replayed there/,
    );
  });

  it('a backup and a restore that the operator ends', async () => {
    const ended = AbortSignal.abort(new Error('by the operator'));
    await refused(() => save('ended.cdp', { signal: ended }), /by the operator/);
    expect((await readdir(folder)).filter((name) => name.startsWith('ended'))).toEqual([]);
    await refused(() => load('all.cdp', { signal: ended }), /by the operator/);
  });
});
