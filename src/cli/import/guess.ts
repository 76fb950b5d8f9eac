/** Which of the six types holds every value of a column that was seen, without losing a digit; and if none, why. */
import type { ColumnType } from '../../contract/column-types.js';
import type { JsonNode } from '../../engine/json/nodes.js';
import { cut } from '../../engine/message-text.js';
import { booleanIn, type Notation, numberReader } from './cell-values.js';
import { DATE_ORDERS, type DateOrder, isTimestamp, timestampIn } from './timestamps.js';

const INTEGER = /^-?(?:0|[1-9]\d*)$/;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** Of numbers, zip codes and telephone numbers. */
const DIGITS = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const NOT_FINITE = /^(?:NaN|-?Infinity)$/;
const BOOLEAN = /^(?:true|false)$/i;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** What programs write where there is no value. */
const NO_VALUE = /^(?:na|n\/a|#n\/a|null|nil|none|nan|\\n|-+|\.|\?|unknown)$/i;

const MAX_INTEGER = 2n ** 63n - 1n;
const MIN_INTEGER = -(2n ** 63n);

const isInteger = (number: string): boolean => {
  if (!INTEGER.test(number) || number === '-0') return false;
  return number.length < 19 || (BigInt(number) <= MAX_INTEGER && BigInt(number) >= MIN_INTEGER);
};

/** A double has at least this many digits. */
const SAFE_DIGITS = 15;

/** Whether the double has the same digits, which more than fifteen of them need not survive. */
function isExactDouble(number: string): boolean {
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
interface Candidate {
  readonly type: ColumnType;
  readonly test: (text: string) => boolean;
  readonly dates?: DateOrder;
  /** The option that it takes: said, and not done. */
  readonly option?: string;
}

const numbers = (notation: Notation, option?: string): Candidate[] => {
  const read = numberReader(notation);
  const told = option === undefined ? {} : { option };
  return [
    { type: 'INTEGER', test: (text) => isInteger(read(text) ?? ''), ...told },
    {
      type: 'FLOAT',
      test: (text) => {
        const number = read(text);
        return number === undefined ? NOT_FINITE.test(text.trim()) : isExactDouble(number);
      },
      ...told,
    },
  ];
};

const dates = (order: DateOrder, told: { option?: string } = {}): Candidate => ({
  type: 'TIMESTAMP',
  test: (text) => timestampIn(text, order) !== undefined,
  dates: order,
  ...told,
});

/** What a column is where the file writes its dates in two orders. */
const otherThan = (told: DateOrder): Candidate[] =>
  DATE_ORDERS.filter((order) => order !== told).map((order) => dates(order, { option: `--dates ${order}` }));

/** In the order in which they are preferred. */
export function candidatesFor(notation: Notation): readonly Candidate[] {
  const isEnglish = notation.decimal === '.' && notation.thousands === undefined;
  return [
    ...numbers(notation),
    { type: 'BOOLEAN', test: (text) => BOOLEAN.test(text.trim()) },
    { type: 'TIMESTAMP', test: (text) => timestampIn(text) !== undefined },
    ...(notation.dates === undefined ? DATE_ORDERS : [notation.dates]).map((order) => dates(order)),
    { type: 'JSONB', test: isDocument },
    ...(isEnglish ? numbers({ decimal: '.', thousands: ',' }, '--thousands ,') : []),
    ...(isEnglish ? numbers({ decimal: ',', thousands: '.' }, '--decimal ,') : []),
    ...(notation.dates === undefined ? [] : otherThan(notation.dates)),
    { type: 'BOOLEAN', test: (text) => booleanIn(text) !== undefined, option: '--types' },
  ];
}

/** More different values that do not fit, and it is out. */
const MOST_MISFITS = 3;

/** A candidate, and what does not fit it. */
interface Standing {
  readonly candidate: Candidate;
  /** Different values, each with the line where it stands first. */
  readonly misfits: Map<string, number>;
  /** All of them. */
  count: number;
}

const SHOWN = 40;

export class ColumnGuess {
  #count = 0;
  #hasDocuments = false;
  #isUuid = true;
  #isNumeric = true;
  #left: Standing[];
  #digits: string | undefined;

  constructor(candidates: readonly Candidate[]) {
    this.#left = candidates.map((candidate) => ({ candidate, misfits: new Map<string, number>(), count: 0 }));
  }

  /** A field of delimited text that is not NULL. */
  addText(text: string, line: number): void {
    this.#count++;
    this.#isUuid &&= UUID.test(text);
    this.#keep(({ test }) => test(text), text, line);
    if (this.#isNumeric) this.#lookForLoss(text.trim());
  }

  addJson(node: JsonNode, line: number): void {
    if (node.kind === 'null') return;
    this.#count++;
    this.#isUuid &&= node.kind === 'string' && UUID.test(node.value);
    switch (node.kind) {
      case 'string':
        this.#isNumeric = false;
        // Whoever wrote "12" in quotes meant a text; a time has no other form.
        return this.#keep(({ type }) => type === 'TIMESTAMP' && isTimestamp(node.value), node.value, line);
      case 'number':
        this.#keep(({ type, test }) => (type === 'INTEGER' || type === 'FLOAT') && test(node.text), node.text, line);
        return this.#lookForLoss(node.text);
      case 'boolean':
        return this.#keep(({ type }) => type === 'BOOLEAN', String(node.value), line);
      default:
        this.#hasDocuments = true;
        this.#left = [];
    }
  }

  /** No value was seen, so it may be anything. */
  get isEmpty(): boolean {
    return this.#count === 0;
  }

  get type(): ColumnType {
    return this.#hasDocuments ? 'JSONB' : (this.#best?.type ?? 'TEXT');
  }

  /** Whether doubles, too, hold every value, with all digits. */
  get isDouble(): boolean {
    return this.#whole.some(({ type, option }) => type === 'FLOAT' && option === undefined);
  }

  /** How its dates are read, where that must be said. */
  get dates(): DateOrder | undefined {
    return this.#best?.dates;
  }

  /** Every value could be the id of a record. */
  get isUuid(): boolean {
    return this.#count > 0 && this.#isUuid;
  }

  /** Whether this text, too, is of the type, where that is another than TEXT. */
  takes(text: string): boolean {
    return this.#best?.test(text) ?? false;
  }

  /** Why it is a text though it looks like something else. */
  get reason(): string | undefined {
    if (this.isEmpty) return 'no values';
    if (this.type !== 'TEXT') return undefined;
    if (this.#isNumeric && this.#digits !== undefined) return `digits of ${this.#digits} would be lost`;
    const whole = this.#whole;
    if (whole.some(({ dates: order, option }) => order !== undefined && option === undefined))
      return 'day or month first? --dates dmy or mdy';
    const options = new Map([...whole].reverse().map(({ option, type }) => [option, `${type} with ${option}`]));
    if (options.size > 0) return [...options.values()].reverse().join(' or ');
    const near = this.#left.find(({ candidate, count }) => candidate.option === undefined && count * 2 < this.#count);
    return near === undefined ? undefined : exceptions(near);
  }

  get #whole(): Candidate[] {
    return this.#left.filter(({ misfits }) => misfits.size === 0).map(({ candidate }) => candidate);
  }

  get #best(): Candidate | undefined {
    if (this.isEmpty) return undefined;
    const [first, ...others] = this.#whole.filter(({ option }) => option === undefined);
    // Dates that can be read in both orders are read in none.
    const isOpen = first?.dates !== undefined && others.some(({ dates: order }) => order !== undefined);
    return isOpen ? undefined : first;
  }

  #keep(fits: (candidate: Candidate) => boolean, shown: string, line: number): void {
    let isOut = false;
    for (const standing of this.#left) {
      if (fits(standing.candidate)) continue;
      standing.count++;
      const { misfits } = standing;
      const value = cut(shown, SHOWN);
      if (!misfits.has(value)) misfits.set(value, line);
      isOut ||= misfits.size > MOST_MISFITS;
    }
    if (isOut) this.#left = this.#left.filter(({ misfits }) => misfits.size <= MOST_MISFITS);
  }

  /** A number whose digits no type for numbers would keep. */
  #lookForLoss(text: string): void {
    this.#isNumeric = DIGITS.test(text);
    if (!this.#isNumeric || this.#digits !== undefined) return;
    const isKept = NUMBER.test(text) && (isInteger(text) || isExactDouble(text));
    if (!isKept) this.#digits = cut(text, SHOWN);
  }
}

function exceptions({ candidate: { type }, misfits }: Standing): string {
  const values = [...misfits.keys()];
  const shown = values.map((value) => JSON.stringify(value)).join(', ');
  const [[, line] = []] = misfits;
  if (!values.every((value) => NO_VALUE.test(value))) return `${type} but for ${shown} (line ${line})`;
  const options = values.map((value) => `--null ${/^[\w/.-]+$/.test(value) ? value : `'${value}'`}`).join(' ');
  return `${type} but for ${shown}: ${options}`;
}
