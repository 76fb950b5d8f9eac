/** What the values of a column could be, in the order in which it is preferred; and what only an option would read. */
import type { ColumnType } from '../../contract/column-types.js';
import { booleanIn, type Notation, numberReader } from './cell-values.js';
import { DATE_ORDERS, type DateOrder, timestampIn } from './timestamps.js';

const INTEGER = /^-?(?:0|[1-9]\d*)$/;
export const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const NOT_FINITE = /^(?:NaN|-?Infinity)$/;
const BOOLEAN = /^(?:true|false)$/i;
const MAX_INTEGER = 2n ** 63n - 1n;
const MIN_INTEGER = -(2n ** 63n);

export const isInteger = (number: string): boolean => {
  if (!INTEGER.test(number) || number === '-0') return false;
  return number.length < 19 || (BigInt(number) <= MAX_INTEGER && BigInt(number) >= MIN_INTEGER);
};

/** A double has at least this many digits. */
const SAFE_DIGITS = 15;

/** Whether the double has the same digits, which more than fifteen of them need not survive. */
export function isExactDouble(number: string): boolean {
  if (number.length <= SAFE_DIGITS && !/[eE]/.test(number)) return true;
  const value = Number(number);
  if (!Number.isFinite(value)) return false;
  const [digits, power] = scientific(number);
  if (digits.length <= SAFE_DIGITS && (digits === '' || Math.abs(power) < 300)) return true;
  const [kept, keptPower] = scientific(String(value));
  return digits === kept && (digits === '' || power === keptPower);
}

/** The digits without zeros around them, and the power of ten of the last one. */
function scientific(number: string): [digits: string, power: number] {
  const [mantissa = '', exponent = '0'] = number.toLowerCase().replace('-', '').split('e', 2);
  const sign = /e-/i.test(number) ? -1 : 1;
  const [whole = '', fraction = ''] = mantissa.split('.');
  const all = (whole + fraction).replace(/^0+/, '');
  const digits = all.replace(/0+$/, '');
  return [digits, sign * Number(exponent.replace(/[+-]/, '')) - fraction.length + all.length - digits.length];
}

const isDocument = (text: string): boolean => {
  if (!/^[{[]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/** What a column may turn out to be. */
export interface Candidate {
  readonly type: ColumnType;
  readonly test: (text: string) => boolean;
  readonly dates?: DateOrder;
  /** Said, and not done: what it takes. */
  readonly hint?: Hint;
}

export interface Hint {
  /** On the command line; none where no option helps. */
  readonly options: string;
  readonly says: string;
}

const withOptions = (type: ColumnType, options: string): { hint: Hint } => ({
  hint: { options, says: `${type} with ${options}` },
});

/** Any notation reads it, as any of both types of numbers. */
export const SHORT_INTEGER = /^(?:0|-?[1-9]\d{0,14})$/;

const numbers = (notation: Notation, options?: string): Candidate[] => {
  const read = numberReader(notation);
  const told = (type: ColumnType) => (options === undefined ? {} : withOptions(type, options));
  return [
    { type: 'INTEGER', test: (text) => isInteger(read(text) ?? ''), ...told('INTEGER') },
    {
      type: 'FLOAT',
      test: (text) => {
        const number = read(text);
        return number === undefined ? NOT_FINITE.test(text.trim()) : isExactDouble(number);
      },
      ...told('FLOAT'),
    },
  ];
};

/** The simpler first. */
const NOTATIONS: readonly Omit<Notation, 'dates'>[] = [
  { decimal: '.' },
  { decimal: '.', thousands: ',' },
  { decimal: ',' },
  { decimal: ',', thousands: '.' },
  { decimal: ',', thousands: ' ' },
  { decimal: '.', thousands: "'" },
];

/** How numbers would be read that are none as the file is read. */
const otherNumbers = (told: Notation): Candidate[] =>
  NOTATIONS.filter(({ decimal, thousands }) => decimal !== told.decimal || thousands !== told.thousands).flatMap(
    (notation) => numbers(notation, optionsFor(notation, told)),
  );

/** Both, even where one of them is on the command line already: it can be pasted over what was there. */
function optionsFor({ decimal, thousands }: Notation, told: Notation): string {
  return [
    ...(decimal === '.' && told.decimal === '.' ? [] : [`--decimal ${decimal}`]),
    ...(thousands === undefined ? [] : [`--thousands ${/[ ']/.test(thousands) ? `"${thousands}"` : thousands}`]),
  ].join(' ');
}

const CURRENCY = String.raw`(?:[€$£¥₹]|(?:USD|EUR|GBP|CHF|JPY|CAD|AUD)\b)`;
const DIGITS_IN_GROUPS = String.raw`[-+]?\d[\d.,'’\s]*`;
const WITH_UNIT = new RegExp(`^[-+(]?${CURRENCY} ?${DIGITS_IN_GROUPS}\\)?$|^${DIGITS_IN_GROUPS}(?:%|${CURRENCY})$`);
const SHORT_YEAR = /^\d{1,2}([-/.])\d{1,2}\1\d{2}(?:[ T].*)?$/;

/** What no option reads: it is good to know why nevertheless. */
const UNREAD: readonly Candidate[] = [
  { type: 'TEXT', test: (text) => WITH_UNIT.test(text.trim()), hint: { options: '', says: 'numbers with a unit' } },
  { type: 'TEXT', test: (text) => SHORT_YEAR.test(text.trim()), hint: { options: '', says: 'a year of two digits' } },
];

const dates = (order: DateOrder, told: { hint?: Hint } = {}): Candidate => ({
  type: 'TIMESTAMP',
  test: (text) => timestampIn(text, order) !== undefined,
  dates: order,
  ...told,
});

/** What a column is where the file writes its dates in two orders. */
const otherThan = (told: DateOrder): Candidate[] =>
  DATE_ORDERS.filter((order) => order !== told).map((order) =>
    dates(order, withOptions('TIMESTAMP', `--dates ${order}`)),
  );

/** In the order in which they are preferred. */
export function candidatesFor(notation: Notation): readonly Candidate[] {
  return [
    ...numbers(notation),
    { type: 'BOOLEAN', test: (text) => BOOLEAN.test(text.trim()) },
    { type: 'TIMESTAMP', test: (text) => timestampIn(text) !== undefined },
    ...(notation.dates === undefined ? DATE_ORDERS : [notation.dates]).map((order) => dates(order)),
    { type: 'JSONB', test: isDocument },
    ...otherNumbers(notation),
    ...(notation.dates === undefined ? [] : otherThan(notation.dates)),
    { type: 'BOOLEAN', test: (text) => booleanIn(text) !== undefined, ...withOptions('BOOLEAN', '--types') },
    ...UNREAD,
  ];
}
