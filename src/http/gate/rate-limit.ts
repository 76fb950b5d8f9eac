/** Requests of one token within a window, and what every answer says about them (contract section 8). */
import type { FastifyReply } from 'fastify';
import { EngineError } from '../../contract/errors.js';
import type { Caller } from '../../engine/access/tokens.js';
import { secondsLeft, type Window, WindowCounter } from '../../engine/access/window-counter.js';

/** Tokens and JWT subjects that are remembered at most; some 2 MB. */
const CALLERS = 10_000;

/** Counts a request of a caller, here or where the workers of a service count together. */
export type CountRequest = (caller: string) => Window | Promise<Window>;

export function requestCounter({ windowS }: Rate): (caller: string) => Window {
  const counter = new WindowCounter(windowS * 1_000, CALLERS);
  return (caller) => counter.add(caller);
}

/** So many requests within a window of so many seconds. */
export interface Rate {
  requests: number;
  windowS: number;
}

/** `RateLimit` and `RateLimit-Policy` as in draft-ietf-httpapi-ratelimit-headers-10: structured fields (RFC 9651). */
export class RateLimit {
  private readonly policy: string;

  constructor(
    private readonly rate: Rate,
    private readonly countRequest: CountRequest = requestCounter(rate),
  ) {
    this.policy = `"default";q=${rate.requests};w=${rate.windowS}`;
  }

  /** Counts a request, tells its caller where it stands, and returns the refusal where it is one too many. */
  count(caller: Caller, reply: FastifyReply): EngineError | null | Promise<EngineError | null> {
    // The subject of a JWT speaks for the project that its issuer names in it.
    const counted = this.countRequest(`${caller.project?.id ?? ''} ${caller.id}`);
    return counted instanceof Promise
      ? counted.then((window) => this.judge(window, reply))
      : this.judge(counted, reply);
  }

  private judge(window: Window, reply: FastifyReply): EngineError | null {
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
