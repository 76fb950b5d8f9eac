/**
 * Rows of a result as JSON: the bytes of DataRow messages straight to the bytes of a JSON answer. An encoder is made
 * once for a result; it then writes row after row without an object or a string for any of them.
 *
 * A DataRow body (Postgres manual 54.7) is an int16 count of fields, then each field as int32 length (-1: NULL) and
 * bytes. The fields must have been asked for in the formats of {@link resultFormat}.
 */
import { CLOSE_BRACE, CLOSE_BRACKET, LOWER_E, LOWER_T, MINUS, NINE, QUOTE, ZERO } from './ascii.js';
import type { ByteWriter } from './byte-writer.js';
import { outputNames, type ResultColumn } from './columns.js';
import { RECENT_BYTES, writeJsonTimestampTz, writeRecentTimestampTz } from './datetime.js';
import { FEW_DECIMALS_BYTES, writeFewDecimals } from './digits.js';
import { copyEscaped, LONGEST_ESCAPE } from './escape.js';
import { writeJsonFloat8 } from './float.js';
import { SAFE_DIGITS, writeBoolean, writeJsonNumber, writeJsonString, writeQuoted, writeVerbatim } from './text.js';
import { encoderOf } from './types.js';
import type { ValueWriter } from './value.js';
import { copyWords, viewOf, wordOf } from './words.js';

/** Writes the row `message[start, end)`, the body of a DataRow, to the end of `out`. */
export type RowEncoder = (message: Buffer, start: number, end: number, out: ByteWriter) => void;

/** `object`: `{"a":1,"b":null}`, keys by {@link outputNames}. `array`: `[1,null]`. */
export type RowMode = 'object' | 'array';

// What the loop below writes by itself, without a call through a table for each value: what nearly all values are.
const TEXT = 1;
const VERBATIM = 2;
const NUMBER = 3;
const FLOAT8 = 4;
const TIMESTAMPTZ = 5;
const BOOLEAN = 6;
const QUOTED = 7;
const KINDS: ReadonlyMap<ValueWriter, number> = new Map([
  [writeJsonString, TEXT],
  [writeVerbatim, VERBATIM],
  [writeJsonNumber, NUMBER],
  [writeJsonFloat8, FLOAT8],
  [writeJsonTimestampTz, TIMESTAMPTZ],
  [writeBoolean, BOOLEAN],
  [writeQuoted, QUOTED],
]);
const OTHER = 0;

/** Values up to this length are written by the loop; those beyond are worth the call into native code. */
const SHORT = 512;

/** Room for a value that is not text, with quotes: a number, a time or null. */
const FIXED_BYTES = Math.max(FEW_DECIMALS_BYTES, RECENT_BYTES) + 2;

/** What stands before each value, as words of four bytes. */
interface Keys {
  readonly words: Int32Array;
  /** Where the key of a column begins in `words`, and behind the last the end. */
  readonly from: Int32Array;
  /** Bytes of each key. */
  readonly lengths: Int32Array;
}

const NULL_WORD = wordOf('null');
const TRUE_WORD = wordOf('true');
const FALS_WORD = wordOf('fals');

/** Rows as JSON, each on one line and without a line end. */
export function jsonRowEncoder(columns: readonly ResultColumn[], mode: RowMode): RowEncoder {
  const [open, close] = mode === 'object' ? (['{', CLOSE_BRACE] as const) : (['[', CLOSE_BRACKET] as const);
  const names = outputNames(columns);
  const keys = keysOf(
    names.map((name, i) => `${i === 0 ? open : ','}${mode === 'object' ? `${JSON.stringify(name)}:` : ''}`),
  );
  const writers = columns.map(({ typeOid }) => encoderOf(typeOid).json);
  const kinds = Uint8Array.from(writers, (writer) => KINDS.get(writer) ?? OTHER);
  const count = columns.length;
  const fixedRoom = 4 * keys.words.length + FIXED_BYTES * count + 4;
  const { words, from: keyFrom, lengths: keyLengths } = keys;
  // Messages lie in the same buffer nearly always.
  let known: Buffer | null = null;
  let from: DataView = new DataView(new ArrayBuffer(0));

  return (message, start, end, out) => {
    if (message !== known) {
      known = message;
      from = viewOf(message);
    }
    // Room for everything but long values, which make their own.
    const room = fixedRoom + LONGEST_ESCAPE * Math.min(end - start, SHORT * count);
    out.ensure(room);
    let to = out.words;
    let at = out.length;
    let read = start + 2;
    if (count === 0) to.setUint8(at++, open.charCodeAt(0));
    for (let i = 0; i < count; i++) {
      const keyEnd = keyFrom[i + 1] as number;
      for (let k = keyFrom[i] as number, a = at; k < keyEnd; k++, a += 4) to.setInt32(a, words[k] as number, true);
      at += keyLengths[i] as number;

      const length = from.getInt32(read);
      read += 4;
      if (length < 0) {
        to.setInt32(at, NULL_WORD, true);
        at += 4;
        continue;
      }
      const value = read;
      read += length;
      if (length <= SHORT) {
        const kind = kinds[i] as number;
        if (kind === TEXT) {
          to.setUint8(at, QUOTE);
          at = copyEscaped(from, value, length, to, at + 1);
          to.setUint8(at++, QUOTE);
          continue;
        }
        if (kind === VERBATIM || (kind === NUMBER && length < SAFE_DIGITS && startsWithDigit(from, value))) {
          copyWords(from, value, length, to, at);
          at += length;
          continue;
        }
        if (kind === FLOAT8) {
          const behind = writeFewDecimals(from.getFloat64(value), to, at);
          if (behind > 0) {
            at = behind;
            continue;
          }
        } else if (kind === TIMESTAMPTZ) {
          const behind = writeRecentTimestampTz(from, value, to, at);
          if (behind > 0) {
            at = behind;
            continue;
          }
        } else if (kind === BOOLEAN) {
          if (from.getUint8(value) === LOWER_T) to.setInt32(at, TRUE_WORD, true);
          else {
            to.setInt32(at, FALS_WORD, true);
            to.setUint8(at + 4, LOWER_E);
            at++;
          }
          at += 4;
          continue;
        } else if (kind === QUOTED) {
          to.setUint8(at, QUOTE);
          copyWords(from, value, length, to, at + 1);
          at += length + 2;
          to.setUint8(at - 1, QUOTE);
          continue;
        }
      }
      out.length = at;
      (writers[i] as ValueWriter)(message, value, read, out);
      out.ensure(room);
      to = out.words;
      at = out.length;
    }
    to.setUint8(at, close);
    out.length = at + 1;
  };
}

/** Not of `NaN` and the infinities. */
function startsWithDigit(from: DataView, at: number): boolean {
  const first = from.getUint8(at);
  const digit = first === MINUS ? from.getUint8(at + 1) : first;
  return digit >= ZERO && digit <= NINE;
}

function keysOf(texts: readonly string[]): Keys {
  const pieces = texts.map((text) => Buffer.from(text));
  const from = new Int32Array(pieces.length + 1);
  pieces.forEach(({ length }, i) => (from[i + 1] = (from[i] as number) + Math.ceil(length / 4)));
  const words = new Int32Array(from[pieces.length] as number);
  const bytes = new Uint8Array(words.buffer);
  pieces.forEach((piece, i) => bytes.set(piece, 4 * (from[i] as number)));
  return { words, from, lengths: Int32Array.from(pieces, ({ length }) => length) };
}
