/** User ids of projects' servers, which all installations of a machine that run as root share. */
import { chown, lstat, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runsAsRoot } from '../../src/embedded/accounts.js';
import { ProjectAccounts } from '../../src/embedded/project-accounts.js';
import { UidRegistry } from '../../src/embedded/uid-registry.js';
import { makeFolder } from '../support/folder.js';
import { preparedDataDir } from '../support/program.js';
import { openStage, uidRange } from './stage.js';

const [first] = uidRange(3);
const range = { first, last: first + 2 };

let root: string;
let registry: UidRegistry;
beforeEach(() => {
  root = makeFolder('cdp-uids-');
  registry = new UidRegistry(join(root, 'system/uids'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** An installation without processes; it has the folders of these servers. */
async function installation(name: string, ...servers: string[]) {
  const folder = join(root, name);
  for (const server of servers) await mkdir(join(folder, 'projects', server), { recursive: true });
  const accounts = new ProjectAccounts(range, folder, registry);
  const take = async (server: string) => (await accounts.take(server)).uid;
  return { folder, accounts, take };
}

const usedUp = /All user ids of the setting project-uids are in use/;

describe('two installations', () => {
  it('give no id twice, also at the same moment', async () => {
    const [a, b] = [await installation('a', 'a1', 'a2'), await installation('b', 'b1', 'b2')];
    const taken = await Promise.allSettled([a.take('a1'), b.take('b1'), a.take('a2'), b.take('b2')]);
    const given = taken.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    expect(given.sort()).toEqual([first, first + 1, first + 2]);
    expect(taken.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { message: expect.stringMatching(usedUp) as string },
    });
  });

  it('give an id again when its server is gone: deleted, or with all of its data folder', async () => {
    const [a, b] = [await installation('a', 'a1', 'a2', 'a3'), await installation('b', 'b1', 'b2')];
    for (const server of ['a1', 'a2', 'a3']) await a.take(server);
    await expect(b.take('b1')).rejects.toThrow(usedUp);
    await rm(join(a.folder, 'projects/a2'), { recursive: true });
    await a.accounts.release('a2', first + 1);
    expect(await b.take('b1')).toBe(first + 1);
    await rm(a.folder, { recursive: true });
    expect(await b.take('b2')).toBe(first);
  });

  it('give no id of an archive that a deleted server has left', async () => {
    const [a, b] = [await installation('a', 'a1'), await installation('b', 'b1', 'b2', 'b3')];
    await a.take('a1');
    await mkdir(join(a.folder, 'archive/a1'), { recursive: true });
    await rm(join(a.folder, 'projects/a1'), { recursive: true });
    await a.accounts.release('a1', first);
    expect([await b.take('b1'), await b.take('b2')]).toEqual([first + 1, first + 2]);
    await expect(b.take('b3')).rejects.toThrow(usedUp);
  });

  it.runIf(runsAsRoot())(
    'know the ids of servers that were made before, also after a data folder was moved',
    async () => {
      const [a, b] = [await installation('a'), await installation('b', 'b1', 'b2')];
      await mkdir(join(a.folder, 'projects/old/data'), { recursive: true });
      await chown(join(a.folder, 'projects/old/data'), first, first);
      await a.accounts.register();
      expect(await b.take('b1')).toBe(first + 1);
      await rename(a.folder, join(root, 'moved'));
      await (await installation('moved')).accounts.register();
      expect(await b.take('b2')).toBe(first + 2);
    },
  );
});

it.runIf(process.platform === 'linux')(
  'a registry that cannot be written to, as in a container that is read-only, refuses nothing',
  async () => {
    const nowhere = new UidRegistry('/sys/kernel/none/uids');
    expect((await new ProjectAccounts(range, root, nowhere).take('x')).uid).toBe(first);
    expect((await nowhere.claimed()).size).toBe(0);
  },
);

it.runIf(runsAsRoot())(
  'projects of two services on one machine have different user ids while no server runs',
  async () => {
    const settings = { 'project-uids': '51900-51999' };
    const stages = [await openStage(settings), await openStage(settings, await preparedDataDir())];
    try {
      const folders = [];
      for (const stage of stages) folders.push((await stage.project('shop')).folder);
      expect(stages.map((stage) => stage.running())).toEqual([0, 0]);
      const uids = await Promise.all(folders.map(async (folder) => (await lstat(join(folder, 'data'))).uid));
      expect(new Set(uids).size).toBe(2);
      expect(await readdir('/var/lib/cdp-data-engine/uids')).toEqual(expect.arrayContaining(uids.map(String)));
    } finally {
      for (const stage of stages) await stage.close();
    }
  },
);
