/** Which of the six types holds every value of a column that was seen, without losing a digit. */
import type { ColumnType } from '../../contract/column-types.js';
import type { JsonNode } from '../../engine/json.js';

const INTEGER = /^-?(?:0|[1-9]\d*)$/;
const DECIMAL = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const NOT_FINITE = /^(?:NaN|-?Infinity)$/;
const BOOLEAN = /^(?:true|false)$/i;
const TIMESTAMP =
  /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,80})?(?:[Zz]|[+-](?:0\d|1[0-5]):[0-5]\d)?)?$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

const MAX_INTEGER = 2n ** 63n - 1n;
const MIN_INTEGER = -(2n ** 63n);

const isInteger = (text: string): boolean => {
  if (!INTEGER.test(text) || text === '-0') return false;
  return text.length < 19 || (BigInt(text) <= MAX_INTEGER && BigInt(text) >= MIN_INTEGER);
};

/** A double has at least this many digits. */
const SAFE_DIGITS = 15;

/** Whether the double has the same digits, which more than fifteen of them need not survive. */
function isExactDouble(text: string): boolean {
  const value = Number(text);
  if (!Number.isFinite(value)) return false;
  const [digits, power] = scientific(text);
  if (digits.length <= SAFE_DIGITS && (digits === '' || Math.abs(power) < 300)) return true;
  const [kept, keptPower] = scientific(String(value));
  return digits === kept && (digits === '' || power === keptPower);
}

/** The digits without zeros around them, and the power of ten of the last one. */
function scientific(text: string): [digits: string, power: number] {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().replace('-', '').split('e', 2);
  const sign = /e-/i.test(text) ? -1 : 1;
  const [whole = '', fraction = ''] = mantissa.split('.');
  const all = (whole + fraction).replace(/^0+/, '');
  const digits = all.replace(/0+$/, '');
  return [digits, sign * Number(exponent.replace(/[+-]/, '')) - fraction.length + all.length - digits.length];
}

const isTimestamp = (text: string): boolean => {
  const [, year, month, day] = TIMESTAMP.exec(text) ?? [];
  if (year === undefined) return false;
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)));
  return Number(year) > 0 && date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day);
};

const isDocument = (text: string): boolean => {
  if (!/^[{[]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/** Tried in this order. */
const TESTS: readonly (readonly [ColumnType, (text: string) => boolean])[] = [
  ['INTEGER', isInteger],
  ['FLOAT', (text) => (DECIMAL.test(text) && isExactDouble(text)) || NOT_FINITE.test(text)],
  ['BOOLEAN', (text) => BOOLEAN.test(text)],
  ['TIMESTAMP', isTimestamp],
  ['JSONB', isDocument],
];

export class ColumnGuess {
  #count = 0;
  #hasDocuments = false;
  #isUuid = true;
  #left = TESTS;
  #digits: string | undefined;

  /** A field of delimited text that is not NULL. */
  addText(text: string): void {
    this.#count++;
    this.#isUuid &&= UUID.test(text);
    this.#keep((test) => test(text), text);
  }

  addJson(node: JsonNode): void {
    if (node.kind === 'null') return;
    this.#count++;
    this.#isUuid &&= node.kind === 'string' && UUID.test(node.value);
    switch (node.kind) {
      case 'string':
        // Whoever wrote "12" in quotes meant a text; a time has no other form.
        return this.#keep((test, type) => type === 'TIMESTAMP' && test(node.value));
      case 'number':
        return this.#keep((test, type) => (type === 'INTEGER' || type === 'FLOAT') && test(node.text), node.text);
      case 'boolean':
        return this.#keep((_, type) => type === 'BOOLEAN');
      default:
        this.#hasDocuments = true;
        return this.#keep(() => false);
    }
  }

  get type(): ColumnType {
    if (this.#hasDocuments) return 'JSONB';
    return this.#count === 0 ? 'TEXT' : (this.#left[0]?.[0] ?? 'TEXT');
  }

  /** Every value could be the id of a record. */
  get isUuid(): boolean {
    return this.#count > 0 && this.#isUuid;
  }

  /** Why it is a text though it looks like something else. */
  get reason(): string | undefined {
    if (this.#count === 0) return 'no values in the sample';
    if (this.type !== 'TEXT' || this.#digits === undefined) return undefined;
    return `digits of ${this.#digits} would be lost`;
  }

  #keep(fits: (test: (text: string) => boolean, type: ColumnType) => boolean, number?: string): void {
    if (this.#left.length > 0) this.#left = this.#left.filter(([type, test]) => fits(test, type));
    if (number !== undefined && this.#digits === undefined && /^[+-]?\d[\d.eE+-]*$/.test(number)) {
      const isNumber = isInteger(number) || (DECIMAL.test(number) && isExactDouble(number));
      if (!isNumber && /^[+-]?\d+(\.\d+)?$/.test(number)) this.#digits = number.slice(0, 40);
    }
  }
}
