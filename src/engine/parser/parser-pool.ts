/**
 * Worker threads that parse SQL texts without blocking the event loop: fair between projects, and limited in time and
 * memory. Reasons and measurements: docs/decisions/0006-splitting-sql.md.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { EngineError } from '../../contract/errors.js';
import { FairQueue } from '../../db/fair-queue.js';
import type { WaitBudget } from '../../db/wait-budget.js';
import type { Parsed, ParserReply } from './parser-worker.js';

/** The built file, even from `src/` (in tests, which follow a build): a thread cannot run TypeScript. */
const WORKER_FILE = new URL('../../../dist/engine/parser/parser-worker.js', import.meta.url);

const THREADS = 2;
/**
 * Texts with more characters are large. Only one is parsed at a time, so that the other thread is free for small ones.
 */
const LARGE_TEXT = 64 * 1024;
/** The longest parse of a realistic text of 1 MiB takes a quarter of this. */
const PARSE_MS = 10_000;
const IDLE_MS = 30_000;
/** JavaScript heap of a thread; the worst 1 MiB found needs 300 MiB for its tree. */
const HEAP_MB = 512;
/** A thread starts with 128 MiB reserved, most of it untouched; one that has grown beyond this is replaced. */
const KEEP_BYTES = 192 * 1024 * 1024;

const BUSY = 'Too many SQL requests are waiting to be parsed';

/** The request whose text is parsed. */
export interface ParsingRequest {
  /** Its project. */
  readonly projectId: string;
  readonly waitBudget: WaitBudget;
  /** Aborted when the client disconnects, or with the EngineError that ends the request. */
  readonly signal: AbortSignal;
}

export class ParserPool {
  /** Projects whose text is being parsed, at most one text each, and whether it is large. */
  private readonly running = new Map<string, boolean>();
  private readonly queue = new FairQueue<string>({
    tryTake: (projectId, text) => this.tryTake(projectId, text),
    order: 'first',
    late: BUSY,
  });
  private readonly threads = new Set<Worker>();
  /** Idle threads, each with the timer that ends it. */
  private readonly idle = new Map<Worker, NodeJS.Timeout>();
  private readonly closing = new AbortController();
  private readonly parseMs = PARSE_MS;

  /** @throws EngineError overloaded; invalid_request if the parser does not finish */
  async parse(text: string, { projectId, waitBudget, signal }: ParsingRequest): Promise<Parsed> {
    if (!this.tryTake(projectId, text)) await this.queue.wait(projectId, text, waitBudget, signal);
    try {
      return await this.run(text);
    } finally {
      this.running.delete(projectId);
      this.queue.admitNext();
    }
  }

  /** Ends all threads. Waiting, running and later calls fail. */
  async close(): Promise<void> {
    this.closing.abort();
    for (const timer of this.idle.values()) clearTimeout(timer);
    await Promise.all([...this.threads].map((thread) => thread.terminate()));
  }

  private tryTake(projectId: string, text: string): boolean {
    const isLarge = text.length > LARGE_TEXT;
    if (this.running.size === THREADS || this.running.has(projectId)) return false;
    if (isLarge && [...this.running.values()].includes(true)) return false;
    this.running.set(projectId, isLarge);
    return true;
  }

  private async run(text: string): Promise<Parsed> {
    if (this.closing.signal.aborted) throw busy();
    const thread = this.takeIdle() ?? this.startThread();
    // Not AbortSignal.any: for each call, Node 20 keeps an entry in its sources, and `closing` lives as long as the pool.
    const { signal: closing } = this.closing;
    const ending = new AbortController();
    const end = () => ending.abort();
    const timer = setTimeout(end, this.parseMs);
    closing.addEventListener('abort', end);
    let isReusable = false;
    try {
      thread.postMessage(text);
      const [reply] = (await once(thread, 'message', { signal: ending.signal })) as [ParserReply];
      if (reply.parsed.outcome === 'parser_failed') throw tooComplex();
      isReusable = reply.memoryBytes <= KEEP_BYTES;
      if (reply.parsed.outcome === 'too_slow') throw tooComplex();
      return reply.parsed;
    } catch (error) {
      if (closing.aborted) throw busy();
      throw ending.signal.aborted || isOutOfMemory(error) ? tooComplex() : error;
    } finally {
      clearTimeout(timer);
      closing.removeEventListener('abort', end);
      if (isReusable && !closing.aborted) this.putBack(thread);
      else await thread.terminate();
    }
  }

  private startThread(): Worker {
    // Without the flags of the process: some of them (`--input-type`) are invalid for a file.
    const thread = new Worker(WORKER_FILE, { execArgv: [], resourceLimits: { maxOldGenerationSizeMb: HEAP_MB } });
    this.threads.add(thread);
    thread.once('exit', () => {
      this.threads.delete(thread);
      // It may have run out of memory while it was idle.
      clearTimeout(this.idle.get(thread));
      this.idle.delete(thread);
    });
    // Errors reject the promise of the reply; without a listener they would end the process.
    thread.on('error', () => undefined);
    return thread;
  }

  private takeIdle(): Worker | undefined {
    for (const [thread, timer] of this.idle) {
      clearTimeout(timer);
      this.idle.delete(thread);
      thread.ref();
      return thread;
    }
    return undefined;
  }

  /** Keeps a thread for later texts. An idle thread does not keep the process alive. */
  private putBack(thread: Worker): void {
    thread.unref();
    const end = () => {
      this.idle.delete(thread);
      void thread.terminate();
    };
    this.idle.set(thread, setTimeout(end, IDLE_MS).unref());
  }
}

function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
}

const busy = () => new EngineError('overloaded', BUSY);

const tooComplex = () =>
  new EngineError('invalid_request', 'The SQL is too long or too deeply nested to be parsed', {
    hint: 'Send its statements in separate requests.',
  });
