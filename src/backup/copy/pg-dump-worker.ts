/**
 * The thread that runs pg_dump, as WebAssembly. It knows no sockets: what it writes goes to `pg-dump.ts`, and it stands
 * still until the answer is there.
 */
import { pgDump } from '@electric-sql/pglite-tools/pg_dump';
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import type { DumpTask } from './pg-dump.js';

const { args, answered } = workerData as DumpTask;

/**
 * Lines that begin so are commands of psql to pgDump, which removes them from all of its output, out of a comment, too.
 */
const COMMAND = /\\((?:un)?restrict)/gi;
/** Of the same length, since the lengths of messages stay. No text of Postgres's own contains it. */
const HIDDEN = /\x01((?:un)?restrict)/gi;

function exchange(bytes: Uint8Array): Uint8Array {
  Atomics.store(answered, 0, 0);
  parentPort?.postMessage(bytes.slice());
  Atomics.wait(answered, 0, 0);
  const { message } = receiveMessageOnPort(parentPort as never) as { message: Uint8Array };
  return Buffer.from(Buffer.from(message).toString('latin1').replace(COMMAND, '\x01$1'), 'latin1');
}

/** As much of a PGlite as pgDump uses. */
const server = {
  query: () => Promise.resolve({ rows: [{ search_path: '' }] }),
  exec: () => Promise.resolve([]),
  execProtocolRawStream: (bytes: Uint8Array, { onRawData }: { onRawData: (answer: Uint8Array) => void }) =>
    onRawData(exchange(bytes)),
};

const dump = await pgDump({ pg: server as never, args });
parentPort?.postMessage((await dump.text()).replace(HIDDEN, '\\$1'));
