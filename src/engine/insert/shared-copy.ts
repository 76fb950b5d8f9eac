/**
 * Batches to one table share a COPY: while one is on its way, those that come wait for its end and go together. COPYs
 * beside each other get in each other's way, at the end of the table and of its index, and each has a statement and a
 * commit of its own. Where many come at once they go in parts, so that Postgres stores some while the service reads the
 * others. Where a COPY takes long (it waits for a lock, or the disk), nobody waits for it, and while one takes very long
 * each batch goes alone. Each stays all or nothing: when a shared COPY fails, nothing of it was stored, and its batches
 * are sent one by one.
 */
import { EngineError } from '../../contract/errors.js';
import type { CopyData } from '../batch/copy/copy-encoder.js';
import { type Departure, STAYS } from '../admission/departure.js';
import type { Patience } from '../admission/patience.js';
import { Rounds, type Watched } from '../admission/rounds.js';
import type { RequestTrace } from '../trace.js';

/** Behind a COPY that takes longer nobody waits any more, except where so many are under way. */
const SLOW_MS = 20;
const MAX_UNDER_WAY = 4;
/** Where one took so long (its rows are slow to check), what it shared with others would take the time of all of them. */
const VERY_SLOW_MS = 1_000;

/** So many batches at once are a crowd. */
const CROWD = 4;
/** How many there were at once before counts for so much of it with each COPY. */
const FADING = 0.9;

/** How batches of a kind share. */
interface Kind {
  /** In how many parts a crowd goes, and how many COPYs Postgres is given to store at once. */
  readonly parts: number;
  /** Fewer do not make up for a COPY beside another. */
  readonly fewest: number;
}

/** A COPY of small batches costs more by itself than by what is in it: two keep Postgres at work. */
export const SMALL: Kind = { parts: 2, fewest: CROWD };
/** One of these is worth a COPY. */
export const LARGE: Kind = { parts: MAX_UNDER_WAY, fewest: 1 };

/** Records and bytes of one shared COPY. */
const MAX_RECORDS = 1_000;
const MAX_BYTES = 256 * 1024;
/** What is larger goes alone: others beside it would be few, and it would keep them waiting while it is read. */
export const MAX_SHARED_BYTES = MAX_BYTES / 2;

/** A batch with the trace of its request, if that is traced. */
export interface WaitingBatch extends CopyData {
  readonly trace: RequestTrace | null;
}

/** Sends batches in one transaction. @returns false where Postgres refused it and nothing was stored */
export type SendBatches = (batches: readonly WaitingBatch[], signal: Departure) => Promise<boolean>;

export interface WaitLimits {
  /** Batches that may wait for one table. */
  waiting: number;
}

interface Member extends Watched {
  readonly batch: WaitingBatch;
  readonly signal: Departure;
  readonly send: SendBatches;
  /** Its wait is over. */
  leaves(): void;
  resolve(stored: boolean | Promise<boolean>): void;
  reject(error: unknown): void;
}

export class SharedCopy {
  private underWay = 0;
  private waiting: Member[] = [];
  private waitingRecords = 0;
  private waitingBytes = 0;
  /** Batches that are on their way. */
  private sent = 0;
  /** As many as were lately on their way or waiting at once. */
  private crowd = 0;
  private isVerySlow = false;
  private isGathering = false;
  private readonly rounds = new Rounds<Member>();

  constructor(
    private readonly limits: WaitLimits,
    private readonly kind: Kind,
  ) {}

