/**
 * Values as JSON, none of them changed. `JSON.stringify` throws on a bigint and turns NaN, infinities and invalid dates into
 * null, which the service would store as NULL.
 */
import { LIMITS } from '../contract/limits.js';

/** JSON that is sent unchanged: a number with more digits than a double, a record that was read as text. */
export class RawJson {
  constructor(readonly text: string) {}
}

/** Marks a text as JSON. The service checks whether it is. */
export const rawJson = (text: string): RawJson => new RawJson(text);

/**
 * A bigint becomes its digits, NaN and the infinities the strings that FLOAT accepts, a Date its ISO text (by `toJSON`). As in
 * `JSON.stringify`, an undefined member is left out.
 * @throws TypeError for values that JSON lacks: undefined elsewhere, functions, symbols, invalid dates, nesting deeper than
 * 100 levels (and so cycles), and objects whose values are not members: a Map, a Set, a Promise
 */
export function toJson(value: unknown, depth = 0): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'number':
      if (!Number.isFinite(value)) return `"${value}"`;
      return Object.is(value, -0) ? '-0' : String(value);
    case 'bigint':
    case 'boolean':
      return String(value);
    case 'object':
      return value === null ? 'null' : objectToJson(value, depth);
    case 'undefined':
    case 'function':
    case 'symbol':
      throw new TypeError(`JSON has no ${typeof value}; null stands for no value`);
  }
}

function objectToJson(value: object, depth: number): string {
  if (value instanceof RawJson) return value.text;
  if (depth > LIMITS.jsonDepth) throw new TypeError(`A value is nested deeper than ${LIMITS.jsonDepth} levels`);
  if (value instanceof Date && Number.isNaN(value.getTime())) throw new TypeError('A Date is invalid');
  if (hasToJson(value)) return toJson(value.toJSON(), depth + 1);
  if (Array.isArray(value)) return `[${value.map((item) => toJson(item, depth + 1)).join(',')}]`;
  for (const [kind, instead] of NOT_MEMBERS) {
    if (value instanceof kind) throw new TypeError(`JSON has no ${kind.name}: ${instead}`);
  }
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${toJson(member, depth + 1)}`).join(',')}}`;
}

/** `JSON.stringify` turns these into `{}`, which would be stored. */
const NOT_MEMBERS = [
  [Map, 'Object.fromEntries(map) makes an object of it'],
  [Set, '[...set] makes an array of it'],
  [Promise, 'await it'],
] as const;

const hasToJson = (value: object): value is { toJSON(): unknown } =>
  'toJSON' in value && typeof value.toJSON === 'function';
