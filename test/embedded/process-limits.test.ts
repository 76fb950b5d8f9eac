/** The resource limits of the processes of an embedded server, as a process sees them. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { examineLimits } from '../../src/engine/doctor/machine-findings.js';
import { defaultParallelWorkers, defaultSharedBuffers, limited, limitsOf } from '../../src/embedded/process-limits.js';

const onLinux = process.platform === 'linux';
const LIMITS = { backendMib: 300, isFirstVictim: false };

/** What `ulimit` prints in a process that was started under the limits, after `before` was set. In KiB. */
async function limitsAfter(before: string): Promise<string[]> {
  const [program, args] = limited('/bin/sh', ['-c', 'ulimit -S -s; ulimit -H -s; ulimit -d; ulimit -v'], LIMITS);
  const script = `${before}; exec "$@"`;
  const { stdout, stderr } = await promisify(execFile)('/bin/sh', ['-c', script, 'sh', program, ...args]);
  expect(stderr).toBe('');
  return stdout.trim().split('\n');
}

/** Runs `look` while a process is there that was started after `before` was set. */
async function during<T>(before: string, look: (pid: number) => Promise<T>): Promise<T> {
  const [program, args] = limited('sleep', ['60'], LIMITS);
  const child = spawn('/bin/sh', ['-c', `${before}; exec "$@"`, 'sh', program, ...args]);
  await once(child, 'spawn');
  const pid = child.pid as number;
  try {
    while (onLinux && (await limitsOf(pid))?.dataMib !== 300) await new Promise(setImmediate);
    return await look(pid);
  } finally {
    child.kill('SIGKILL');
  }
}

describe('a limited process', () => {
  it.runIf(onLinux)('has bounded private memory, unlimited address space and enough stack', async () => {
    const [soft, , data, addressSpace] = await limitsAfter('ulimit -S -s 8192');
    expect({ soft, data, addressSpace }).toEqual({ soft: '262144', data: '307200', addressSpace: 'unlimited' });
  });

  it('gets as much stack as the hard limit allows', async () => {
    const [soft, hard] = await limitsAfter('ulimit -S -s 8000; ulimit -H -s 16384');
    expect([soft, hard]).toEqual(['16384', '16384']);
  });

  it.runIf(onLinux)('is killed before the service if memory runs out, whatever its score', async () => {
    const [program, args] = limited('cat', ['/proc/self/oom_score_adj'], { ...LIMITS, isFirstVictim: true });
    const scoreAfter = async (own: number): Promise<number> => {
      const script = `echo ${own} >/proc/self/oom_score_adj; exec "$@"`;
      const { stdout } = await promisify(execFile)('/bin/sh', ['-c', script, 'sh', program, ...args]);
      return Number(stdout);
    };
    expect([await scoreAfter(0), await scoreAfter(500), await scoreAfter(900)]).toEqual([300, 800, 1000]);
  });

  it.runIf(onLinux)('keeps a lower limit on memory', async () => {
    expect((await limitsAfter('ulimit -d 200000'))[2]).toBe('200000');
  });
});

describe.runIf(onLinux)('cdp doctor', () => {
  it('reports the limits in force', async () => {
    expect(await during(':', examineLimits)).toEqual([
      {
        subject: 'limits',
        health: 'ok',
        found: 'per Postgres process: 300 MiB of memory, 256 MiB of stack',
        advice: null,
      },
    ]);
  });

  it('warns about a small stack, and says how to get a larger one', async () => {
    const [finding] = await during('ulimit -s 8192', examineLimits);
    expect(finding).toMatchObject({
      health: 'warning',
      found: 'per Postgres process: 300 MiB of memory, 8 MiB of stack, because of the hard limit',
    });
    expect(finding?.advice).toContain('LimitSTACK=');
  });
});

it('reports nothing about a process that has ended', async () => {
  const child = spawn('true');
  await once(child, 'close');
  expect(await examineLimits(child.pid as number)).toEqual([]);
});

describe('the page cache of a server', () => {
  const [MIB, GIB] = [1024 ** 2, 1024 ** 3];
  it.each([
    ['has room for all data of the project', 500 * MIB, 0, 16 * GIB, 500],
    ['is at least that of a small project', 0, 0, 16 * GIB, 32],
    ['takes at most a sixteenth of the memory', 100 * GIB, 0, 16 * GIB, 1024],
    ['and those of all servers a quarter', 100 * GIB, 3 * 1024 + 500, 16 * GIB, 524],
    ['is the least if others have taken that', 100 * GIB, 4 * 1024, 16 * GIB, 32],
    ['is the least on a small machine', GIB, 0, 256 * MIB, 32],
  ])('%s', (_what, bytes, takenMib, memory, mib) => {
    expect(defaultSharedBuffers(bytes, takenMib, memory)).toBe(mib);
  });
});

it.each([
  [4, true, 0],
  [5, true, 1],
  [16, true, 4],
  [16, false, 0],
])('with %i processors, control groups %s: parallel workers %i', (processors, hasGroups, workers) => {
  expect(defaultParallelWorkers(processors, hasGroups)).toBe(workers);
});
