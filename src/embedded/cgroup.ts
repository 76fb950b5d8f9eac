/**
 * The limits of this process's control groups, and a control group for each project's server, with which the kernel shares
 * processors between projects and limits their memory (cgroup v2). Requires that the service's own group is delegated to it, for instance by systemd's
 * `Delegate=yes`; without it, the service uses niceness.
 */
import { readFileSync } from 'node:fs';
import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hasCode } from '../files.js';
import { readProc } from './proc.js';

/** The file with the limit of a group, in cgroup v1 and v2. */
const LIMIT_FILES = {
  memory: ['memory.limit_in_bytes', 'memory.max'],
  pids: ['pids.max', 'pids.max'],
} as const;

/**
 * The lowest limit of the groups that contain this process, in cgroup v1 or v2 (cgroups(7)): bytes, or a number of
 * processes; Infinity: none. In a container, the path of the group may be the host's; then only the root is visible.
 */
export function lowestLimit(
  controller: keyof typeof LIMIT_FILES,
  root = '/sys/fs/cgroup',
  self = '/proc/self/cgroup',
): number {
  const [v1, v2] = LIMIT_FILES[controller];
  const limits = contentOf(self).matchAll(/^\d+:([^:]*):(\/.*)$/gm);
  const files = Array.from(limits, ([, controllers = '', path = '/']) => {
    if (controllers === '') return limitsUpward(root, path, v2);
    return controllers.split(',').includes(controller) ? limitsUpward(join(root, controller), path, v1) : [];
  });
  return Math.min(Infinity, ...files.flat());
}

/** The limits of a group and of those around it. */
function limitsUpward(root: string, path: string, file: string): number[] {
  const limit = Number.parseInt(contentOf(join(root, path, file)));
  const own = Number.isNaN(limit) ? [] : [limit];
  return path === '/' ? own : [...own, ...limitsUpward(root, dirname(path), file)];
}

function contentOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

const CONTROLLERS = ['cpu', 'memory', 'pids'];

/** A group that contains processes cannot have subgroups, so the service moves into this one. */
const SERVICE = 'service';

interface GroupLimits {
  /** 1 to 10,000; the kernel's default is 100. */
  readonly cpuWeight: number;
  /** Above this, the kernel kills a process of the group, which ends this project's server. */
  readonly memoryMaxBytes: number;
  readonly pidsMax: number;
}

export class ProjectCgroups {
  private constructor(private readonly folder: string) {}

  /**
   * Call this before the service starts any process.
   * @returns null if the group of the service is not delegated to it, or contains other processes
   */
  static async open(root = '/sys/fs/cgroup', self = '/proc/self/cgroup'): Promise<ProjectCgroups | null> {
    // Only Linux has the file; without it there are no groups.
    const own = /^0::(\/.*)$/m.exec(await readFile(self, 'utf8').catch(() => ''))?.[1];
    if (own === undefined) return null;
    const folder = join(root, own);
    try {
      const available = (await readFile(join(folder, 'cgroup.controllers'), 'utf8')).split(/\s+/);
      if (!CONTROLLERS.every((name) => available.includes(name))) return null;
      await mkdir(join(folder, SERVICE), { recursive: true });
      await writeFile(join(folder, SERVICE, 'cgroup.procs'), String(process.pid));
      await writeFile(join(folder, 'cgroup.subtree_control'), CONTROLLERS.map((name) => `+${name}`).join(' '));
    } catch {
      return null;
    }
    return new ProjectCgroups(folder);
  }

  /**
   * Moves a server into its own group. Call this right after the start of the postmaster.
   * @throws the system's error; the server then stays in its group
   */
  async add(project: string, postmaster: number, limits: GroupLimits): Promise<void> {
    const group = this.groupOf(project);
    await mkdir(group, { recursive: true });
    const write = (file: string, value: number | string) => writeFile(join(group, file), String(value));
    await write('cpu.weight', limits.cpuWeight);
    await write('memory.max', limits.memoryMaxBytes);
    await write('pids.max', limits.pidsMax);
    await write('cgroup.procs', postmaster);
    // Children forked from now on start in the group; these may already have exited.
    const children = await readProc(`${postmaster}/task/${postmaster}/children`);
    // The process may have ended.
    for (const pid of children.split(' ').filter(Boolean)) await write('cgroup.procs', pid).catch(() => {});
  }

  /** Call this after the server has stopped. Its processes may take a moment to exit. */
  async remove(project: string): Promise<void> {
    for (let attempt = 0; attempt < 100; attempt++) {
      const error: unknown = await rmdir(this.groupOf(project)).catch((error: unknown) => error);
      if (!hasCode(error, 'EBUSY', 'ENOTEMPTY')) return;
      await sleep(20);
    }
  }

  private groupOf(project: string): string {
    return join(this.folder, `project-${project}`);
  }
}
