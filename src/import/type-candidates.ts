/** The types that a column of text may have, in order of preference, and the options that would allow other ones. */
import type { ColumnType } from '../contract/column-types.js';
import { isJson } from './json-records.js';
import { isExactDouble, isInteger, type Notation, type NumberNotation, numberReader, parseBoolean } from './values.js';
import { DATE_ORDERS, type DateOrder, isImpossibleTime, parseTimestamp } from './timestamps.js';

export interface Candidate {
  readonly type: ColumnType;
  readonly matches: (text: string) => boolean;
  /** Of a type of numbers. */
  readonly decimal?: '.' | ',';
  readonly dates?: DateOrder;
  /** A mistake that does not exclude the type. */
  readonly isMistake?: (text: string) => boolean;
  /** Only a hint, never chosen: the command-line options that would allow it, or a reason why none does. */
  readonly hint?: { readonly options?: string; readonly text: string };
}

const withOptions = (candidate: Candidate, options: string): Candidate => ({
  ...candidate,
  hint: { options, text: `${candidate.type} with ${options}` },
});

export const NOT_FINITE = /^(?:NaN|-?Infinity)$/;

function numbers(notation: NumberNotation): Candidate[] {
  const read = numberReader(notation);
  const { decimal } = notation;
  return [
    { type: 'INTEGER', decimal, matches: (text) => isInteger(read(text) ?? '') },
    { type: 'FLOAT', decimal, matches: (text) => isExactDouble(read(text) ?? '') || NOT_FINITE.test(text.trim()) },
  ];
}

/** Simpler ones first. */
const NOTATIONS: readonly NumberNotation[] = [
  { decimal: '.' },
  { decimal: '.', thousands: ',' },
  { decimal: ',' },
  { decimal: ',', thousands: '.' },
  { decimal: ',', thousands: ' ' },
  { decimal: '.', thousands: "'" },
];

const numbersInOtherNotations = (current: NumberNotation): Candidate[] =>
  NOTATIONS.filter(({ decimal, thousands }) => decimal !== current.decimal || thousands !== current.thousands).flatMap(
    (notation) => numbers(notation).map((candidate) => withOptions(candidate, optionsFor(notation, current))),
  );

/** All options for numbers, so that they can replace those of the command. */
function optionsFor({ decimal, thousands }: NumberNotation, current: NumberNotation): string {
  return [
    ...(decimal === '.' && current.decimal === '.' ? [] : [`--decimal ${decimal}`]),
    ...(thousands === undefined ? [] : [`--thousands ${/[ ']/.test(thousands) ? `"${thousands}"` : thousands}`]),
  ].join(' ');
}

const dates = (order: DateOrder): Candidate => ({
  type: 'TIMESTAMP',
  matches: (text) => parseTimestamp(text, order) !== undefined,
  dates: order,
  isMistake: isImpossibleTime,
});

const CURRENCY = String.raw`(?:[€$£¥₹]|(?:USD|EUR|GBP|CHF|JPY|CAD|AUD)\b)`;
const DIGITS_IN_GROUPS = String.raw`[-+]?\d[\d.,'’\s]*`;
const WITH_UNIT = new RegExp(`^[-+(]?${CURRENCY} ?${DIGITS_IN_GROUPS}\\)?$|^${DIGITS_IN_GROUPS}(?:%|${CURRENCY})$`);
const SHORT_YEAR = /^\d{1,2}([-/.])\d{1,2}\1\d{2}(?:[ T].*)?$/;

/** No option makes these readable. */
const UNREADABLE: readonly Candidate[] = [
  { type: 'TEXT', matches: (text) => WITH_UNIT.test(text.trim()), hint: { text: 'numbers with a unit' } },
  { type: 'TEXT', matches: (text) => SHORT_YEAR.test(text.trim()), hint: { text: 'a year of two digits' } },
];

export function candidatesFor(notation: Notation): readonly Candidate[] {
  const orders = notation.dates === undefined ? DATE_ORDERS : [notation.dates];
  const otherOrders = DATE_ORDERS.filter((order) => !orders.includes(order));
  return [
    ...numbers(notation),
    { type: 'BOOLEAN', matches: (text) => /^(?:true|false)$/i.test(text.trim()) },
    { type: 'TIMESTAMP', matches: (text) => parseTimestamp(text) !== undefined, isMistake: isImpossibleTime },
    ...orders.map(dates),
    { type: 'JSONB', matches: (text) => /^[{[]/.test(text) && isJson(text) },
    ...numbersInOtherNotations(notation),
    ...otherOrders.map((order) => withOptions(dates(order), `--dates ${order}`)),
    withOptions({ type: 'BOOLEAN', matches: (text) => parseBoolean(text) !== undefined }, '--types'),
    ...UNREADABLE,
  ];
}
