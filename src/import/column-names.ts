/** Derives names of columns from the fields of a file. SQL need not quote them: `Score (0-10)` becomes `score_0_10`. */
import { NAME_PATTERN } from '../contract/names.js';
import { RESERVED_WORDS } from '../contract/reserved-words.js';

const NAME = new RegExp(NAME_PATTERN);
const NAME_CHARACTERS = 63;

/** System columns of Postgres, and the service's own (contract C4.3). */
const RESERVED = new Set(['id', 'xmin', 'xmax', 'cmin', 'cmax', 'ctid', 'tableoid']);

/** Letters that are not just an ASCII letter with a diacritic. */
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

/** Whether SQL must quote the name. */
export const needsQuotes = (name: string): boolean => RESERVED_WORDS.has(name) || /[A-Z]/.test(name);

/** A name as a person would write it in SQL; '' if nothing of the field's name is usable. */
function simplified(field: string): string {
  const name = field
    .toLowerCase()
    .replace(/[ßæœøđłþð]/g, (letter) => LETTERS[letter] ?? '')
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^a-z0-9_]+/g, '_');
  // Leading and trailing underscores stay only if the field has them.
  const bare = /^_/.test(field) ? name : name.replace(/^_+/, '');
  return /_$/.test(field) ? bare : bare.replace(/_+$/, '');
}

/** Turns `firstName` into `first_Name`, and `HTTPServer` into `HTTP_Server`. */
export const withWordsApart = (field: string): string =>
  field.replace(/([\p{Ll}\p{N}])(?=\p{Lu})|(\p{Lu})(?=\p{Lu}\p{Ll})/gu, '$1$2_');

interface NameOptions {
  /** Keeps a name that is already valid. */
  keep: boolean;
  /** The field `id` contains ids of records, so it may keep its name. */
  hasIds: boolean;
}

/** Returns a name for each field, in order. No two differ only by case, and none is reserved. */
export function columnNames(fields: readonly string[], { keep, hasIds }: NameOptions): string[] {
  const usedNames = new Set<string>();
  return fields.map((field, i) => {
    let base = keep && NAME.test(field) ? field : simplified(field).replace(/^_cdp_/, 'cdp_');
    if (base === '' || base === '_') base = `column_${i + 1}`;
    if (/^\d/.test(base)) base = `_${base}`;
    for (let n = 1; ; n++) {
      const suffix = n === 1 ? '' : `_${n}`;
      const name = base.slice(0, NAME_CHARACTERS - suffix.length) + suffix;
      const folded = name.toLowerCase();
      if (usedNames.has(folded) || (RESERVED.has(folded) && !(folded === 'id' && hasIds))) continue;
      usedNames.add(folded);
      return name;
    }
  });
}

/** The column for a field: the one with the same name, or the same ignoring case, or the same simplified name. */
export function matchingColumn(field: string, columns: readonly string[]): string | undefined {
  if (columns.includes(field)) return field;
  const folded = field.toLowerCase();
  const simple = simplified(field);
  return (
    columns.find((column) => column.toLowerCase() === folded) ??
    columns.find((column) => column.toLowerCase() === simple) ??
    columns.find((column) => simplified(column) === simple)
  );
}
