/**
 * Converts values from Postgres's text to JSON as in results (contract C5.14 to C5.16). The text must be that of a session with
 * DateStyle ISO, IntervalStyle postgres, TimeZone UTC, bytea_output hex and extra_float_digits 1 or more.
 */
import { arrayElementOid, encoderOf } from './types.js';

export type JsonOfText = (text: string) => string;

const DOUBLE = 701;
const REAL = 700;
const TIMESTAMPTZ = 1184;
const BOX = 603;

/** A value of the type as JSON. */
export function jsonOfText(typeOid: number): JsonOfText {
  const element = arrayElementOid(typeOid);
  return element === undefined ? scalar(typeOid) : arrayOf(scalar(element), element === BOX ? ';' : ',');
}

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
