/** Limits the requests of one token within a window, and reports the limit in every answer (contract section 8). */
import type { FastifyReply } from 'fastify';
import { EngineError } from '../../contract/errors.js';
import type { Caller } from '../../engine/access/tokens.js';
import { secondsLeft, WindowCounter } from '../../engine/access/window-counter.js';

/** Tokens and JWT subjects that are remembered at most, in some 2 MB. */
const CALLERS = 10_000;

/** Requests within a window of that many seconds. */
export interface Rate {
  requests: number;
  windowS: number;
}

/** `RateLimit` and `RateLimit-Policy` as in draft-ietf-httpapi-ratelimit-headers-10: structured fields (RFC 9651). */
export class RateLimit {
  private readonly policy: string;
  private readonly counter: WindowCounter;

  constructor(private readonly rate: Rate) {
    this.policy = `"default";q=${rate.requests};w=${rate.windowS}`;
    this.counter = new WindowCounter(rate.windowS * 1_000, CALLERS);
  }

  /** Counts a request and sets the headers. @returns the error if it is one too many */
  count(caller: Caller, reply: FastifyReply): EngineError | null {
    // A JWT's subject is known only together with the project that its issuer names.
    const window = this.counter.add(`${caller.project?.id ?? ''} ${caller.id}`);
    const { requests, windowS } = this.rate;
    const seconds = secondsLeft(window);
    void reply
      .header('ratelimit-policy', this.policy)
      .header('ratelimit', `"default";r=${Math.max(0, requests - window.count)};t=${seconds}`);
    if (window.count <= requests) return null;
    const message = `The token has sent more than ${requests} requests within ${windowS} s`;
    return new EngineError('rate_limited', message, { retryAfter: seconds });
  }
}
