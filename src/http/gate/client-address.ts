/** Where a request comes from. */
import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';

/**
 * The address of the client: of the socket, or, where that is a proxy of the setting `trust-proxy`, the nearest one in
 * X-Forwarded-For that is none. What a proxy passed on as an address and is none counts as the proxy itself.
 */
export const clientAddress = (request: FastifyRequest): string =>
  isIP(request.ip) === 0 ? (request.socket.remoteAddress ?? '') : request.ip;
