/**
 * A connection to the service that delays every packet. What a client has sent arrives even if the client has left by
 * then.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface LatePackets {
  readonly url: string;
  /** Resolves when nothing is on its way any more. */
  arrived(): Promise<void>;
  close(): Promise<void>;
}

/** @param url of the service; @param delayMs longest delay of a packet, each way */
export async function startLatePackets(url: string, delayMs: number): Promise<LatePackets> {
  const { hostname, port } = new URL(url);
  const packets = new Set<Promise<void>>();
  const sockets = new Set<Socket>();
  /** In their order. */
  const delaying = (to: Socket) => {
    let last = Promise.resolve();
    return (bytes: Buffer): void => {
      const due = sleep(Math.random() * delayMs);
      const packet = last.then(() => due).then(() => void (to.destroyed || to.write(bytes)));
      last = packet;
      packets.add(packet);
      void packet.then(() => packets.delete(packet));
    };
  };
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    }
    near.on('data', delaying(far));
    const back = delaying(near);
    // A client that has left does not take its request back.
    far.on('data', (bytes) => (near.destroyed ? far.destroy() : back(bytes)));
    far.on('close', () => near.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const arrived = async (): Promise<void> => {
    while (packets.size > 0) await Promise.all(packets);
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrived,
    close: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}
