/**
 * Infers the type of a column: the first candidate that holds every value without losing a digit, or TEXT, with a
 * reason.
 */
import type { ColumnType } from '../contract/column-types.js';
import { isUuid } from '../contract/patterns.js';
import { isExactDouble, isInteger } from './values.js';
import { isTimestamp } from './timestamps.js';
import { type Candidate, NOT_FINITE } from './type-candidates.js';

/** Numbers, zip codes and telephone numbers. */
const DIGITS = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** A code, or a number: `1E5`. */
const WHOLE_WITH_EXPONENT = /^\d+[eE]\d+$/;
/** What programs write for a missing value. */
const NO_VALUE = /^(?:\s*|na|n\/a|#n\/a|null|nil|none|nan|\\n|-+|\.|\?|unknown)$/i;
/** In every notation, these are valid for both types of numbers, which avoids most of the work. */
const SHORT_INTEGER = /^(?:0|-?[1-9]\d{0,14})$/;
/** A number in every notation with this decimal separator, whatever separates thousands. */
const SHORT_DECIMAL = /^-?(?:0|[1-9]\d{0,7})\.\d{1,6}$/;

/** A candidate with more different exceptions is dropped. */
const MAX_EXCEPTIONS = 3;
/** The records with up to this many mistakes are refused; with more, the column is TEXT. */
const MAX_MISTAKES = 3;
const SHOWN_CHARACTERS = 40;
/** Of columns with so few different values, each is looked at once. */
const FEW_VALUES = 16;

/** A candidate and the values that do not fit it. */
interface Score {
  readonly candidate: Candidate;
  /** Different values, each with its first line. */
  readonly exceptions: Map<string, number>;
  /** The number of these values, including repeated ones. */
  count: number;
  readonly mistakes: { readonly value: string; readonly line: number }[];
}

export class TypeInference {
  private count = 0;
  private hasDocuments = false;
  private areUuids = true;
  private areDigits = true;
  private scores: Score[];
  /** The first number that no numeric type holds with all its digits. */
  private inexact: string | undefined;
  /** The number of JSON strings for numbers that JSON lacks, or that many programs would round. */
  private quotedNumbers = 0;
  /** The number of texts without a character. They fit no candidate. */
  private emptyTexts = 0;
  /** Whether the values are cells, to which `--null` applies. */
  private areCells = false;
  private withExponent: string | undefined;
  private left = kindsOf([]);
  /** The candidates that each value does not fit; undefined if there are many values. */
  private failed: Map<string, readonly Score[]> | undefined = new Map();

  constructor(candidates: readonly Candidate[]) {
    this.scores = candidates.map((candidate) => ({
      candidate,
      exceptions: new Map<string, number>(),
      count: 0,
      mistakes: [],
    }));
  }

  /** @param text a field of delimited text that is not NULL */
  addText(text: string, line: number): void {
    this.count++;
    this.areCells = true;
    if (text === '') this.emptyTexts++;
    const known = this.failed?.get(text);
    if (known !== undefined) {
      for (const score of known) score.count++;
      return;
    }
    if (WHOLE_WITH_EXPONENT.test(text)) this.withExponent ??= shortened(text);
    this.areUuids &&= isUuid(text);
    const isShort = SHORT_INTEGER.test(text);
    const isDecimal = !isShort && SHORT_DECIMAL.test(text);
    if (this.left.areNumbers ? isShort : this.left.areDecimals ? isDecimal : this.left.areTimes && isTimestamp(text))
      return;
    /** In every order of day and month, and asked for only once. */
    let isTime: boolean | undefined;
    const fits = ({ type, decimal, matches }: Candidate): boolean => {
      if (decimal !== undefined && isShort) return true;
      if (decimal === '.' && isDecimal) return type === 'FLOAT';
      if (type === 'TIMESTAMP' && (isTime ??= isTimestamp(text))) return true;
      return matches(text);
    };
    if (this.scores.length > 0) this.score(fits, text, line, true);
    if (this.areDigits && !isShort && !isDecimal) this.addDigits(text.trim());
  }

  /** @param json a JSON value as written */
  addJson(json: string, line: number): void {
    if (json === 'null') return;
    this.count++;
    const string = json.startsWith('"') ? (JSON.parse(json) as string) : undefined;
    this.areUuids &&= string !== undefined && isUuid(string);
    if (string !== undefined) {
      this.areDigits = false;
      // "12" in quotes is meant as text. But a time is always a string, and so are some numbers in a column of numbers.
      const isLarge = isInteger(string) && !Number.isSafeInteger(Number(string));
      const fits = { TIMESTAMP: isTimestamp(string), INTEGER: isLarge, FLOAT: NOT_FINITE.test(string) };
      if (isLarge || fits.FLOAT) this.quotedNumbers++;
      this.score(({ type }) => type in fits && fits[type as keyof typeof fits], string, line);
    } else if (json === 'true' || json === 'false') {
      this.score(({ type }) => type === 'BOOLEAN', json, line);
    } else if (json.startsWith('{') || json.startsWith('[')) {
      this.hasDocuments = true;
      this.scores = [];
    } else {
      this.score(({ type, matches }) => (type === 'INTEGER' || type === 'FLOAT') && matches(json), json, line);
      this.addDigits(json);
    }
  }

  /** Whether there are no values, so that the column may have any type. */
  get isEmpty(): boolean {
    return this.count === 0;
  }

  get type(): ColumnType {
    return this.hasDocuments ? 'JSONB' : (this.best?.candidate.type ?? 'TEXT');
  }

  /** The order of the dates, if it must be known. */
  get dates(): Candidate['dates'] {
    return this.best?.candidate.dates;
  }

  /** Whether FLOAT, too, would hold every value with all its digits. */
  get fitsDouble(): boolean {
    return this.matching.some(({ type, hint }) => type === 'FLOAT' && hint === undefined);
  }

  /** Whether every value could be the id of a record. */
  get isUuid(): boolean {
    return this.count > 0 && this.areUuids;
  }

  /** Whether the text could be another value without making the type TEXT. */
  matches(text: string): boolean {
    return this.matching.some(({ hint, matches }) => hint === undefined && matches(text));
  }

  /**
   * Why the type is TEXT although the values look like another type; which values do not fit the type; or which ones may
   * mean something else.
   */
  get reason(): string | undefined {
    if (this.isEmpty) return 'no values';
    const { best } = this;
    if (best !== undefined && best.mistakes.length > 0) return `${describeExceptions(best, this.areCells)}: refused`;
    if (this.type === 'FLOAT' && this.withExponent !== undefined)
      return `${this.withExponent} is a number; if it is a code, TEXT with --types`;
    if (this.type !== 'TEXT') return undefined;
    if (this.areDigits && this.inexact !== undefined) return `digits of ${this.inexact} would be lost`;
    const { matching } = this;
    if (matching.some(({ dates, hint }) => dates !== undefined && hint === undefined))
      return 'day or month first? --dates dmy or mdy';
    const hints = matching.flatMap(({ hint }) => hint ?? []);
    if (hints.length > 0) return simplest(hints);
    const isNear = ({ candidate: { hint }, count, mistakes }: Score) =>
      (hint === undefined || hint.options !== undefined) &&
      (count - this.emptyTexts + mistakes.length) * 2 < this.count - this.emptyTexts;
    const [near] = this.scores.filter(isNear).sort((one, other) => one.count - other.count);
    return near === undefined ? undefined : describeExceptions(near, this.areCells);
  }

  /** The candidates that match every value, except for a few mistakes. */
  private get matching(): Candidate[] {
    return this.matchingScores.map(({ candidate }) => candidate);
  }

  private get matchingScores(): Score[] {
    return this.scores.filter(({ exceptions, mistakes }) => exceptions.size === 0 && mistakes.length * 2 < this.count);
  }

  private get best(): Score | undefined {
    if (this.isEmpty) return undefined;
    const [first, ...others] = this.matchingScores.filter(({ candidate }) => candidate.hint === undefined);
    if (this.quotedNumbers === this.count) return undefined;
    // Dates that are valid in both orders are not dates.
    const isAmbiguous =
      first?.candidate.dates !== undefined && others.some(({ candidate }) => candidate.dates !== undefined);
    return isAmbiguous ? undefined : first;
  }

  private score(fits: (candidate: Candidate) => boolean, value: string, line: number, isText = false): void {
    let isDropped = false;
    let hasMistake = false;
    const failed: Score[] = [];
    for (const score of this.scores) {
      const { candidate, mistakes } = score;
      if (fits(candidate)) continue;
      const shown = shortened(value);
      if (isText && mistakes.length < MAX_MISTAKES && candidate.isMistake?.(value) === true) {
        mistakes.push({ value: shown, line });
        hasMistake = true;
        continue;
      }
      failed.push(score);
      score.count++;
      if (!score.exceptions.has(shown)) score.exceptions.set(shown, line);
      isDropped ||= score.exceptions.size > MAX_EXCEPTIONS;
    }
    if (isText && !hasMistake) this.failed?.set(value, failed);
    if ((this.failed?.size ?? 0) > FEW_VALUES) this.failed = undefined;
    if (!isDropped) return;
    this.scores = this.scores.filter(({ exceptions }) => exceptions.size <= MAX_EXCEPTIONS);
    this.left = kindsOf(this.scores.map(({ candidate }) => candidate));
  }

  private addDigits(text: string): void {
    this.areDigits = DIGITS.test(text);
    if (!this.areDigits || this.inexact !== undefined) return;
    if (!isInteger(text) && !isExactDouble(text)) this.inexact = shortened(text);
  }
}

/** Whether all candidates are of a kind, so that one test does for all of them. */
function kindsOf(candidates: readonly Candidate[]) {
  const areAll = (test: (candidate: Candidate) => boolean): boolean => candidates.length > 0 && candidates.every(test);
  const areDecimals = areAll(({ type, decimal }) => type === 'FLOAT' && decimal === '.');
  return {
    areDecimals,
    areNumbers: !areDecimals && areAll(({ decimal }) => decimal !== undefined),
    areTimes: areAll(({ type }) => type === 'TIMESTAMP'),
  };
}

const shortened = (text: string): string =>
  text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;

/** Leaves out hints with all the options of an earlier one and more. */
function simplest(hints: readonly NonNullable<Candidate['hint']>[]): string {
  const needsMore = (options: string | undefined, i: number): boolean =>
    hints.slice(0, i).some((earlier) => options !== undefined && `${options} `.startsWith(`${earlier.options} `));
  return hints
    .filter(({ options }, i) => !needsMore(options, i))
    .map(({ text }) => text)
    .join(' or ');
}

function describeExceptions({ candidate: { type, hint }, exceptions, mistakes }: Score, areCells: boolean): string {
  const lines = new Map<string, number>();
  const all = [...mistakes, ...[...exceptions].map(([value, line]) => ({ value, line }))];
  for (const { value, line } of all) if (!lines.has(value)) lines.set(value, line);
  const values = [...lines.keys()];
  const [line] = lines.values();
  const shown = `${hint?.text ?? type} except for ${values.map((value) => JSON.stringify(value)).join(', ')}`;
  if (!areCells || !values.every((value) => NO_VALUE.test(value))) return `${shown} (line ${line})`;
  const options = values.map((value) => `--null ${/^[\w/.-]+$/.test(value) ? value : `'${value}'`}`);
  return `${shown}: ${options.join(' ')}`;
}
