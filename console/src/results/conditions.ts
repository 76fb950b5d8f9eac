/** Conditions on rows: what can be asked of a column by its type. */
import { isNumeric } from './cells.js';

/** In words, as the page shows them. */
export const OPERATORS = {
  '=': 'is',
  '<>': 'is not',
  '<': '<',
  '<=': '≤',
  '>': '>',
  '>=': '≥',
  contains: 'contains',
  starts: 'starts with',
  true: 'is true',
  false: 'is false',
  null: 'is NULL',
  'not null': 'is not NULL',
} as const;

export type Operator = keyof typeof OPERATORS;

export interface Condition {
  readonly column: string;
  readonly operator: Operator;
  /** As typed; '' if the operator takes none. */
  readonly value: string;
}

/** The order of the rows by one column; NULL is the largest value, as in Postgres. */
export interface Sort {
  readonly column: string;
  readonly isDescending: boolean;
}

/** `opaque` has no order, `plain` has one that few think of. */
export type Kind = 'text' | 'ordered' | 'boolean' | 'plain' | 'opaque';

const OPAQUE = /\[\]$|^(jsonb?|xml|hstore|point|line|lseg|box|path|polygon|circle|tsvector|tsquery)\b/i;

/** @param type one of the six types, or Postgres's name of any other */
export function kindOf(type: string): Kind {
  if (OPAQUE.test(type)) return 'opaque';
  if (isNumeric(type) || /^(date|interval|time)/i.test(type)) return 'ordered';
  if (/^bool/i.test(type)) return 'boolean';
  return type === '' || /^(text|character|citext|name)\b/i.test(type) ? 'text' : 'plain';
}

export const canSort = (type: string): boolean => kindOf(type) !== 'opaque';

const OPERATORS_OF: Readonly<Record<Kind, readonly Operator[]>> = {
  text: ['contains', 'starts', '=', '<>'],
  ordered: ['=', '<>', '<', '<=', '>', '>='],
  boolean: ['true', 'false'],
  plain: ['=', '<>', 'contains'],
  opaque: ['contains'],
};

export const operatorsOf = (type: string): readonly Operator[] => [...OPERATORS_OF[kindOf(type)], 'null', 'not null'];

export const takesValue = (operator: Operator): boolean => !['true', 'false', 'null', 'not null'].includes(operator);

export const inWords = ({ column, operator, value }: Condition): string =>
  `${column} ${OPERATORS[operator]}${takesValue(operator) ? ` ${value === '' ? '(empty)' : value}` : ''}`;

/** The sort after a click on a title: ascending, descending, none. */
export function nextSort(sort: Sort | null, column: string): Sort | null {
  if (sort?.column !== column) return { column, isDescending: false };
  return sort.isDescending ? null : { column, isDescending: true };
}
