/** Reads and quotes names in SQL. */
import type { Token } from '../../../src/contract/sql-tokens.js';
import { RESERVED_WORDS } from '../../../src/contract/reserved-words.js';

/** The name of a token: folded to lower case, or unquoted. */
export function nameOf(text: string, { kind, from, to }: Token): string {
  const written = text.slice(from, to);
  return kind === 'quoted' ? written.slice(1, -1).replaceAll('""', '"') : written.toLowerCase();
}

/** The name, quoted if necessary. */
export const quoted = (name: string): string =>
  /^[a-z_][a-z0-9_]*$/.test(name) && !RESERVED_WORDS.has(name) ? name : `"${name.replaceAll('"', '""')}"`;

/** A table of the project's schema, whatever the catalogs have of the same name. */
export const quotedTable = (name: string): string => `data.${quoted(name)}`;
