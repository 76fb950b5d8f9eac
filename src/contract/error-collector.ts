/** Collects every error of a request, so that one response names them all (contract sections 5 to 7). */
import { EngineError, type EngineErrorOptions, type ErrorCode, type ErrorDetail } from './errors.js';
import { LIMITS } from './limits.js';

/** What an error says besides its places. */
type More = Pick<EngineErrorOptions, 'hint' | 'postgres' | 'cause'>;

export class ErrorCollector {
  private readonly listed: ErrorDetail[] = [];
  private count = 0;

  /** The first of them. */
  get places(): readonly ErrorDetail[] {
    return this.listed;
  }

  /** How many there are in all. */
  get total(): number {
    return this.count;
  }

  /** @param describe is called only for a place that will be listed: a hostile batch may have a million others. */
  add(error: ErrorCode, describe: () => Omit<ErrorDetail, 'error'>): void {
    this.count += 1;
    if (this.listed.length < LIMITS.errorsListed) this.listed.push({ ...describe(), error });
  }

  /**
   * Returns if nothing is wrong.
   * @throws EngineError with the first place's code, message and hint; `errors` holds the first 50 places, `errorCount`
   *   counts all.
   */
  throwIfAny(): void {
    const error = this.toError();
    if (error !== undefined) throw error;
  }

  /** What {@link throwIfAny} throws; undefined if nothing is wrong. */
  toError(more: More = {}): EngineError | undefined {
    const [first] = this.listed;
    if (first === undefined) return undefined;
    const others = this.count - 1;
    const rest = others === 0 ? '' : ` (and ${others} more ${others === 1 ? 'error' : 'errors'})`;
    return new EngineError(first.error, first.message + rest, {
      errors: this.listed,
      errorCount: this.count,
      ...(first.hint !== undefined && { hint: first.hint }),
      ...more,
    });
  }
}
