/** Which of the six types holds every value of a column that was seen, without losing a digit; and if none, why. */
import type { ColumnType } from '../../contract/column-types.js';
import type { JsonNode } from '../../engine/json/nodes.js';
import { cut } from '../../engine/message-text.js';
import { type Candidate, type Hint, isExactDouble, isInteger, NUMBER, SHORT_INTEGER } from './candidates.js';
import { type DateOrder, isTimestamp } from './timestamps.js';

/** Of numbers, zip codes and telephone numbers. */
const DIGITS = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** What programs write where there is no value. */
const NO_VALUE = /^(?:na|n\/a|#n\/a|null|nil|none|nan|\\n|-+|\.|\?|unknown)$/i;

/** More different values that do not fit, and it is out. */
const MAX_MISFITS = 3;

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
    const isNumber = SHORT_INTEGER.test(text);
    this.#keep(({ type, test }) => (isNumber && (type === 'INTEGER' || type === 'FLOAT')) || test(text), text, line);
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
    return this.#whole.some(({ type, hint }) => type === 'FLOAT' && hint === undefined);
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
    if (whole.some(({ dates: order, hint }) => order !== undefined && hint === undefined))
      return 'day or month first? --dates dmy or mdy';
    const hints = whole.flatMap(({ hint }) => hint ?? []);
    if (hints.length > 0) return simplest(hints);
    const near = this.#left.find(({ candidate, count }) => candidate.hint === undefined && count * 2 < this.#count);
    return near === undefined ? undefined : exceptions(near);
  }

  get #whole(): Candidate[] {
    return this.#left.filter(({ misfits }) => misfits.size === 0).map(({ candidate }) => candidate);
  }

  get #best(): Candidate | undefined {
    if (this.isEmpty) return undefined;
    const [first, ...others] = this.#whole.filter(({ hint }) => hint === undefined);
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
      isOut ||= misfits.size > MAX_MISFITS;
    }
    if (isOut) this.#left = this.#left.filter(({ misfits }) => misfits.size <= MAX_MISFITS);
  }

  /** A number whose digits no type for numbers would keep. */
  #lookForLoss(text: string): void {
    this.#isNumeric = DIGITS.test(text);
    if (!this.#isNumeric || this.#digits !== undefined) return;
    const isKept = NUMBER.test(text) && (isInteger(text) || isExactDouble(text));
    if (!isKept) this.#digits = cut(text, SHOWN);
  }
}

/** Without those that take more options than one before them, or the same. */
const simplest = (hints: readonly Hint[]): string =>
  hints
    .filter(({ options }, i) => !hints.slice(0, i).some((before) => `${options} `.startsWith(`${before.options} `)))
    .map(({ says }) => says)
    .join(' or ');

function exceptions({ candidate: { type }, misfits }: Standing): string {
  const values = [...misfits.keys()];
  const shown = values.map((value) => JSON.stringify(value)).join(', ');
  const [[, line] = []] = misfits;
  if (!values.every((value) => NO_VALUE.test(value))) return `${type} but for ${shown} (line ${line})`;
  const options = values.map((value) => `--null ${/^[\w/.-]+$/.test(value) ? value : `'${value}'`}`).join(' ');
  return `${type} but for ${shown}: ${options}`;
}
