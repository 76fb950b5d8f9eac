/** What is known at a place in the log: the transaction, the tables and their keys. It follows from the frames before it. */
import { type Begin, readMessage, type Relation } from '../pg/index.js';
import type { Place } from './cursor.js';
import { BEGIN, changesIn, HEAD, INSERT, RELATION, type SegmentHead } from './frames.js';
import { isSchemaTable, schemaRow } from './schema-row.js';

export type Keys = ReadonlyMap<number, readonly string[] | null>;

export class LogState {
  place: Place = { lsn: 0n, index: 0 };
  /** null: between transactions. */
  begin: Begin | null = null;
  /** The number of the transaction, with both halves. */
  xid = 0n;
  relations: ReadonlyMap<number, Relation> = new Map();
  /** The primary keys of tables, by oid. */
  keys: Keys = new Map();

  copy(): LogState {
    return Object.assign(new LogState(), this);
  }

  /** The place after this frame. */
  placeAfter(frame: Buffer): Place {
    const changes = changesIn(frame);
    return changes === 0 ? this.place : { lsn: this.place.lsn, index: this.place.index + changes };
  }

  /** Goes on to after this frame. */
  pass(frame: Buffer): void {
    switch (frame[0]) {
      case HEAD:
        return this.begins(JSON.parse(frame.toString('utf8', 1)) as SegmentHead);
      case BEGIN: {
        const message = readMessage(frame);
        if (message?.type !== 'begin') return;
        this.begin = message;
        this.place = { lsn: message.lsn, index: 0 };
        this.xid = fullXid(message.xid, this.xid);
        return;
      }
      case RELATION: {
        const message = readMessage(frame);
        if (message?.type === 'relation') this.relations = new Map(this.relations).set(message.id, message.relation);
        return;
      }
      case INSERT: {
        const relation = this.relations.get(frame.readUInt32BE(1));
        if (relation !== undefined && isSchemaTable(relation)) this.notePrimaryKey(frame, relation);
        this.place = this.placeAfter(frame);
        return;
      }
      default:
        this.place = this.placeAfter(frame);
    }
  }

  private begins({ lsn, index, xid, begin, keys }: SegmentHead): void {
    this.place = { lsn: BigInt(`0x${lsn}`), index };
    this.xid = BigInt(xid);
    this.keys = new Map(keys);
    this.begin = begin && {
      lsn: BigInt(`0x${begin.lsn}`),
      committedAt: BigInt(begin.committedAt),
      xid: begin.xid,
    };
    if (begin !== null) this.xid = fullXid(begin.xid, this.xid);
  }

  private notePrimaryKey(frame: Buffer, relation: Relation): void {
    const { table_oid: oid, key } = schemaRow(frame, relation);
    if (oid !== null) this.keys = new Map(this.keys).set(Number(oid), key);
  }
}

/** Both halves of a transaction's number, from one that is less than 2^31 away. @param low its low half */
export const fullXid = (low: number, near: bigint): bigint =>
  near + BigInt.asIntN(32, BigInt(low) - (near & 0xffffffffn));
