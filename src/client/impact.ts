/** Adds up the impact of several requests with `dryRun`. */
import type { Impact } from '../contract/wire/dry-run.js';

/** @param sum of the earlier requests */
export function addImpact(sum: Impact | undefined, impact: Impact): Impact {
  if (sum === undefined) return impact;
  const rows = byTable(sum.rows, impact.rows, (one, other) => ({
    table: one.table,
    inserted: one.inserted + other.inserted,
    updated: one.updated + other.updated,
    deleted: one.deleted + other.deleted,
  }));
  const locks = byTable(sum.locks, impact.locks, (one, other) => ({
    table: one.table,
    modes: [...new Set([...one.modes, ...other.modes])],
  }));
  const rewritten = [...new Set([...sum.rewritten, ...impact.rewritten])];
  const sequences = [...new Set([...(sum.sequences ?? []), ...(impact.sequences ?? [])])];
  const mentions = sum.mentions ?? impact.mentions;
  const usedSequences = sequences.length === 0 ? {} : { sequences };
  return {
    rows,
    locks,
    rewritten,
    ...usedSequences,
    ...(mentions && { mentions }),
    duration_ms: sum.duration_ms + impact.duration_ms,
  };
}

function byTable<Row extends { table: string }>(
  rows: readonly Row[],
  more: readonly Row[],
  add: (one: Row, other: Row) => Row,
): Row[] {
  const tables = new Map(rows.map((row) => [row.table, row]));
  for (const row of more) {
    const counts = tables.get(row.table);
    tables.set(row.table, counts === undefined ? row : add(counts, row));
  }
  return [...tables.values()];
}
