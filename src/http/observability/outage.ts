/**
 * Logs the outage of a database or an identity provider: one line with the reason when it begins, and one when it is
 * over. Each failed request has its own line anyway; repeating the reason would hide everything else.
 */
import type { Logger } from 'pino';
import type { Dependency } from '../../contract/errors.js';

/** An outage is over after this long without a failed request. */
const OVER_MS = 5_000;

export class Outage {
  /** null: no outage. */
  private current: { readonly since: number; last: number; refused: number } | null = null;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly logger: Logger,
    private readonly of: Dependency,
  ) {}

  /** Call this for each request that fails because of the outage. @param circumstances logged for the first one */
  noteFailure(circumstances: object): void {
    const now = performance.now();
    if (this.current === null) {
      this.logger.warn(circumstances, `${this.of} unavailable`);
      this.current = { since: now, last: now, refused: 0 };
      this.timer = setInterval(() => this.checkOver(), OVER_MS / 5).unref();
    }
    this.current.last = now;
    this.current.refused++;
  }

  private checkOver(): void {
    if (this.current === null || performance.now() - this.current.last < OVER_MS) return;
    const { since, last, refused } = this.current;
    clearInterval(this.timer);
    this.current = null;
    this.logger.info({ refused, lasted_ms: Math.round(last - since) }, `${this.of} available again`);
  }
}
