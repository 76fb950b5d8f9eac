/** Writes cells as they are read. The checked path reads everything rare, so that there is only one grammar. */
import { binaryValue } from './binary-cells';
import { BACKSLASH, TAB, UPPER_D, UPPER_N } from './bytes';
import { readCell } from './host';
import { NULL_WORD, valueEnd } from './json';
import { ID } from './kinds';
import { outAt, reserveMore, seek, write } from './memory';
import { copiedEscaped } from './strings';
import { Column, isText } from './table';
import { textValue } from './text-cells';

/** In binary a cell begins with its length, or -1 for NULL; in text it ends with a tab. */
const LENGTH_BYTES: usize = 4;

/** Space between a text and the cell into which it is escaped: a store may reach this far past its end. */
const GAP: usize = 16;

let textAt: usize = 0;

/**
 * Writes the value that begins at `at`.
 * @returns its end; 0 if the checked path must read the batch
 */
export function cell(column: Column, at: usize): usize {
  const kind = column.kind;
  if (load<u32>(at) == NULL_WORD && kind != ID) {
    writeNull();
    return at + 4;
  }
  const start = isText ? outAt : outAt + LENGTH_BYTES;
  seek(start);
  let end = isText ? textValue(kind, at) : binaryValue(kind, at);
  if (end == 0) {
    seek(start);
    end = byCheckedPath(column, at);
  }
  if (isText) {
    write(TAB);
  } else store<u32>(start - LENGTH_BYTES, bswap(u32(outAt - start)));
  return end;
}

/** The mark of a default: `copy-queue.ts` names it to Postgres. */
export function writeDefault(): void {
  writeMark(UPPER_D);
}

function writeMark(letter: u32): void {
  store<u8>(outAt, BACKSLASH);
  store<u8>(outAt + 1, letter);
  store<u8>(outAt + 2, TAB);
  seek(outAt + 3);
}

export function writeNull(): void {
  if (isText) writeMark(UPPER_N);
  else {
    store<i32>(outAt, -1);
    seek(outAt + LENGTH_BYTES);
  }
}

function byCheckedPath(column: Column, at: usize): usize {
  const end = valueEnd(at);
  if (end == 0) return 0;
  const size = readCell(column.index, at, end, outAt);
  if (size < 0) return 0;
  if (isText) copiedEscaped(textAt, textAt + usize(size));
  else seek(outAt + usize(size));
  return end;
}

/**
 * @returns the address for a text of `length` bytes that will be escaped into the next cell; 0 if there is no memory
 */
export function allocText(length: usize): usize {
  textAt = outAt + 2 * length + GAP;
  return reserveMore(3 * length + GAP) ? textAt : 0;
}
