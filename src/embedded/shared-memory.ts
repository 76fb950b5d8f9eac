/** What is left of a server's shared memory if it was killed. */
import { readFile } from 'node:fs/promises';
import { run } from './account.js';
import type { Home } from './home.js';
import { readLockFile } from './lock-file.js';

/** A server that was killed leaves its SysV segment behind, of which a machine has a bounded number. */
export async function freeSharedMemory(home: Home): Promise<void> {
  const lock = await readLockFile(home).catch(() => undefined);
  if (lock?.sharedMemoryId === undefined || (await isAttached(lock.sharedMemoryId))) return;
  // It may be gone, or the program may be missing: then it stays until the machine restarts.
  await run(home.account, 'ipcrm', ['-m', String(lock.sharedMemoryId)]).catch(() => {});
}

/** After a restart of the machine the same id may be another server's (proc(5), /proc/sysvipc/shm). */
async function isAttached(sharedMemoryId: number): Promise<boolean> {
  const segments = await readFile('/proc/sysvipc/shm', 'utf8').catch(() => '');
  const rows = segments.split('\n').map((line) => line.trim().split(/\s+/).map(Number));
  return rows.some(([, id, , , , , attached = 0]) => id === sharedMemoryId && attached > 0);
}
