/**
 * The encoder of batches, from the bytes of their JSON directly to the rows of COPY. It never reports what is wrong: it
 * leaves everything that it does not recognize, wrong or merely rare, to the checked path.
 *
 * Written in AssemblyScript, which has the syntax of TypeScript and the types and loads of WebAssembly;
 * `wasm-encoder.ts` is its host.
 */
import { CLOSE_BRACE, CLOSE_BRACKET, COMMA, LINE_FEED, OPEN_BRACE, OPEN_BRACKET } from './bytes';
import { cell, writeDefault, writeNull } from './cells';
import { recordsPerBatch } from './host';
import { behindColon, skipSpace, take } from './json';
import { aligned, body, bodyEnd, copy, outAt, placeBody, reach, reserve, reserveBeside, wrote } from './memory';
import {
  beginning,
  cellEnd,
  cellStart,
  columnAt,
  columnCount,
  columnOf,
  defaultCount,
  hasDefault,
  isIn,
  isText,
  keyAt,
  lengthOf,
  marksDefaults,
  nextRecord,
  placeColumns,
  placeCount,
  placeNoDefaults,
  placeOfColumn,
  setCell,
  setTable,
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
export { placeText } from './cells';
export { placement } from './table';
export { outAt as rowsEnd } from './memory';

let programEnd: usize = 0;
/**
 * The number of the last record, and whether it contains other columns with a default than those that have a place.
 * With marks: whether it or an earlier record does.
 */
let number: u64 = 0;
let otherDefaults: bool = false;

/** @returns the address for a program of `length` bytes; 0 if there is no memory */
export function placeProgram(length: usize): usize {
  const program = aligned(__heap_base);
  programEnd = program + length;
  return reach(programEnd) ? program : 0;
}

/** @returns whether there is enough memory */
export function useProgram(): bool {
  return setTable(aligned(__heap_base), programEnd);
}

/** @returns the address for a body of `length` bytes; 0 if there is no memory */
export function placeBatch(length: usize): usize {
  return placeBody(tableEnd, length);
}

/** Whether the written rows contain this column. */
export function hasColumn(index: i32): bool {
  return placeOfColumn(columnAt(index)) >= 0;
}

/** @returns whether all rows of the batch were written */
export function encode(): bool {
  rows = outAt;
  if (!marksDefaults) return batch();
  placeNoDefaults();
  const before = nextRecord();
  if (batch()) return true;
  if (!otherDefaults) return false;
  // Now all columns of the batch are known. Each record may have added another column with a default.
  placeColumns(before);
  wrote(rows);
  return batch();
}

function batch(): bool {
  records = 0;
  otherDefaults = false;
  let at = take(OPEN_BRACKET, body);
  if (at == 0) return false;
  for (;;) {
    if (++records > recordsPerBatch) return false;
    if (!reserve(GROWTH * (bodyEnd - at) + NULL_BYTES * usize(columnCount + 1))) return false;
    at = take(OPEN_BRACE, at);
    if (at == 0) return false;
    at = records == 1 ? firstRecord(at) : record(at);
    if (at == 0) return false;
    const behind = take(COMMA, at);
    if (behind == 0) break;
    at = behind;
  }
  at = take(CLOSE_BRACKET, at);
  return at != 0 && skipSpace(at) == bodyEnd && !otherDefaults;
}

/** The first record determines which columns with a default the data has; usually the same as in the previous batch. */
function firstRecord(at: usize): usize {
  const end = record(at);
  if (!otherDefaults) return end;
  placeColumns(number);
  otherDefaults = false;
  wrote(rows);
  return record(at);
}

/**
 * Writes the record whose opening brace ends at `at`. Cells are written in the order in which they are read; if that is
 * the order of the columns, they need not be moved.
 * @returns the end of the record
 */
function record(at: usize): usize {
  number = nextRecord();
  beginRow();
  const cells = outAt;
  let inOrder = true;
  let place = 0;
  let defaults = 0;
  let key = beginning;
  at = skipSpace(at);
  if (load<u8>(at) == CLOSE_BRACE) at++;
  else {
    for (;;) {
      key = keyAt(at, key);
      if (key == 0) return 0;
      const column = columnOf(key);
      at = behindColon(at + lengthOf(key));
      if (at == 0 || isIn(column, number)) return 0;
      const own = placeOfColumn(column);
      defaults += i32(hasDefault(column));
      if (own < place) {
        inOrder = false;
        if (own < 0) otherDefaults = true;
      } else {
        for (; place < own; place++) writeNull();
        place++;
      }
      const cellAt = outAt;
      at = cell(column, at);
      if (at == 0) return 0;
      setCell(column, number, cellAt, outAt);
      at = skipSpace(at);
      const byte: u32 = load<u8>(at);
      at++;
      if (byte == CLOSE_BRACE) break;
      if (byte != COMMA) return 0;
      at = skipSpace(at);
    }
  }
  // Without marks, a record that lacks a default or has another one needs its own INSERT.
  if (defaults != defaultCount) {
    if (marksDefaults) inOrder = false;
    else otherDefaults = true;
  }
  if (otherDefaults) return marksDefaults ? at : 0;
  // COPY cannot represent a record without columns.
  if (placeCount == 0) return 0;
  if (inOrder) for (; place < placeCount; place++) writeNull();
  else if (!arrange(cells)) return 0;
  if (isText) store<u8>(outAt - 1, LINE_FEED);
  return at;
}

/** In binary a row begins with the number of its cells; in text a line feed replaces its last tab. */
function beginRow(): void {
  if (isText) return;
  store<u16>(outAt, bswap(u16(placeCount)));
  wrote(outAt + 2);
}

/**
 * Sorts the cells from `cells` on into the order of the columns, and fills each gap with NULL or the mark for a
 * default.
 */
function arrange(cells: usize): bool {
  const end = outAt;
  if (!reserveBeside(end - cells + NULL_BYTES * usize(placeCount))) return false;
  for (let i: i32 = 0; i < columnCount; i++) {
    const column = columnAt(i);
    if (placeOfColumn(column) < 0) continue;
    if (isIn(column, number)) {
      const size = cellEnd(column) - cellStart(column);
      copy(cellStart(column), outAt, size);
      wrote(outAt + size);
    } else if (marksDefaults && hasDefault(column)) writeDefault();
    else writeNull();
  }
  const size = outAt - end;
  memory.copy(cells, end, size);
  wrote(cells + size);
  return true;
}
