/** From the heads of a file to names of columns that need no quotes: `Score (0-10)` becomes `score_0_10`. */
import { NAME_PATTERN } from '../../contract/names.js';

const NAME = new RegExp(NAME_PATTERN);
const NAME_CHARACTERS = 63;

/** Postgres's own columns, and the service's (contract section 3). */
const RESERVED = new Set(['id', 'xmin', 'xmax', 'cmin', 'cmax', 'ctid', 'tableoid']);

/** Letters that lose more than a mark when they become ASCII. */
const LETTERS: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  đ: 'd',
  ł: 'l',
  þ: 'th',
  ð: 'd',
};

/** Postgres's words that are no name of a column without quotes; `user` alone is even another value (manual, appendix C). */
const KEYWORDS = new Set(
  (
    'all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column ' +
    'concurrently constraint create cross current_catalog current_date current_role current_schema current_time ' +
    'current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze from ' +
    'full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit localtime ' +
    'localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references returning ' +
    'right select session_user similar some symmetric system_user table tablesample then to trailing true union unique user ' +
    'using variadic verbose when where window with'
  ).split(' '),
);

/** Whether it must stand in quotes in SQL. */
export const needsQuotes = (name: string): boolean => KEYWORDS.has(name) || /[A-Z]/.test(name);

/** A name as a person would write it in SQL; '' where nothing of the head can stand in one. */
function simplified(head: string): string {
  const name = head
    .toLowerCase()
    .replace(/[ßæœøđłþð]/g, (letter) => LETTERS[letter] ?? '')
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^a-z0-9_]+/g, '_');
  // What stood around the words is gone, but not what was an underscore before.
  const bare = /^_/.test(head) ? name : name.replace(/^_+/, '');
  return /_$/.test(head) ? bare : bare.replace(/_+$/, '');
}

export interface NameOptions {
  /** Leaves a head that can be a name already as it is. */
  keep: boolean;
  /** The file's `id` holds ids of records, so it may be called so. */
  hasIds: boolean;
}

/** A name for each head, in order; no two differ only by case, and none is reserved. */
export function columnNames(heads: readonly string[], { keep, hasIds }: NameOptions): string[] {
  const taken = new Set<string>();
  return heads.map((head, i) => {
    let base = keep && NAME.test(head) ? head : simplified(head).replace(/^_cdp_/, 'cdp_');
    if (base === '' || base === '_') base = `column_${i + 1}`;
    if (/^\d/.test(base)) base = `_${base}`;
    for (let n = 1; ; n++) {
      const suffix = n === 1 ? '' : `_${n}`;
      const name = base.slice(0, NAME_CHARACTERS - suffix.length) + suffix;
      const folded = name.toLowerCase();
      if (taken.has(folded) || (RESERVED.has(folded) && !(folded === 'id' && hasIds))) continue;
      taken.add(folded);
      return name;
    }
  });
}

/** The column of a table that a head means: of its own name, else but for case, else by the simplified name. */
export function matchingColumn(head: string, columns: readonly string[]): string | undefined {
  if (columns.includes(head)) return head;
  const folded = head.toLowerCase();
  const simple = simplified(head);
  return (
    columns.find((column) => column.toLowerCase() === folded) ??
    columns.find((column) => column.toLowerCase() === simple) ??
    columns.find((column) => simplified(column) === simple)
  );
}
