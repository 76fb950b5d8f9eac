/**
 * The encoder of batches, from the bytes of their JSON to the rows of COPY.
 *
 * Written in AssemblyScript, which has the syntax of TypeScript and the types and loads of WebAssembly;
 * `batch-encoder.ts` is its host.
 */
import {
  CARRIAGE_RETURN,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COMMA,
  LINE_FEED,
  OPEN_BRACE,
  OPEN_BRACKET,
  SPACE,
  TAB,
} from './bytes';
import { cell, writeDefault, writeNull } from './cells';
import { skipColon, skipSpace, take } from './json';
import { allocBodyAt, body, bodyEnd, copy, outAt, reserve, reserveMore, seek } from './memory';
import {
  beginning,
  columnAt,
  columnCount,
  columnOfKey,
  isText,
  listColumns,
  listedDefaults,
  listLength,
  listNoDefaults,
  marksDefaults,
  NOT_LISTED,
  tableEnd,
} from './table';

/**
 * How much cells may grow: the shortest, `"a":1,`, becomes eight bytes and a length; a line feed in JSON becomes an
 * escape. A column that a record does not contain becomes only a length.
 */
const GROWTH: usize = 2;
const NULL_BYTES: usize = 4;

/** The number of records in the last batch, and the start and end of its rows. */
export let records: i32 = 0;
export let rows: usize = 0;
export { outAt as rowsEnd } from './memory';
export { allocText } from './cells';
export { allocLayout, useLayout } from './table';

/** The number of the last record, counted over all batches. */
let number: u64 = 0;
/** A record of the batch contains a column with a default that is not in COPY's list. */
let hasUnlisted: bool = false;
/** The last record lacks a column with a default that is in COPY's list, and no mark can represent the default. */
let lacksDefault: bool = false;

/** @returns the address for a body of `length` bytes; 0 if there is no memory */
export function allocBody(length: usize): usize {
  return allocBodyAt(tableEnd, length);
}

/** Whether the written rows contain this column. */
export function isListed(index: i32): bool {
  return columnAt(index).ordinal != NOT_LISTED;
}

/** What {@link encode} was called with. */
let most: i32 = 0;
let areLines: bool = false;

/**
 * @param mostRecords more are not encoded
 * @param inLines a line feed separates the records; otherwise they are an array. Records that span lines are encoded, too:
 * then there are fewer than lines.
 * @returns whether all rows of the batch were written
 */
export function encode(mostRecords: i32, inLines: bool): bool {
  most = mostRecords;
  areLines = inLines;
  rows = outAt;
  if (!marksDefaults) return batch();
  listNoDefaults();
  const first = number + 1;
  if (batch()) return true;
  if (!hasUnlisted) return false;
  // Now all columns of the batch are known. Each record may have added another column with a default.
  listColumns(first);
  seek(rows);
  return batch();
}

function batch(): bool {
  records = 0;
  hasUnlisted = false;
  let at = areLines ? body : take(OPEN_BRACKET, body);
  if (at == 0) return false;
  for (;;) {
    if (++records > most) return false;
    if (!reserve(GROWTH * (bodyEnd - at) + NULL_BYTES * usize(columnCount + 1))) return false;
    at = take(OPEN_BRACE, at);
    if (at == 0) return false;
    at = records == 1 ? firstRecord(at) : record(at);
    if (at == 0) return false;
    const next = areLines ? nextLine(at) : take(COMMA, at);
    if (next == 0) break;
    at = next;
  }
  if (!areLines) at = take(CLOSE_BRACKET, at);
  return at != 0 && skipSpace(at) == bodyEnd && !hasUnlisted;
}

/** The start of the record in a later line; 0 if there is none, or text follows the record in its own line. */
function nextLine(at: usize): usize {
  let byte: u32 = load<u8>(at);
  while (byte == SPACE || byte == TAB || byte == CARRIAGE_RETURN) {
    at++;
    byte = load<u8>(at);
  }
  if (byte != LINE_FEED) return 0;
  const next = skipSpace(at + 1);
  return next < bodyEnd ? next : 0;
}

/** The first record determines which columns with a default COPY lists; usually the same as in the previous batch. */
function firstRecord(at: usize): usize {
  const end = record(at);
  if (!hasUnlisted && !lacksDefault) return end;
  listColumns(number);
  hasUnlisted = false;
  seek(rows);
  return record(at);
}

/**
 * Writes the record whose opening brace ends at `at`. Cells are written in the order in which they are read; if that is
 * the order of the columns, they need not be moved.
 * @returns the end of the record
 */
function record(at: usize): usize {
  number++;
  lacksDefault = false;
  beginRow();
  const cells = outAt;
  let inOrder = true;
  /** The ordinal of the next cell, if the cells are in order. */
  let next = 0;
  let defaults = 0;
  let previous = beginning;
  at = skipSpace(at);
  if (load<u8>(at) == CLOSE_BRACE) at++;
  else {
    for (;;) {
      const column = columnOfKey(at, previous);
      if (column === null) return 0;
      previous = column;
      at = skipColon(at + column.nameBytes);
      if (at == 0 || column.record == number) return 0;
      const ordinal = column.ordinal;
      if (ordinal == NOT_LISTED) hasUnlisted = true;
      else defaults += i32(column.hasDefault);
      if (ordinal < next) inOrder = false;
      else {
        for (; next < ordinal; next++) writeNull();
        next++;
      }
      column.record = number;
      column.cellStart = outAt;
      at = cell(column, at);
      if (at == 0) return 0;
      column.cellEnd = outAt;
      at = skipSpace(at);
      const byte: u32 = load<u8>(at);
      at++;
      if (byte == CLOSE_BRACE) break;
      if (byte != COMMA) return 0;
      at = skipSpace(at);
    }
  }
  if (defaults != listedDefaults) {
    if (marksDefaults) inOrder = false;
    else lacksDefault = true;
  }
  // With marks, the next records may add columns, too. Otherwise the record needs its own INSERT.
  if (hasUnlisted || lacksDefault) return marksDefaults ? at : 0;
  // COPY cannot represent a record without columns.
  if (listLength == 0) return 0;
  if (inOrder) for (; next < listLength; next++) writeNull();
  else if (!arrange(cells)) return 0;
  if (isText) store<u8>(outAt - 1, LINE_FEED);
  return at;
}

/** In binary a row begins with the number of its cells; in text a line feed replaces its last tab. */
function beginRow(): void {
  if (isText) return;
  store<u16>(outAt, bswap(u16(listLength)));
  seek(outAt + 2);
}

/**
 * Sorts the record's cells, which begin at `cells`, into the order of the columns, and fills each gap with NULL or the
 * mark for a default.
 * @returns false if there is no memory
 */
function arrange(cells: usize): bool {
  const end = outAt;
  if (!reserveMore(end - cells + NULL_BYTES * usize(listLength))) return false;
  for (let i: i32 = 0; i < columnCount; i++) {
    const column = columnAt(i);
    if (column.ordinal == NOT_LISTED) continue;
    if (column.record == number) {
      const size = column.cellEnd - column.cellStart;
      copy(column.cellStart, outAt, size);
      seek(outAt + size);
    } else if (marksDefaults && column.hasDefault) writeDefault();
    else writeNull();
  }
  const size = outAt - end;
  memory.copy(cells, end, size);
  seek(cells + size);
  return true;
}
