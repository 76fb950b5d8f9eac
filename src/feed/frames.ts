/** The frames of which the segments of a log consist: an int32 length, and a message of pgoutput or the head of the segment. */

/** What a reader has to know at the beginning of a segment: its first frame, as JSON after the letter `h`. */
export interface SegmentHead {
  /** In hexadecimal, like the other positions. */
  readonly lsn: string;
  readonly index: number;
  /** A number near those of the transactions that follow, with both halves. */
  readonly xid: string;
  /** The transaction that continues here. */
  readonly begin: { readonly lsn: string; readonly committedAt: string; readonly xid: number } | null;
  /** The primary keys of tables by oid, as the last description of each table says. */
  readonly keys: readonly (readonly [number, readonly string[] | null])[];
}

export const HEAD = 0x68; // 'h'
export const BEGIN = 0x42; // 'B'
export const COMMIT = 0x43; // 'C'
export const RELATION = 0x52; // 'R'
export const INSERT = 0x49; // 'I'
const UPDATE = 0x55; // 'U'
const DELETE = 0x44; // 'D'
export const TRUNCATE = 0x54; // 'T'
/** What an erasure leaves of the change of a row. */
export const ERASED = 0x78; // 'x'

export const FRAME_HEADER = 4;

export function frameOf(message: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(FRAME_HEADER + message.length);
  frame.writeInt32BE(message.length);
  message.copy(frame, FRAME_HEADER);
  return frame;
}

/** The messages of the complete frames in `bytes[start, end)`, and where each ends. */
export function* framesIn(bytes: Buffer, start = 0, end = bytes.length): Generator<{ message: Buffer; next: number }> {
  for (let at = start; at + FRAME_HEADER <= end;) {
    const next = at + FRAME_HEADER + bytes.readInt32BE(at);
    if (next > end) return;
    yield { message: bytes.subarray(at + FRAME_HEADER, next), next };
    at = next;
  }
}

/** How many changes a message has: that of a row is one, and TRUNCATE is one for each of its tables. */
export function changesIn(bytes: Buffer, start = 0): number {
  switch (bytes[start]) {
    case INSERT:
    case UPDATE:
    case DELETE:
    case ERASED:
      return 1;
    case TRUNCATE:
      return bytes.readInt32BE(start + 1);
    default:
      return 0;
  }
}
