/** Collects the errors of a request, so that one response lists them all (contract C2.3). */
import { EngineError, type EngineErrorOptions, type ErrorCode, type ErrorDetail } from './errors.js';
import { LIMITS } from './limits.js';
import { counted } from './message-text.js';

/** What an error contains besides its details. */
type More = Pick<EngineErrorOptions, 'hint' | 'postgres' | 'isDetailGiven' | 'cause'>;

export class ErrorCollector {
  private readonly listed: ErrorDetail[] = [];
  private count = 0;

  /** The first details, at most `LIMITS.errorsListed`. */
  get details(): readonly ErrorDetail[] {
    return this.listed;
  }

  /** The number of all errors. */
  get total(): number {
    return this.count;
  }

  /** @param describe called only if the detail will be listed: a hostile batch may have a million others */
  add(error: ErrorCode, describe: () => Omit<ErrorDetail, 'error'>): void {
    this.count += 1;
    if (this.listed.length < LIMITS.errorsListed) this.listed.push({ ...describe(), error });
  }

  /** Counts errors that will not be listed. */
  addUnlisted(count: number): void {
    this.count += Math.max(0, count);
  }

  /**
   * Adds the details that an error lists, or the error itself if it lists none.
   * @param detail used if the error lists none
   */
  addError(error: EngineError, detail: Pick<ErrorDetail, 'column'> = {}): void {
    const { code, message, hint, redacted, errors, errorCount } = error;
    const texts = { message, ...(hint === undefined ? {} : { hint }), ...(redacted === undefined ? {} : { redacted }) };
    const alone = { ...detail, error: code, ...texts };
    const listed = errors ?? [alone];
    for (const { error, ...detail } of listed) this.add(error, () => detail);
    this.addUnlisted(errorCount - listed.length);
  }

  /**
   * Returns if there are no errors.
   * @throws EngineError with the code, message and hint of the first detail; `errors` lists the first 50, `errorCount`
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
      redacted: first.redacted && { ...first.redacted, message: first.redacted.message + rest },
      ...more,
    });
  }
}

/**
 * Runs every check.
 * @returns their results
 * @throws EngineError the error of the check that fails; if several fail, one error that lists all errors
 */
export function checkAll<T extends readonly unknown[]>(...checks: { readonly [K in keyof T]: () => T[K] }): T {
  const results: unknown[] = [];
  const thrown = checks.flatMap((check) => errorOf(() => results.push(check())) ?? []);
  const [first, second] = thrown;
  if (first !== undefined && second === undefined) throw first;
  const errors = new ErrorCollector();
  for (const error of thrown) errors.addError(error);
  errors.throwIfAny();
  return results as unknown as T;
}

/** A check for {@link checkAll} of what has to be waited for. */
export const awaited = <T>(result: Promise<T>): Promise<() => T> =>
  result.then(
    (value) => () => value,
    (error: unknown) => () => {
      throw error;
    },
  );

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
