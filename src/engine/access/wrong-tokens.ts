/**
 * Counts wrong tokens by client address: from an address that has sent many, few more are looked up in the database.
 * Callers behind the same proxy whose tokens are known to be valid are not affected.
 */
import { isIPv6 } from 'node:net';
import { Counts } from '../../contract/counts.js';
import { EngineError } from '../../contract/errors.js';
import { WindowCounter } from './window-counter.js';

const WINDOW_MS = 60_000;

/**
 * From an address over its limit, one unknown token a second is still looked up, so that a new caller behind a proxy
 * is not locked out while another caller there sends wrong tokens.
 */
const LOOK_UP_EVERY_MS = 1_000;

/** Maximum number of concurrent look-ups of unknown tokens for one address: a token is counted only after its look-up. */
const LOOK_UPS_AT_ONCE = 100;

/** Maximum number of addresses that are remembered, in about 2 MB. */
const ADDRESSES = 10_000;

export class WrongTokens {
  private readonly wrong = new WindowCounter(WINDOW_MS, ADDRESSES);
  private readonly allowedLookUps = new WindowCounter(LOOK_UP_EVERY_MS, ADDRESSES);
  private readonly lookingUp = new Counts();

  /** @param limit wrong tokens per address and minute; 0: unlimited */
  constructor(private readonly limit: number) {}

  /**
   * Call this before looking up an unknown token.
   * @returns a function to call when the database has answered
   * @throws EngineError rate_limited
   */
  beginLookUp(address: string): () => void {
    if (this.limit === 0) return () => {};
    const network = networkOf(address);
    const isOver = this.wrong.of(network) >= this.limit;
    if (this.lookingUp.of(network) >= LOOK_UPS_AT_ONCE) {
      throw new EngineError('rate_limited', 'Too many unknown tokens from this address are being checked');
    }
    if (isOver && this.allowedLookUps.add(network) > 1) throw this.refusal(network);
    this.lookingUp.add(network, 1);
    return () => void this.lookingUp.add(network, -1);
  }

  /**
   * Counts a refused token.
   * @returns the error for its sender: the refusal, or rate_limited once the limit is reached
   */
  refused(address: string, refusal: EngineError): EngineError {
    if (this.limit === 0) return refusal;
    const network = networkOf(address);
    return this.wrong.add(network) > this.limit ? this.refusal(network) : refusal;
  }

  private refusal(network: string): EngineError {
    return new EngineError('rate_limited', 'Too many wrong tokens have come from this address', {
      retryAfter: this.wrong.secondsLeft(network),
      hint: 'Recently used valid tokens still work.',
    });
  }
}

/**
 * The part of an address that belongs to one customer: the whole IPv4 address, or the first 64 bits of an IPv6 one (RFC
 * 6177).
 */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped?.[1] !== undefined) return mapped[1];
  if (!isIPv6(address)) return address;
  const plain = address.replace(/%.*$/, '').replace(/\d+\.\d+\.\d+\.\d+$/, '0:0');
  const [before = [], after = []] = plain.split('::').map((part) => part.split(':').filter((group) => group !== ''));
  const zeros = Array<string>(8 - before.length - after.length).fill('0');
  const groups = [...before, ...zeros, ...after].slice(0, 4);
  return `${groups.map((group) => parseInt(group, 16).toString(16)).join(':')}::/64`;
}
