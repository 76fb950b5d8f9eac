/**
 * The load generator for HTTP, a process of its own: keep-alive connections over bare sockets. `rounds.mjs` starts it
 * and tells it what to send; it knows nothing of what the requests mean.
 */
import { connect } from 'node:net';
import { once } from 'node:events';
import { closedLoop } from './load/closed-loop.mjs';
import { httpReader } from './load/http-reader.mjs';
import { serve } from './load/serve.mjs';

/**
 * @param {import('./load/closed-loop.mjs').Load & { port: number, connections: number }} order
 * @returns the counts, and the first body that came
 */
await serve(async ({ port, connections, ...load }) => {
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(port)));
  const first = [];
  try {
    let isFirst = true;
    const counted = await closedLoop(sockets, load, (onAnswer) => {
      const keeps = isFirst;
      isFirst = false;
      let keeping = keeps;
      const answered = (size) => {
        keeping = false;
        onAnswer(size);
      };
      return httpReader(answered, keeps ? (part) => keeping && keep(first, part) : undefined);
    });
    return { ...counted, body: Buffer.concat(first) };
  } finally {
    for (const socket of sockets) socket.removeAllListeners('close').destroy();
  }
});

/** Enough of the first body to look at; the rest of a long stream is let go. */
const KEPT_BYTES = 32 * 1024 * 1024;

function keep(parts, part) {
  if (parts.reduce((sum, { length }) => sum + length, 0) < KEPT_BYTES) parts.push(Buffer.from(part));
}

async function open(port) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  return socket;
}
