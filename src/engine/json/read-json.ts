/** Reads a JSON body (RFC 8259) without losing anything: docs/decisions/0003. */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { ESCAPE, JsonWalk, NUMBER } from './json-walk.js';
import type { JsonArray, JsonBoolean, JsonMember, JsonNode, JsonNull, JsonObject } from './nodes.js';

export class JsonDocument {
  constructor(
    readonly text: string,
    readonly root: JsonNode,
  ) {}

  /**
   * The plain value, for the schemas of requests. Numbers are doubles, of duplicate keys the last one stays.
   * @param dataField a member that is data: of an array only the length is kept
   */
  value(dataField?: string): unknown {
    const { root } = this;
    if (dataField === undefined || root.kind !== 'object') return JSON.parse(this.text) as unknown;
    const plain: Record<string, unknown> = {};
    for (const [key, node] of root.members) {
      const isData = key === dataField && node.kind === 'array';
      const value = isData ? node.items.map(() => null) : plainValue(node);
      // Set like any other, it would become the object's prototype.
      if (key === '__proto__') Object.defineProperty(plain, key, { value, enumerable: true });
      else plain[key] = value;
    }
    return plain;
  }
}

/** A field that is a scalar. Of an array or object it says no more than which of both it is. */
function plainValue(node: JsonNode): unknown {
  switch (node.kind) {
    case 'null':
      return null;
    case 'number':
      return Number(node.text);
    case 'array':
      return [];
    case 'object':
      return {};
    default:
      return node.value;
  }
}

/** Ends the reading early: an array at this depth (the document's own is at 1) with more items than these is refused. */
interface ArrayLimit {
  readonly depth: number;
  readonly items: number;
  readonly exceeded: () => EngineError;
}

/**
 * @param kept down to which depth nodes are kept (the document's own array or object is at 1); what is deeper is checked,
 *   and read again when it is asked for
 * @throws EngineError `invalid_json`: not UTF-8, not JSON (with line and column), or nested too deeply; and what the
 *   limit says.
 */
export function readJson(body: Uint8Array, limit?: ArrayLimit, kept = Infinity): JsonDocument {
  const text = decode(body);
  return new JsonDocument(text, new Reader(text, limit, kept).document());
}

const NULL: JsonNull = { kind: 'null' };
const TRUE: JsonBoolean = { kind: 'boolean', value: true };
const FALSE: JsonBoolean = { kind: 'boolean', value: false };
const isSpace = (unit: number): boolean => unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;
const FIRST_PRINTABLE = 0x20;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(body: Uint8Array): string {
  try {
    return UTF8.decode(body);
  } catch (cause) {
    throw new EngineError('invalid_json', 'The body is not valid UTF-8', { cause });
  }
}

/** The tree of a text that was checked. */
const rootOf = (text: string): JsonNode => new Reader(text).document();

/** Recursive descent. Every method skips the white space before what it reads and stops right behind it. */
class Reader {
  private at = 0;

  constructor(
    private readonly text: string,
    private readonly limit?: ArrayLimit,
    private readonly kept = Infinity,
  ) {}

  document(): JsonNode {
    if (this.text.startsWith('\uFEFF')) throw this.error('a byte order mark does not belong here');
    const root = this.value(0);
    this.skipSpace();
    if (this.at < this.text.length) throw this.error('the end is expected');
    return root;
  }

  /** @param depth how many arrays and objects are open around this value. */
  private value(depth: number): JsonNode {
    this.skipSpace();
    switch (this.text[this.at]) {
      case '{':
        return this.object(depth + 1);
      case '[':
        return this.array(depth + 1);
      case '"':
        return { kind: 'string', value: this.string() };
      case 't':
        return this.word('true', TRUE);
      case 'f':
        return this.word('false', FALSE);
      case 'n':
        return this.word('null', NULL);
      default:
        return { kind: 'number', text: this.match(NUMBER, 'a value is expected') };
    }
  }

  private object(depth: number): JsonObject {
    if (depth > this.kept) {
      const unread = this.unread(depth);
      return {
        kind: 'object',
        ...unread,
        get members() {
          return (rootOf(unread.text) as JsonObject).members;
        },
      };
    }
    const start = this.open(depth);
    const members: JsonMember[] = [];
    if (!this.take('}')) {
      do {
        const key = this.string();
        if (!this.take(':')) throw this.error('a colon is expected');
        members.push([key, this.value(depth)]);
      } while (this.take(','));
      if (!this.take('}')) throw this.error('a comma or a closing brace is expected');
    }
    return { kind: 'object', members, text: this.text.slice(start, this.at) };
  }

  private array(depth: number): JsonArray {
    if (depth > this.kept) {
      const unread = this.unread(depth);
      return {
        kind: 'array',
        ...unread,
        get items() {
          return (rootOf(unread.text) as JsonArray).items;
        },
      };
    }
    const start = this.open(depth);
    const items: JsonNode[] = [];
    if (!this.take(']')) {
      const limit = this.limit?.depth === depth ? this.limit : undefined;
      do {
        if (limit !== undefined && items.length >= limit.items) throw limit.exceeded();
        items.push(this.value(depth));
      } while (this.take(','));
      if (!this.take(']')) throw this.error('a comma or a closing bracket is expected');
    }
    return { kind: 'array', items, text: this.text.slice(start, this.at) };
  }

  /** Checks the array or object that stands here. */
  private unread(depth: number): { text: string; values: number } {
    const start = this.at;
    const walk = new JsonWalk(this.text, start, (at, complaint) => {
      this.at = at;
      throw this.error(complaint);
    });
    walk.value(depth - 1);
    this.at = walk.at;
    return { text: this.text.slice(start, this.at), values: walk.values - 1 };
  }

  /** Steps over the opening brace or bracket; returns where it stands. */
  private open(depth: number): number {
    if (depth > LIMITS.jsonDepth) throw this.error(`at most ${LIMITS.jsonDepth} levels of nesting are allowed`);
    return this.at++;
  }

  private string(): string {
    if (!this.take('"')) throw this.error('a key in double quotes is expected');
    const start = this.at;
    let escapes = false;
    for (;;) {
      const unit = this.text.charCodeAt(this.at);
      if (unit === QUOTE) break;
      if (unit === BACKSLASH) {
        this.match(ESCAPE, 'this is not an escape sequence of JSON');
        escapes = true;
      } else if (unit >= FIRST_PRINTABLE) {
        this.at += 1;
      } else {
        throw this.error('a control character in a string must be escaped');
      }
    }
    const content = this.text.slice(start, this.at++);
    // Decoding escapes is JSON.parse's business; it was checked above that it can.
    return escapes ? (JSON.parse(`"${content}"`) as string) : content;
  }

  private word<Node extends JsonNode>(word: string, node: Node): Node {
    if (!this.text.startsWith(word, this.at)) throw this.error('a value is expected');
    this.at += word.length;
    return node;
  }

  private match(pattern: RegExp, complaint: string): string {
    const start = this.at;
    pattern.lastIndex = start;
    if (!pattern.test(this.text)) throw this.error(complaint);
    this.at = pattern.lastIndex;
    return this.text.slice(start, this.at);
  }

  private take(character: string): boolean {
    this.skipSpace();
    if (this.text[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  private skipSpace(): void {
    while (isSpace(this.text.charCodeAt(this.at))) this.at += 1;
  }

  /** Says where and what is expected there, never what stands there: that may be a value nobody should read. */
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
