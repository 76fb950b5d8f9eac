/** Names in SQL: what a written one stands for, and how one must be written. */
import type { Token } from '../../../src/contract/sql-tokens.js';
import { RESERVED_WORDS } from '../../../src/import/column-names.js';

/** What a name token stands for: folded to lower case, or unquoted. */
export function nameOf(text: string, { kind, from, to }: Token): string {
  const written = text.slice(from, to);
  return kind === 'quoted' ? written.slice(1, -1).replaceAll('""', '"') : written.toLowerCase();
}

/** A name as it must be written. */
export const quoted = (name: string): string =>
  /^[a-z_][a-z0-9_]*$/.test(name) && !RESERVED_WORDS.has(name) ? name : `"${name.replaceAll('"', '""')}"`;
