/** Reads the changes of a running server from its slot into the log, and tells the server how far they are stored. */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type LoginOptions,
  readMessage,
  type Relation,
  type ReplicationReader,
  ReplicationStream,
} from '../pg/index.js';
import type { FeedLog } from './feed-log.js';
import { BEGIN, changesIn, COMMIT, INSERT, RELATION } from './frames.js';
import { isSchemaTable, type SchemaRow, schemaRow } from './schema-row.js';
import { FEED_SLOT } from '../tenancy/placement.js';
import { PUBLICATIONS } from './set-up.js';

export interface CollectorEvents {
  /** Transactions are complete in the log. */
  stored(): void;
  /** A change of the schema or of rights is about to be stored. */
  described(row: SchemaRow): void;
  /** Another part of the log is written; the server keeps its WAL until it writes down that it need not. */
  passed(): void;
  /** The disk is full. @returns whether there is room now */
  makeRoom(): Promise<boolean>;
}

/** A transaction as it is in the log. */
interface LoggedTransaction {
  readonly lsn: bigint;
  /** The low half of its number. */
  readonly xid: number;
}

/** What is stored is flushed, and confirmed, after so much time or so many bytes. */
const CONFIRM_MS = 1_000;
const CONFIRM_BYTES = 4 * 1024 * 1024;

/** The server moves on what it keeps only at a checkpoint, or if it writes down which transactions run. */
const PASSED_BYTES = 32 * 1024 * 1024;

/** More of a transaction than this is read in larger pieces, which takes the service a fraction of the time. */
const SMALL_BYTES = 4 * 1024;
const COLLECT_MS = 1;

/** A snapshot is compared with this many of the last transactions. */
const RECENT = 65_536;

/** How often the server is asked how far it is, while it is waited for. */
const ASK_MS = 20;

export class Collector implements ReplicationReader {
  /** The last transactions, in the order of their commits. */
  readonly recent: LoggedTransaction[] = [];
  /** Everything before this position is in the log. */
  stored: bigint;
  private stream!: ReplicationStream;
  private reached: bigint;
  private confirmed = 0n;
  private isInTransaction = false;
  private isSkipping = false;
  private isInBatch = false;
  private wantsReply = false;
  private schemaTable: { readonly oid: number; readonly relation: Relation } | null = null;
  private unconfirmedBytes = 0;
  private passedBytes = 0;
  private writing: Promise<void> | null = null;
  private readonly timer: NodeJS.Timeout;

  private constructor(
    private readonly log: FeedLog,
    private readonly events: CollectorEvents,
  ) {
    this.stored = this.reached = log.end.lsn;
    // If the log cannot be flushed, nothing is confirmed, and the next time tries again.
    this.timer = setInterval(() => void this.confirm().catch(() => {}), CONFIRM_MS).unref();
  }

  /**
   * @param xid a number near those of the transactions that follow, with both halves
   * @throws PostgresError, such as 55000 if the server has given up what was not read; ConnectionLost; the system's error
   */
  static async start(login: LoginOptions, log: FeedLog, xid: bigint, events: CollectorEvents): Promise<Collector> {
    await log.beginReading(xid);
    const collector = new Collector(log, events);
    const source = { slot: FEED_SLOT, publications: PUBLICATIONS, from: log.end.lsn };
    try {
      collector.stream = await ReplicationStream.open(login, source, collector);
    } catch (error) {
      clearInterval(collector.timer);
      throw error;
    }
    void collector.ended.then(() => clearInterval(collector.timer));
    return collector;
  }

  /** Resolves with the reason when nothing more is read. Never rejects. */
  get ended(): Promise<Error> {
    return this.stream.ended;
  }

