/** Unfinished logins. Each has a time limit, and a flood of them evicts only the oldest. */
import type { Socket } from 'node:net';
import { Counts } from '../contract/counts.js';
import { networkOf } from '../engine/access/wrong-tokens.js';

const LOGIN_MS = 10_000;

/** Limits in total and per network (the same networks as for wrong tokens). */
const MAX_LOGINS = 1_000;
const MAX_PER_NETWORK = 200;

export class HalfOpenLogins {
  /** Oldest first. */
  private readonly open = new Map<Socket, string>();
  private readonly counts = new Counts();

  /** @param late called before a login is aborted */
  constructor(private readonly late: () => void) {}

  /** @returns a function to call when the login has ended */
  begin(socket: Socket): () => void {
    const network = networkOf(socket.remoteAddress ?? '');
    this.open.set(socket, network);
    const count = this.counts.add(network, 1);
    if (count > MAX_PER_NETWORK) this.breakOff([...this.open].find(([, other]) => other === network)?.[0]);
    else if (this.open.size > MAX_LOGINS) this.breakOff(this.open.keys().next().value);
    const timer = setTimeout(() => this.breakOff(socket), LOGIN_MS).unref();
    return () => {
      clearTimeout(timer);
      this.delete(socket);
    };
  }

  /** Aborts all logins. */
  close(): void {
    for (const socket of this.open.keys()) socket.destroy();
  }

  private breakOff(socket: Socket | undefined): void {
    if (socket === undefined || !this.open.has(socket)) return;
    this.late();
    this.delete(socket);
    socket.destroy();
  }

  private delete(socket: Socket): void {
    const network = this.open.get(socket);
    if (network === undefined) return;
    this.open.delete(socket);
    this.counts.add(network, -1);
  }
}
