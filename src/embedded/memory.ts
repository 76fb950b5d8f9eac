/**
 * How much memory one process of the embedded server may take, and how many of them may wait for work. `work_mem` is
 * the statement's own to set, so the bound is the operating system's: beyond it Postgres reports 53200, and no other
 * process has to make room.
 */
import { totalmem } from 'node:os';

const MIB = 1024 * 1024;

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
export function memoryBytes(): number {
  const constrained = process.constrainedMemory();
  // 0, or more than there is: no limit.
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
}

/**
 * A command that runs the program under the limit, which all its children inherit (setrlimit(2), RLIMIT_DATA): private
 * memory, without the stack and what all share. Only Linux holds processes to it.
 * @param backendMib memory that each process may take
 */
export function limited(program: string, args: string[], backendMib: number): [program: string, args: string[]] {
  if (process.platform !== 'linux') return [program, args];
  const script = 'ulimit -d "$1" 2>/dev/null; shift; exec "$@"';
  return ['/bin/sh', ['-c', script, 'sh', String(backendMib * 1024), program, ...args]];
}
