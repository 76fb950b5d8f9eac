/**
 * Converts values to JSON without changing any. `JSON.stringify` throws on a bigint and turns NaN, infinities and
 * invalid dates into null, which the service would store as NULL.
 */
import { LIMITS } from '../contract/limits.js';

/** JSON text that is sent unchanged: a number with more digits than a double, or a record that was read as text. */
export class RawJson {
  constructor(readonly text: string) {}
}

/** A value that JSON cannot represent. */
export class NotJsonError extends TypeError {
  /** @param member the outermost member that contains the value: a column, or a parameter as `$1` */
  constructor(
    readonly reason: string,
    readonly member?: string,
  ) {
    super(member === undefined ? reason : `${JSON.stringify(member)}: ${reason}`);
  }
}

/** Marks a text as JSON, without checking it; the service does. */
export const rawJson = (text: string): RawJson => new RawJson(text);

/**
 * A bigint becomes its digits, NaN and infinities become the strings that FLOAT accepts, a Date becomes its ISO text
 * (by `toJSON`), bytes (a Buffer or other Uint8Array, a DataView, an ArrayBuffer) become the text of bytea. As in
 * `JSON.stringify`, an undefined member is left out.
 * @throws NotJsonError for values that JSON cannot represent: undefined elsewhere, functions, symbols, invalid dates,
 * nesting deeper than 100 levels (and so cycles), arrays of other machine numbers, and objects of a class whose values
 * are not members: a Map, a Set, a Promise, a RegExp, an Error
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
      throw new NotJsonError(`JSON has no ${typeof value}; null stands for no value`);
  }
}

function objectToJson(value: object, depth: number): string {
  if (value instanceof RawJson) return value.text;
  if (depth > LIMITS.jsonDepth) throw new NotJsonError(`a value is nested deeper than ${LIMITS.jsonDepth} levels`);
  if (value instanceof Date && Number.isNaN(value.getTime())) throw new NotJsonError('the Date is invalid');
  const bytes = bytesOf(value);
  if (bytes !== undefined) return `"\\\\x${hexOf(bytes)}"`;
  if (hasToJson(value)) return toJson(value.toJSON(), depth + 1);
  if (Array.isArray(value)) return `[${value.map((item) => toJson(item, depth + 1)).join(',')}]`;
  for (const [kind, instead] of NOT_MEMBERS) {
    if (value instanceof kind) throw new NotJsonError(`JSON has no ${kind.name}: ${instead}`);
  }
  if (ArrayBuffer.isView(value))
    throw new NotJsonError(`JSON has no ${nameOf(value)}: [...array] makes an array of it`);
  if (value instanceof String || value instanceof Number || value instanceof Boolean)
    return toJson(value.valueOf(), depth);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  if (members.length === 0 && !isPlain(value))
    throw new NotJsonError(`JSON has no ${nameOf(value)}, and this one has no members`);
  const texts = members.map(([key, member]) => {
    const json = depth === 0 ? namedToJson(key, member) : toJson(member, depth + 1);
    return `${JSON.stringify(key)}:${json}`;
  });
  return `{${texts.join(',')}}`;
}

/** Like {@link toJson}, for a member of the outermost object; an error names it. */
export function namedToJson(name: string, value: unknown, depth = 1): string {
  try {
    return toJson(value, depth);
  } catch (error) {
    throw error instanceof NotJsonError ? new NotJsonError(error.reason, name) : error;
  }
}

/** `JSON.stringify` turns these into `{}`, which would be stored. */
const NOT_MEMBERS = [
  [Map, 'Object.fromEntries(map) makes an object of it'],
  [Set, '[...set] makes an array of it'],
  [Promise, 'await it'],
] as const;

/** Of a byte array or a view without a type of numbers; undefined for other objects. */
function bytesOf(value: object): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return value instanceof DataView ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : undefined;
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

export function hexOf(bytes: Uint8Array): string {
  let hex = '';
  for (const byte of bytes) hex += HEX[byte];
  return hex;
}

const nameOf = (value: object): string => value.constructor.name;

/** Whether it is of no class, in any realm. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

const hasToJson = (value: object): value is { toJSON(): unknown } =>
  'toJSON' in value && typeof value.toJSON === 'function';
