/** Reads a JSON body (RFC 8259) without losing anything: docs/decisions/0003. */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import type { JsonArray, JsonBoolean, JsonMember, JsonNode, JsonNull, JsonObject } from './nodes.js';

/** Stops reading early: refuses an array at this depth (1 is the document's own) with more than `items` items. */
interface ArrayLimit {
  readonly depth: number;
  readonly items: number;
  readonly exceeded: () => EngineError;
}

/**
 * @param kept the depth down to which nodes are kept (1 is the document's own array or object); deeper ones are
 * checked, and read again at each access
 * @throws EngineError `invalid_json` if the body is not UTF-8, not JSON (with line and column), or nested too deeply;
 * the error of the limit
 */
export function readJson(body: Uint8Array, limit?: ArrayLimit, kept = Infinity): JsonNode {
  return new Reader(decode(body), { limit, kept }).document();
}

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
const WORDS = { true: TRUE, false: FALSE, null: NULL };

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
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(body: Uint8Array): string {
  try {
    return UTF8.decode(body);
  } catch (cause) {
    throw new EngineError('invalid_json', 'The body is not valid UTF-8', { cause });
  }
}

interface ReaderOptions {
  readonly limit?: ArrayLimit | undefined;
  readonly kept?: number;
  readonly visitor?: JsonVisitor;
}

/**
 * Recursive descent. Every method skips leading white space and stops right after what it reads. Values below the kept
 * depth are read in the same way but without creating nodes: a tree takes about forty times the memory of its text.
 */
class Reader {
  private at = 0;
  /** The number of values read so far, including nested ones. */
  private values = 0;
  private readonly kept: number;

  constructor(
    private readonly text: string,
    private readonly options: ReaderOptions = {},
  ) {
    this.kept = options.kept ?? Infinity;
  }

  document(): JsonNode {
    if (this.text.startsWith('\uFEFF')) throw this.error('a byte order mark is not allowed');
    const root = this.value(0);
    this.skipSpace();
    if (this.at < this.text.length) throw this.error('expected the end of the input');
    return root;
  }

  /**
   * @param depth the number of arrays and objects that are open around this value
   * @returns an arbitrary value if it is in an array or object that is not kept
   */
  private value(depth: number): JsonNode {
    this.skipSpace();
    this.values++;
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
    const before = this.values;
    const members: JsonMember[] = [];
    const items: JsonNode[] = [];
    if (isObject) this.members(depth, members);
    else this.items(depth, items);
    if (depth > this.kept + 1) return NULL;
    const text = this.text.slice(start, this.at);
    if (depth > this.kept) return unread(isObject, text, this.values - before);
    return isObject ? { kind: 'object', members, text } : { kind: 'array', items, text };
  }

  private members(depth: number, members: JsonMember[]): void {
    if (this.take(CLOSE_BRACE)) return;
    const isKept = depth <= this.kept;
    do {
      this.skipSpace();
      if (this.text.charCodeAt(this.at) !== QUOTE) throw this.error('expected a key in double quotes');
      const key = this.string(isKept);
      if (!this.take(COLON)) throw this.error('expected a colon');
      const value = this.value(depth);
      if (isKept) members.push([key, value]);
    } while (this.take(COMMA));
    if (!this.take(CLOSE_BRACE)) throw this.error('expected a comma or a closing brace');
  }

  private items(depth: number, items: JsonNode[]): void {
    if (this.take(CLOSE_BRACKET)) return;
    const isKept = depth <= this.kept;
    const limit = this.options.limit?.depth === depth ? this.options.limit : undefined;
    do {
      if (limit !== undefined && items.length >= limit.items) throw limit.exceeded();
      const value = this.value(depth);
      if (isKept) items.push(value);
    } while (this.take(COMMA));
    if (!this.take(CLOSE_BRACKET)) throw this.error('expected a comma or a closing bracket');
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
        this.match(ESCAPE, 'invalid JSON escape sequence');
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
    for (const [word, node] of Object.entries(WORDS)) {
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
function unread(isObject: boolean, text: string, values: number): JsonNode {
  const read = () => new Reader(text).document();
  if (isObject) {
    return {
      kind: 'object',
      text,
      values,
      get members() {
        return (read() as JsonObject).members;
      },
    };
  }
  return {
    kind: 'array',
    text,
    values,
    get items() {
      return (read() as JsonArray).items;
    },
  };
}
