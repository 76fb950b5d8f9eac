/**
 * Parses the messages of Postgres's output plugin pgoutput, protocol version 1 (Postgres manual, Logical Replication
 * Message Formats).
 */
import { FIRST_NORMAL_OID } from './messages.js';

/** A table at the time of the changes that follow. */
export interface Relation {
  readonly schema: string;
  readonly name: string;
  /** Its replica identity is FULL: a change brings all columns of the old row, and all count as its key. */
  readonly isFull: boolean;
  readonly columns: readonly Column[];
}

interface Column {
  readonly name: string;
  readonly isKey: boolean;
  readonly typeOid: number;
  /** Its type is Postgres's own, not that of an extension or a project. */
  readonly isBuiltIn: boolean;
}

/** The values of a row in Postgres's text format. undefined: a long value that the change did not touch. */
export type Values = readonly (string | null | undefined)[];

/** Where the values of a row are in the bytes of its message: the start and the end of each, or {@link NULL} or {@link UNCHANGED} twice. */
export type Bounds = readonly number[];

export const NULL = -1;
/** A long value that the change did not touch. */
export const UNCHANGED = -2;

export type Change<Row = Values> =
  | { readonly kind: 'insert'; readonly row: Row }
  /** @property old the old row, or its key with other columns null; null: the key does not change */
  | { readonly kind: 'update'; readonly old: OldRow<Row> | null; readonly row: Row }
  | { readonly kind: 'delete'; readonly old: OldRow<Row> };

interface OldRow<Row> {
  readonly values: Row;
  /** All columns are there, not only those of the key: the replica identity is FULL. */
  readonly isWhole: boolean;
}

/** The beginning of a transaction, which is sent when it has committed. */
export interface Begin {
  /** The position of its commit record. */
  readonly lsn: bigint;
  /** Microseconds since 2000. */
  readonly committedAt: bigint;
  /** The low half of its number. */
  readonly xid: number;
}

type Message =
  | ({ readonly type: 'begin' } & Begin)
  /** @property end the position after its commit record */
  | { readonly type: 'commit'; readonly end: bigint }
  | { readonly type: 'relation'; readonly id: number; readonly relation: Relation }
  | { readonly type: 'change'; readonly id: number; readonly change: Change }
  | { readonly type: 'truncate'; readonly ids: readonly number[] };

/**
 * @returns null for messages that do not concern rows
 * @throws Error for an unknown message
 */
export function readMessage(bytes: Buffer): Message | null {
  const reader = new Reader(bytes);
  const type = reader.character();
  switch (type) {
    case 'B':
      return { type: 'begin', lsn: reader.int64(), committedAt: reader.int64(), xid: reader.int32() };
    case 'C':
      // Flags, and the LSN of the commit.
      reader.skip(9);
      return { type: 'commit', end: reader.int64() };
    case 'R':
      return readRelation(reader);
    case 'I':
    case 'U':
    case 'D':
      return { type: 'change', id: reader.int32(), change: readChange(type, reader, (row) => row.values()) };
    case 'T': {
      const count = reader.int32();
      reader.skip(1);
      return { type: 'truncate', ids: Array.from({ length: count }, () => reader.int32()) };
    }
    case 'Y': // type
    case 'O': // origin
    case 'M': // logical message
      return null;
    default:
      throw new Error(`pgoutput sent a message of the unknown type "${type}"`);
  }
}

/** The change of a row whose values stay bytes, with the oid of its table; null: another message. */
export function readRowChange(bytes: Buffer): { readonly id: number; readonly change: Change<Bounds> } | null {
  const reader = new Reader(bytes);
  const type = reader.character();
  if (type !== 'I' && type !== 'U' && type !== 'D') return null;
  return { id: reader.int32(), change: readChange(type, reader, (row) => row.bounds()) };
}

function readChange<Row>(type: 'I' | 'U' | 'D', reader: Reader, read: (reader: Reader) => Row): Change<Row> {
  const kind = reader.character();
  if (type === 'I') return { kind: 'insert', row: read(reader) };
  if (type === 'D') return { kind: 'delete', old: { isWhole: kind === 'O', values: read(reader) } };
  const old = kind === 'N' ? null : { isWhole: kind === 'O', values: read(reader) };
  // The letter of the new row.
  if (old !== null) reader.skip(1);
  return { kind: 'update', old, row: read(reader) };
}

function readRelation(reader: Reader): Message {
  const id = reader.int32();
  const [schema, name] = [reader.text(), reader.text()];
  const isFull = reader.character() === 'f';
  const columns = Array.from({ length: reader.int16() }, () => {
    const isKey = reader.character() === '\x01';
    const [name, typeOid] = [reader.text(), reader.int32()];
    // The type's modifier.
    reader.skip(4);
    return { name, isKey, typeOid, isBuiltIn: typeOid < FIRST_NORMAL_OID };
  });
  return { type: 'relation', id, relation: { schema, name, isFull, columns } };
}

const NULL_VALUE = 0x6e; // 'n'
const UNCHANGED_VALUE = 0x75; // 'u'

class Reader {
  private at = 0;

  constructor(private readonly bytes: Buffer) {}

  skip(length: number): void {
    this.at += length;
  }

  character(): string {
    return String.fromCharCode(this.bytes.readUInt8(this.at++));
  }

  int16(): number {
    return this.bytes.readUInt16BE((this.at += 2) - 2);
  }

  int32(): number {
    return this.bytes.readUInt32BE((this.at += 4) - 4);
  }

  int64(): bigint {
    return this.bytes.readBigUInt64BE((this.at += 8) - 8);
  }

  text(): string {
    const end = this.bytes.indexOf(0, this.at);
    const text = this.bytes.toString('utf8', this.at, end);
    this.at = end + 1;
    return text;
  }

  values(): Values {
    const bounds = this.bounds();
    const values: (string | null | undefined)[] = [];
    for (let i = 0; i < bounds.length; i += 2) {
      const start = bounds[i] as number;
      if (start >= 0) values.push(this.bytes.toString('utf8', start, bounds[i + 1]));
      else values.push(start === NULL ? null : undefined);
    }
    return values;
  }

  bounds(): Bounds {
    const bounds: number[] = [];
    for (let left = this.int16(); left > 0; left--) {
      const kind = this.bytes[this.at++];
      if (kind === NULL_VALUE) bounds.push(NULL, NULL);
      else if (kind === UNCHANGED_VALUE) bounds.push(UNCHANGED, UNCHANGED);
      else {
        const length = this.int32();
        bounds.push(this.at, (this.at += length));
      }
    }
    return bounds;
  }
}
