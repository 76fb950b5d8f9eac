/**
 * Converts values from Postgres's text to JSON as in results (contract C5.14 to C5.16). The text must be that of a session with
 * DateStyle ISO, IntervalStyle postgres, TimeZone UTC, bytea_output hex and extra_float_digits 1 or more.
 */
import * as kinds from './assembly/kinds.js';
import type { JsonBytes } from './json-bytes.js';
import { arrayElementOid, encoderOf } from './types.js';

/** Writes the text in `bytes[start, end)` as JSON. */
export type WriteText = (out: JsonBytes, bytes: Buffer, start: number, end: number) => void;

type JsonOfText = (text: string) => string;

const DOUBLE = 701;
const REAL = 700;
const TIMESTAMPTZ = 1184;
const BOX = 603;

/** Writes values of the type. */
export function writerOfText(typeOid: number): WriteText {
  const element = arrayElementOid(typeOid);
  const json = element === undefined ? scalar(typeOid) : arrayOf(scalar(element), element === BOX ? ';' : ',');
  const fromString: WriteText = (out, bytes, start, end) => out.text(json(bytes.toString('utf8', start, end)));
  return element === undefined ? (written[encoderOf(typeOid).kind]?.(fromString) ?? fromString) : fromString;
}

const copied: WriteText = (out, bytes, start, end) => out.copy(bytes, start, end);

/** How common kinds are written without a string between. They leave rare values to the writer that they get. */
const written: Readonly<Partial<Record<number, (rest: WriteText) => WriteText>>> = {
  [kinds.TEXT]: () => (out, bytes, start, end) => out.string(bytes, start, end),
  [kinds.PLAIN]: () => (out, bytes, start, end) => out.quoted(bytes, start, end),
  [kinds.SMALL_NUMBER]: () => copied,
  [kinds.BOOLEAN]: () => (out, bytes, start) => out.copy(bytes[start] === LOWER_T ? TRUE : FALSE),
  [kinds.JSON_LINE]: () => copied,
  [kinds.NUMBER]: (rest) => (out, bytes, start, end) =>
    (hasFewDigits(bytes, start, end) ? copied : rest)(out, bytes, start, end),
  [kinds.TIMESTAMPTZ]: (rest) => (out, bytes, start, end) =>
    (isCommonTimestamp(bytes, start, end) ? timestampBytes : rest)(out, bytes, start, end),
};

/** A number whose integer part is surely a safe integer. */
function hasFewDigits(bytes: Buffer, start: number, end: number): boolean {
  const last = bytes[end - 1] as number;
  if (last < ZERO || last > NINE) return false;
  const point = end - start < SAFE_DIGITS ? end : bytes.indexOf(POINT, start);
  return point !== -1 && point - start < SAFE_DIGITS;
}

/** `2026-01-31 09:30:00.123456+00` */
const isCommonTimestamp = (bytes: Buffer, start: number, end: number): boolean =>
  end - start <= 29 && bytes[start + 4] === MINUS && bytes[start + 10] === SPACE && bytes[end - 3] === PLUS;

function timestampBytes(out: JsonBytes, bytes: Buffer, start: number, end: number): void {
  out.byte(QUOTE);
  out.copy(bytes, start, start + 10);
  out.byte(UPPER_T);
  out.copy(bytes, start + 11, end - 3);
  out.byte(UPPER_Z);
  out.byte(QUOTE);
}

const SAFE_DIGITS = 16;
const SPACE = 0x20;
const QUOTE = 0x22;
const PLUS = 0x2b;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const UPPER_T = 0x54;
const UPPER_Z = 0x5a;
const LOWER_T = 0x74;
const TRUE = Buffer.from('true');
const FALSE = Buffer.from('false');

function scalar(typeOid: number): JsonOfText {
  if (typeOid === DOUBLE || typeOid === REAL) return floatJson;
  if (typeOid === TIMESTAMPTZ) return timestampJson;
  const encoder = encoderOf(typeOid);
  // For types that results read in binary format, this text is what they are converted to.
  return encoder.format === 0 ? (text) => encoder.json(encoder.plain(text)) : encoder.json;
}

/** The digits that JavaScript writes; NaN and infinities are strings. */
function floatJson(text: string): string {
  const value = Number(text);
  if (!Number.isFinite(value)) return `"${text}"`;
  return Object.is(value, -0) ? '-0' : String(value);
}

const TIMESTAMP = /^(\d+)(-\d\d-\d\d) (.*)\+00( BC)?$/;

/** RFC 3339, with a sign and six digits for years beyond it. */
function timestampJson(text: string): string {
  const [, year = '', day = '', time = '', era] = TIMESTAMP.exec(text) ?? [];
  if (year === '') return `"${text}"`;
  if (era === undefined && year.length === 4) return `"${year}${day}T${time}Z"`;
  const number = era === undefined ? Number(year) : 1 - Number(year);
  const written = number === 0 ? '0000' : `${number < 0 ? '-' : '+'}${String(Math.abs(number)).padStart(6, '0')}`;
  return `"${written}${day}T${time}Z"`;
}

/** Arrays are written as in Postgres's manual, Array Input and Output Syntax; bounds other than 1 come before them. */
const arrayOf =
  (element: JsonOfText, delimiter: string): JsonOfText =>
  (text) => {
    let at = text.indexOf('{');
    const item = (): string => {
      if (text[at] === '{') return list();
      if (text[at] === '"') return element(quoted());
      const start = at;
      while (text[at] !== delimiter && text[at] !== '}') at++;
      const plain = text.slice(start, at);
      return plain === 'NULL' ? 'null' : element(plain);
    };
    const quoted = (): string => {
      let value = '';
      for (at++; text[at] !== '"'; at++) {
        if (text[at] === '\\') at++;
        value += text[at];
      }
      at++;
      return value;
    };
    const list = (): string => {
      const items: string[] = [];
      for (at++; text[at] !== '}';) {
        items.push(item());
        if (text[at] === delimiter) at++;
      }
      at++;
      return `[${items.join()}]`;
    };
    return list();
  };
