/**
 * Limits of the operating system for the processes of an embedded server (setrlimit(2)), and defaults derived from the
 * machine's memory. A session can change `work_mem`, so Postgres itself cannot limit its memory; above RLIMIT_DATA it
 * reports 53200.
 */
import { totalmem } from 'node:os';
import { softLimit } from './proc.js';

const MIB = 1024 * 1024;

/**
 * Postgres checks its recursion against `max_stack_depth` (2 MB), but not everywhere, and its libraries do not check at
 * all. A process that exceeds its stack crashes the server, so there is a margin.
 */
const STACK_MIB = 256;

/** A project runs at most 8 statements at once (contract section 8), which together may use half of the memory. */
const SHARE = 1 / 16;

/** Enough for a statement with Postgres's own defaults. */
const MIN_MIB = 160;

/** An idle connection keeps 3.5 MiB after a few inserts, more after free SQL. */
const IDLE_MIB = 4;
/** The share of the memory that all idle connections together may use. */
const IDLE_SHARE = 1 / 6;

/** Each request that may run at once needs a connection (`running`), even if the share is too small for them. */
const MIN_CONNECTIONS = 80;
/** No machine is expected to need more connections. */
const MAX_CONNECTIONS = 1_000;

/** Default of `max-connections`. */
export function defaultConnections(): number {
  const fitting = Math.floor((memoryBytes() * IDLE_SHARE) / (IDLE_MIB * MIB));
  return Math.min(Math.max(fitting, MIN_CONNECTIONS), MAX_CONNECTIONS);
}

/** Default of `backend-memory-mib`. */
export function defaultBackendMemory(): number {
  return Math.max(MIN_MIB, Math.floor((memoryBytes() * SHARE) / MIB));
}

/** The memory of the machine, or of the container if it has a limit. */
export function memoryBytes(): number {
  const constrained = process.constrainedMemory();
  // 0, or more than the machine has: no limit.
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
}

/**
 * A command that runs a program under these limits, which its children inherit. RLIMIT_DATA counts private writable
 * memory without the stack: under RLIMIT_AS a stack could not grow, and the process would crash. Only Linux enforces
 * it.
 * @param backendMib memory of each process; a new one has 3 MiB
 */
export function limited(program: string, args: string[], backendMib: number): [program: string, args: string[]] {
  const data = process.platform === 'linux' ? `ulimit -d ${backendMib * 1024}; ` : '';
  const stack = `ulimit -S -s ${STACK_MIB * 1024} || ulimit -S -s "$(ulimit -H -s)"`;
  return ['/bin/sh', ['-c', `{ ${data}${stack}; } 2>/dev/null; exec "$@"`, 'sh', program, ...args]];
}

/** The limits of a process, in MiB. */
interface Limits {
  readonly stackMib: number;
  /** Infinity: none. */
  readonly dataMib: number;
  /** Whether the stack is as large as {@link limited} requests. */
  readonly hasFullStack: boolean;
}

/** @returns null if the process has exited, or the system does not report it (macOS) */
export async function limitsOf(pid: number): Promise<Limits | null> {
  const [stack, data] = await Promise.all([softLimit(pid, 'Max stack size'), softLimit(pid, 'Max data size')]);
  if (stack === null || data === null) return null;
  const stackMib = Math.floor(stack / MIB);
  return { stackMib, dataMib: Math.floor(data / MIB), hasFullStack: stackMib >= STACK_MIB };
}
