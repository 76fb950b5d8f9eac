/** Finds the name that a misspelt one was probably meant to be, for the hints of errors. */

/**
 * The candidate with the fewest typing errors, or undefined where none is near: at most one error in three characters,
 * and never more than three. Case does not count, so `Email` finds `email`.
 */
export function nearName(name: string, candidates: Iterable<string>): string | undefined {
  const wanted = name.toLowerCase();
  let best: string | undefined;
  let limit = Math.min(3, Math.max(1, Math.floor(name.length / 3)));
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
 * Insertions, deletions, replacements and swaps of neighbours between two texts (optimal string alignment distance);
 * gives up with `limit + 1` as soon as there must be more than `limit`.
 */
function typingErrors(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(last, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? at(beforeLast, j - 2) + 1 : Infinity;
      row.push(Math.min(replaced, swapped, at(last, j) + 1, at(row, j - 1) + 1));
    }
    if (Math.min(...row, ...last) > limit) return limit + 1;
    beforeLast = last;
    last = row;
  }
  return at(last, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Infinity;
}
