/**
 * Ids for records that go in by COPY, which cannot tell those that a default has made: the service makes them, as the
 * default would (RFC 9562 section 5.7), and puts them into the rows.
 */
import { randomFillSync, randomInt } from 'node:crypto';
import type { CopyData } from '../batch/copy/copy-encoder.js';

const UUID_BYTES = 16;

/** Rows with an id in front of each, in memory of their own, and the ids in their order. */
interface IdentifiedRows {
  readonly batch: CopyData;
  readonly ids: readonly string[];
}

/** @returns null where the records bring ids, or the table has none that the service fills */
export function withIds(batch: CopyData): IdentifiedRows | null {
  const { format, table, sets } = batch.plan;
  const column = table.columns.findIndex(({ isId, hasServiceDefault }) => isId && hasServiceDefault);
  if (column < 0 || batch.columns.indices.includes(column)) return null;
  const bytes = newIds(batch.records);
  const ids = Array.from({ length: batch.records }, (_, i) => textOf(bytes, i * UUID_BYTES));
  const data = format === 'binary' ? intoBinary(batch, bytes) : intoText(batch, ids);
  const columns = sets.of([column, ...batch.columns.indices]);
  return { batch: { ...batch, columns, data }, ids };
}

/** A row is the number of its cells, and each cell its length before it; -1: NULL (Postgres manual, COPY). */
function intoBinary({ data, columns, records }: CopyData, ids: Buffer): Buffer {
  const cells = columns.indices.length;
  const rows = Buffer.from(data.buffer, data.byteOffset, data.length);
  const bytes = Buffer.allocUnsafe(rows.length + records * (4 + UUID_BYTES));
  let from = 0;
  let to = 0;
  for (let id = 0; id < ids.length; id += UUID_BYTES) {
    let end = from + 2;
    for (let cell = 0; cell < cells; cell++) end += 4 + Math.max(0, rows.readInt32BE(end));
    to = bytes.writeInt16BE(cells + 1, to);
    to = bytes.writeInt32BE(UUID_BYTES, to);
    to += ids.copy(bytes, to, id, id + UUID_BYTES);
    to += rows.copy(bytes, to, from + 2, end);
    from = end;
  }
  return bytes;
}

const LINE_END = 0x0a;

/** A row is a line: what would end one in a value is escaped. */
function intoText({ data, records }: CopyData, ids: readonly string[]): Buffer {
  const rows = Buffer.from(data.buffer, data.byteOffset, data.length);
  const bytes = Buffer.allocUnsafe(rows.length + records * (36 + 1));
  let from = 0;
  let to = 0;
  for (const id of ids) {
    const end = rows.indexOf(LINE_END, from) + 1;
    to += bytes.write(`${id}\t`, to, 'latin1');
    to += rows.copy(bytes, to, from, end);
    from = end;
  }
  return bytes;
}

/** Milliseconds and count of the last id. */
let time = 0;
let count = 0;

/** Of ids of one millisecond; a new one begins in the lower half, so that there is room to count. */
const COUNTS = 0x1000;

/** Version 7: 48 bits of milliseconds, 12 that count within one (section 6.2, method 1), 62 at random. */
function newIds(length: number): Buffer {
  const bytes = randomFillSync(Buffer.allocUnsafe(length * UUID_BYTES));
  const now = Date.now();
  for (let at = 0; at < bytes.length; at += UUID_BYTES) {
    if (now > time) [time, count] = [now, randomInt(COUNTS / 2)];
    else if (++count === COUNTS) [time, count] = [time + 1, 0];
    bytes.writeUIntBE(time, at, 6);
    bytes.writeUInt16BE(0x7000 | count, at + 6);
    bytes[at + 8] = 0x80 | ((bytes[at + 8] as number) & 0x3f);
  }
  return bytes;
}

function textOf(bytes: Buffer, at: number): string {
  const hex = bytes.toString('hex', at, at + UUID_BYTES);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
