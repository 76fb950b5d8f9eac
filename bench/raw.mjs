/**
 * The raw wire, a process of its own: Postgres connections logged in by the driver, then bare sockets with bytes built
 * in advance. No client of this server can be faster, except with a better loop.
 */
import { logIn } from '../dist/pg/handshake.js';
import { SYNC } from '../dist/pg/messages.js';
import { closedLoop } from './load/closed-loop.mjs';
import { serve } from './load/serve.mjs';

/** ReadyForQuery, idle (Postgres manual, Message Formats). */
const READY = Buffer.from('Z\0\0\0\x05I', 'latin1');

/**
 * @param {import('./load/closed-loop.mjs').Load & { login: object, connections: number, prepare: Uint8Array,
 *   tag: string }} order `prepare` goes out once on each connection; `tag` is the command tag of every good response
 */
await serve(async ({ login: options, connections, prepare, tag, ...load }) => {
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(options, prepare)));
  try {
    const end = Buffer.concat([Buffer.from(`${tag}\0`), READY]);
    return await closedLoop(sockets, load, (onResponse) => wireReader(end, onResponse));
  } finally {
    for (const socket of sockets) socket.removeAllListeners('close').destroy();
  }
});

async function open(options, prepare) {
  const { socket } = await logIn({ connectionTimeoutMillis: 5_000, ...options });
  socket.setNoDelay?.(true);
  await new Promise((resolve, reject) => {
    const feed = wireReader(READY, resolve);
    socket.on('data', (chunk) => {
      try {
        feed(chunk);
      } catch (error) {
        reject(error);
      }
    });
    socket.on('error', reject);
    socket.write(Buffer.concat([prepare, SYNC]));
  });
  socket.removeAllListeners('data').removeAllListeners('close').removeAllListeners('error');
  return socket;
}

/**
 * Looks only at the end of the bytes: a response ends with ReadyForQuery, and is good if the expected tag precedes that.
 */
function wireReader(end, onResponse) {
  let last = Buffer.alloc(0);
  let bytes = 0;
  return (chunk) => {
    bytes += chunk.length;
    last = chunk.length >= end.length ? chunk : Buffer.concat([last, chunk]).subarray(-Math.max(end.length, 600));
    if (!endsWith(last, READY)) return;
    if (!endsWith(last, end)) throw new Error(`Postgres answered ${JSON.stringify(last.latin1Slice(-600))}`);
    last = last.subarray(0, 0);
    const size = bytes;
    bytes = 0;
    onResponse(size);
  };
}

const endsWith = (bytes, end) =>
  bytes.length >= end.length && bytes.compare(end, 0, end.length, bytes.length - end.length) === 0;
