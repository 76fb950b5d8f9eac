/** Where a request comes from. */
import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';

/**
 * The address of the client: of the socket, or, where that is a proxy of the setting `trust-proxy`, the nearest one in
 * X-Forwarded-For that is none. What a proxy passed on as an address and is none counts as the proxy itself.
 */
export const clientAddress = (request: FastifyRequest): string =>
  isIP(request.ip) === 0 ? (request.socket.remoteAddress ?? '') : request.ip;

const NETWORKS = ['loopback', 'linklocal', 'uniquelocal'];

/**
 * A list of addresses, networks (`10.0.0.0/8`) and the names that Fastify's `trustProxy` knows.
 * @throws Error saying what is expected
 */
export function parseProxies(text: string): string[] {
  const list = text.split(',').map((part) => part.trim());
  const wrong = list.find((part) => {
    const [address = '', bits, ...more] = part.split('/');
    const most = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
    const isNetwork = more.length === 0 && (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most));
    return !NETWORKS.includes(part) && !(most > 0 && isNetwork);
  });
  if (wrong !== undefined) {
    throw new Error(`must be addresses, networks such as 10.0.0.0/8, or ${NETWORKS.join(', ')}, separated by commas`);
  }
  return list;
}
