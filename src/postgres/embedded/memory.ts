/**
 * How much memory one process of the embedded server may take. `work_mem` is the statement's own to set, so the bound
 * is the operating system's: beyond it Postgres reports 53200, and no other process has to make room.
 */
import { totalmem } from 'node:os';

const MIB = 1024 * 1024;

/** Shared memory (`shared_buffers` and the lock table are most of it) and code count as well: an idle backend has 412. */
const SHARED_MIB = 440;

/** One project runs at most 8 statements at once (contract section 8); together they may take half of the memory. */
const SHARE = 1 / 16;

/** A statement that Postgres's own defaults are made for must always fit. */
const LEAST_MIB = 160;

/** Memory of one backend in MiB, where the operator does not say. In a container its limit counts, not the machine. */
export function defaultBackendMemory(): number {
  const constrained = process.constrainedMemory();
  // 0, or more than there is: no limit.
  const total = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
  return Math.max(LEAST_MIB, Math.floor((total * SHARE) / MIB));
}

/**
 * A command that runs the program under the limit, which all its children inherit (setrlimit(2), RLIMIT_AS). Only Linux
 * holds processes to it. Where a lower limit is in force already, that one stays.
 * @param backendMib memory that each process may take beside what all share
 */
export function limited(program: string, args: string[], backendMib: number): [program: string, args: string[]] {
  if (process.platform !== 'linux') return [program, args];
  const kib = (SHARED_MIB + backendMib) * 1024;
  return ['/bin/sh', ['-c', 'ulimit -v "$1" 2>/dev/null; shift; exec "$@"', 'sh', String(kib), program, ...args]];
}
