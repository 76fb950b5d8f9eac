/** Finds the name that a misspelled one was probably meant to be, for hints of errors. */
import type { ErrorDetail } from './errors.js';
import { quoted } from './message-text.js';

/** With more typing errors than this, a name counts as a different one. */
const MAX_ERRORS = 3;

/** A hint that asks for the closest candidate, or undefined if none is close. */
export function didYouMean(name: string, candidates: Iterable<string>): string | undefined {
  const near = nearest(name, candidates);
  return near === undefined ? undefined : `Did you mean ${quoted(near)}?`;
}

/** Names for which one request gets a suggestion. */
const MAX_SUGGESTIONS = 10;

/**
 * {@link didYouMean} for many names and the same candidates: only for the first few different names, because a search looks at
 * every candidate.
 */
export function suggester(candidates: Iterable<string>): (name: string) => string | undefined {
  const found = new Map<string, string | undefined>();
  const names = [...candidates];
  return (name) => {
    if (!found.has(name) && found.size < MAX_SUGGESTIONS) found.set(name, didYouMean(name, names));
    return found.get(name);
  };
}

/** The texts of an error that suggests an existing name, which only some callers may read. @param hint undefined: none */
export const suggesting = (
  message: string,
  hint: string | undefined,
): Pick<ErrorDetail, 'message' | 'hint' | 'redacted'> =>
  hint === undefined ? { message } : { message: `${message}. ${hint}`, hint, redacted: { reveals: 'names', message } };

/**
 * Returns the candidate with the fewest typing errors, or undefined if none is close. A candidate is close if it has at
 * most one error per three characters, and at most MAX_ERRORS. Case does not count, so `Email` finds `email`.
 */
function nearest(name: string, candidates: Iterable<string>): string | undefined {
  const lowercase = name.toLowerCase();
  let best: string | undefined;
  let limit = Math.min(MAX_ERRORS, Math.max(1, Math.floor(name.length / 3)));
  for (const candidate of candidates) {
    const distance = typingErrors(lowercase, candidate.toLowerCase(), limit);
    if (distance > limit) continue;
    if (distance === 0) return candidate;
    best = candidate;
    limit = distance - 1;
  }
  return best;
}

/**
 * Three rows of the distance matrix. Each holds only the cells at most MAX_ERRORS from the diagonal, because all others
 * have more errors, and a sentinel at each end. A project may have thousands of similar names; the whole matrix for
 * each of them would block the event loop for a minute.
 */
const FIRST = 1;
const LAST = FIRST + 2 * MAX_ERRORS;
const DIAGONAL = FIRST + MAX_ERRORS;
const rows = [1, 2, 3].map(() => new Uint8Array(LAST + 2)) as [Uint8Array, Uint8Array, Uint8Array];

/**
 * Counts insertions, deletions, replacements and swaps of neighbors between two texts (optimal string alignment
 * distance).
 * @returns `limit + 1` if there are more than `limit`
 */
function typingErrors(a: string, b: string, limit: number): number {
  const tooMany = limit + 1;
  if (Math.abs(a.length - b.length) > limit) return tooMany;
  let [beforeLast, last, row] = rows;
  for (const each of rows) each.fill(tooMany);
  for (let errors = 0; errors <= limit; errors++) last[DIAGONAL + errors] = errors;
  let leastOfLast = 0;
  for (let i = 1; i <= a.length; i++) {
    const here = a.charCodeAt(i - 1);
    const before = a.charCodeAt(i - 2);
    let least = tooMany;
    for (let place = FIRST; place <= LAST; place++) {
      const j = i + place - DIAGONAL;
      let errors = j === 0 ? i : tooMany;
      if (j > 0 && j <= b.length) {
        const there = b.charCodeAt(j - 1);
        errors = at(last, place);
        if (here !== there) {
          const shorter = Math.min(at(row, place - 1), at(last, place + 1));
          errors = Math.min(errors, shorter) + 1;
          if (before === there && here === b.charCodeAt(j - 2)) errors = Math.min(errors, at(beforeLast, place) + 1);
        }
      }
      row[place] = Math.min(errors, tooMany);
      least = Math.min(least, errors);
    }
    if (least > limit && leastOfLast > limit) return tooMany;
    leastOfLast = least;
    const next = beforeLast;
    beforeLast = last;
    last = row;
    row = next;
  }
  return at(last, DIAGONAL + b.length - a.length);
}

const at = (row: Uint8Array, place: number): number => row[place] as number;
