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

const UNITS = { s: 1, m: 60, h: 3_600 } as const;

interface Rate {
  requests: number;
  windowS: number;
}

/**
 * `100/1s`, `5000/1m`, `100000/24h`.
 * @throws Error saying what is expected
 */
export function parseRate(text: string): Rate {
  const [, requests, length, unit] = /^([1-9]\d{0,8})\/([1-9]\d{0,4})([smh])$/.exec(text) ?? [];
  const windowS = Number(length) * (UNITS[unit as keyof typeof UNITS] ?? NaN);
  if (!(windowS <= 86_400))
    throw new Error('must be requests per time, up to a day, such as 100/1s, 5000/1m or 50000/24h');
  return { requests: Number(requests), windowS };
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
