/**
 * Walks over nested JSON (RFC 8259) and keeps nothing of it: a tree of nodes takes some forty times the memory of its
 * text, and its making the time of everybody else.
 */
import { LIMITS } from '../../contract/limits.js';

/** Told of what stands in the text, as far as it wants to know. */
interface JsonVisitor {
  /** A string or key with escapes in it, and its quotes. */
  escaped(text: string): void;
  number(text: string): void;
}

/** @throws its argument's error: what was wrong, and where in the text */
type Complain = (at: number, complaint: string) => never;

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

export const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
export const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const WORDS = ['true', 'false', 'null'];

export class JsonWalk {
  /** Values that were walked over, the nested ones too. */
  values = 0;

  /** @param at where the walk begins; afterwards, right behind what was walked over */
  constructor(
    private readonly text: string,
    public at: number,
    private readonly complain: Complain,
    private readonly visitor: JsonVisitor | null = null,
  ) {}

  /** One value. @param depth arrays and objects that are open around it */
  value(depth: number): void {
    this.skipSpace();
    this.values++;
    const unit = this.text.charCodeAt(this.at);
    if (unit === QUOTE) this.string();
    else if (unit === OPEN_BRACE) this.object(depth + 1);
    else if (unit === OPEN_BRACKET) this.array(depth + 1);
    else if (unit === MINUS || (unit >= ZERO && unit <= NINE)) this.number();
    else this.word();
  }

  private object(depth: number): void {
    this.open(depth);
    if (this.take(CLOSE_BRACE)) return;
    do {
      this.skipSpace();
      if (this.text.charCodeAt(this.at) !== QUOTE) this.fail('a key in double quotes is expected');
      this.string();
      if (!this.take(COLON)) this.fail('a colon is expected');
      this.value(depth);
    } while (this.take(COMMA));
    if (!this.take(CLOSE_BRACE)) this.fail('a comma or a closing brace is expected');
  }

  private array(depth: number): void {
    this.open(depth);
    if (this.take(CLOSE_BRACKET)) return;
    do this.value(depth);
    while (this.take(COMMA));
    if (!this.take(CLOSE_BRACKET)) this.fail('a comma or a closing bracket is expected');
  }

  private open(depth: number): void {
    if (depth > LIMITS.jsonDepth) this.fail(`at most ${LIMITS.jsonDepth} levels of nesting are allowed`);
    this.at++;
  }

  private string(): void {
    const { text } = this;
    const start = this.at++;
    let escapes = false;
    for (;;) {
      const unit = text.charCodeAt(this.at);
      if (unit === QUOTE) break;
      if (unit === BACKSLASH) {
        this.match(ESCAPE, 'this is not an escape sequence of JSON');
        escapes = true;
      } else if (unit >= SPACE) {
        this.at++;
      } else {
        this.fail('a control character in a string must be escaped');
      }
    }
    this.at++;
    if (escapes) this.visitor?.escaped(text.slice(start, this.at));
  }

  private number(): void {
    const { text } = this;
    const start = this.at;
    // Most are a few digits, which need no pattern.
    let at = start;
    let unit = text.charCodeAt(at);
    while (unit >= ZERO && unit <= NINE) unit = text.charCodeAt(++at);
    const isPlain = at > start && at < text.length && (text.charCodeAt(start) !== ZERO || at === start + 1);
    if (isPlain && unit !== POINT && unit !== LOWER_E && unit !== UPPER_E) this.at = at;
    else this.match(NUMBER, 'a value is expected');
    this.visitor?.number(this.text.slice(start, this.at));
  }

  private word(): void {
    const word = WORDS.find((one) => this.text.startsWith(one, this.at));
    if (word === undefined) this.fail('a value is expected');
    else this.at += word.length;
  }

  private match(pattern: RegExp, complaint: string): void {
    pattern.lastIndex = this.at;
    if (!pattern.test(this.text)) this.fail(complaint);
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

  private fail(complaint: string): never {
    return this.complain(this.at, complaint);
  }
}
