/** Collects every wrong place of a batch, so that one answer names them all (contract section 6). */
import { EngineError, type ErrorCode, type ErrorPlace } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';

export class Places {
  private readonly listed: ErrorPlace[] = [];
  private count = 0;

  /** @param describe is called only for a place that will be listed: a hostile batch may have a million others. */
  add(error: ErrorCode, describe: () => Omit<ErrorPlace, 'error'>): void {
    this.count += 1;
    if (this.listed.length < LIMITS.errorsListed) this.listed.push({ ...describe(), error });
  }

  /**
   * Returns where nothing is wrong.
   * @throws EngineError with the first place's code, message and hint; `errors` holds the first 50 places, `errorCount`
   *   counts all.
   */
  refuse(): void {
    const [first] = this.listed;
    if (first === undefined) return;
    const others = this.count - 1;
    const more = others === 0 ? '' : ` (and ${others} more wrong ${others === 1 ? 'place' : 'places'})`;
    throw new EngineError(first.error, first.message + more, {
      errors: this.listed,
      errorCount: this.count,
      ...(first.hint !== undefined && { hint: first.hint }),
    });
  }
}
