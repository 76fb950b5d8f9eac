/** How often callers may ask: requests of a token, and wrong tokens from a network. */
import { LRUCache } from 'lru-cache';
import { EngineError } from '../../contract/errors.js';
import { Counts } from '../../counts.js';
import { networkOf } from '../../ip-address.js';
import type { Caller } from './tokens.js';

/** Counts events by key in windows of fixed length, in memory, for a bounded number of keys. */
export class WindowCounter {
  private readonly counts: LRUCache<string, number>;

  /** @param keys maximum number of keys that are remembered; beyond it, the least recently used one is forgotten */
  constructor(windowMs: number, keys: number) {
    this.counts = new LRUCache({ max: keys, ttl: windowMs, ttlResolution: 0, noUpdateTTL: true });
  }

  /** Counts one event; the first of a key opens its window. @returns the events in this window */
  add(key: string): number {
    const count = this.of(key) + 1;
    this.counts.set(key, count);
    return count;
  }

  /** The events in the current window of the key. */
  of(key: string): number {
    return this.counts.get(key) ?? 0;
  }

  /** Whole seconds until the window of the key ends, at least 1. */
  secondsLeft(key: string): number {
    return Math.max(1, Math.ceil(this.counts.getRemainingTTL(key) / 1_000));
  }
}

/** Maximum number of tokens and JWT subjects that are remembered, in about 2 MB. */
const CALLERS = 10_000;

/** Requests allowed within a window, and its length in seconds. */
export interface Rate {
  readonly requests: number;
  readonly windowS: number;
}

/** The state of a token's window after one more request. */
export interface RateLimitStatus {
  readonly rate: Rate;
  /** Requests left in this window. */
  readonly remaining: number;
  /** Seconds until the next window. */
  readonly seconds: number;
  /** null: this request is within the rate. */
  readonly refusal: EngineError | null;
}

/** Limits the rate of each token: HTTP requests and logins at the Postgres port count together (contract C15.5). */
export class TokenRateLimiter {
  private readonly counter: WindowCounter;

  constructor(private readonly rate: Rate) {
    this.counter = new WindowCounter(rate.windowS * 1_000, CALLERS);
  }

  count(caller: Caller): RateLimitStatus {
    const { rate } = this;
    const { requests } = rate;
    // Subjects of JWTs are unique only within a project.
    const key = `${caller.project?.id ?? ''} ${caller.id}`;
    const count = this.counter.add(key);
    const seconds = this.counter.secondsLeft(key);
    const refusal = count <= requests ? null : tooMany(rate, seconds);
    return { rate, remaining: Math.max(0, requests - count), seconds, refusal };
  }
}

const tooMany = ({ requests, windowS }: Rate, retryAfter: number) =>
  new EngineError('rate_limited', `The token has sent more than ${requests} requests within ${windowS} s`, {
    retryAfter,
  });

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

/**
 * Counts wrong tokens by client address: from an address that has sent many, few more are looked up in the database.
 * Callers behind the same proxy whose tokens are known to be valid are not affected.
 */
export class WrongTokenLimiter {
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
  countWrongToken(address: string, refusal: EngineError): EngineError {
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
