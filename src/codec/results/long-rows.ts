/**
 * Encodes long rows in a thread, one at a time, since WebAssembly cannot stop half-way: an array of a million numbers
 * would hold up the event loop for as long as it takes.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { ResultColumn, RowFormat, RowMode } from './result-columns.js';
import type { Values } from './types.js';

/** The built file, even from `src/` (in tests, which follow a build): a thread cannot run TypeScript. */
const THREAD_FILE = new URL('../../../dist/codec/results/encoder-thread.js', import.meta.url);

const IDLE_MS = 30_000;

/** A row, and the arguments of `rowEncoder`. */
export interface LongRow {
  /** Its DataRow message, with memory of its own, which is moved to the thread. */
  readonly message: Uint8Array<ArrayBuffer>;
  readonly columns: readonly ResultColumn[];
  readonly format: RowFormat;
  readonly mode: RowMode;
  readonly values: Values | undefined;
}

let thread: Worker | null = null;
let last: Promise<unknown> = Promise.resolve();
let idle: NodeJS.Timeout | undefined;

/** @throws Error if Postgres violates its protocol */
export function encodeLongRow(row: LongRow): Promise<Buffer> {
  const encoded = last.then(() => encode(row));
  // The caller has the error.
  last = encoded.catch(() => {});
  return encoded;
}

async function encode(row: LongRow): Promise<Buffer> {
  clearTimeout(idle);
  // Without the flags of the process: some of them (`--input-type`) are invalid for a file.
  thread ??= new Worker(THREAD_FILE, { execArgv: [] });
  const worker = thread;
  worker.ref();
  try {
    worker.postMessage(row, [row.message.buffer]);
    const [bytes] = (await once(worker, 'message')) as [Uint8Array<ArrayBuffer>];
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  } catch (error) {
    // An error has ended it.
    thread = null;
    throw error;
  } finally {
    worker.unref();
    idle = setTimeout(endThread, IDLE_MS).unref();
  }
}

function endThread(): void {
  void thread?.terminate();
  thread = null;
}
