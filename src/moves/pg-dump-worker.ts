/**
 * The thread that runs pg_dump as WebAssembly. It has no sockets: it sends messages to `pg-dump.ts` and blocks until
 * the response arrives.
 */
import { pgDump } from '@electric-sql/pglite-tools/pg_dump';
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import type { DumpTask } from './pg-dump.js';

const { args, responses } = workerData as DumpTask;

/**
 * pgDump takes lines that begin like this for psql commands, and removes them from its whole output, even from
 * comments.
 */
const COMMAND = /\\((?:un)?restrict)/gi;
/** Has the same length, because the length of a message must not change. Postgres's own texts do not contain it. */
const HIDDEN = /\x01((?:un)?restrict)/gi;

function exchange(bytes: Uint8Array): Uint8Array {
  parentPort?.postMessage(bytes.slice());
  return Buffer.from(Buffer.from(nextResponse()).toString('latin1').replace(COMMAND, '\x01$1'), 'latin1');
}

/** Blocks until there is a message, whatever else wakes the thread. */
function nextResponse(): Uint8Array {
  for (;;) {
    const before = Atomics.load(responses, 0);
    const received = receiveMessageOnPort(parentPort as never) as { message: Uint8Array } | undefined;
    if (received !== undefined) return received.message;
    Atomics.wait(responses, 0, before);
  }
}

/** The part of PGlite that pgDump uses. */
const server = {
  query: () => Promise.resolve({ rows: [{ search_path: '' }] }),
  exec: () => Promise.resolve([]),
  execProtocolRawStream: (bytes: Uint8Array, { onRawData }: { onRawData: (response: Uint8Array) => void }) =>
    onRawData(exchange(bytes)),
};

const dump = await pgDump({ pg: server as never, args });
parentPort?.postMessage((await dump.text()).replace(HIDDEN, '\\$1'));
