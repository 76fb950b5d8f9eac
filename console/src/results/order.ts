/** The order of values of a type, as Postgres has it, except for texts: theirs is the alphabet of the browser. */
import { isNumeric } from './cells.js';

export type Comparer = (a: string, b: string) => number;

const WHEN = /^\d{4,}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?Z?( BC)?$|^-?infinity$/;
const TIME = /^\d\d:\d\d(:\d\d(\.\d+)?)?$/;
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$|^-?Infinity$|^NaN$/i;

/** Whether values of the type compare by what they are, not as text. */
const isWhen = (type: string): boolean => /^(timestamp|date)/i.test(type);
const isTime = (type: string): boolean => /^time(?!stamp)(?!.*with time zone)/i.test(type);
const isInterval = (type: string): boolean => /^interval/i.test(type);

/** Compares values in the text that Postgres would print. */
export function comparerOf(type: string): Comparer {
  if (isNumeric(type)) return compareNumbers;
  if (isWhen(type)) return byKey(whenKey);
  if (isTime(type)) return byKey(timeKey);
  if (isInterval(type)) return (a, b) => secondsOf(a) - secondsOf(b);
  const { compare } = new Intl.Collator();
  return (a, b) => compare(a, b) || (a < b ? -1 : Number(a > b));
}

/** Why a typed text is no value of the type; '' if it is one. */
export function faultOf(text: string, type: string): string {
  if (isNumeric(type) && !NUMBER.test(text.trim())) return `“${text}” is not a number.`;
  if (isWhen(type) && !WHEN.test(text.trim())) return `“${text}” is not a time such as 2026-01-31 or 2026-01-31 09:30.`;
  if (isTime(type) && !TIME.test(text.trim())) return `“${text}” is not a time such as 09:30.`;
  if (isInterval(type) && Number.isNaN(secondsOf(text.trim()))) {
    return `“${text}” is not an interval such as 1 day 02:00:00.`;
  }
  return '';
}

/** With all digits: doubles alone would make large numbers equal. NaN is the largest. */
function compareNumbers(a: string, b: string): number {
  const [x, y] = [Number(a), Number(b)];
  if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y));
  if (x !== y) return x < y ? -1 : 1;
  const digits = Math.max(fraction(a).length, fraction(b).length);
  const [m, n] = [scaled(a, digits), scaled(b, digits)];
  return m === undefined || n === undefined || m === n ? 0 : m < n ? -1 : 1;
}

const fraction = (text: string): string => /^[-+]?\d*\.(\d+)$/.exec(text)?.[1] ?? '';

const scaled = (text: string, digits: number): bigint | undefined =>
  /^[-+]?\d+(\.\d*)?$/.test(text)
    ? BigInt(text.replace('+', '').replace('.', '') + '0'.repeat(digits - fraction(text).length))
    : undefined;

const byKey =
  (keyOf: (text: string) => readonly [number, string]): Comparer =>
  (a, b) => {
    const [[i, x], [j, y]] = [keyOf(a), keyOf(b)];
    return i - j || (x < y ? -1 : Number(x > y)) * (i === BEFORE_CHRIST ? -1 : 1);
  };

const BEFORE_CHRIST = 1;

/** A part that orders eras and infinities, and a text in the order of time. */
function whenKey(text: string): readonly [number, string] {
  const when = text.trim();
  if (when.endsWith('infinity')) return [when.startsWith('-') ? 0 : 3, ''];
  const [day = '', time = '00:00:00'] = when.replace(/ BC$/, '').replace(/Z$/, '').split(/[ T]/);
  const key = `${day.replace(/^\d+/, (year) => year.padStart(7, '0'))} ${timeKey(time)[1]}`;
  return [when.endsWith(' BC') ? BEFORE_CHRIST : 2, key];
}

const timeKey = (text: string): readonly [number, string] => {
  const [minutes = '', seconds = '00'] = [text.trim().slice(0, 5), text.trim().slice(6) || '00'];
  return [2, `${minutes}:${seconds.includes('.') ? seconds.replace(/\.?0+$/, '') : seconds}`];
};

/** As Postgres compares intervals: a month has 30 days, a day 24 hours. NaN: not an interval. */
function secondsOf(text: string): number {
  const days = { year: 360, mon: 30, week: 7, day: 1 };
  let seconds = 0;
  const rest = text
    .replace(/([-+]?\d+) (year|mon|week|day)(?:th)?s?/g, (_, n: string, unit: keyof typeof days) => {
      seconds += Number(n) * days[unit] * 86_400;
      return '';
    })
    .trim();
  if (rest === '') return text === '' ? NaN : seconds;
  const [, sign, hours, minutes, last = '0'] = /^([-+]?)(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?$/.exec(rest) ?? [];
  const time = Number(hours) * 3_600 + Number(minutes) * 60 + Number(last);
  return seconds + (sign === '-' ? -time : time);
}
