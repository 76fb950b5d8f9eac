/** Reads a JSON body (RFC 8259) without losing anything: docs/decisions/0003. */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import type { JsonArray, JsonBoolean, JsonMember, JsonNode, JsonNull, JsonObject } from './nodes.js';

/**
 * @param kept the depth down to which nodes are kept (1 is the document's own array or object); deeper ones are
 * checked, and read again at each access
 * @throws EngineError `invalid_json` if the body is not UTF-8, not JSON (with line and column), or nested too deeply
 */
export function readJson(body: Uint8Array, kept = Infinity): JsonNode {
  return new Reader(decode(body), { kept }).document();
}

/** Stops reading a body with more fields, or with more values in them, than allowed (contract C1.22). */
export interface ValueLimit {
  /** Default: `LIMITS.values`. */
  readonly values?: number;
  /** The depth of the objects whose members are fields; 1 is the document's own. */
  readonly depth: number;
  /** Each field may hold as many values as are allowed; otherwise all fields of the body together. */
  readonly isOfField: boolean;
  /** @param record index of the item in the document's own array */
  tooManyKeys(record: number): EngineError;
  tooManyValues(record: number, field: string | null): EngineError;
}

/**
 * As {@link readJson}, but stops at the limit. Refuses a valid text in which an object within `uniqueDepth` levels has a key
 * twice: a reader would silently ignore one of them.
 * @throws the error of the limit; EngineError `invalid_json` that names the key
 */
export function readLimitedJson(body: Uint8Array, limit: ValueLimit, kept: number, uniqueDepth: number): JsonNode {
  return new Reader(decode(body), { limit, kept, uniqueDepth }).document();
}

/** Work that may take long. After each step, whoever runs it may let others have the event loop first. */
export type Steps<T> = Generator<undefined, T, undefined>;

/** Runs all steps at once. */
export function allSteps<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/**
 * As {@link readLimitedJson}, in steps of an item of the document's own array.
 * @param limit undefined: none
 * @param beginItem called with the index of each item
 */
export function* readItems(
  body: Uint8Array,
  limit: ValueLimit | undefined,
  kept: number,
  beginItem: (index: number) => void,
): Steps<JsonNode> {
  return yield* new Reader(decode(body), { limit, kept }).steps(beginItem);
}

/**
 * A line as {@link readItems} reads an item.
 * @param index of the item
 */
export const readJsonLine = (line: Uint8Array, limit: ValueLimit, kept: number, index: number): JsonNode =>
  new Reader(decode(line), { limit, kept, item: { index, depth: 1 } }).document();

/** Receives the contents of a text. */
interface JsonVisitor {
  /** A string or key that contains escapes, with its quotes. */
  escaped(text: string): void;
  number(text: string): void;
}

/** Visits the contents of an array or object from its text, without building a tree. The text must be valid. */
export function visitJson(text: string, visitor: JsonVisitor): void {
  new Reader(text, { kept: 0, visitor }).document();
}

const NULL: JsonNull = { kind: 'null' };
const TRUE: JsonBoolean = { kind: 'boolean', value: true };
const FALSE: JsonBoolean = { kind: 'boolean', value: false };
const WORDS: readonly (readonly [string, JsonNode])[] = [
  ['true', TRUE],
  ['false', FALSE],
  ['null', NULL],
];

const TAB = 0x09;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const UPPER_E = 0x45;
const LOWER_E = 0x65;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const LOWER_U = 0x75;
/** What may follow a backslash, besides `u` and four digits. A body can hold millions of escapes, too many for a pattern. */
const ESCAPED = new Set(Array.from('"\\/bfnrt', (letter) => letter.charCodeAt(0)));

const isHexDigit = (unit: number): boolean =>
  (unit >= ZERO && unit <= NINE) || ((unit | 0x20) >= 0x61 && (unit | 0x20) <= 0x66);

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(body: Uint8Array): string {
  try {
    return UTF8.decode(body);
  } catch (cause) {
    throw new EngineError('invalid_json', 'The body is not valid UTF-8', { cause });
  }
}

interface ReaderOptions {
  readonly limit?: ValueLimit | undefined;
  readonly kept?: number;
  readonly uniqueDepth?: number;
  readonly visitor?: JsonVisitor;
  /** The document is an item of an array. */
  readonly item?: { readonly index: number; readonly depth: number };
}

/**
 * Recursive descent. Every method skips leading white space and stops right after what it reads. Values below the kept
 * depth are read in the same way but without creating nodes: a tree takes about forty times the memory of its text.
 */
