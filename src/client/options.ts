/** Options of the methods, and the check of their names for JavaScript programs, which no compiler checks. */

export interface ReadOptions {
  signal?: AbortSignal;
}

export interface CallOptions extends ReadOptions {
  /** Roll everything back; the response has `impact`. */
  dryRun?: true;
}

/** The compiler checks that these are exactly the names of the options. */
export type Names<Options> = Readonly<Record<keyof Options, true>>;

export const READ_NAMES: Names<ReadOptions> = { signal: true };
export const CALL_NAMES: Names<CallOptions> = { ...READ_NAMES, dryRun: true };

/**
 * Ignoring `dry_run` would change what the caller only wanted to try.
 * @throws TypeError for an unknown name
 */
export function checkOptions(options: object, names: Readonly<Record<string, true>>, what: string): void {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(names, name));
  if (unknown === undefined) return;
  const near = Object.keys(names).find((name) => plain(name) === plain(unknown));
  const hint = near === undefined ? `Known are ${Object.keys(names).join(', ')}` : `Did you mean "${near}"?`;
  throw new TypeError(`Unknown option "${unknown}" of ${what}. ${hint}`);
}

const plain = (name: string): string => name.toLowerCase().replaceAll('_', '');
