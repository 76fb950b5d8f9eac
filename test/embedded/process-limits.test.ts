/** The resource limits of the processes of an embedded server, as a process sees them. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { examineLimits } from '../../src/engine/doctor/machine-findings.js';
import { limited, limitsOf } from '../../src/embedded/process-limits.js';

const onLinux = process.platform === 'linux';

/** What `ulimit` prints in a process that was started under the limits, after `before` was set. In KiB. */
async function limitsAfter(before: string): Promise<string[]> {
  const [program, args] = limited('/bin/sh', ['-c', 'ulimit -S -s; ulimit -H -s; ulimit -d; ulimit -v'], 300);
  const script = `${before}; exec "$@"`;
  const { stdout, stderr } = await promisify(execFile)('/bin/sh', ['-c', script, 'sh', program, ...args]);
  expect(stderr).toBe('');
  return stdout.trim().split('\n');
}

/** Runs `look` while a process is there that was started after `before` was set. */
async function during<T>(before: string, look: (pid: number) => Promise<T>): Promise<T> {
  const [program, args] = limited('sleep', ['60'], 300);
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
