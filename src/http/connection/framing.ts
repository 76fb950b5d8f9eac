/**
 * What is wrong with a request before anybody looks at what it asks: heads that another reader on the way (a proxy) might
 * understand differently.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { EngineError } from '../../contract/errors.js';

/** Of these Node keeps the first and drops the others (manual of http, `message.headers`). */
const GIVEN_ONCE: readonly string[] = ['host', 'authorization', 'content-type'];
/** Which of them a name of so many letters may be. */
const BY_LENGTH: readonly (string | undefined)[] = Array.from({ length: 14 }, (_, length) =>
  GIVEN_ONCE.find((name) => name.length === length),
);

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
  // One bit for each length.
  let seen = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    const known = BY_LENGTH[name.length];
    if (known === undefined || (name !== known && name.toLowerCase() !== known)) continue;
    const bit = 1 << name.length;
    if ((seen & bit) !== 0) return doubtful(`The header ${known} is given twice`);
    seen |= bit;
  }
  const { upgrade, connection = '' } = headers;
  // Clients that would rather speak HTTP/2 offer it with any request and go on in HTTP/1.1 (RFC 7540 section 3.2).
  if (upgrade !== undefined && /\bupgrade\b/i.test(connection) && !/^h2c?\b/i.test(upgrade)) {
    return new EngineError('invalid_request', 'The service speaks HTTP/1.1 alone; there is nothing to upgrade to');
  }
  return undefined;
}

const doubtful = (message: string) => new EngineError('invalid_request', message, { headers: { connection: 'close' } });

/** How long the end of a connection may take from its client's side, … */
const LINGER_MS = 2_000;
/** … and where it is still sending a body, which may take as long as any. */
const UNREAD_BODY_MS = 30_000;

/** A last answer on a connection. It gets a moment to arrive; a client that does not close is not waited for. */
export const endSoon = (socket: Duplex, answer: string): void => linger(socket.end(answer), LINGER_MS);

/**
 * Behind the answer to a request whose body nobody reads. Closed at once, the connection would be reset by what is on its
 * way, and the answer lost with it (RFC 9112 section 9.6).
 */
export const endUnread = (socket: Duplex): void => linger(socket.end(), UNREAD_BODY_MS);

/** Throws away what comes until the client closes: nothing of it is a request any more. */
function linger(socket: Duplex, ms: number): void {
  const drop = () => void socket.removeAllListeners('data').on('data', () => {});
  // What starts a paused socket again are listeners of Node's parser, which go with its reading.
  if (socket.isPaused()) socket.once('resume', drop).resume();
  else drop();
  const timer = setTimeout(() => socket.destroy(), ms).unref();
  socket.once('close', () => clearTimeout(timer));
}
