/** Collects the errors of a request, so that one response lists them all (contract sections 5 to 7). */
import { EngineError, type EngineErrorOptions, type ErrorCode, type ErrorDetail } from './errors.js';
import { LIMITS } from './limits.js';
import { counted } from './message-text.js';

/** What an error contains besides its places. */
type More = Pick<EngineErrorOptions, 'hint' | 'postgres' | 'cause'>;

export class ErrorCollector {
  private readonly listed: ErrorDetail[] = [];
  private count = 0;

  /** The first places, at most `LIMITS.errorsListed`. */
  get places(): readonly ErrorDetail[] {
    return this.listed;
  }

  /** The number of all places. */
  get total(): number {
    return this.count;
  }

  /** @param describe called only if the place will be listed: a hostile batch may have a million others */
  add(error: ErrorCode, describe: () => Omit<ErrorDetail, 'error'>): void {
    this.count += 1;
    if (this.listed.length < LIMITS.errorsListed) this.listed.push({ ...describe(), error });
  }

  /**
   * Adds the places that an error lists, or the error itself if it lists none.
   * @param place used if the error lists none
   */
  addError({ code, message, hint, errors, errorCount }: EngineError, place: Pick<ErrorDetail, 'column'> = {}): void {
    const alone = { ...place, error: code, message, ...(hint === undefined ? {} : { hint }) };
    const listed = errors ?? [alone];
    for (const { error, ...detail } of listed) this.add(error, () => detail);
    this.count += Math.max(0, errorCount - listed.length);
  }

  /**
   * Returns if there are no errors.
   * @throws EngineError with the first place's code, message and hint; `errors` lists the first 50 places, `errorCount`
   * counts all
   */
  throwIfAny(): void {
    const error = this.toError();
    if (error !== undefined) throw error;
  }

  /** The error that {@link throwIfAny} throws; undefined if there is none. */
  toError(more: More = {}): EngineError | undefined {
    const [first] = this.listed;
    if (first === undefined) return undefined;
    const others = this.count - 1;
    const rest = others === 0 ? '' : ` (and ${counted(others, 'more error')})`;
    return new EngineError(first.error, first.message + rest, {
      errors: this.listed,
      errorCount: this.count,
      hint: first.hint,
      ...more,
    });
  }
}

/**
 * Runs every check.
 * @throws EngineError the error of the check that fails; if several fail, one error that lists all places
 */
export function checkAll(...checks: readonly (() => void)[]): void {
  const thrown = checks.flatMap((check) => errorOf(check) ?? []);
  const [first, second] = thrown;
  if (first !== undefined && second === undefined) throw first;
  const errors = new ErrorCollector();
  for (const error of thrown) errors.addError(error);
  errors.throwIfAny();
}

/** The error that a check throws; undefined if it throws none. */
export function errorOf(check: () => void): EngineError | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
}
