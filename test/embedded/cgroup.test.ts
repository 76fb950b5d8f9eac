/**
 * Control groups for the servers of projects, in a tree of ordinary files and folders: what is written where. Whether a
 * kernel accepts it is not tested here, because few machines that run tests delegate a control group.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { lowestLimit, ProjectCgroups } from '../../src/embedded/cgroup.js';
import { makeFolder } from '../support/folder.js';
import { endEverything } from '../support/program.js';
import { openStage } from './stage.js';

let root: string;
let own: string;
let self: string;
beforeEach(async () => {
  root = makeFolder('cdp-cgroup-');
  own = join(root, 'system.slice/cdp.service');
  self = join(root, 'self');
  await mkdir(own, { recursive: true });
  await writeFile(self, '1:name=systemd:/elsewhere\n0::/system.slice/cdp.service\n');
  await writeFile(join(own, 'cgroup.controllers'), 'cpuset cpu io memory pids\n');
});
afterEach(() => rm(root, { recursive: true }));
afterAll(endEverything);

const open = async (): Promise<ProjectCgroups> => {
  const groups = await ProjectCgroups.open(root, self);
  if (groups === null) throw new Error('There should be groups');
  return groups;
};
const read = (...path: string[]): Promise<string> => readFile(join(own, ...path), 'utf8');
const LIMITS = { cpuWeight: 100, memoryMaxBytes: 2 ** 31, pidsMax: 200 };

it('moves the service into a leaf before it enables controllers for children', async () => {
  await open();
  expect(await read('service', 'cgroup.procs')).toBe(String(process.pid));
  expect(await read('cgroup.subtree_control')).toBe('+cpu +memory +pids');
});

it('gives a server a group with its limits, and removes the group once the server has ended', async () => {
  const groups = await open();
  await groups.add('p1', 2 ** 30, LIMITS);
  const files = ['cpu.weight', 'memory.max', 'pids.max', 'cgroup.procs'];
  expect(await Promise.all(files.map((file) => read('project-p1', file)))).toEqual([
    '100',
    '2147483648',
    '200',
    String(2 ** 30),
  ]);

  // The kernel removes a group with its files once it has no processes; here the files stand for those.
  const removing = groups.remove('p1');
  for (const file of await readdir(join(own, 'project-p1'))) await rm(join(own, 'project-p1', file));
  await removing;
  expect(existsSync(join(own, 'project-p1'))).toBe(false);
  await groups.remove('p1');
});

it.runIf(process.platform === 'linux')('moves the existing processes of a server along with it', async () => {
  const parent = spawn('/bin/sh', ['-c', 'sleep 60 & echo $!; wait']);
  try {
    const [child] = (await once(parent.stdout, 'data')) as [Buffer];
    await (await open()).add('p1', parent.pid as number, LIMITS);
    // In a file the last one written is what is left.
    expect(await read('project-p1', 'cgroup.procs')).toBe(child.toString().trim());
    process.kill(Number(child.toString()), 'SIGKILL');
  } finally {
    parent.kill('SIGKILL');
  }
});

it('leaves the priority of a busy process as it is: the kernel shares the processors between groups', async () => {
  const opened = vi.spyOn(ProjectCgroups, 'open').mockResolvedValue(await open());
  const stage = await openStage();
  try {
    const shop = await stage.project('shop');
    const pidNow = async () =>
      ((await shop.sql('SELECT pg_backend_pid() AS pid')).body.rows as [{ pid: number }])[0].pid;
    const pid = await pidNow();
    await shop.sql('SELECT count(*) FROM generate_series(1, 5000000)');
    expect(await pidNow()).toBe(pid);
    expect(getPriority(pid)).toBe(0);
  } finally {
    opened.mockRestore();
    await stage.close();
  }
});

it.each([
  ['there is no cgroup v2', async () => writeFile(self, '4:memory:/docker/abc\n')],
  ['the process cannot tell', async () => rm(self)],
  ['the group is not there', async () => rm(own, { recursive: true })],
  ['a controller is missing', async () => writeFile(join(own, 'cgroup.controllers'), 'cpu pids\n')],
  ['the service may not make a group', async () => writeFile(join(own, 'service'), '')],
  ['other processes are in the group', async () => mkdir(join(own, 'cgroup.subtree_control'))],
])('makes no groups if %s', async (_, arrange) => {
  await arrange();
  expect(await ProjectCgroups.open(root, self)).toBeNull();
});

describe('the limit on memory', () => {
  const limit = () => lowestLimit('memory', root, self);

  it('is that of the tightest group around the service, in cgroup v2', async () => {
    expect(limit()).toBe(Infinity);
    await writeFile(join(own, 'memory.max'), 'max\n');
    expect(limit()).toBe(Infinity);
    await writeFile(join(root, 'system.slice/memory.max'), '800000000\n');
    expect(limit()).toBe(800_000_000);
    await writeFile(join(own, 'memory.max'), '400000000\n');
    expect(limit()).toBe(400_000_000);
  });

  it('is found in cgroup v1 as well, also if a container shows only the root of its group', async () => {
    await writeFile(self, '12:cpu,cpuacct:/box\n4:memory:/box/one\n0::/\n');
    await mkdir(join(root, 'memory/box/one'), { recursive: true });
    await writeFile(join(root, 'memory/box/one/memory.limit_in_bytes'), '450000000\n');
    expect(limit()).toBe(450_000_000);
    await rm(join(root, 'memory/box'), { recursive: true });
    await writeFile(join(root, 'memory/memory.limit_in_bytes'), '500000000\n');
    expect(limit()).toBe(500_000_000);
  });
});