  /**
   * @param patience what the request has left of it
   * @param send how this batch goes out, alone or with those that wait behind it
   * @returns false where Postgres refused this batch
   * @throws EngineError overloaded, and what `send` throws
   */
  store(batch: WaitingBatch, signal: Departure, patience: Patience, send: SendBatches): Promise<boolean> {
    const isFree = this.crowd < CROWD && (this.underWay === 0 || this.kind.fewest === 1);
    if (isFree || this.isVerySlow) return this.sendNow([batch], signal, send);
    if (this.waiting.length >= this.limits.waiting) return Promise.reject(TOO_MANY_WAIT);
    const since = performance.now();
    const due = since + patience.ms;
    const waited = patience.wait();
    const wait = batch.trace?.waits();
    return new Promise((resolve, reject) => {
      const member: Member = {
        batch,
        signal,
        send,
        resolve,
        reject,
        leaves: () => {
          this.waits(batch, -1);
          waited();
          wait?.end();
          this.rounds.delete(member);
        },
        look: (now) => {
          if (signal.aborted || now >= due) {
            this.waiting.splice(this.waiting.indexOf(member), 1);
            member.leaves();
            reject(TOO_MANY_WAIT);
          } else if (now >= since + SLOW_MS && this.underWay < MAX_UNDER_WAY) this.sendWaiting();
        },
      };
      this.waiting.push(member);
      this.waits(batch, 1);
      this.rounds.add(member);
      this.gather();
    });
  }

  /** @param by one more, or one less */
  private waits({ records, data }: WaitingBatch, by: 1 | -1): void {
    this.waitingRecords += by * records;
    this.waitingBytes += by * data.length;
  }

  /** A part of a crowd goes as soon as it is there, what comes behind it at the end of this turn of the event loop. */
  private gather(): void {
    const { parts, fewest } = this.kind;
    const isPart = this.waiting.length >= Math.max(fewest, this.crowd / parts);
    const isFull = this.waitingRecords >= MAX_RECORDS || this.waitingBytes >= MAX_BYTES;
    if ((isPart || isFull) && this.underWay < parts) this.sendWaiting();
    else if (this.underWay === 0 && !this.isGathering) {
      this.isGathering = true;
      setImmediate(() => {
        this.isGathering = false;
        if (this.underWay === 0) this.sendWaiting();
      });
    }
  }

  private async sendNow(batches: readonly WaitingBatch[], signal: Departure, send: SendBatches): Promise<boolean> {
    this.underWay++;
    this.sent += batches.length;
    this.crowd = Math.max(this.sent + this.waiting.length, this.crowd * FADING);
    const since = performance.now();
    try {
      return await send(batches, signal);
    } finally {
      this.sent -= batches.length;
      this.isVerySlow = performance.now() >= since + VERY_SLOW_MS;
      // Whatever else this turn of the event loop reads goes with those that wait: fewer COPYs cost less.
      if (this.waiting.length > 0) setImmediate(() => this.sendNext());
      else this.underWay--;
    }
  }

  private sendNext(): void {
    this.underWay--;
    this.sendWaiting();
  }

  /** Sends what waits: as much as fits into one COPY, or all of it, each alone. */
  private sendWaiting(): void {
    if (this.isVerySlow) while (this.waiting.length > 0) this.take(1);
    else this.take(this.fitting());
  }

  private fitting(): number {
    let records = 0;
    let bytes = 0;
    let count = 0;
    for (const { batch } of this.waiting) {
      records += batch.records;
      bytes += batch.data.length;
      if (count > 0 && (records > MAX_RECORDS || bytes > MAX_BYTES)) break;
      count++;
    }
    return count;
  }

  private take(count: number): void {
    if (count === 0) return;
    const members = this.waiting.splice(0, count);
    for (const member of members) member.leaves();
    void this.sendTogether(members);
  }

  private async sendTogether(members: readonly Member[]): Promise<void> {
    const [first] = members as [Member];
    if (members.length === 1) return first.resolve(this.sendNow([first.batch], first.signal, first.send));
    try {
      // Nobody's leaving undoes what others wait for.
      const batches = members.map(({ batch }) => batch);
      const stored = await this.sendNow(batches, STAYS, first.send);
      for (const member of members) {
        member.resolve(stored || this.sendNow([member.batch], member.signal, member.send));
      }
    } catch (error) {
      for (const member of members) member.reject(error);
    }
  }
}

/** One for all: the stack of each would cost more than the rest of a refusal. */
const TOO_MANY_WAIT = new EngineError('overloaded', 'Too many batches to this table are waiting', {
  retryAfter: 1,
});
