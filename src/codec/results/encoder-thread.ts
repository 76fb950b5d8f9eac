/** The thread that encodes long rows: it receives one row at a time with how to write it, and sends back its bytes. */
import { parentPort } from 'node:worker_threads';
import type { LongRow } from './long-rows.js';
import { rowEncoder } from './row-encoder.js';

parentPort?.on('message', ({ message, columns, format, mode, values }: LongRow) => {
  const encoder = rowEncoder(columns, format, mode, values);
  const { bytes } = encoder.encode(Buffer.from(message.buffer), 0, message.length, 1, Infinity);
  parentPort?.postMessage(bytes, bytes.length < bytes.buffer.byteLength ? [] : [bytes.buffer as ArrayBuffer]);
});
