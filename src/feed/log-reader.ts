/** Reads the changes of a log after a place, decoded one at a time, and remembers where readers stopped. */
import { type FileHandle, open } from 'node:fs/promises';
import { LRUCache } from 'lru-cache';
import { isMissing } from '../files.js';
import { isBefore, type Place } from './cursor.js';
import type { FeedLog, Segment } from './feed-log.js';
import { changesIn, FRAME_HEADER, framesIn } from './frames.js';
import { LogState } from './log-state.js';

/** A place in a segment, and what is known there. */
interface Stop {
  readonly segment: Segment;
  readonly offset: number;
  readonly state: LogState;
}

/** The changes are no longer kept. */
export class ChangesGone extends Error {}

/**
 * Gets a message with changes.
 * @param place after its last change
 * @param state before it
 * @returns false: it is not taken, and the reading ends before it
 */
export type TakeMessage = (message: Buffer, place: Place, state: LogState) => boolean;

const READ_BYTES = 512 * 1024;
const STOPS = 256;

export class LogReader {
  private readonly stops = new LRUCache<string, Stop>({ max: STOPS });

  constructor(private readonly log: FeedLog) {}

  /**
   * @param end a place after a commit that is stored
   * @param turn waits until more may be decoded at once
   * @returns the place after the last change that was taken, or the end
   * @throws ChangesGone
   */
  async read(
    { after, end }: { readonly after: Place; readonly end: Place },
    take: TakeMessage,
    turn: () => Promise<void> | undefined,
  ): Promise<Place> {
    let from = this.stopAt(after);
    if (from === null || !isBefore(after, end)) return after;
    for (;;) {
      const { stop, isTaken } = await readSegment(this.log, from, after, take, turn);
      if (!isTaken) return this.remember(stop, isBefore(stop.state.place, after) ? after : stop.state.place);
      const next: Segment | undefined = this.log.segments[this.log.segments.indexOf(from.segment) + 1];
      if (next === undefined || !isBefore(next, end))
        return this.remember(stop, isBefore(stop.state.place, end) ? end : stop.state.place);
      from = { segment: next, offset: 0, state: new LogState() };
    }
  }

  private stopAt(place: Place): Stop | null {
    const known = this.stops.get(keyOf(place));
    if (known !== undefined && this.log.segments.includes(known.segment)) return known;
    if (this.log.segments.length === 0) return null;
    const segment = this.log.segmentAt(place);
    if (segment === null) throw new ChangesGone();
    return { segment, offset: 0, state: new LogState() };
  }

  private remember(stop: Stop, place: Place): Place {
    this.stops.set(keyOf(place), stop);
    return place;
  }
}

const keyOf = ({ lsn, index }: Place): string => `${lsn}.${index}`;

async function readSegment(
  log: FeedLog,
  { segment, offset, state: before }: Stop,
  after: Place,
  take: TakeMessage,
  turn: () => Promise<void> | undefined,
): Promise<{ stop: Stop; isTaken: boolean }> {
  const state = before.copy();
  // What is committed while this is read is for the next reading.
  const { committed } = segment;
  let file: FileHandle | null = null;
  try {
    while (offset < committed) {
      await turn();
      let bytes = log.inTail(segment, offset, committed);
      bytes ??= await readFrames((file ??= await openSegment(segment)), offset, committed);
      const start = offset;
      for (const { message, next } of framesIn(bytes)) {
        if (changesIn(message) > 0) {
          const place = state.placeAfter(message);
          if (isBefore(after, place) && !take(message, place, state))
            return { stop: { segment, offset, state }, isTaken: false };
        }
        state.pass(message);
        offset = start + next;
      }
    }
    return { stop: { segment, offset, state }, isTaken: true };
  } finally {
    await file?.close();
  }
}

const openSegment = ({ path }: Segment): Promise<FileHandle> =>
  open(path).catch((error: unknown) => {
    throw isMissing(error) ? new ChangesGone() : error;
  });

/** Bytes that begin with a complete frame. */
export async function readFrames(file: FileHandle, offset: number, end: number): Promise<Buffer> {
  const read = async (size: number): Promise<Buffer> => {
    const bytes = Buffer.allocUnsafe(Math.min(size, end - offset));
    let filled = 0;
    while (filled < bytes.length) {
      const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, offset + filled);
      // The segment was removed, or cut off by a damaged disk.
      if (bytesRead === 0) throw new ChangesGone();
      filled += bytesRead;
    }
    return bytes;
  };
  const bytes = await read(READ_BYTES);
  const first = FRAME_HEADER + bytes.readInt32BE(0);
  return first <= bytes.length ? bytes : read(first);
}
