/**
 * Erases what a person's changes say from the segments of a log, in place: cursors, and the number of changes, stay as they are. A
 * delete keeps the key of its row, by which readers delete it, too.
 */
import { open } from 'node:fs/promises';
import { isMissing } from '../files.js';
import { type Change, readMessage, type Relation, type Values } from '../pg/index.js';
import { tableName } from './change-json.js';
import type { FeedLog, Segment } from './feed-log.js';
import { changesIn, ERASED, framesIn } from './frames.js';
import { readFrames } from './log-reader.js';
import { LogState } from './log-state.js';
import { isSchemaTable } from './schema-row.js';

/** Whether a row tells of the person. @param record its values as text */
export type TellsOf = (table: string, record: Readonly<Record<string, string | null>>) => boolean;

/** @returns how many changes told of the person @throws the system's error */
export async function eraseFromLog(
  log: FeedLog,
  tellsOf: TellsOf,
  turn: () => Promise<void> | undefined,
): Promise<number> {
  let erased = 0;
  for (const segment of [...log.segments]) erased += await eraseFromSegment(segment, tellsOf, turn);
  log.forgetTail();
  return erased;
}

async function eraseFromSegment(
  segment: Segment,
  tellsOf: TellsOf,
  turn: () => Promise<void> | undefined,
): Promise<number> {
  const file = await open(segment.path, 'r+').catch((error: unknown) => {
    if (isMissing(error)) return null;
    throw error;
  });
  if (file === null) return 0;
  const state = new LogState();
  let erased = 0;
  try {
    for (let offset = 0; offset < segment.committed;) {
      await turn();
      const start = offset;
      const bytes = await readFrames(file, offset, segment.committed);
      for (const { message, next } of framesIn(bytes)) {
        const replacement = changesIn(message) > 0 ? withoutPerson(message, state, tellsOf) : null;
        if (replacement !== null) {
          erased++;
          const at = start + next - message.length;
          const padded = Buffer.alloc(message.length);
          replacement.copy(padded);
          await file.write(padded, 0, padded.length, at);
        }
        state.pass(message);
        offset = start + next;
      }
    }
    if (erased > 0) await file.datasync();
  } finally {
    await file.close();
  }
  return erased;
}

/** What may stay of a message, at most as long; null: all of it. */
function withoutPerson(message: Buffer, { relations, keys }: LogState, tellsOf: TellsOf): Buffer | null {
  const read = message[0] === ERASED ? null : readMessage(message);
  if (read?.type !== 'change') return null;
  const relation = relations.get(read.id);
  if (relation === undefined || isSchemaTable(relation)) return null;
  const tells = (values: Values): boolean =>
    tellsOf(tableName(relation.schema, relation.name), recordOf(relation, values));
  const { change } = read;
  const old = 'old' in change ? change.old : null;
  const isOldTold = old !== null && tells(old.values);
  const isRowTold = 'row' in change && tells(change.row);
  if (!isOldTold && !isRowTold) return null;
  return isRowTold ? Buffer.of(ERASED) : withoutOld(message, change, relation, keys.get(read.id) ?? []);
}

/** Only the key of a row that was deleted, or the new row without the old one. */
function withoutOld(
  message: Buffer,
  change: Change,
  { columns }: Relation,
  primaryKey: readonly string[],
): Buffer | null {
  if (change.kind === 'insert' || !change.old?.isWhole) return null;
  const oid = message.subarray(1, 5);
  // After the letter, the oid, and the letter of the old row comes that row, and then the new one.
  if (change.kind === 'update')
    return Buffer.concat([Buffer.from('U'), oid, message.subarray(6 + tupleBytes(message, 6))]);
  if (primaryKey.length === 0) return Buffer.of(ERASED);
  const count = Buffer.alloc(2);
  count.writeUInt16BE(columns.length);
  const values = columns.map(({ name }, i) => {
    const value = primaryKey.includes(name) ? change.old.values[i] : null;
    if (value == null) return Buffer.from('n');
    const length = Buffer.alloc(4);
    length.writeUInt32BE(Buffer.byteLength(value));
    return Buffer.concat([Buffer.from('t'), length, Buffer.from(value)]);
  });
  return Buffer.concat([Buffer.from('D'), oid, Buffer.from('K'), count, ...values]);
}

/** The length of a row that begins there. */
function tupleBytes(message: Buffer, start: number): number {
  let at = start + 2;
  for (let left = message.readUInt16BE(start); left > 0; left--) {
    const kind = message[at++];
    if (kind === 0x74) at += 4 + message.readUInt32BE(at);
  }
  return at - start;
}

function recordOf({ columns }: Relation, values: Values): Record<string, string | null> {
  const record: Record<string, string | null> = {};
  columns.forEach(({ name }, i) => {
    const value = values[i];
    if (value !== undefined) record[name] = value;
  });
  return record;
}
