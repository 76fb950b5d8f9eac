/**
 * Client connections: tracks requests without a response, refuses bytes that are not a request, and closes the
 * connections when the service stops.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { rawError } from '../response/error-exit.js';

/** When the service stops, idle connections stay open this long for requests that may be in transit. */
const DRAIN_MS = 1_000;
/** The wait is in steps: if the whole machine is paused, so are its clients, and the pause counts as one step. */
const DRAIN_STEP_MS = 25;

/** How long a client may take to read a refusal and close its side. */
const LINGER_MS = 2_000;

/** How often to look for bodies that are late. */
const CHECK_MS = 1_000;

/** The code of Node's parser for a client that ends its side within a request. */
const ENDED_WITHIN_REQUEST = 'HPE_INVALID_EOF_STATE';

class ClientConnection {
  /** In the order of requests, each with a function to call when it is over. */
  readonly unanswered = new Map<ServerResponse, () => void>();
  /** The response to the last request, unless that has been completely read and answered. */
  latest: ServerResponse | null = null;
  /** When the body of the last request must have arrived, on the clock of `performance.now()`. */
  bodyDue = Infinity;
  isUsed = false;
  isRefused = false;
}

export class ClientConnections {
  private readonly open = new Map<Socket, ClientConnection>();
  private server: Server | null = null;
  private isStopping = false;
  private isDrained = false;

  /** @param bodyMs how long the body of a request may take to arrive, and what is left of a stream after its response */
  constructor(private readonly bodyMs: number) {}

  watch(server: Server): void {
    this.server = server;
    const checks = setInterval(() => this.refuseLateBodies(), CHECK_MS).unref();
    server.once('close', () => clearInterval(checks));
    server.on('connection', (socket: Socket) => {
      const connection = new ClientConnection();
      this.open.set(socket, connection);
      socket.once('close', () => {
        this.open.delete(socket);
        // Node notifies only the current response.
        for (const over of [...connection.unanswered.values()]) over();
      });
    });
  }

  /** @param onOver called once when the response has been sent or the connection has closed */
  begin(response: ServerResponse, onOver: () => void): void {
    const { req } = response;
    const connection = this.of(req.socket);
    connection.isUsed = true;
    connection.latest = response;
    connection.bodyDue = performance.now() + this.bodyMs;
    if (this.isStopping) response.shouldKeepAlive = false;
    const over = () => {
      if (!connection.unanswered.delete(response)) return;
      if (connection.latest === response && req.complete) connection.latest = null;
      if (connection.bodyDue === Infinity) connection.bodyDue = performance.now() + this.bodyMs;
      // A response that began before the stop has promised to keep the connection open.
      if (this.isDrained && connection.unanswered.size === 0) req.socket.destroySoon();
      onOver();
    };
    connection.unanswered.set(response, over);
    response.once('close', over);
  }

  /** The body may take any time to arrive, until the response has been sent. */
  expectStream({ socket }: IncomingMessage): void {
    this.of(socket).bodyDue = Infinity;
  }

  private refuseLateBodies(): void {
    const now = performance.now();
    for (const [socket, { latest, bodyDue }] of this.open) {
      if (latest === null || latest.req.complete || now < bodyDue) continue;
      void this.refuse(Object.assign(new Error('The body is late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket);
    }
  }

  /**
   * For Node's events `clientError` and `connect`: refuses bytes that did not become a request. Earlier requests on the
   * connection are answered first, so that the refusal is not taken for a response to them.
   */
  async refuse(error: NodeJS.ErrnoException, socket: Socket): Promise<void> {
    const connection = this.of(socket);
    const earlier = [...connection.unanswered.keys()].filter(({ req }) => req.complete);
    const hasDisconnected = error.code === 'ECONNRESET' || (error.code === ENDED_WITHIN_REQUEST && earlier.length > 0);
    if (hasDisconnected || socket.destroyed) return void socket.destroy();
    // After the first error, the parser's state is undefined.
    if (connection.isRefused) return;
    connection.isRefused = true;
    // Not `once` of node:events, which rejects on an error of the response.
    await Promise.all(earlier.map((response) => new Promise((resolve) => response.once('close', resolve))));
    const { latest } = connection;
    // A request that was refused before its body was read has already been answered.
    const isAnswered = latest !== null && !latest.req.complete && latest.headersSent;
    if (!socket.writable) socket.destroy();
    else if (isAnswered) socket.destroySoon();
    else endWith(socket, rawError(error, randomUUID()));
  }

  /**
   * Closes the port and the connections. A request that arrives on an idle connection within {@link DRAIN_MS} is still
   * answered, as the last one there. Closing at once would break off requests that clients may not repeat.
   */
  async drain(): Promise<void> {
    // Closing the port resets connections that Node has not accepted yet. It accepts those that have arrived first.
    await new Promise(setImmediate);
    this.isStopping = true;
    for (const { unanswered } of this.open.values()) {
      const last = [...unanswered.keys()].at(-1);
      if (last !== undefined && !last.headersSent) last.shouldKeepAlive = false;
    }
    // Unlike the `close` of http.Server, this leaves idle connections open.
    if (this.server?.listening === true) NetServer.prototype.close.call(this.server);
    for (let waited = 0; waited < DRAIN_MS && this.open.size > 0; waited += DRAIN_STEP_MS) await sleep(DRAIN_STEP_MS);
    this.isDrained = true;
    for (const [socket, { isUsed, unanswered }] of this.open) {
      const isBodyMissing = [...unanswered.keys()].some(({ req, headersSent }) => headersSent && !req.complete);
      if (!isUsed || socket.writableFinished || isBodyMissing) socket.destroy();
    }
  }

  /** The fallback: a request may still begin on a connection that has just closed. */
  private of(socket: Socket): ClientConnection {
    return this.open.get(socket) ?? new ClientConnection();
  }
}

/** Sends a last response, and discards further input: unread data would reset the connection. */
function endWith(socket: Socket, response: string): void {
  socket.end(response);
  const discard = () => void socket.removeAllListeners('data').on('data', () => {});
  // If the socket is paused, wait for the event: the listeners that resume it belong to Node's parser, and go with its
  // `data` listener.
  if (socket.isPaused()) socket.once('resume', discard).resume();
  else discard();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
}
