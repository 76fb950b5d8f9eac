/**
 * Threads that parse SQL texts beside the event loop: started when needed, fair between projects, bounded in time and
 * memory, ended when idle. Reasons and measurements: docs/decisions/0006-splitting-sql.md.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { EngineError } from '../../contract/errors.js';
import type { Departure } from '../admission/departure.js';
import type { Patience } from '../admission/patience.js';
import { limitProcessorTime } from './processor-time.js';
import type { Parsed, ParserReply } from './split-worker.js';

/** The same file from `src/` (tests, which run after a build) and from `dist/`: a thread takes no TypeScript. */
const WORKER_FILE = new URL('../../../dist/engine/sql/split-worker.js', import.meta.url);

const THREADS = 2;
/** Characters above which a text is large: one of these at a time, so that the other thread is left to the small ones. */
const LARGE_TEXT = 64 * 1024;
/** Of the processors; the longest parse of an honest 1 MiB takes about half of it. */
const PARSE_MS = 5_000;
/** By the clock, where the machine has other work. */
const MAX_PARSE_MS = 20_000;
const IDLE_MS = 30_000;
/** JavaScript heap of a thread; the worst 1 MiB found needs 300 MiB for its tree. */
const HEAP_MB = 512;
/** A thread starts with 128 MiB reserved, most of it untouched; one that has grown beyond is replaced. */
const KEEP_BYTES = 192 * 1024 * 1024;

/** For whom a text is parsed. */
export interface Asker {
  /** Whose turn it is when parsing has to wait. */
  readonly project: string;
  readonly patience: Patience;
  /** Aborted when the client leaves: its waiting ends. */
  readonly signal: Departure;
}

/** A text that waits for its turn or has it. */
interface Job {
  readonly isLarge: boolean;
  readonly start: () => void;
  readonly giveUp: () => void;
}

export class ParserThreads {
  /** Waiting jobs by project. A project that gets its turn moves to the end: the order of the map is whose turn it is. */
  private readonly waiting = new Map<string, Job[]>();
  /** By project: it has one job running at most. */
  private readonly running = new Map<string, Job>();
  private readonly threads = new Set<Worker>();
  /** Threads without work, each with the timer that ends it. */
  private readonly idle = new Map<Worker, NodeJS.Timeout>();
  private closing = new AbortController();

  /**
   * Parses one text. Fails with `overloaded` where no thread comes free in time, and with `invalid_request` where the
   * parser does not come to an end.
   */
  async parse(text: string, { project, patience, signal }: Asker): Promise<Parsed> {
    const waited = patience.wait();
    await this.turn(text, project, patience.ms, signal).finally(waited);
    try {
      return await this.run(text, this.closing.signal);
    } finally {
      this.running.delete(project);
      this.startNext();
    }
  }

  /** Ends all threads; texts that wait or run fail. A later call starts anew. */
  async close(): Promise<void> {
    for (const job of [...this.waiting.values()].flat()) job.giveUp();
    this.closing.abort();
    this.closing = new AbortController();
    for (const timer of this.idle.values()) clearTimeout(timer);
    this.idle.clear();
    await Promise.all([...this.threads].map((worker) => worker.terminate()));
  }

  private turn(text: string, project: string, waitMs: number, signal: Departure): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', job.giveUp);
      };
      const job: Job = {
        isLarge: text.length > LARGE_TEXT,
        start: () => {
          settle();
          resolve();
        },
        giveUp: () => {
          settle();
          this.leaveQueue(project, job);
          reject(busy());
        },
      };
      const timer = setTimeout(job.giveUp, waitMs);
      signal.addEventListener('abort', job.giveUp, { once: true });
      this.waiting.set(project, [...(this.waiting.get(project) ?? []), job]);
      this.startNext();
    });
  }

  private startNext(): void {
    if (this.running.size === THREADS) return;
    const largeRuns = [...this.running.values()].some((job) => job.isLarge);
    for (const [project, [job]] of this.waiting) {
      if (job === undefined || this.running.has(project) || (job.isLarge && largeRuns)) continue;
      this.leaveQueue(project, job);
      this.running.set(project, job);
      job.start();
      return this.startNext();
    }
  }

  /** Takes a job out; what else its project has waiting goes to the end. */
  private leaveQueue(project: string, job: Job): void {
    const rest = (this.waiting.get(project) ?? []).filter((other) => other !== job);
    this.waiting.delete(project);
    if (rest.length > 0) this.waiting.set(project, rest);
  }

  private async run(text: string, closing: AbortSignal): Promise<Parsed> {
    const worker = this.takeIdle() ?? this.startThread();
    const time = limitProcessorTime(PARSE_MS, MAX_PARSE_MS);
    let reusable = false;
    try {
      worker.postMessage(text);
      const [reply] = (await once(worker, 'message', { signal: AbortSignal.any([time.signal, closing]) })) as [
        ParserReply,
      ];
      if (reply.parsed.outcome === 'parser_failed') throw hopeless();
      reusable = reply.memoryBytes <= KEEP_BYTES && !closing.aborted;
      return reply.parsed;
    } catch (error) {
      if (closing.aborted) throw busy();
      if (time.signal.aborted || isOutOfMemory(error)) throw hopeless();
      throw error;
    } finally {
      time.clear();
      if (reusable) this.keep(worker);
      else await worker.terminate();
    }
  }

  private startThread(): Worker {
    // No flags of the process: some of them (`--input-type`) make no sense for a file.
    const options = { execArgv: [], resourceLimits: { maxOldGenerationSizeMb: HEAP_MB } };
    const worker = new Worker(WORKER_FILE, options);
    this.threads.add(worker);
    worker.once('exit', () => {
      this.threads.delete(worker);
      this.idle.delete(worker);
    });
    // An error reaches the job that waits for the answer; without a listener of its own it would end the process.
    worker.on('error', () => undefined);
    return worker;
  }

  private takeIdle(): Worker | undefined {
    for (const [worker, timer] of this.idle) {
      clearTimeout(timer);
      this.idle.delete(worker);
      worker.ref();
      return worker;
    }
    return undefined;
  }

  /** Keeps a thread for the next text, for a while. It does not keep the process alive meanwhile. */
  private keep(worker: Worker): void {
    worker.unref();
    const end = (): void => {
      this.idle.delete(worker);
      void worker.terminate();
    };
    this.idle.set(worker, setTimeout(end, IDLE_MS).unref());
  }
}

function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
}

function hopeless(): EngineError {
  return new EngineError(
    'invalid_request',
    'The SQL text is too deeply nested or too long to be split into statements.',
    {
      hint: 'Send its statements in requests of their own.',
    },
  );
}

function busy(): EngineError {
  return new EngineError('overloaded', 'Too many SQL texts wait to be split into statements. Nothing was done.');
}
