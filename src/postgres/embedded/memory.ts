/**
 * How much memory one process of the embedded server may take, and how many of them may wait for work. `work_mem` is
 * the statement's own to set, so the bound is the operating system's: beyond it Postgres reports 53200, and no other
 * process has to make room.
 */
import { totalmem } from 'node:os';

const MIB = 1024 * 1024;

/**
 * Shared memory (`shared_buffers` and the lock table are most of it) and code count as well: an idle backend has 412 MiB
 * where there may be 120 connections, and 472 MiB where there may be 793.
 */
const SHARED_MIB = 432;
const SHARED_KIB_EACH = 92;

/** One project runs at most 8 statements at once (contract section 8); together they may take half of the memory. */
const SHARE = 1 / 16;

/** A statement that Postgres's own defaults are made for must always fit. */
const MIN_MIB = 160;

/** What an idle connection of a project keeps: 3.5 MiB of its process after a few inserts, more after free SQL. */
const IDLE_MIB = 4;

/** All connections to projects may take this share of the memory while they are idle … */
const IDLE_SHARE = 1 / 6;

/** … but each request that may run at once needs one, and nobody should have to expect more processes than these. */
const MIN_CONNECTIONS = 80;
const MAX_CONNECTIONS = 1_000;

/** Connections to projects' databases, where the operator does not say. */
export function defaultConnections(): number {
  const fitting = Math.floor((memoryBytes() * IDLE_SHARE) / (IDLE_MIB * MIB));
  return Math.min(Math.max(fitting, MIN_CONNECTIONS), MAX_CONNECTIONS);
}

/** Memory of one backend in MiB, where the operator does not say. */
export function defaultBackendMemory(): number {
  return Math.max(MIN_MIB, Math.floor((memoryBytes() * SHARE) / MIB));
}

/** In a container its limit counts, not the machine. */
function memoryBytes(): number {
  const constrained = process.constrainedMemory();
  // 0, or more than there is: no limit.
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
}

/**
 * A command that runs the program under the limit, which all its children inherit (setrlimit(2), RLIMIT_AS). Only Linux
 * holds processes to it. Where a lower limit is in force already, that one stays.
 * @param backendMib memory that each process may take beside what all share
 * @param connections to projects' databases that there may be
 */
export function limited(
  program: string,
  args: string[],
  backendMib: number,
  connections: number,
): [program: string, args: string[]] {
  if (process.platform !== 'linux') return [program, args];
  const kib = (SHARED_MIB + backendMib) * 1024 + connections * SHARED_KIB_EACH;
  return ['/bin/sh', ['-c', 'ulimit -v "$1" 2>/dev/null; shift; exec "$@"', 'sh', String(kib), program, ...args]];
}
