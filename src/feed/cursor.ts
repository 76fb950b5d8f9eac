/**
 * Cursors: the place of a change in a project's log, as text that clients keep. The changes of a log are ordered by the position of
 * their transaction's commit, which is the order of commits, and by their number in the transaction.
 */
import { EngineError } from '../contract/errors.js';
import { CURSOR_PATTERN } from '../contract/patterns.js';

/** The place after a change. */
export interface Place {
  /** The position of the commit record of its transaction. */
  readonly lsn: bigint;
  /** How many changes of the transaction are before this place. */
  readonly index: number;
}

export interface Cursor extends Place {
  /** The log, which begins anew when changes were lost: other logs have other positions. */
  readonly epoch: string;
  /** Transactions after it that a snapshot has shown already, by the low halves of their numbers. */
  readonly seen: readonly number[];
}

export const isBefore = (one: Place, other: Place): boolean =>
  one.lsn < other.lsn || (one.lsn === other.lsn && one.index < other.index);

export function cursorText({ epoch, lsn, index, seen }: Cursor): string {
  const place = `${epoch}.${lsn.toString(16)}.${index}`;
  return seen.length === 0 ? place : `${place}.${seen.join('-')}`;
}

const CURSOR = new RegExp(CURSOR_PATTERN);

/** @throws EngineError invalid_request */
export function cursorOf(text: string): Cursor {
  if (!CURSOR.test(text)) {
    throw new EngineError('invalid_request', '"after" is not a cursor', {
      hint: 'Send a cursor exactly as an earlier answer had it. Without `after`, changes are read from now on.',
    });
  }
  const [epoch = '', lsn = '', index = '', seen] = text.split('.');
  return { epoch, lsn: BigInt(`0x${lsn}`), index: Number(index), seen: seen?.split('-').map(Number) ?? [] };
}
