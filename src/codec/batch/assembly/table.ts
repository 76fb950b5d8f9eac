/**
 * The table for which a body is: its columns, and how a record's key finds its column by bytes, without a string. Built
 * from the program's bytes (`program.ts`), and kept until the next program.
 */
import { keyStops, QUOTE } from './bytes';
import { hashFactor } from './host';
import { aligned, reach } from './memory';

/**
 * Fields of a column: its kind, whether it has a default, its place in the data, the last record that contains it, and
 * its cell in that record.
 */
const KIND: usize = 0;
const HAS_DEFAULT: usize = 4;
const PLACE: usize = 8;
const RECORD: usize = 16;
const CELL_START: usize = 24;
const CELL_END: usize = 28;
const COLUMN_BYTES: usize = 32;

/**
 * Fields of a spelling of a column's name, including quotes: its first sixteen bytes, a bit for each of them, its
 * length, the address of the whole, its column, and the spelling that followed it last time.
 */
const HEAD: usize = 0;
const HEAD_BITS: usize = 16;
const LENGTH: usize = 20;
const BYTES: usize = 24;
const COLUMN: usize = 28;
const FOLLOWER: usize = 32;
const SPELLING_BYTES: usize = 48;
const HEAD_BYTES: usize = 16;

const NO_PLACE: i32 = -1;
const NO_RECORD: u64 = u64.MAX_VALUE;

/** The hash table has at least this many slots per spelling. */
const SPARE = 2;

const HEADER_BYTES: usize = 16;

export let isText: bool = false;
/** Marks represent defaults, so that records may lack different columns. */
export let marksDefaults: bool = false;
export let columnCount: i32 = 0;
/** The number of columns in the data, and of those with a default. */
export let placeCount: i32 = 0;
export let defaultCount: i32 = 0;
/** Changes whenever the set of data columns changes. */
export let placement: i32 = 0;
/** A pseudo-spelling for the beginning of a record. */
export let beginning: usize = 0;
/** The end of the table. */
export let tableEnd: usize = 0;

let columns: usize = 0;
/** Addresses of spellings, by the upper bits of their hash; 0: a free slot. */
let places: usize = 0;
let hashBits: u32 = 0;
/** Counts records over all batches, so that each has a unique number. */
let recordNumber: u64 = 0;

/**
 * Reads a program. Each number is a u32: text or binary, with or without marks, number of columns, number of spellings;
 * for each column its kind and whether it has a default; for each spelling its column, its length and the bytes.
 * @returns false if there is no memory
 */
export function setTable(program: usize, programEnd: usize): bool {
  isText = load<u32>(program) != 0;
  marksDefaults = load<u32>(program, 4) != 0;
  columnCount = load<i32>(program, 8);
  const spellingCount = load<i32>(program, 12);
  hashBits = 32 - clz(u32(spellingCount)) + SPARE;
  const placeBytes = usize(4) << hashBits;
  columns = aligned(programEnd);
  places = columns + usize(columnCount) * COLUMN_BYTES;
  beginning = aligned(places + placeBytes);
  tableEnd = beginning + usize(spellingCount + 1) * SPELLING_BYTES;
  if (!reach(tableEnd)) return false;
  memory.fill(columns, 0, tableEnd - columns);
  const spellings = readColumns(program + HEADER_BYTES);
  readSpellings(spellings);
  return true;
}

/** @returns the start of the spellings */
function readColumns(at: usize): usize {
  for (let i: i32 = 0; i < columnCount; i++) {
    const column = columnAt(i);
    store<u32>(column, load<u32>(at), KIND);
    store<u32>(column, load<u32>(at, 4), HAS_DEFAULT);
    at += 8;
  }
  placeNoDefaults();
  return at;
}

function readSpellings(at: usize): void {
  for (let spelling = beginning; spelling < tableEnd; spelling += SPELLING_BYTES) {
    const next = spelling + SPELLING_BYTES;
    store<usize>(spelling, next == tableEnd ? beginning : next, FOLLOWER);
    if (spelling == beginning) continue;
    const length = load<usize>(at, 4);
    const head = min<usize>(length, HEAD_BYTES);
    memory.copy(spelling + HEAD, at + 8, head);
    store<u32>(spelling, (1 << u32(head)) - 1, HEAD_BITS);
    store<usize>(spelling, length, LENGTH);
    store<usize>(spelling, at + 8, BYTES);
    store<usize>(spelling, columnAt(load<i32>(at)), COLUMN);
    let place = placeOf(at + 9);
    while (load<usize>(place) != 0) place = nextPlace(place);
    store<usize>(place, spelling);
    at += 8 + length;
  }
}

