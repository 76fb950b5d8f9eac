/**
 * The operating system's limits for the processes of an embedded server (setrlimit(2)): how much memory and how much stack
 * each may take, and how many of them may wait for work. `work_mem` is the statement's own to set, so Postgres cannot bound
 * its memory. Beyond RLIMIT_DATA it reports 53200, and no other process has to make room.
 */
import { readFile } from 'node:fs/promises';
import { totalmem } from 'node:os';

const MIB = 1024 * 1024;

/**
 * Postgres checks its own recursion against `max_stack_depth` (2 MB), but not everywhere (nested types in its type cache),
 * and its libraries do not check at all. A process that runs out of stack crashes the server, so there is a margin.
 */
const STACK_MIB = 256;

/** One project runs at most 8 statements at once (contract section 8); together they may take half of the memory, stacks aside. */
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
 * A command that runs the program under these limits, which all its children inherit. RLIMIT_DATA counts private writable
 * memory: neither shared memory nor the stack, whose growth the kernel would refuse with SIGSEGV under RLIMIT_AS. Only Linux
 * holds processes to it. If a lower hard limit is in force already, that one stays.
 * @param backendMib memory that each process may take; a new one has 3 MiB
 */
export function limited(program: string, args: string[], backendMib: number): [program: string, args: string[]] {
  const data = process.platform === 'linux' ? `ulimit -d ${backendMib * 1024}; ` : '';
  const stack = `ulimit -S -s ${STACK_MIB * 1024} || ulimit -S -s "$(ulimit -H -s)"`;
  return ['/bin/sh', ['-c', `{ ${data}${stack}; } 2>/dev/null; exec "$@"`, 'sh', program, ...args]];
}

/** The limits that a process runs under, in MiB. */
export interface Limits {
  readonly stackMib: number;
  /** Infinity: none. */
  readonly dataMib: number;
  /** The stack is as large as {@link limited} asks for. */
  readonly hasFullStack: boolean;
}

/** @returns null if the process is gone, or the system does not say (macOS) */
export async function limitsOf(pid: number): Promise<Limits | null> {
  const text = await readFile(`/proc/${pid}/limits`, 'utf8').catch(() => '');
  const soft = (name: string): number | null => {
    const value = new RegExp(`^Max ${name} size +(\\S+)`, 'm').exec(text)?.[1];
    return value === undefined ? null : value === 'unlimited' ? Infinity : Math.floor(Number(value) / MIB);
  };
  const [stackMib, dataMib] = [soft('stack'), soft('data')];
  if (stackMib === null || dataMib === null) return null;
  return { stackMib, dataMib, hasFullStack: stackMib >= STACK_MIB };
}
