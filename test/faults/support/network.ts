/**
 * A network between the service and Postgres that a test can break: a proxy on loopback in front of the server's
 * socket.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/**
 * What becomes of bytes: they pass; come late; are held back in both directions and come at the end, as where a cable
 * is out for a while, except that every other connection is forgotten for ever, as by a firewall (`black hole`); or
 * connections break and new ones are refused at once (`cut`).
 */
export type Weather = 'clear' | { delayMs: number } | 'black hole' | 'cut';

export interface Network {
  /** `127.0.0.1:1234` */
  readonly address: string;
  set(weather: Weather): void;
  /**
   * Breaks Postgres's half of every connection; the service is told nothing, now or ever, and what it sends is
   * swallowed.
   */
  halfOpen(): void;
  /**
   * The same of each connection that is open, once so many bytes more have come from the service, in the middle of what
   * it sends.
   */
  halfOpenAfter(bytes: number): void;
  /** Of each connection that is open, nothing more comes back from Postgres, which gets all that is sent. */
  swallowResponses(): void;
  /** Connections of the service that are open. */
  readonly open: () => number;
  close(): Promise<void>;
}

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
  /** What is held back, in order. */
  readonly held: (() => void)[];
  /** What comes late, and is under way. */
  late: number;
  /** Swallows everything for ever. */
  dead: boolean;
  /** Bytes to Postgres until it is. */
  left: number;
  /** Swallows what Postgres says. */
  mute: boolean;
}

/** @param socketPath of Postgres */
export async function startNetwork(socketPath: string): Promise<Network> {
  const pairs = new Set<Pair>();
  /** Those with something to deliver, also where the service has given them up. */
  const heldBack: Pair[] = [];
  let weather: Weather = 'clear';
  let delayMs = 0;

  /** Ends of connections travel as their bytes do. */
  const pass = (pair: Pair, event: () => void): void => {
    if (pair.dead || weather === 'cut') return;
    if (weather === 'black hole') {
      if (pair.held.push(event) === 1) heldBack.push(pair);
    }
    // Nothing overtakes what was sent before it; timers of one length fire in the order they were set.
    else if (typeof weather === 'object' || pair.late > 0) {
      pair.late++;
      setTimeout(() => {
        pair.late--;
        event();
      }, delayMs);
    } else event();
  };
  const destroy = ({ near, far }: Pair): void => [near, far].forEach((socket) => void socket.destroy());
  const server = createServer((near) => {
    near.on('error', () => undefined);
    if (weather === 'cut') return void near.destroy();
    const far = connect(socketPath);
    const pair: Pair = { near, far, held: [], late: 0, dead: false, left: Infinity, mute: false };
    pairs.add(pair);
    far.on('error', () => undefined);
    near.on('data', (bytes: Buffer) => {
      const taken = bytes.subarray(0, pair.left);
      pass(pair, () => far.write(taken));
      pair.left -= taken.length;
      pair.dead ||= pair.left === 0;
    });
    far.on('data', (bytes: Buffer) => pass(pair, () => pair.mute || near.write(bytes)));
    near.on('close', () => {
      pairs.delete(pair);
      // The server learns of it in the end, by its own keepalive.
      if (pair.dead) far.destroy();
      else pass(pair, () => far.end());
    });
    far.on('close', () => pass(pair, () => near.end()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    set: (next) => {
      weather = next;
      if (typeof next === 'object') ({ delayMs } = next);
      let n = 0;
      for (const pair of pairs) {
        if (next === 'cut') destroy(pair);
        if (next === 'black hole' && n++ % 2 === 0) pair.dead = true;
      }
      if (next === 'clear') for (const { held } of heldBack.splice(0)) for (const event of held.splice(0)) event();
    },
    halfOpen: () => {
      for (const pair of pairs) {
        pair.dead = true;
        pair.far.destroy();
      }
    },
    halfOpenAfter: (bytes) => {
      for (const pair of pairs) pair.left = bytes;
    },
    swallowResponses: () => {
      for (const pair of pairs) pair.mute = true;
    },
    open: () => pairs.size,
    close: async () => {
      pairs.forEach(destroy);
      server.close();
      await once(server, 'close');
    },
  };
}
