/**
 * Where webhooks may send to: https at public addresses, and what the operator allows besides. A name is resolved for each
 * connection, which goes to an address that was checked, so what DNS says later opens nothing.
 */
import { promises as dns } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { EngineError } from '../../contract/errors.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** A connection would go where it may not. */
export class TargetRefused extends Error {}

/** Where Azure's machines get their credentials: the one such service with a public address. */
const AZURE_WIRE_SERVER = '168.63.129.16';

/** All addresses that IANA has given to the Internet. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3');

export class Targets {
  private readonly networks: readonly [Address, number][];

  /** @param networks allowed besides public addresses, such as `10.0.0.0/8` */
  constructor(networks: readonly string[]) {
    this.networks = networks.map((network) =>
      ipaddr.parseCIDR(network.includes('/') ? network : `${network}/${isIP(network) === 4 ? 32 : 128}`),
    );
  }

  /**
   * Checks what can be known without a connection.
   * @throws EngineError invalid_request
   */
  check(text: string): URL {
    const url = URL.canParse(text) ? new URL(text) : null;
    if (url === null || !['https:', 'http:'].includes(url.protocol)) throw wrong('must be an https URL');
    if (url.username !== '' || url.password !== '') throw wrong('must not contain a user or password');
    if (url.hash !== '') throw wrong('must not contain a fragment');
    const isPlain = url.protocol === 'http:';
    if (isPlain && this.networks.length === 0) throw wrong('must be an https URL');
    const host = hostOf(url);
    if (isIP(host) !== 0 && !this.allows(host, isPlain)) throw wrong(refusal([host], isPlain));
    return url;
  }

  /** Resolves the host of a connection to addresses that are allowed. DNS is asked without a thread, of which there are few. */
  lookup(isPlain: boolean): LookupFunction {
    return (host, { all }, callback) => {
      this.resolve(host, isPlain).then(
        (addresses) =>
          all ? callback(null, addresses) : callback(null, addresses[0]?.address ?? '', addresses[0]?.family),
        (error: unknown) => callback(error as NodeJS.ErrnoException, []),
      );
    };
  }

  /** An address in a URL is connected to without a lookup. @throws TargetRefused */
  requireAllowed(url: URL): void {
    const isPlain = url.protocol === 'http:';
    const host = hostOf(url);
    if (isIP(host) !== 0 && !this.allows(host, isPlain)) throw new TargetRefused(refusal([host], isPlain));
  }

  private async resolve(host: string, isPlain: boolean): Promise<{ address: string; family: number }[]> {
    const found = await addressesOf(host);
    const allowed = found.filter((address) => this.allows(address, isPlain));
    if (allowed.length === 0) throw new TargetRefused(refusal(found, isPlain));
    return allowed.map((address) => ({ address, family: isIP(address) }));
  }

  private allows(text: string, isPlain: boolean): boolean {
    // An IPv4 address in an IPv6 one counts as what it is.
    const address = ipaddr.process(text);
    const isListed = this.networks.some(
      ([network, bits]) => address.kind() === network.kind() && address.match(network, bits),
    );
    return isListed || (!isPlain && isPublic(address));
  }
}

function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast' || address.toString() === AZURE_WIRE_SERVER) return false;
  return address.kind() === 'ipv4' || address.match(GLOBAL_UNICAST);
}

/** @throws the error of DNS */
async function addressesOf(host: string): Promise<string[]> {
  // RFC 6761, 6.3: never asked of DNS.
  if (/(^|\.)localhost\.?$/i.test(host)) return ['127.0.0.1', '::1'];
  const answers = await Promise.allSettled([dns.resolve4(host), dns.resolve6(host)]);
  const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  const [first] = answers;
  if (addresses.length === 0 && first.status === 'rejected') throw first.reason;
  return addresses;
}

/** An IPv6 address is in brackets. */
const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, '');

const refusal = (addresses: readonly string[], isPlain: boolean): string =>
  addresses.length === 0
    ? 'has no address'
    : `has no ${isPlain ? '' : 'public '}address that the operator allows (setting webhook-networks)${isPlain ? ' for http' : ''}`;

const wrong = (what: string) => new EngineError('invalid_request', `"url" ${what}`);
