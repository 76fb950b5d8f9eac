/**
 * The connections of clients while they are open: which of their requests have no answer yet, what is said to bytes that
 * are no request, and how a stop ends them.
 */
import type { Server } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { rawError } from '../answer/error-exit.js';
import { endSoon } from './framing.js';
import { newRequestId } from './request-id.js';
import type { WholeResponse } from './whole-response.js';

/** How long a stop leaves kept connections open for the request that may be on its way there. */
const DRAIN_MS = 1_000;
/**
 * It is counted in steps, so that a machine that stood still counts for one of them and not for all: its clients stood
 * still as well, and send when they go on.
 */
const DRAIN_STEP_MS = 25;

/** What comes to the machine during a turn of the event loop is seen only in the next: in so short a turn hardly anything. */
const SHORT_TURN_MS = 2;
/** A loop that is busy throughout has no short ones. */
const MAX_TURNS = 50;

/** Resolves right behind a short turn of the event loop, when all that had come before it has been read. */
async function shortTurn(): Promise<void> {
  // What is left of this turn is not a whole one: nobody has looked for what came while its first half ran.
  await setImmediate();
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const began = performance.now();
    await setImmediate();
    if (performance.now() - began < SHORT_TURN_MS) return;
  }
}

/**
 * Takes no further connections. To be called before a stop tells clients that their connection ends: they come anew at
 * once, and those that the system has taken for us, and we have not, are reset with the port.
 */
export async function closePort(server: Server): Promise<void> {
  await shortTurn();
  // Unlike that of HTTP, this leaves idle connections open; it ends with the last of them.
  NetServer.prototype.close.call(server);
}

/** Node's parser, where a client ends its side within a request. */
const LEFT = 'HPE_INVALID_EOF_STATE';

export class ClientConnection {
  /** In the order of their requests. */
  readonly unanswered: WholeResponse[] = [];
  /** To the request that was read last, unless that was read to its end and answered. */
  latest: WholeResponse | null = null;
  isUnused = true;
  isRefused = false;

  constructor(readonly address: string) {}
}

export class ClientConnections {
  private readonly open = new Map<Socket, ClientConnection>();
  private isStopping = false;
  /** Nothing that a client has sent to a kept connection is on its way any more. */
  private isDrained = false;

  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      const connection = new ClientConnection(socket.remoteAddress ?? '');
      this.open.set(socket, connection);
      socket.once('close', () => {
        this.open.delete(socket);
        for (const response of [...connection.unanswered]) response.breakOff();
      });
    });
  }

  /** A request has begun. @returns where it came */
  begin(response: WholeResponse): ClientConnection {
    const connection = this.of(response.req.socket);
    connection.isUnused = false;
    connection.latest = response;
    connection.unanswered.push(response);
    if (this.isStopping) response.shouldKeepAlive = false;
    return connection;
  }

  /** Its answer is out, or its connection broke. */
  end(response: WholeResponse, connection: ClientConnection): void {
    const place = connection.unanswered.indexOf(response);
    if (place === 0) connection.unanswered.shift();
    else if (place > 0) connection.unanswered.splice(place, 1);
    if (connection.latest === response && response.req.complete) connection.latest = null;
    // A stream may have begun before; the end of the service would wait for the connection that its client keeps. Before
    // that an answer that promised to keep it does, as all did that went out before the stop.
    if (this.isDrained && connection.unanswered.length === 0) response.req.socket.destroySoon();
  }

  /**
   * Nobody new comes in. What comes on a connection that is kept, at that moment or shortly after, is still answered, and
   * told that it was the last: closing it at once would break off a request that the client has sent already, and which
   * it may not repeat. A connection on which no request has begun by then does not hold the stop up (Node counts it among
   * the busy ones), none is kept after its answer, and nobody is listened to who has had the last one.
   */
  async stop(server: Server): Promise<void> {
    this.isStopping = true;
    for (const { unanswered } of this.open.values()) {
      const last = unanswered.at(-1);
      if (last !== undefined && !last.headersSent) last.shouldKeepAlive = false;
    }
    await this.drained(server);
    // A request that has come to a connection that is closed unread would be reset with it.
    await shortTurn();
    this.isDrained = true;
    for (const [socket, { isUnused }] of this.open) if (isUnused || socket.writableFinished) socket.destroy();
  }

  /** Resolves when the last connection is closed, or after {@link DRAIN_MS}. */
  private async drained(server: Server): Promise<void> {
    if (server.listening) NetServer.prototype.close.call(server);
    for (let waited = 0; waited < DRAIN_MS && this.open.size > 0; waited += DRAIN_STEP_MS) await sleep(DRAIN_STEP_MS);
  }

  /**
   * For Node's events `clientError` and `connect`: answers for what never became a request. Requests that came before it
   * on the same connection are answered first: its refusal must not stand in the place of an answer to them.
   */
  readonly refuse = (error: NodeJS.ErrnoException, socket: Socket): void => {
    if (error.code === 'ECONNRESET' || socket.destroyed) return void socket.destroy();
    const connection = this.of(socket);
    // It left in the middle of a request. As elsewhere, nobody waits then for the answers to those before.
    if (error.code === LEFT && connection.unanswered.some(({ req }) => req.complete)) return void socket.destroy();
    // What comes after the first error is read from the wrong place.
    if (connection.isRefused) return;
    connection.isRefused = true;
    void this.refuseInTurn(error, socket, connection);
  };

  private async refuseInTurn(error: Error, socket: Socket, connection: ClientConnection): Promise<void> {
    // Answers go out at the end of a turn of the event loop.
    await setImmediate();
    const earlier = connection.unanswered.filter(({ req }) => req.complete);
    await Promise.all(earlier.map((response) => new Promise((resolve) => response.once('close', resolve))));
    const { latest } = connection;
    // A request that was refused without its body has its answer.
    const isAnswered = latest !== null && !latest.req.complete && latest.headersSent;
    if (!socket.writable) socket.destroy();
    else if (isAnswered) socket.destroySoon();
    else endSoon(socket, rawError(error, newRequestId()));
  }

  /** A request may still be begun on a connection that has just broken. */
  private of(socket: Socket): ClientConnection {
    return this.open.get(socket) ?? new ClientConnection(socket.remoteAddress ?? '');
  }
}
