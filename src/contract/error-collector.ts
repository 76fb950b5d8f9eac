/** Collects every error of a request, so that one response names them all (contract sections 5 to 7). */
import { EngineError, type EngineErrorOptions, type ErrorCode, type ErrorDetail } from './errors.js';
import { LIMITS } from './limits.js';
import { counted } from './message-text.js';

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
   * Adds the places that an error lists, or the error itself if it lists none.
   * @param place of an error that lists none
   */
  addError({ code, message, hint, errors, errorCount }: EngineError, place: Pick<ErrorDetail, 'column'> = {}): void {
    const alone = { ...place, error: code, message, ...(hint === undefined ? {} : { hint }) };
    const listed = errors ?? [alone];
    for (const { error, ...detail } of listed) this.add(error, () => detail);
    this.count += Math.max(0, errorCount - listed.length);
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
    const rest = others === 0 ? '' : ` (and ${counted(others, 'more error')})`;
    return new EngineError(first.error, first.message + rest, {
      errors: this.listed,
      errorCount: this.count,
      ...(first.hint !== undefined && { hint: first.hint }),
      ...more,
    });
  }
}

/** Runs every check. @throws EngineError that of the one that fails; if several do, one that lists all places */
export function checkAll(...checks: readonly (() => void)[]): void {
  const thrown = checks.flatMap((check) => errorOf(check) ?? []);
  const [first, second] = thrown;
  if (first !== undefined && second === undefined) throw first;
  const errors = new ErrorCollector();
  for (const error of thrown) errors.addError(error);
  errors.throwIfAny();
}

/** What a check throws; undefined: nothing. */
export function errorOf(check: () => void): EngineError | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
}
