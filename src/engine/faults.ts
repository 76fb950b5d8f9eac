/** Collects every wrong place of a request, so that one answer names them all (contract sections 5 to 7). */
import { EngineError, type EngineErrorOptions, type ErrorCode, type ErrorPlace } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';

/** What is known of a refusal beside its places. */
type About = Pick<EngineErrorOptions, 'hint' | 'postgres' | 'cause'>;

export class Faults {
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
    const refusal = this.refusal();
    if (refusal !== undefined) throw refusal;
  }

  /** What {@link refuse} throws; undefined where nothing is wrong. */
  refusal(about: About = {}): EngineError | undefined {
    const [first] = this.listed;
    if (first === undefined) return undefined;
    const others = this.count - 1;
    const more = others === 0 ? '' : ` (and ${others} more wrong ${others === 1 ? 'place' : 'places'})`;
    return new EngineError(first.error, first.message + more, {
      errors: this.listed,
      errorCount: this.count,
      ...(first.hint !== undefined && { hint: first.hint }),
      ...about,
    });
  }
}
