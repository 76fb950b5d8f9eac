/**
 * What is wrong with a request before anybody looks at what it asks: what Node's parser refuses or gives up waiting for,
 * and heads that another reader on the way (a proxy) might understand differently.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { EngineError } from '../contract/errors.js';
import { rawError } from './error-exit.js';

/** Of these Node keeps the first and drops the others (manual of http, `message.headers`). */
const GIVEN_ONCE: readonly string[] = ['host', 'authorization', 'content-type'];
const LENGTHS: ReadonlySet<number> = new Set(GIVEN_ONCE.map(({ length }) => length));

/**
 * What Node lets through and no route can mean (RFC 9112 sections 3.2 and 6.1). The connection ends with the refusal:
 * where such a request ends is in doubt.
 */
export function refusalOfHead({ rawHeaders, headers, httpVersion }: IncomingMessage): EngineError | undefined {
  if (headers.host === undefined && httpVersion === '1.1') return doubtful('The request has no Host header');
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && (httpVersion === '1.0' || coding.toLowerCase() !== 'chunked')) {
    return doubtful('The Transfer-Encoding of a request must be chunked, in HTTP/1.1');
  }
  const seen: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    if (!LENGTHS.has(name.length)) continue;
    const known = name.toLowerCase();
    if (!GIVEN_ONCE.includes(known)) continue;
    if (seen.includes(known)) return doubtful(`The header ${known} is given twice`);
    seen.push(known);
  }
  const { upgrade, connection = '' } = headers;
  // Clients that would rather speak HTTP/2 offer it with any request and go on in HTTP/1.1 (RFC 7540 section 3.2).
  if (upgrade !== undefined && /\bupgrade\b/i.test(connection) && !/^h2c?\b/i.test(upgrade)) {
    return new EngineError('invalid_request', 'The service speaks HTTP/1.1 alone; there is nothing to upgrade to');
  }
  return undefined;
}

const doubtful = (message: string) => new EngineError('invalid_request', message, { headers: { connection: 'close' } });

/** How long the end of a connection may take from its client's side. */
const LINGER_MS = 2_000;

/** A last answer on a connection. It gets a moment to arrive; a client that does not close is not waited for. */
export function endSoon(socket: Duplex, answer: string): void {
  socket.end(answer);
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
}

/**
 * Answers for what never became a request. Requests that came before it on the same connection are answered first:
 * its refusal must not stand in the place of an answer to them.
 */
export class BrokenHttp {
  private readonly unanswered = new WeakMap<Socket, Set<ServerResponse>>();
  private readonly latest = new WeakMap<Socket, ServerResponse>();
  private readonly refused = new WeakSet<Socket>();

  watch(server: Server): void {
    server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
      const responses = this.unanswered.get(socket) ?? new Set();
      this.unanswered.set(socket, responses.add(response));
      this.latest.set(socket, response);
      response.once('close', () => responses.delete(response));
    });
  }

  /** For Node's event `clientError`. */
  readonly refuse = (error: NodeJS.ErrnoException, socket: Socket): void => {
    if (error.code === 'ECONNRESET' || socket.destroyed) return void socket.destroy();
    // What comes after the first error is read from the wrong place.
    if (this.refused.has(socket)) return;
    this.refused.add(socket);
    void this.refuseInTurn(error, socket);
  };

  private async refuseInTurn(error: Error, socket: Socket): Promise<void> {
    const earlier = [...(this.unanswered.get(socket) ?? [])].filter(({ req }) => req.complete);
    await Promise.all(earlier.map((response) => new Promise((resolve) => response.once('close', resolve))));
    const latest = this.latest.get(socket);
    // A request that was refused without its body has its answer.
    const isAnswered = latest !== undefined && !latest.req.complete && latest.headersSent;
    if (!socket.writable) socket.destroy();
    else if (isAnswered) socket.destroySoon();
    else endSoon(socket, rawError(error, randomUUID()));
  }
}