class Reader {
  private at = 0;
  /** The number of values read so far, including nested ones; and the number at which to stop. */
  private values = 0;
  private most = Infinity;
  /** Where the reader is: the item of the document's own array, and the field that is being read. */
  private item = 0;
  private field: string | null = null;
  /** Told after errors of the syntax. */
  private duplicateKey: string | null = null;
  private readonly kept: number;
  /** undefined: there are no fields, whose values have a limit of their own. */
  private limit: ValueLimit | undefined;

  constructor(
    private readonly text: string,
    private readonly options: ReaderOptions = {},
  ) {
    this.kept = options.kept ?? Infinity;
    this.limit = options.limit;
    this.item = options.item?.index ?? 0;
    // The document itself does not count.
    if (options.limit !== undefined) this.most = (options.limit.values ?? LIMITS.values) + 1;
  }

  document(): JsonNode {
    this.begin();
    const root = this.value(this.options.item?.depth ?? 0);
    this.end();
    if (this.duplicateKey !== null) {
      throw new EngineError('invalid_json', `The key ${quoted(this.duplicateKey)} occurs twice`);
    }
    return root;
  }

  /** The document, after each item of an array a step. */
  *steps(beginItem: (index: number) => void): Steps<JsonNode> {
    this.begin();
    this.skipSpace();
    const isArray = this.text.charCodeAt(this.at) === OPEN_BRACKET;
    if (!isArray) this.limit = undefined;
    const root = isArray ? yield* this.list(beginItem) : this.value(0);
    this.end();
    return root;
  }

  private begin(): void {
    if (this.text.startsWith('\uFEFF')) throw this.error('a byte order mark is not allowed');
  }

  private end(): void {
    this.skipSpace();
    if (this.at < this.text.length) throw this.error('expected the end of the input');
  }

  private *list(beginItem: (index: number) => void): Steps<JsonArray> {
    const start = this.at++;
    const items: JsonNode[] = [];
    if (!this.take(CLOSE_BRACKET)) {
      do {
        this.item = items.length;
        beginItem(this.item);
        this.beginField(null);
        items.push(this.value(1));
        yield;
      } while (this.take(COMMA));
      if (!this.take(CLOSE_BRACKET)) throw this.error('expected a comma or a closing bracket');
    }
    return { kind: 'array', items, text: this.text.slice(start, this.at) };
  }

  /** The field itself does not count, only the values in it. @param name null: an item that may be no object */
  private beginField(name: string | null): void {
    this.field = name;
    if (this.limit?.isOfField) this.most = this.values + 1 + LIMITS.values;
    else this.most++;
  }

  /**
   * @param depth the number of arrays and objects that are open around this value
   * @returns an arbitrary value if it is in an array or object that is not kept
   */
  private value(depth: number): JsonNode {
    this.skipSpace();
    if (this.values++ >= this.most) throw this.tooManyValues();
    const unit = this.text.charCodeAt(this.at);
    if (unit === OPEN_BRACE || unit === OPEN_BRACKET) return this.nested(unit === OPEN_BRACE, depth + 1);
    const isKept = depth <= this.kept;
    if (unit === QUOTE) {
      const value = this.string(isKept);
      return isKept ? { kind: 'string', value } : NULL;
    }
    if (unit === MINUS || (unit >= ZERO && unit <= NINE)) {
      const text = this.number(isKept);
      return isKept ? { kind: 'number', text } : NULL;
    }
    return this.word();
  }

  private nested(isObject: boolean, depth: number): JsonNode {
    if (depth > LIMITS.jsonDepth) throw this.error(`at most ${LIMITS.jsonDepth} levels of nesting are allowed`);
    const start = this.at++;
    const members = isObject ? this.members(depth) : [];
    const items = isObject ? [] : this.items(depth);
    if (depth > this.kept + 1) return NULL;
    const text = this.text.slice(start, this.at);
    if (depth > this.kept) return unread(isObject, text);
    return isObject ? { kind: 'object', members, text } : { kind: 'array', items, text };
  }

  private members(depth: number): JsonMember[] {
    const members: JsonMember[] = [];
    if (this.take(CLOSE_BRACE)) return members;
    const isKept = depth <= this.kept;
    const limit = this.limit?.depth === depth ? this.limit : undefined;
    const keys = depth <= (this.options.uniqueDepth ?? 0) ? new Set<string>() : undefined;
    let count = 0;
    do {
      this.skipSpace();
      if (this.text.charCodeAt(this.at) !== QUOTE) throw this.error('expected a key in double quotes');
      const key = this.string(isKept || keys !== undefined);
      if (keys?.has(key)) this.duplicateKey ??= key;
      keys?.add(key);
      if (!this.take(COLON)) throw this.error('expected a colon');
      if (limit !== undefined) {
        if (++count > LIMITS.keysPerRecord) throw limit.tooManyKeys(this.item);
        this.beginField(key);
      }
      const value = this.value(depth);
      if (isKept) members.push([key, value]);
    } while (this.take(COMMA));
    if (!this.take(CLOSE_BRACE)) throw this.error('expected a comma or a closing brace');
    return members;
  }

