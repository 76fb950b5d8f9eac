/**
 * Postgres arrays as JSON arrays, one level per dimension. Lower bounds other than 1 are not shown. An array has the
 * format of its elements, and each element is written like a value of a column.
 */
import { FIXED_BYTES, MAX_ESCAPE_BYTES, writeCell } from './cells';
import { AS_JSON, BINARY_ARRAY, ELEMENT } from './kinds';
import { reserveMore } from './memory';
import { BACKSLASH, COMMA, QUOTE, writeField } from './text';

const OPEN_BRACKET: u32 = 0x5b;
const CLOSE_BRACKET: u32 = 0x5d;
const OPEN_BRACE: u32 = 0x7b;
const CLOSE_BRACE: u32 = 0x7d;
const EQUALS: u32 = 0x3d;
const EMPTY: u32 = 0x5d5b;

const NULL: u32 = 0x6c6c756e;
/** Postgres quotes the text NULL; without quotes it means a missing value. */
const NULL_LITERAL: u32 = 0x4c4c_554e;

/** MAXDIM of Postgres. */
const MAX_DIMENSIONS = 6;
const SIZE_BYTES: usize = 4;
/** By dimension: the elements that are still to come. */
const left = memory.data(24);

/** Number of dimensions, flags, oid of the elements; then for each dimension its size and lower bound. */
const HEAD_BYTES: usize = 12;
const DIMENSION_BYTES: usize = 8;

/** In CSV, the JSON of the array is written after the room for its quoted form. @returns the position after the array */
export function writeArray(kind: u32, format: u32, column: u32, from: usize, end: usize, to: usize): usize {
  if (format == AS_JSON) return writeJson(kind, column, from, end, to);
  const room = MAX_ESCAPE_BYTES * (end - from) + 2 * FIXED_BYTES;
  reserveMore(to, 2 * room);
  const json = to + room;
  return writeField(json, writeJson(kind, column, from, end, json), format, to);
}

/** Takes no more room than the row reserves for a text of the same size. */
function writeJson(kind: u32, column: u32, from: usize, end: usize, to: usize): usize {
  const element = kind & ELEMENT;
  return kind & BINARY_ARRAY ? fromBinary(element, column, from, end, to) : fromText(element, column, from, end, to);
}

/**
 * Binary format (array_send of Postgres): the head, then the elements in row-major order, each int32 length (-1: NULL)
 * and bytes.
 */
function fromBinary(kind: u32, column: u32, from: usize, end: usize, to: usize): usize {
  if (end - from < HEAD_BYTES) unreachable();
  const dimensions = bswap(load<i32>(from));
  if (dimensions == 0) {
    store<u16>(to, EMPTY);
    return to + 2;
  }
  let at = from + HEAD_BYTES + usize(dimensions) * DIMENSION_BYTES;
  if (dimensions < 0 || dimensions > MAX_DIMENSIONS || at > end) unreachable();
  let level: i32 = 0;
  while (level >= 0) {
    for (; level < dimensions; level++) {
      const size = bswap(load<i32>(from + HEAD_BYTES + usize(level) * DIMENSION_BYTES));
      // An empty array has no dimensions, so each dimension has at least one element.
      if (size < 1) unreachable();
      store<i32>(left + usize(level) * SIZE_BYTES, size);
      store<u8>(to++, OPEN_BRACKET);
    }
    if (end - at < SIZE_BYTES) unreachable();
    const length = bswap(load<i32>(at));
    at += SIZE_BYTES;
    if (length < 0) {
      store<u32>(to, NULL);
      to += 4;
    } else {
      if (end - at < usize(length)) unreachable();
      to = writeCell(kind, AS_JSON, column, at, at + usize(length), to);
      at += usize(length);
    }
    for (level = dimensions - 1; level >= 0; level--) {
      const more = load<i32>(left + usize(level) * SIZE_BYTES) - 1;
      store<i32>(left + usize(level) * SIZE_BYTES, more);
      if (more > 0) {
        store<u8>(to++, COMMA);
        level++;
        break;
      }
      store<u8>(to++, CLOSE_BRACKET);
    }
  }
  return to;
}

/**
 * Text format (Postgres manual, Array Input and Output Syntax): `{1,NULL,"a \"quoted\" one"}`, nested braces for more
 * dimensions, and `[0:1]={…}` if a lower bound is not 1.
 */
function fromText(kind: u32, column: u32, from: usize, end: usize, to: usize): usize {
  let at = from;
  if (at < end && load<u8>(at) == OPEN_BRACKET) {
    while (at < end && load<u8>(at) != EQUALS) at++;
    at++;
  }
  while (at < end) {
    const start = at;
    const byte: u32 = load<u8>(at++);
    if (byte == OPEN_BRACE) store<u8>(to++, OPEN_BRACKET);
    else if (byte == CLOSE_BRACE) store<u8>(to++, CLOSE_BRACKET);
    else if (byte == COMMA) store<u8>(to++, COMMA);
    else if (byte == QUOTE) {
      const stop = unescaped(at, end);
      to = writeCell(kind, AS_JSON, column, at, stop, to);
      at = closing + 1;
    } else {
      while (at < end && load<u8>(at) != COMMA && load<u8>(at) != CLOSE_BRACE) at++;
      if (at - start == 4 && load<u32>(start) == NULL_LITERAL) {
        store<u32>(to, NULL);
        to += 4;
      } else to = writeCell(kind, AS_JSON, column, start, at, to);
    }
  }
  return to;
}

/** The position of the closing quote of the last element in quotes. */
let closing: usize = 0;

/** Removes the backslashes of an element in quotes, in its place. @returns its new end */
function unescaped(from: usize, end: usize): usize {
  let to = from;
  let at = from;
  for (;;) {
    if (at >= end) unreachable();
    let byte: u32 = load<u8>(at++);
    if (byte == QUOTE) break;
    if (byte == BACKSLASH) {
      if (at >= end) unreachable();
      byte = load<u8>(at++);
    }
    store<u8>(to++, byte);
  }
  closing = at - 1;
  return to;
}
