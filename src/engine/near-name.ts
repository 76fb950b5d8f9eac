/** Finds the name that a misspelt one was probably meant to be, for the hints of errors. */

/** Typing errors that are taken for such, at most. */
const MOST_ERRORS = 3;

/**
 * The candidate with the fewest typing errors, or undefined where none is near: at most one error in three characters,
 * and never more than three. Case does not count, so `Email` finds `email`.
 */
export function nearName(name: string, candidates: Iterable<string>): string | undefined {
  const wanted = name.toLowerCase();
  let best: string | undefined;
  let limit = Math.min(MOST_ERRORS, Math.max(1, Math.floor(name.length / 3)));
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
 * Three rows of the table of distances, each from the diagonal's place less {@link MOST_ERRORS} to that place more: what lies
 * further away has more errors. The names are whoever's that asks, and a project may have thousands that are nearly the
 * same: the whole table for each of them would keep the event loop for a minute.
 */
const WIDTH = 2 * MOST_ERRORS + 1;
const rows = [new Uint8Array(WIDTH), new Uint8Array(WIDTH), new Uint8Array(WIDTH)] as const;

/**
 * Insertions, deletions, replacements and swaps of neighbours between two texts (optimal string alignment distance);
 * gives up with `limit + 1` as soon as there must be more than `limit`.
 */
function typingErrors(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  const tooMany = limit + 1;
  let [beforeLast, last, row]: [Uint8Array, Uint8Array, Uint8Array] = [...rows];
  beforeLast.fill(tooMany);
  for (let k = 0; k < WIDTH; k++) last[k] = k < MOST_ERRORS ? tooMany : k - MOST_ERRORS;
  let leastOfLast = 0;
  for (let i = 1; i <= a.length; i++) {
    const [here, before] = [a.charCodeAt(i - 1), a.charCodeAt(i - 2)];
    let least = tooMany;
    for (let k = 0; k < WIDTH; k++) {
      const j = i + k - MOST_ERRORS;
      let errors = tooMany;
      if (j === 0) errors = i;
      else if (j > 0 && j <= b.length) {
        const there = b.charCodeAt(j - 1);
        errors = at(last, k) + (here === there ? 0 : 1);
        if (before === there && i > 1 && j > 1 && here === b.charCodeAt(j - 2)) {
          errors = Math.min(errors, at(beforeLast, k) + 1);
        }
        if (k > 0) errors = Math.min(errors, at(row, k - 1) + 1);
        if (k < WIDTH - 1) errors = Math.min(errors, at(last, k + 1) + 1);
      }
      row[k] = Math.min(errors, tooMany);
      least = Math.min(least, errors);
    }
    if (least > limit && leastOfLast > limit) return tooMany;
    leastOfLast = least;
    [beforeLast, last, row] = [last, row, beforeLast];
  }
  return at(last, b.length - a.length + MOST_ERRORS);
}

const at = (row: Uint8Array, place: number): number => row[place] as number;
