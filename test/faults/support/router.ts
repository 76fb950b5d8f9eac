/**
 * A tiny round-robin proxy in front of instances, with persistent connections to each: if one accepts no connection, it
 * asks the next.
 */
import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, request as send, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface Router {
  readonly url: string;
  /** What broke on the way to an instance, other than a refused connection. */
  readonly broken: readonly string[];
  close(): Promise<void>;
}

/**
 * Fewer than the clients keep busy, so that none is opened while an instance closes its port: the kernel would reset a
 * connection that it has not accepted yet.
 */
const CONNECTIONS_EACH = 4;

export async function startRouter(instances: readonly string[]): Promise<Router> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS_EACH });
  const broken: string[] = [];
  let turn = 0;

  const ask = (url: string, request: IncomingMessage, body: Buffer): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const { method = 'GET', headers } = request;
      const onward = send(url + (request.url ?? ''), { method, headers, agent });
      onward.on('response', resolve).end(body);
      onward.on('error', (error) => reject(Object.assign(error, { wasKept: onward.reusedSocket })));
    });
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await buffer(request);
    const first = turn++;
    for (let attempt = 0; attempt < instances.length; attempt++) {
      const url = instances[(first + attempt) % instances.length] as string;
      try {
        const received = await ask(url, request, body);
        const bytes = await buffer(received);
        const headers = { ...received.headers };
        // Of the way to the instance, not of that to the client (RFC 9110 section 7.6.1).
        delete headers.connection;
        return void response.writeHead(received.statusCode ?? 0, headers).end(bytes);
      } catch (error) {
        const { code = String(error), wasKept } = error as NodeJS.ErrnoException & { wasKept: boolean };
        if (code !== 'ECONNREFUSED') {
          broken.push(`${code} on a ${wasKept ? 'kept' : 'new'} connection`);
          break;
        }
      }
    }
    response.destroy();
  };

  const server = createServer((request, response) => void handle(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    broken,
    close: async () => {
      agent.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
