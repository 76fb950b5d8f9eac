/**
 * Limits of the operating system for the processes of an embedded server (setrlimit(2)), and defaults derived from the
 * machine's memory. A session can change `work_mem`, so Postgres itself cannot limit its memory; above RLIMIT_DATA it
 * reports 53200.
 */
import { totalmem } from 'node:os';
import { lowestLimit } from './cgroup.js';
import { softLimit } from './proc.js';

const MIB = 1024 * 1024;

/**
 * Postgres checks its recursion against `max_stack_depth` (2 MB), but not everywhere, and its libraries do not check at
 * all. A process that exceeds its stack crashes the server, so there is a margin.
 */
const STACK_MIB = 256;

/** A project runs at most 8 statements at once (contract C15.1), which together may use half of the memory. */
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

/** The least page cache of a server, enough for many small projects. */
export const MIN_BUFFERS_MIB = 32;
/** The largest page cache of one server, and of all that are larger than {@link MIN_BUFFERS_MIB}, as shares of the memory. */
const BUFFERS_SHARE = 1 / 16;
const ALL_BUFFERS_SHARE = 1 / 4;

/** From here on, a machine has processors for parallel workers; a server may use a quarter of them. */
const MANY_PROCESSORS = 5;
const WORKERS_SHARE = 1 / 4;

/** Default of `max-connections`. */
export function defaultConnections(): number {
  const fitting = Math.floor((memoryBytes() * IDLE_SHARE) / (IDLE_MIB * MIB));
  return Math.min(Math.max(fitting, MIN_CONNECTIONS), MAX_CONNECTIONS);
}

/** Default of `backend-memory-mib`. */
export function defaultBackendMemory(): number {
  return Math.max(MIN_MIB, Math.floor((memoryBytes() * SHARE) / MIB));
}

/**
 * Default of `shared-buffers-mib`: all data of the project, within its share of the memory. Once an index on a random key
 * does not fit, each row reads and writes pages.
 * @param dataBytes of the project when its server starts
 * @param takenMib the page caches of running servers, without those of the least size
 */
export function defaultSharedBuffers(dataBytes: number, takenMib: number, memory = memoryBytes()): number {
  const room = (memory * ALL_BUFFERS_SHARE) / MIB - takenMib;
  const mib = Math.min(dataBytes / MIB, (memory * BUFFERS_SHARE) / MIB, room);
  return Math.max(MIN_BUFFERS_MIB, Math.floor(mib));
}

/**
 * Default of `parallel-workers`. None without control groups: the low priority of a busy process does not extend to its
 * workers.
 */
export const defaultParallelWorkers = (processors: number, hasGroups: boolean): number =>
  hasGroups && processors >= MANY_PROCESSORS ? Math.floor(processors * WORKERS_SHARE) : 0;

/** The memory of the machine, or of the container if it has a limit. */
export function memoryBytes(): number {
  return Math.min(lowestLimit('memory'), totalmem());
}

export interface ProcessLimits {
  /** MiB of private memory of each process; a new one has 3. */
  readonly backendMib: number;
  /** If memory runs out, the kernel should kill a process of this server rather than the service. */
  readonly isFirstVictim: boolean;
}

/** How much sooner the kernel kills a process of a project's server (`oom_score_adj`, proc(5)), of 1,000. */
const VICTIM = 300;

/** Raising the score needs no privilege. It is inherited: a service manager may have lowered that of the service. */
const OOM_SCORE =
  `read -r own </proc/self/oom_score_adj; [ "$own" -gt 0 ] || own=0; own=$((own + ${VICTIM})); ` +
  '[ "$own" -le 1000 ] || own=1000; echo "$own" >/proc/self/oom_score_adj; ';

/**
 * A command that runs a program under these limits, which its children inherit. RLIMIT_DATA counts private writable
 * memory without the stack: under RLIMIT_AS a stack could not grow, and the process would crash. Only Linux enforces
 * it.
 */
export function limited(
  program: string,
  args: string[],
  { backendMib, isFirstVictim }: ProcessLimits,
): [program: string, args: string[]] {
  const isLinux = process.platform === 'linux';
  const data = (isLinux ? `ulimit -d ${backendMib * 1024}; ` : '') + (isLinux && isFirstVictim ? OOM_SCORE : '');
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
