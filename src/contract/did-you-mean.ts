/** Finds the name that a misspelt one was probably meant to be, for the hints of errors. */

/** Typing errors that are taken for such, at most. */
const MAX_ERRORS = 3;

/**
 * The candidate with the fewest typing errors, or undefined where none is near: at most one error in three characters,
 * and never more than three. Case does not count, so `Email` finds `email`.
 */
export function didYouMean(name: string, candidates: Iterable<string>): string | undefined {
  const wanted = name.toLowerCase();
  let best: string | undefined;
  let limit = Math.min(MAX_ERRORS, Math.max(1, Math.floor(name.length / 3)));
  for (const candidate of candidates) {
    const distance = typingErrors(wanted, candidate.toLowerCase(), limit);
    if (distance > limit) continue;
    if (distance === 0) return candidate;
    best = candidate;
    limit = distance - 1;
  }
  return best;
}

/**
 * Three rows of the table of distances, each from the diagonal's place less {@link MAX_ERRORS} to that place more,
 * between two places that are never reached: what lies further away has more errors. A project may have thousands of
 * names that are nearly the same, and the whole table for each of them would keep the event loop from others for a
 * minute.
 */
const FIRST = 1;
const LAST = FIRST + 2 * MAX_ERRORS;
const DIAGONAL = FIRST + MAX_ERRORS;
const rows = [1, 2, 3].map(() => new Uint8Array(LAST + 2)) as [Uint8Array, Uint8Array, Uint8Array];

/**
 * Insertions, deletions, replacements and swaps of neighbours between two texts (optimal string alignment distance);
 * gives up with `limit + 1` as soon as there must be more than `limit`.
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
