/**
 * Files of a server that are not what they should be, as code that runs in it could leave them: links, pipes, folders
 * that are swapped for links while the service is at work on them.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, link, lstat, mkdir, readdir, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { copyFiles } from '../../src/backup/physical/data-files.js';
import { removeOldSegments } from '../../src/backup/physical/wal-archive.js';
import { runsAsRoot } from '../../src/embedded/accounts.js';
import { bytesIn } from '../../src/embedded/disk-reserve.js';
import { processes } from '../../src/embedded/proc.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { exists, removeFolder } from '../../src/files.js';
import { makeFolder } from '../support/folder.js';
import { endEverything, eventually } from '../support/program.js';
import { expectFailure } from '../support/service.js';
import { openStage, type Stage, type StageProject, uidRange } from './stage.js';

afterAll(endEverything);

/** Of nobody else on the machine. */
const [UID] = uidRange(1);
const account = runsAsRoot() ? { uid: UID, gid: UID } : {};

let folder: string;
beforeEach(async () => {
  folder = makeFolder('cdp-hostile-');
  await chmod(folder, 0o711);
});
// Its paths can be too long for Node's `rm`.
afterEach(() => execFileSync('rm', ['-rf', folder]));

/** Runs a shell as the account of the server. */
const asServer = (script: string, ...args: string[]) =>
  execFileSync('/bin/sh', ['-c', script, 'sh', ...args], { ...account, cwd: '/' });

async function ownedFolder(name: string): Promise<string> {
  const path = join(folder, name);
  await mkdir(path, { mode: 0o700 });
  if (runsAsRoot()) await chown(path, UID, UID);
  return path;
}

/** A folder that only the service can enter. */
async function ofService(names: readonly string[]): Promise<string> {
  const path = join(folder, 'private');
  await mkdir(path, { mode: 0o700 });
  for (const name of names) await writeFile(join(path, name), 'secret');
  return path;
}

/** Folders whose path is longer than the system allows. */
const deep = 'name=$(printf %0200d 0); for i in $(seq 25); do mkdir $name && cd -P $name 2>/dev/null || exit 1; done';

describe('removing a folder of a server', () => {
  it('removes nothing elsewhere, while a process of the server swaps a folder for a link', async () => {
    const data = await ownedFolder('data');
    const names = Array.from({ length: 4_000 }, (_, n) => `f${n}`);
    const elsewhere = await ofService(names);
    asServer('mkdir "$1/aaa" && cd "$1/aaa" && seq -f f%g 0 3999 | xargs touch', data);
    // As soon as the first files are gone.
    const swap = 'echo ready; while [ "$(ls aaa | wc -l)" -ge 3990 ]; do :; done; mv aaa bbb; ln -s "$1" aaa';
    const script = `cd "$2" && ${swap}`;
    const process = spawn('/bin/sh', ['-c', script, 'sh', elsewhere, data], { ...account, cwd: '/', stdio: 'pipe' });
    await once(process.stdout, 'data');
    await removeFolder(data).catch(() => {});
    process.kill('SIGKILL');
    if (runsAsRoot()) expect(await readdir(elsewhere)).toHaveLength(names.length);
    await removeFolder(data);
    expect(await exists(data)).toBe(false);
  });

  it('removes folders that are closed to their owner, or too deep for a path, and only the links themselves', async () => {
    const data = await ownedFolder('data');
    const elsewhere = await ofService(['kept']);
    await symlink(elsewhere, join(data, 'link'));
    asServer(`cd "$1" && mkdir closed && touch closed/file && chmod 0 closed && ${deep}`, data);
    await removeFolder(data);
    expect(await readdir(folder)).toEqual(['private']);
    expect(await readdir(elsewhere)).toEqual(['kept']);
  });

  it('removes an archive of a deleted project by its owner', async () => {
    const archive = await ownedFolder('0123456789ab');
    asServer(`cd "$1" && ${deep}`, archive);
    await removeOldSegments(folder, 1, () => Promise.resolve(false));
    expect(await exists(archive)).toBe(false);
  });
});

