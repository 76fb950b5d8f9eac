/**
 * The connections of clients: which of their requests have no answer yet, how bytes that are no request are refused,
 * and how they end when the service stops.
 */
import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { rawError } from '../response/error-exit.js';

/** When the service stops, kept connections stay open this long for requests that may be on their way. */
const DRAIN_MS = 1_000;
/** Waited in steps: if the machine stood still, so did its clients, and that counts for one step only. */
const DRAIN_STEP_MS = 25;

/** A client has this long to read a refusal and to close its side. */
const LINGER_MS = 2_000;

/** Node's parser, if a client ends its side within a request. */
const ENDED_WITHIN_REQUEST = 'HPE_INVALID_EOF_STATE';

class ClientConnection {
  /** In the order of their requests, each with what to call when it is over. */
  readonly unanswered = new Map<ServerResponse, () => void>();
  /** To the request that was read last, unless that has been read to its end and answered. */
  latest: ServerResponse | null = null;
  isUsed = false;
  isRefused = false;
}

export class ClientConnections {
  private readonly open = new Map<Socket, ClientConnection>();
  private server: Server | null = null;
  private isStopping = false;
  private isDrained = false;

  watch(server: Server): void {
    this.server = server;
    server.on('connection', (socket: Socket) => {
      const connection = new ClientConnection();
      this.open.set(socket, connection);
      socket.once('close', () => {
        this.open.delete(socket);
        // Node tells only the response whose turn it is.
        for (const over of [...connection.unanswered.values()]) over();
      });
    });
  }

  /** @param onOver called once when the answer has been sent or the connection has closed */
  begin(response: ServerResponse, onOver: () => void): void {
    const { req } = response;
    const connection = this.of(req.socket);
    connection.isUsed = true;
    connection.latest = response;
    if (this.isStopping) response.shouldKeepAlive = false;
    const over = () => {
      if (!connection.unanswered.delete(response)) return;
      if (connection.latest === response && req.complete) connection.latest = null;
      // An answer that began before the stop has promised to keep the connection.
      if (this.isDrained && connection.unanswered.size === 0) req.socket.destroySoon();
      onOver();
    };
    connection.unanswered.set(response, over);
    response.once('close', over);
  }

  /**
   * For Node's events `clientError` and `connect`: answers what never became a request. Earlier requests on the same
   * connection are answered first, since the refusal must not stand in the place of an answer to them.
   */
  async refuse(error: NodeJS.ErrnoException, socket: Socket): Promise<void> {
    const connection = this.of(socket);
    const earlier = [...connection.unanswered.keys()].filter(({ req }) => req.complete);
    const hasDisconnected = error.code === 'ECONNRESET' || (error.code === ENDED_WITHIN_REQUEST && earlier.length > 0);
    if (hasDisconnected || socket.destroyed) return void socket.destroy();
    // After the first error the parser has lost its place.
    if (connection.isRefused) return;
    connection.isRefused = true;
    await Promise.all(earlier.map((response) => once(response, 'close')));
    const { latest } = connection;
    // A request that was refused before its body was read has its answer.
    const isAnswered = latest !== null && !latest.req.complete && latest.headersSent;
    if (!socket.writable) socket.destroy();
    else if (isAnswered) socket.destroySoon();
    else endWith(socket, rawError(error, randomUUID()));
  }

  /**
   * Closes the port and the connections. A request that comes on a kept connection within {@link DRAIN_MS} is still
   * answered, as the last one there: closed at once, the connection would break off requests that clients may not
   * repeat.
   */
  async drain(): Promise<void> {
    this.isStopping = true;
    for (const { unanswered } of this.open.values()) {
      const last = [...unanswered.keys()].at(-1);
      if (last !== undefined && !last.headersSent) last.shouldKeepAlive = false;
    }
    // Unlike that of HTTP, this leaves idle connections open.
    if (this.server?.listening === true) NetServer.prototype.close.call(this.server);
    for (let waited = 0; waited < DRAIN_MS && this.open.size > 0; waited += DRAIN_STEP_MS) await sleep(DRAIN_STEP_MS);
    this.isDrained = true;
    for (const [socket, { isUsed, unanswered }] of this.open) {
      const isBodyMissing = [...unanswered.keys()].some(({ req, headersSent }) => headersSent && !req.complete);
      if (!isUsed || socket.writableFinished || isBodyMissing) socket.destroy();
    }
  }

  /** A request may still begin on a connection that has just closed. */
  private of(socket: Socket): ClientConnection {
    return this.open.get(socket) ?? new ClientConnection();
  }
}

/** Sends a last answer, and reads what still comes without looking at it: unread data would reset the connection. */
function endWith(socket: Socket, answer: string): void {
  socket.end(answer);
  const discard = () => void socket.removeAllListeners('data').on('data', () => {});
  // The listeners that resume a paused socket are those of Node's parser, which go with its reading.
  if (socket.isPaused()) socket.once('resume', discard).resume();
  else discard();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
}