  private items(depth: number): JsonNode[] {
    const items: JsonNode[] = [];
    if (this.take(CLOSE_BRACKET)) return items;
    const isKept = depth <= this.kept;
    do {
      const value = this.value(depth);
      if (isKept) items.push(value);
    } while (this.take(COMMA));
    if (!this.take(CLOSE_BRACKET)) throw this.error('expected a comma or a closing bracket');
    return items;
  }

  /**
   * At the opening quote.
   * @returns the decoded content, if it is kept
   */
  private string(isKept: boolean): string {
    const { text } = this;
    const start = this.at++;
    let escapes = false;
    for (;;) {
      const unit = text.charCodeAt(this.at);
      if (unit === QUOTE) break;
      if (unit === BACKSLASH) {
        this.escape();
        escapes = true;
      } else if (unit >= SPACE) {
        this.at++;
      } else {
        throw this.error('a control character in a string must be escaped');
      }
    }
    this.at++;
    if (escapes) this.options.visitor?.escaped(text.slice(start, this.at));
    if (!isKept) return '';
    // The checks above ensure that JSON.parse can decode the escapes.
    return escapes ? (JSON.parse(text.slice(start, this.at)) as string) : text.slice(start + 1, this.at - 1);
  }

  /** At the backslash. */
  private escape(): void {
    const { text, at } = this;
    const unit = text.charCodeAt(at + 1);
    let end = at + 2;
    if (unit === LOWER_U) while (end < at + 6 && isHexDigit(text.charCodeAt(end))) end++;
    if (unit === LOWER_U ? end < at + 6 : !ESCAPED.has(unit)) throw this.error('invalid JSON escape sequence');
    this.at = end;
  }

  /** @returns its text, if it is kept */
  private number(isKept: boolean): string {
    const { text } = this;
    const start = this.at;
    // Most numbers are a few digits, which need no pattern.
    let at = start;
    let unit = text.charCodeAt(at);
    while (unit >= ZERO && unit <= NINE) unit = text.charCodeAt(++at);
    const isPlain = at > start && at < text.length && (text.charCodeAt(start) !== ZERO || at === start + 1);
    if (isPlain && unit !== POINT && unit !== LOWER_E && unit !== UPPER_E) this.at = at;
    else this.match(NUMBER, 'expected a value');
    const { visitor } = this.options;
    if (visitor === undefined && !isKept) return '';
    const number = text.slice(start, this.at);
    visitor?.number(number);
    return number;
  }

  private word(): JsonNode {
    for (const [word, node] of WORDS) {
      if (!this.text.startsWith(word, this.at)) continue;
      this.at += word.length;
      return node;
    }
    throw this.error('expected a value');
  }

  private match(pattern: RegExp, complaint: string): void {
    pattern.lastIndex = this.at;
    if (!pattern.test(this.text)) throw this.error(complaint);
    this.at = pattern.lastIndex;
  }

  private take(unit: number): boolean {
    this.skipSpace();
    if (this.text.charCodeAt(this.at) !== unit) return false;
    this.at++;
    return true;
  }

  private skipSpace(): void {
    const { text } = this;
    for (;;) {
      const unit = text.charCodeAt(this.at);
      if (unit !== SPACE && unit !== LINE_FEED && unit !== RETURN && unit !== TAB) return;
      this.at++;
    }
  }

  private tooManyValues(): Error {
    // Without a limit, `most` is never reached.
    return this.options.limit?.tooManyValues(this.item, this.field) ?? this.error('too many values');
  }

  /** Reports the position of the error and what was expected, but not what was found: it may be private. */
  private error(complaint: string): EngineError {
    const what = this.at < this.text.length ? complaint : 'the body ends too early';
    const before = this.text.slice(0, this.at).split('\n');
    const column = (before.at(-1) as string).length + 1;
    return new EngineError(
      'invalid_json',
      `The body is not valid JSON: line ${before.length}, column ${column}: ${what}`,
    );
  }
}

/** An array or object that was checked, and is read again at each access. */
function unread(isObject: boolean, text: string): JsonNode {
  const read = () => new Reader(text).document();
  if (isObject) {
    return {
      kind: 'object',
      text,
      get members() {
        return (read() as JsonObject).members;
      },
    };
  }
  return {
    kind: 'array',
    text,
    get items() {
      return (read() as JsonArray).items;
    },
  };
}
