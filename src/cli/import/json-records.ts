/** Records of JSON, each as its text, so that no digit is lost: a line each, the items of one array, or objects of several lines. */
import { UsageError } from '../remote/outcome.js';
import { RECORD_CHARACTERS } from './csv.js';

export interface JsonRecord {
  /** 1-based line of the text where it begins. */
  readonly line: number;
  readonly text: string;
}

/** What is larger than any record is most often one object around all of them. */
const tooLarge = (path: string, line: number): UsageError =>
  new UsageError(
    `${path}, line ${line}: a record does not end within ${RECORD_CHARACTERS / 2 ** 20} MiB`,
    `Do the records stand in an array within it? jq -c '.NAME[]' FILE | cdp import -`,
  );

export async function* jsonLines(text: AsyncIterable<string>, path: string): AsyncGenerator<JsonRecord, void> {
  let line = 0;
  let rest = '';
  for await (const piece of text) {
    if (!piece.includes('\n')) {
      rest += piece;
      if (rest.length > RECORD_CHARACTERS) throw tooLarge(path, line + 1);
      continue;
    }
    const lines = (rest + piece).split('\n');
    rest = lines.pop() ?? '';
    for (const each of lines) {
      line++;
      if (each.trim() !== '') yield { line, text: each };
    }
  }
  if (rest.trim() !== '') yield { line: line + 1, text: rest };
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const LF = 0x0a;

const OPEN_BRACKET = 0x5b;

const isOpen = (unit: number): boolean => unit === 0x7b || unit === OPEN_BRACKET;
const isClose = (unit: number): boolean => unit === 0x7d || unit === 0x5d;

/**
 * The items of an array; or, where the text begins with an object, objects one after another, each on any number of
 * lines. Only cuts between them; what stands in one is looked at by whoever reads it.
 * @throws UsageError where the text is neither
 */
export async function* jsonItems(text: AsyncIterable<string>, path: string): AsyncGenerator<JsonRecord, void> {
  let line = 1;
  let item = '';
  let itemLine = 1;
  let depth = 0;
  /** How deep the items stand; undefined before the first bracket. */
  let base: 0 | 1 | undefined;
  let inString = false;
  let isEscaped = false;
  let hasEnded = false;
  let count = 0;
  const fail = (what: string) => new UsageError(`${path}, line ${line}: ${what}`, 'Is it JSON? --format');
  for await (const piece of text) {
    let from = 0;
    const finished = (to: number, next: number): JsonRecord | undefined => {
      const whole = (item + piece.slice(from, to)).trim();
      [item, from] = ['', next];
      return whole === '' ? undefined : { line: itemLine, text: whole };
    };
    for (let at = 0; at < piece.length; at++) {
      const unit = piece.charCodeAt(at);
      if (unit === LF) line++;
      if (inString) {
        if (isEscaped) isEscaped = false;
        else if (unit === BACKSLASH) isEscaped = true;
        else if (unit === QUOTE) inString = false;
      } else if (hasEnded) {
        if (unit > 0x20) throw fail('something follows the array');
      } else if (depth === 0 && unit > 0x20) {
        if (!isOpen(unit) || (base === 0 && unit === OPEN_BRACKET)) {
          throw fail(base === undefined ? 'a JSON array is expected, or objects' : 'an object is expected');
        }
        base ??= unit === OPEN_BRACKET ? 1 : 0;
        depth = 1;
        from = at + base;
        itemLine = line;
      } else if (unit === QUOTE) {
        inString = true;
      } else if (isOpen(unit)) {
        if (++depth === 2 && base === 1) itemLine = line;
      } else if (isClose(unit)) {
        if (--depth > 0) continue;
        const record = base === 0 ? finished(at + 1, at + 1) : finished(at, at + 1);
        if (record === undefined && count > 0) throw fail('an item is expected');
        if (record !== undefined) yield record;
        hasEnded = base === 1;
      } else if (unit === COMMA && depth === 1 && base === 1) {
        const record = finished(at, at + 1);
        if (record === undefined) throw fail('an item is expected');
        itemLine = line;
        count++;
        yield record;
      }
    }
    if (depth > 0) item += piece.slice(from);
    if (item.length > RECORD_CHARACTERS) throw tooLarge(path, itemLine);
  }
  if (!hasEnded && (base !== 0 || depth > 0))
    throw fail(base === 0 ? 'an object does not end' : 'the array does not end');
}
