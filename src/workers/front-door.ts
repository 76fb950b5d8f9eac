/**
 * Takes the connections of a service and gives each to a worker, before a byte of it is read. Node's `cluster` does the
 * same, but loses connections that are on their way when a worker or the whole service stops (docs/decisions/0030).
 */
import { once } from 'node:events';
import { lookup } from 'node:dns/promises';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { ListenerName } from './messages.js';
import type { Connection, WorkerProcess } from './worker-process.js';

/** Connections that wait while no worker is there. Beyond these they are closed. */
const MAX_WAITING = 4_096;

export class FrontDoor {
  private readonly servers: Server[] = [];
  private waiting: Connection[] = [];
  private isClosed = false;
  private turn = 0;

  /** @param workers that can be given connections now */
  constructor(private readonly workers: () => readonly WorkerProcess[]) {}

  /**
   * Listens on the address, or on all addresses of a name.
   * @returns where, for instance `http://127.0.0.1:8080`
   */
  async open(listener: ListenerName, host: string, port: number, backlog: number): Promise<string> {
    const [first, ...others] = (await lookup(host, { all: true })).map(({ address }) => address);
    const found = await this.listen(listener, first ?? host, port, backlog);
    for (const address of others) {
      // `localhost` may have an address that this machine does not use.
      await this.listen(listener, address, found.port, backlog).catch(() => {});
    }
    const { address, family } = found;
    const reachable = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
    return `http://${family === 'IPv6' ? `[${reachable}]` : reachable}:${found.port}`;
  }

  private async listen(listener: ListenerName, host: string, port: number, backlog: number): Promise<AddressInfo> {
    const server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => this.take(socket, listener));
    server.listen({ host, port, backlog });
    await once(server, 'listening');
    this.servers.push(server);
    return server.address() as AddressInfo;
  }

  /** To be called when a worker has become ready. */
  admitWaiting(): void {
    const waiting = this.waiting;
    this.waiting = [];
    for (const connection of waiting) this.give(connection);
  }

  /** To be called when a worker has ended: others serve what it was being given. */
  takeBack(connections: readonly Connection[]): void {
    for (const connection of connections) this.give(connection);
  }

  /** Nobody comes in any more. Whatever was let in has been given to a worker, before anything that it is told from now on. */
  close(): void {
    this.isClosed = true;
    for (const server of this.servers) server.close();
    for (const { socket } of this.waiting) socket.destroy();
  }

  private take(socket: Socket, listener: ListenerName): void {
    // The client may go before a worker has it; the worker will see that too.
    socket.on('error', () => {});
    this.give({ socket, listener });
  }

  /** To the worker with the fewest; in turn, where several have as few. */
  private give(connection: Connection): void {
    const workers = this.workers();
    const least = Math.min(...workers.map(({ load }) => load));
    const idlest = workers.filter(({ load }) => load === least);
    const next = idlest[this.turn++ % idlest.length];
    if (next !== undefined && !this.isClosed) next.take(connection);
    else if (this.isClosed || this.waiting.length >= MAX_WAITING) connection.socket.destroy();
    else this.waiting.push(connection);
  }
}