describe('measuring a folder of a server', () => {
  it('survives folders that are too deep, closed or links', async () => {
    const data = await ownedFolder('data');
    await symlink('/proc', join(data, 'link'));
    asServer(`cd "$1" && dd if=/dev/zero of=file bs=1024 count=64 2>/dev/null && mkdir -m 0 closed && ${deep}`, data);
    expect(await bytesIn(data)).toBeGreaterThanOrEqual(65_536);
    await removeFolder(data);
  });
});

describe('copying the files of a server', () => {
  const never = new AbortController().signal;
  const names = Array.from({ length: 40 }, (_, n) => `z${n}`);

  /** A data directory; `act` runs once the first of its files is being copied. */
  async function copied(act: (data: string) => Promise<void>) {
    const data = await ownedFolder('data');
    asServer('cd "$1" && mkdir global && echo 1 > global/pg_control && echo 1 > file', data);
    asServer('cd "$1" && shift && for z; do mkdir -p $z/x && echo 1 > $z/x/file; done', data, ...names);
    const parts: string[] = [];
    const isFirst = { yet: true };
    const copying = copyFiles(
      data,
      async (path, content) => {
        if (isFirst.yet) await act(data);
        isFirst.yet = false;
        for await (const part of content) parts.push(`${path}: ${part.toString()}`);
      },
      never,
      null,
    );
    const failed = await copying.then(
      () => '',
      (error: unknown) => String(error),
    );
    return { failed, text: parts.join('\n') };
  }

  it('refuses a folder that has become a link since it was listed, and reads nothing there', async () => {
    const elsewhere = join(folder, 'elsewhere');
    await mkdir(join(elsewhere, 'x'), { recursive: true });
    await writeFile(join(elsewhere, 'x/file'), 'secret');
    const { failed, text } = await copied(async (data) => {
      for (const name of names) {
        await rename(join(data, name), join(folder, `was-${name}`));
        await symlink(elsewhere, join(data, name));
      }
    });
    expect(failed).toMatch(/data\/z\d+(\/x)? is not a folder/);
    expect(text).not.toContain('secret');
  });

  it('refuses links in the middle of a path, pipes and sockets instead of waiting for them', async () => {
    for (const swap of ['mkfifo', 'ln -s /dev/zero']) {
      const { failed } = await copied(async (data) => {
        asServer(`cd "$1" && shift && for z; do rm $z/x/file && ${swap} $z/x/file; done`, data, ...names);
        return Promise.resolve();
      });
      expect(failed).toMatch(/data\/z\d+\/x\/file is (not a plain file|neither a file nor a folder)/);
      await removeFolder(join(folder, 'data'));
    }
  });

  it.runIf(runsAsRoot())('refuses a second name of a file that is not the server’s', async () => {
    const elsewhere = await ofService(['shadow']);
    const { failed, text } = await copied(async (data) => {
      for (const name of names) {
        await rm(join(data, name, 'x/file'));
        await link(join(elsewhere, 'shadow'), join(data, name, 'x/file'));
      }
    });
    expect(failed).toMatch(/does not belong to the owner of/);
    expect(text).not.toContain('secret');
  });
});

