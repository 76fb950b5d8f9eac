/**
 * Serves connections that another process has accepted and handed over, instead of listening: one server, behind whose
 * port others serve as well.
 */
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

export class HandedConnections {
  private readonly sockets = new Set<Socket>();
  private onLast: (() => void) | null = null;

  /** @param app ready, and not listening */
  constructor(
    readonly app: FastifyInstance,
    /** Called when one has come or gone. */
    private readonly onChange: () => void,
  ) {
    // Node watches the times of headers and bodies from this event on; it would not without a listener of its own.
    app.server.emit('listening');
  }

  /** Connections that are open. */
  get open(): number {
    return this.sockets.size;
  }

  /** @param socket of which nothing has been read */
  take(socket: Socket): void {
    this.sockets.add(socket);
    socket.once('close', () => {
      this.sockets.delete(socket);
      this.onChange();
      if (this.sockets.size === 0) this.onLast?.();
    });
    // As for those that a server accepts itself: a client may say that it sends no more, and wait for its answer.
    socket.allowHalfOpen = true;
    this.app.server.emit('connection', socket);
    this.onChange();
  }

  /** Ends all connections, those with a request once it is answered. Nothing may be handed over any more. */
  async close(): Promise<void> {
    await this.app.close();
    if (this.sockets.size > 0) await new Promise<void>((resolve) => (this.onLast = resolve));
  }
}
