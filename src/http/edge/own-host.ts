/**
 * Protects what loopback may read without a token from DNS rebinding: a web page whose name points to this machine, so that a
 * browser takes the service for the page's own server.
 */
import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { EngineError } from '../../contract/errors.js';

/**
 * Whether the Host header (RFC 9110 section 7.2) is one that DNS cannot point elsewhere: an IP address, `localhost`, or the
 * name of the listener's own setting. Browsers always send it; HTTP/1.0 may not.
 * @param configured the address or name on which the listener listens
 */
export function isOwnHost({ headers: { host } }: FastifyRequest, configured: string): boolean {
  if (host === undefined) return true;
  const name = host
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .toLowerCase();
  return isIP(name) !== 0 || name === 'localhost' || name === configured.toLowerCase();
}

export const misdirected = (): EngineError =>
  new EngineError('misdirected_request', 'The Host header names another host than this service on loopback', {
    hint: 'Ask for it by an IP address or as localhost, or send an admin token.',
  });
