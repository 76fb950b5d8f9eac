/** A proxy of bytes between client and service that breaks connections in the middle of a request. */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export interface BreakingProxy {
  readonly url: string;
  /** Each of the next connections with bytes ends when so many have come from the client; then none does. */
  breakAfter: number[];
  /** How many have been broken. */
  broken: number;
  /** Whether a connection stays open instead, silent in both directions: the service goes on, and nobody hears of it. */
  stalls: boolean;
  close(): Promise<void>;
}

export async function startBreakingProxy(target: string): Promise<BreakingProxy> {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const service = connect(Number(port), hostname);
    for (const socket of [client, service]) {
      open.add(socket);
      socket.on('error', () => {}).on('close', () => open.delete(socket));
    }
    let left = Infinity;
    client.on('data', (bytes) => {
      if (left === Infinity) left = proxy.breakAfter.shift() ?? Infinity;
      left -= bytes.length;
      if (left <= 0) {
        proxy.broken++;
        if (proxy.stalls) {
          service.unpipe(client).resume();
          service.write(bytes);
          client.pause();
          return;
        }
        client.destroy();
        service.destroy();
        return;
      }
      if (!service.write(bytes)) {
        client.pause();
        service.once('drain', () => client.resume());
      }
    });
    service.pipe(client);
    client.on('close', () => service.destroy());
    service.on('close', () => client.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const proxy: BreakingProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    breakAfter: [],
    broken: 0,
    stalls: false,
    close: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  return proxy;
}
