/** A proxy between client and service that imitates the faults of a network. */
import { once } from 'node:events';
import { createServer, request as send, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export type Fault =
  /** The connection ends before the service has seen the request. */
  | 'drop-before'
  /** The service does what it was asked, and nobody hears of it. */
  | 'drop-after'
  /** Half of the response's body arrives. */
  | 'cut'
  /** A 502 with a page of HTML, the request done. */
  | 'bad-gateway'
  /** A 503 with a page of HTML, the request not done. */
  | 'unavailable'
  /** 429 with `Retry-After: 1`, the request not done. */
  | 'rate-limit'
  /** No response at all. */
  | 'hang';

export interface FaultyProxy {
  readonly url: string;
  /** Every request that came, with the key it carried and what was done to it. */
  readonly seen: { path: string; key: string | undefined; fault: Fault | undefined; at: number }[];
  /** Decides about each request. */
  plan: (request: IncomingMessage) => Fault | undefined;
  close(): Promise<void>;
}

const RATE_LIMITED = JSON.stringify({
  success: false,
  error: 'rate_limited',
  message: 'The token has sent too many requests',
  status: 429,
  request_id: 'proxy',
});

/** As the service answers pages of other origins. */
const FOR_PAGES = { 'access-control-allow-origin': '*', 'access-control-expose-headers': 'Retry-After' };

export async function startFaultyProxy(target: string): Promise<FaultyProxy> {
  const seen: FaultyProxy['seen'] = [];
  const proxy = { plan: (() => undefined) as FaultyProxy['plan'] };

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const fault = proxy.plan(request);
    const { 'idempotency-key': key } = request.headers;
    seen.push({ path: request.url ?? '', key: key?.toString(), fault, at: Date.now() });
    if (fault === 'drop-before') return void request.socket.destroy();
    const body = await buffer(request);
    if (fault === 'hang') return;
    if (fault === 'rate-limit') {
      const headers = { 'content-type': 'application/json', 'retry-after': '1', ...FOR_PAGES };
      response.writeHead(429, headers).end(RATE_LIMITED);
      return;
    }
    if (fault === 'unavailable') {
      response.writeHead(503, { 'content-type': 'text/html' }).end('<h1>No server is available</h1>');
      return;
    }
    const { method = 'GET', headers, url = '/' } = request;
    const onward = send(new URL(url, target), { method, headers });
    // Whoever goes away takes the request to the service along, as a proxy does.
    response.on('close', () => void onward.destroy());
    onward.end(body);
    const [received] = (await once(onward, 'response')) as [IncomingMessage];
    if (fault === undefined) {
      response.writeHead(received.statusCode ?? 0, received.headers);
      received.on('error', () => void response.destroy()).pipe(response);
      return;
    }
    const bytes = await buffer(received);
    if (fault === 'drop-after') return void request.socket.destroy();
    if (fault === 'bad-gateway') {
      response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad Gateway</h1>');
      return;
    }
    response.writeHead(received.statusCode ?? 0, { ...received.headers, 'content-length': bytes.length });
    response.write(bytes.subarray(0, bytes.length / 2), () => void response.destroy());
  }

  const server = createServer((request, response) => {
    handle(request, response).catch(() => void response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(proxy, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  });
}
