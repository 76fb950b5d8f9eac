/**
 * The load generator for HTTP, a process of its own: keep-alive connections on bare sockets. `generator.mjs` starts it
 * and gives it the bytes to send; it does not interpret the requests.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { closedLoop } from './load/closed-loop.mjs';
import { httpReader } from './load/http-reader.mjs';
import { serve } from './load/serve.mjs';

/**
 * @param {import('./load/closed-loop.mjs').Load & { port: number, connections: number, keepBody?: boolean }} order
 * @returns the counts, and with `keepBody` the first body of the first connection
 */
await serve(async ({ port, connections, keepBody = false, ...load }) => {
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(port)));
  const parts = [];
  let body = null;
  try {
    const counted = await closedLoop(sockets, load, (onResponse, index) => {
      if (index > 0 || !keepBody) return httpReader(onResponse);
      const keep = (part) => body === null && parts.push(Buffer.from(part));
      return httpReader((size) => {
        body ??= Buffer.concat(parts);
        onResponse(size);
      }, keep);
    });
    return { ...counted, body };
  } finally {
    for (const socket of sockets) socket.removeAllListeners('close').destroy();
  }
});

async function open(port) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  return socket;
}
