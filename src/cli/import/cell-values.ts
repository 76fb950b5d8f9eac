/** The text of a cell as a value of a type. What is none of it goes as the text that it is: the service says what is wrong. */
import { type DateOrder, timestampIn } from './timestamps.js';

/** How a file writes numbers and dates. */
export interface Notation {
  /** Between whole and fraction. */
  decimal: '.' | ',';
  /** Between thousands, where they are set apart. */
  thousands?: string;
  /** Undefined: only dates that can be read in one way are dates. */
  dates?: DateOrder;
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const BARE_FRACTION = /^-?\.\d+(?:[eE][+-]?\d+)?$/;

/**
 * A number as JSON writes it, with all its digits. No number is what has zeros before it, or a plus: the zip codes and
 * the telephone numbers.
 */
export function numberReader({ decimal, thousands }: Pick<Notation, 'decimal' | 'thousands'>) {
  const plain = (text: string): string | undefined => {
    if (NUMBER.test(text)) return text;
    return BARE_FRACTION.test(text) ? text.replace('.', '0.') : undefined;
  };
  if (decimal === '.' && thousands === undefined) return (text: string) => plain(text.trim());
  const [point, group] = [
    `\\${decimal}`,
    thousands === undefined ? undefined : (ALIKE[thousands] ?? inPattern(thousands)),
  ];
  const whole = group === undefined ? '\\d*' : `(?:\\d{1,3}(?:${group}\\d{3})+|\\d*)`;
  const groups = group === undefined ? undefined : new RegExp(group, 'g');
  const form = new RegExp(`^-?${whole}(?:${point}\\d+)?(?:[eE][+-]?\\d+)?$`);
  return (text: string): string | undefined => {
    const bare = text.trim();
    if (!form.test(bare)) return undefined;
    const joined = groups === undefined ? bare : bare.replace(groups, '');
    return plain(joined.replace(decimal, '.'));
  };
}

/** Spreadsheets write spaces that do not break, and apostrophes that are typeset. */
const ALIKE: Readonly<Record<string, string>> = { ' ': '[ \u00a0\u202f]', "'": "['’]" };

/** As itself in a regular expression. */
export const inPattern = (character: string): string => character.replace(/[^\w\s]/, '\\$&');

/** As Postgres reads a boolean; only `true` and `false` are taken for one without being told. */
const WORDS = new Map<string, boolean>([
  ...['true', 't', 'yes', 'y', 'on', '1'].map((word) => [word, true] as const),
  ...['false', 'f', 'no', 'n', 'off', '0'].map((word) => [word, false] as const),
]);

export const booleanIn = (text: string): boolean | undefined => WORDS.get(text.trim().toLowerCase());

/** @param type as the contract or Postgres calls it @returns what makes JSON of a cell */
export function cellWriter(type: string, notation: Notation): (text: string) => string {
  switch (type) {
    case 'INTEGER':
    case 'FLOAT': {
      const read = numberReader(notation);
      return (text) => read(text) ?? JSON.stringify(type === 'FLOAT' ? text.trim() : text);
    }
    case 'BOOLEAN':
      return (text) => String(booleanIn(text) ?? JSON.stringify(text));
    case 'TIMESTAMP':
      return (text) => JSON.stringify(timestampIn(text, notation.dates) ?? text);
    case 'JSONB':
      return (text) => (isJson(text) ? text : JSON.stringify(text));
    default:
      return (text) => JSON.stringify(text);
  }
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
