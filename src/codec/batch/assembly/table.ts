/**
 * The columns of the table that the body is for, and how a record's key finds its column: by bytes, without a string.
 * Built from a layout (`../table-layout.ts`), and kept until the next one.
 */
import { keyStops, QUOTE } from './bytes';
import { hashFactor } from './host';
import { aligned, growTo } from './memory';

@unmanaged
export class Column {
  index: i32;
  kind: i32;
  hasDefault: bool;
  /** Position in COPY's column list, or NOT_LISTED. */
  ordinal: i32;
  /** The number of the last record that contains it, and its cell in that record. */
  record: u64;
  cellStart: usize;
  cellEnd: usize;
  /** Name in JSON, with quotes; without bytes if no key may find the column. */
  name: usize;
  nameBytes: usize;
  /** The column of the key that followed this one last time. */
  follower: Column;
}

const COLUMN_BYTES: usize = (offsetof<Column>() + 15) & ~15;

export const NOT_LISTED: i32 = -1;

/** Later than any record. */
const NEVER: u64 = u64.MAX_VALUE;

/** The hash table has at least 2² slots per column. */
const SPARE_BITS = 2;
const SLOT_BYTES: usize = 4;

const HEADER_BYTES: usize = 12;
const COLUMN_HEADER_BYTES: usize = 12;

export let isText: bool = false;
/** Marks represent defaults, so that records may lack different columns. */
export let marksDefaults: bool = false;
export let columnCount: i32 = 0;
/** The length of COPY's column list, and how many of its columns have a default. */
export let listLength: i32 = 0;
export let listedDefaults: i32 = 0;
/** Stands for the beginning of a record, before its first key. It has no name. */
export let beginning: Column = changetype<Column>(0);
/** The end of the table. */
export let tableEnd: usize = 0;

let layout: usize = 0;
let layoutEnd: usize = 0;
let columns: usize = 0;
/** The hash table: addresses of columns, by the upper bits of the hash of their name; 0: a free slot. */
let slots: usize = 0;
let hashBits: u32 = 0;

/** @returns the address for a layout of `length` bytes; 0 if there is no memory */
export function allocLayout(length: usize): usize {
  layout = aligned(__heap_base);
  layoutEnd = layout + length;
  return growTo(layoutEnd) ? layout : 0;
}

/**
 * Reads the layout. Each number is a u32: text or binary, with or without marks, number of columns; for each column
 * its kind, whether it has a default, and the length of its name; then the name.
 * @returns false if there is no memory
 */
export function useLayout(): bool {
  isText = load<u32>(layout) != 0;
  marksDefaults = load<u32>(layout, 4) != 0;
  columnCount = load<i32>(layout, 8);
  hashBits = 32 - clz(u32(columnCount)) + SPARE_BITS;
  columns = aligned(layoutEnd);
  beginning = columnAt(columnCount);
  slots = columns + usize(columnCount + 1) * COLUMN_BYTES;
  tableEnd = slots + (SLOT_BYTES << hashBits);
  if (!growTo(tableEnd)) return false;
  memory.fill(columns, 0, tableEnd - columns);
  readColumns();
  listNoDefaults();
  return true;
}

function readColumns(): void {
  let at = layout + HEADER_BYTES;
  for (let i: i32 = 0; i < columnCount; i++) {
    const column = columnAt(i);
    column.index = i;
    column.kind = load<i32>(at);
    column.hasDefault = load<u32>(at, 4) != 0;
    column.nameBytes = load<usize>(at, 8);
    column.name = at + COLUMN_HEADER_BYTES;
    column.follower = columnAt(i + 1);
    at = column.name + column.nameBytes;
    if (column.nameBytes == 0) continue;
    let slot = slotOf(column.name + 1);
    while (load<usize>(slot) != 0) slot = nextSlot(slot);
    store<usize>(slot, changetype<usize>(column));
  }
  beginning.follower = columnAt(0);
}

/**
 * Determines COPY's column list: the columns without a default, and those with a default that a record has contained
 * since this one. COPY needs all its columns in every row; Postgres inserts the default of a column that COPY does not
 * list.
 */
export function listColumns(since: u64): void {
  listLength = 0;
  listedDefaults = 0;
  for (let i: i32 = 0; i < columnCount; i++) {
    const column = columnAt(i);
    const isListed = !column.hasDefault || column.record >= since;
    column.ordinal = isListed ? listLength : NOT_LISTED;
    listLength += i32(isListed);
    listedDefaults += i32(isListed && column.hasDefault);
  }
}

/** Only columns without a default. */
export function listNoDefaults(): void {
  listColumns(NEVER);
}

export function columnAt(index: i32): Column {
  return changetype<Column>(columns + usize(index) * COLUMN_BYTES);
}

/** The column whose name is the key at `at`, usually the one that followed `previous` last time; null: none. */
export function columnOfKey(at: usize, previous: Column): Column | null {
  const expected = previous.follower;
  if (isKeyAt(expected, at)) return expected;
  const found = find(at);
  if (found !== null) previous.follower = found;
  return found;
}

function find(at: usize): Column | null {
  if (load<u8>(at) != QUOTE) return null;
  for (let slot = slotOf(at + 1); load<usize>(slot) != 0; slot = nextSlot(slot)) {
    const column = load<Column>(slot);
    if (isKeyAt(column, at)) return column;
  }
  return null;
}

function isKeyAt(column: Column, at: usize): bool {
  const name = column.name;
  const nameBytes = column.nameBytes;
  for (let i: usize = 0; i < nameBytes; i += 16) {
    const left = u32(nameBytes - i);
    if (!areSame(name + i, at + i, left < 16 ? (1 << left) - 1 : 0xffff)) return false;
  }
  return nameBytes != 0;
}

/** Whether the bytes with set bits are equal in both groups of sixteen. */
function areSame(a: usize, b: usize, bits: u32): bool {
  return (~i8x16.bitmask(i8x16.eq(v128.load(a), v128.load(b))) & bits) == 0;
}

/**
 * The slot of the key whose characters begin at `at`. The hash is multiplicative, so its upper bits are the best ones.
 */
function slotOf(at: usize): usize {
  let hash: u64 = 0;
  for (;;) {
    const stops = keyStops(at);
    if (stops == 0) {
      hash = mixed(mixed(hash, load<u64>(at)), load<u64>(at, 8));
      at += 16;
      continue;
    }
    let left = u32(ctz(stops));
    if (left >= 8) {
      hash = mixed(hash, load<u64>(at));
      at += 8;
      left -= 8;
    }
    if (left > 0) hash = mixed(hash, load<u64>(at) << (64 - 8 * left));
    return slots + usize(hash >> (64 - hashBits)) * SLOT_BYTES;
  }
}

function mixed(hash: u64, word: u64): u64 {
  const product = (hash ^ word) * hashFactor;
  return product ^ (product >> 32);
}

function nextSlot(slot: usize): usize {
  const next = slot + SLOT_BYTES;
  return next == tableEnd ? slots : next;
}