/**
 * Determines the columns of the data: those without a default, and those with a default that a record has contained
 * since this one. COPY needs all its columns in every row; Postgres inserts the default of a column that COPY does not
 * list.
 */
export function placeColumns(record: u64): void {
  placement++;
  placeCount = 0;
  defaultCount = 0;
  for (let i: i32 = 0; i < columnCount; i++) {
    const column = columnAt(i);
    const isDefault = hasDefault(column);
    const isPart = !isDefault || load<u64>(column, RECORD) >= record;
    store<i32>(column, isPart ? placeCount : NO_PLACE, PLACE);
    placeCount += i32(isPart);
    defaultCount += i32(isPart && isDefault);
  }
}

/** Only columns without a default. */
export function placeNoDefaults(): void {
  placeColumns(NO_RECORD);
}

export function nextRecord(): u64 {
  return ++recordNumber;
}

export function columnAt(index: i32): usize {
  return columns + usize(index) * COLUMN_BYTES;
}

export function indexOf(column: usize): i32 {
  return i32((column - columns) / COLUMN_BYTES);
}

export function kindOf(column: usize): i32 {
  return load<i32>(column, KIND);
}

export function hasDefault(column: usize): bool {
  return load<u32>(column, HAS_DEFAULT) != 0;
}

export function placeOfColumn(column: usize): i32 {
  return load<i32>(column, PLACE);
}

export function isIn(column: usize, record: u64): bool {
  return load<u64>(column, RECORD) == record;
}

/** Stores the position of a record's cell for this column. */
export function setCell(column: usize, record: u64, start: usize, end: usize): void {
  store<u64>(column, record, RECORD);
  store<usize>(column, start, CELL_START);
  store<usize>(column, end, CELL_END);
}

export function cellStart(column: usize): usize {
  return load<usize>(column, CELL_START);
}

export function cellEnd(column: usize): usize {
  return load<usize>(column, CELL_END);
}

export function columnOf(spelling: usize): usize {
  return load<usize>(spelling, COLUMN);
}

export function lengthOf(spelling: usize): usize {
  return load<usize>(spelling, LENGTH);
}

/** The spelling of a column's name at `at`, usually the one that followed `previous` last time; 0: none. */
export function keyAt(at: usize, previous: usize): usize {
  const expected = load<usize>(previous, FOLLOWER);
  if (standsAt(expected, at)) return expected;
  const found = find(at);
  if (found != 0) store<usize>(previous, found, FOLLOWER);
  return found;
}

function find(at: usize): usize {
  if (load<u8>(at) != QUOTE) return 0;
  for (let place = placeOf(at + 1); load<usize>(place) != 0; place = nextPlace(place)) {
    const spelling = load<usize>(place);
    if (standsAt(spelling, at)) return spelling;
  }
  return 0;
}

function standsAt(spelling: usize, at: usize): bool {
  if (!areSame(spelling + HEAD, at, load<u32>(spelling, HEAD_BITS))) return false;
  const length = lengthOf(spelling);
  const bytes = load<usize>(spelling, BYTES);
  for (let i: usize = HEAD_BYTES; i < length; i += 16) {
    const left = u32(length - i);
    if (!areSame(bytes + i, at + i, left < 16 ? (1 << left) - 1 : 0xffff)) return false;
  }
  // The pseudo-spelling of the beginning has no bytes.
  return length != 0;
}

/** Whether the bytes with set bits are equal in both groups of sixteen. */
function areSame(a: usize, b: usize, bits: u32): bool {
  return (~i8x16.bitmask(i8x16.eq(v128.load(a), v128.load(b))) & bits) == 0;
}

/**
 * The slot of the key whose characters begin at `at`. The hash is multiplicative, so its upper bits are the best ones.
 */
function placeOf(at: usize): usize {
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
    return places + (usize(hash >> (64 - hashBits)) << 2);
  }
}

function mixed(hash: u64, word: u64): u64 {
  const product = (hash ^ word) * hashFactor;
  return product ^ (product >> 32);
}

function nextPlace(place: usize): usize {
  const next = place + 4;
  return next == places + (4 << hashBits) ? places : next;
}
