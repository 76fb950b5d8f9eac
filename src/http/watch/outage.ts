/**
 * A database or an identity provider that is away, as the log tells it: when it went, with the reason, and when it was
 * back. Each request that it cost has its own line anyway; thousands of the same reason would hide what else happens.
 */
import type { Logger } from 'pino';
import type { Dependency } from '../../contract/errors.js';

/** After so long without a refusal it is over. */
const OVER_MS = 5_000;

export class Outage {
  /** null: there is none. */
  private current: { readonly since: number; last: number; refused: number } | null = null;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly logger: Logger,
    private readonly of: Dependency,
  ) {}

  /** A request was refused for want of it. @param circumstances what the log says of the first one */
  refused(circumstances: object): void {
    const now = performance.now();
    if (this.current === null) {
      this.logger.warn(circumstances, `${this.of} unavailable`);
      this.current = { since: now, last: now, refused: 0 };
      this.timer = setInterval(() => this.look(), OVER_MS / 5).unref();
    }
    this.current.last = now;
    this.current.refused++;
  }

  private look(): void {
    if (this.current === null || performance.now() - this.current.last < OVER_MS) return;
    const { since, last, refused } = this.current;
    clearInterval(this.timer);
    this.current = null;
    this.logger.info({ refused, lasted_ms: Math.round(last - since) }, `${this.of} available again`);
  }
}
