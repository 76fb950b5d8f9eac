/** Rejects request heads that a proxy on the way might interpret differently. */
import type { IncomingMessage } from 'node:http';
import { EngineError } from '../../contract/errors.js';
import { HttpError } from '../response/error-exit.js';

/** If one of these is repeated, Node keeps the first and drops the others (Node's documentation, `message.headers`). */
const GIVEN_ONCE: ReadonlySet<string> = new Set(['host', 'authorization', 'content-type']);

/**
 * Finds errors that Node tolerates (RFC 9112 sections 3.2 and 6.1). The response closes the connection, since the end of
 * such a request is uncertain.
 */
export function errorInHead({ rawHeaders, headers, httpVersion }: IncomingMessage): EngineError | undefined {
  if (headers.host === undefined && httpVersion === '1.1') return doubtful('The request has no Host header');
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && (httpVersion === '1.0' || coding.toLowerCase() !== 'chunked')) {
    return doubtful('The Transfer-Encoding of a request must be chunked, in HTTP/1.1');
  }
  const names = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    if (!GIVEN_ONCE.has(name)) continue;
    if (names.has(name)) return doubtful(`The header ${name} occurs twice`);
    names.add(name);
  }
  const { upgrade, connection = '' } = headers;
  // Clients that prefer HTTP/2 may offer it with any request, and continue in HTTP/1.1 (RFC 7540 section 3.2).
  if (upgrade !== undefined && /\bupgrade\b/i.test(connection) && !/^h2c?\b/i.test(upgrade)) {
    return new EngineError('invalid_request', 'The service supports only HTTP/1.1, so there is nothing to upgrade to');
  }
  return undefined;
}

const doubtful = (message: string) => new HttpError('invalid_request', message, { connection: 'close' });