  message(buffer: Buffer, start: number, end: number): void {
    if (!this.isInBatch) {
      this.isInBatch = true;
      this.log.beginBatch();
    }
    this.unconfirmedBytes += end - start;
    this.passedBytes += end - start;
    switch (buffer[start]) {
      case BEGIN: {
        const lsn = buffer.readBigUInt64BE(start + 1);
        this.isInTransaction = true;
        // After a crash the server sends again what it has not been told is stored.
        this.isSkipping = this.log.has(lsn);
        if (!this.isSkipping) this.note({ lsn, xid: buffer.readUInt32BE(start + 17) });
        break;
      }
      case COMMIT:
        this.isInTransaction = false;
        this.reached = buffer.readBigUInt64BE(start + 10);
        break;
      case RELATION: {
        const message = readMessage(buffer.subarray(start, end));
        if (message?.type === 'relation' && isSchemaTable(message.relation))
          this.schemaTable = { oid: message.id, relation: message.relation };
        // Sent once for a connection, so that a transaction that is stored already may be the only one to have it.
        return this.log.add(buffer, start, end, 0);
      }
      case INSERT:
        if (!this.isSkipping && buffer.readUInt32BE(start + 1) === this.schemaTable?.oid)
          this.events.described(schemaRow(Buffer.from(buffer.subarray(start, end)), this.schemaTable.relation));
        break;
      default:
        // Types, origins, and messages, which any session may send.
        if (changesIn(buffer, start) === 0) return;
    }
    if (!this.isSkipping) this.log.add(buffer, start, end, changesIn(buffer, start));
  }

  private note(transaction: LoggedTransaction): void {
    this.recent.push(transaction);
    if (this.recent.length > 2 * RECENT) this.recent.splice(0, RECENT);
  }

  caughtUp(lsn: bigint, wantsReply: boolean): void {
    if (!this.isInTransaction && lsn > this.reached) this.reached = lsn;
    this.wantsReply ||= wantsReply;
  }

  readEnded(): Promise<void> | undefined {
    this.isInBatch = false;
    // The server sends each change by itself; a part of a transaction is of no use to anybody yet.
    if (this.isInTransaction && !this.log.isWorthWriting && !this.wantsReply)
      return this.log.pendingBytes > SMALL_BYTES ? sleep(COLLECT_MS) : undefined;
    this.writing = this.store().finally(() => (this.writing = null));
    return this.writing;
  }

  private async store(): Promise<void> {
    const { reached } = this;
    const hasCommit = await this.log.write().catch(async (error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC' || !(await this.events.makeRoom())) throw error;
      return this.log.write();
    });
    if (!this.isInTransaction || hasCommit) this.stored = reached;
    if (hasCommit) this.events.stored();
    if (this.passedBytes >= PASSED_BYTES) {
      this.passedBytes = 0;
      this.events.passed();
    }
    if (this.wantsReply || this.unconfirmedBytes >= CONFIRM_BYTES) await this.confirm(true);
  }

  /** Flushes what is stored, and says so. */
  private async confirm(always = false): Promise<void> {
    const { stored } = this;
    if (!always && stored === this.confirmed) return;
    this.wantsReply = false;
    this.unconfirmedBytes = 0;
    await this.log.sync();
    this.confirmed = stored;
    this.stream.confirm(stored);
  }

  /**
   * Waits until everything before a position is stored.
   * @returns false if that takes longer, or reading has ended
   */
  async reach(lsn: bigint, ms: number): Promise<boolean> {
    let hasEnded = false;
    void this.ended.then(() => (hasEnded = true));
    for (const until = performance.now() + ms; this.stored < lsn;) {
      if (hasEnded || performance.now() > until) return false;
      this.stream.confirm(this.confirmed, true);
      await new Promise((resolve) => setTimeout(resolve, ASK_MS));
    }
    return true;
  }

  /** Stores what was received, and closes the connection. */
  async close(): Promise<void> {
    clearInterval(this.timer);
    // A failure is that of the reading, which has ended with it.
    await this.writing?.catch(() => {});
    // What is not confirmed is sent again.
    await this.confirm(true).catch(() => {});
    this.stream.close();
    await this.ended;
  }
}