describe('a project', () => {
  let stage: Stage;
  let shop: StageProject;
  beforeEach(async () => {
    const [first, last] = uidRange(4);
    stage = await openStage({ 'project-uids': `${first}-${last}` });
    shop = await stage.project('shop');
    await shop.sql('CREATE TABLE kept AS SELECT 42 AS n');
  });
  afterEach(() => stage.close());

  const findsItsRows = async () => expect((await shop.sql('SELECT n FROM kept')).body.rows).toEqual([{ n: 42 }]);
  const stop = () => stage.service.engine.servers.defaultTenancy.files?.stopIfUnused(shop.server);

  it.each(['mkfifo "$1"', 'ln -s /dev/zero "$1"', 'mkdir "$1"'])('does not start on a log of %s', async (make) => {
    await stop();
    const log = join(shop.folder, 'postgres.log');
    await rm(log);
    execFileSync('/bin/sh', ['-c', make, 'sh', log]);
    expectFailure(await shop.sql('SELECT 1'), 503, 'database_unavailable');
    await rm(log, { recursive: true });
    await eventually('it starts again', async () => (await shop.sql('SELECT 1')).status === 200);
    await findsItsRows();
  });

  it.each(['mkfifo "$1"', 'ln -s /dev/zero "$1"', 'mkdir "$1"'])(
    'does not start on a lock file of %s, and says so; others do',
    async (make) => {
      await stop();
      const lock = join(shop.folder, 'data/postmaster.pid');
      execFileSync('/bin/sh', ['-c', make, 'sh', lock]);
      expectFailure(await shop.sql('SELECT 1'), 503, 'database_unavailable');
      const { projects } = stage.service.engine;
      expect(projects.startFailure(await projects.get('shop'))).toMatch(/lock file .*postmaster\.pid/);
      const other = await stage.project(`beside-${make.split(' ')[0]}`);
      expect((await other.sql('SELECT 7 AS n')).body.rows).toEqual([{ n: 7 }]);
      await rm(lock, { recursive: true });
      await eventually('it starts again', async () => (await shop.sql('SELECT 1')).status === 200);
      await findsItsRows();
    },
  );

  it('ends with a log of any size, and starts again', async () => {
    await findsItsRows();
    const pid = (await shop.pid()) ?? 0;
    await truncate(join(shop.folder, 'postgres.log'), 3 * 2 ** 30);
    process.kill(pid, 'SIGKILL');
    // A backend outlives its postmaster for a moment.
    await eventually('it starts again', async () => {
      const { status } = await shop.sql('SELECT 1');
      return status === 200 && ![pid, undefined].includes(await shop.pid());
    });
    await findsItsRows();
  });

  it.each(['mkfifo', 'ln -s /dev/zero', 'mkdir'])('can be deleted with a lock file made by %s', async (make) => {
    await stop();
    execFileSync('/bin/sh', ['-c', `${make} "$1"`, 'sh', join(shop.folder, 'data/postmaster.pid')]);
    await stage.service.engine.projects.delete('shop', BY_ITSELF);
    expect(await exists(shop.folder)).toBe(false);
  });

  it.runIf(runsAsRoot())('is deleted with all processes of its user, and with no other process', async () => {
    await findsItsRows();
    const { uid } = await lstat(join(shop.folder, 'data'));
    const other = await stage.project('other');
    await other.sql('SELECT 1');
    const start = (as: number) => spawn('sleep', ['600'], { uid: as, gid: as, cwd: '/' });
    const [own, neighbor] = [start(uid), start((await lstat(join(other.folder, 'data'))).uid)];
    const ended = once(own, 'exit');
    await stage.service.engine.projects.delete('shop', BY_ITSELF);
    expect(await ended).toEqual([null, 'SIGKILL']);
    expect(neighbor.exitCode ?? neighbor.signalCode).toBeNull();
    expect((await other.sql('SELECT 7 AS n')).body.rows).toEqual([{ n: 7 }]);
    neighbor.kill();
  });

  it.runIf(runsAsRoot())('is deleted without the processes of its user, if that user runs another server', async () => {
    await findsItsRows();
    const { uid } = await lstat(join(shop.folder, 'data'));
    const elsewhere = `read end; : postgres -D ${dirname(folder)}/elsewhere -c config_file=none`;
    const server = spawn('sh', ['-c', elsewhere], { uid, gid: uid, cwd: '/' });
    const isThere = async () => (await processes()).some(({ pid, command }) => pid === server.pid && command !== '');
    await eventually('it runs', isThere);
    await stage.service.engine.projects.delete('shop', BY_ITSELF);
    expect(await isThere()).toBe(true);
    expect(await exists(shop.folder)).toBe(false);
    server.kill('SIGKILL');
  });
});
