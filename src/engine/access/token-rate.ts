/**
 * Limits the rate of each token: HTTP requests and logins at the Postgres port count together (contract section 8).
 */
import { EngineError } from '../../contract/errors.js';
import type { Caller } from './tokens.js';
import { WindowCounter } from './window-counter.js';

/** Maximum number of tokens and JWT subjects that are remembered, in about 2 MB. */
const CALLERS = 10_000;

/** Requests allowed within a window, and its length in seconds. */
export interface Rate {
  readonly requests: number;
  readonly windowS: number;
}

/** The state of a token's window after one more request. */
export interface Counted {
  readonly rate: Rate;
  /** Requests left in this window. */
  readonly remaining: number;
  /** Seconds until the next window. */
  readonly seconds: number;
  /** null: this request is within the rate. */
  readonly refusal: EngineError | null;
}

export class TokenRate {
  private readonly counter: WindowCounter;

  constructor(private readonly rate: Rate) {
    this.counter = new WindowCounter(rate.windowS * 1_000, CALLERS);
  }

  count(caller: Caller): Counted {
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
