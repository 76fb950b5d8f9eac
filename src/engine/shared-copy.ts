/**
 * Small batches to one table share a COPY while others are on their way (a request never waits for a timer, only for a
 * connection that is at work anyway). Each stays all or nothing: when a shared COPY fails, nothing of it was stored, and
 * its batches are sent one by one.
 */
import { EngineError } from '../contract/errors.js';
import type { CopyData } from './batch/copy/copy-encoder.js';
import { ClientDeparture, type Departure } from './departure.js';
import type { Patience } from './patience.js';

/** COPYs of one table under way before further small batches wait to share the next one. */
const UNDER_WAY = 2;

/** Records and bytes of one shared COPY. */
const MOST_RECORDS = 1_000;
const MOST_BYTES = 1024 * 1024;

/** Sends batches in one COPY. @returns false where Postgres refused it and nothing was stored */
export type SendCopies = (batches: readonly CopyData[], signal: Departure) => Promise<boolean>;

export interface WaitLimits {
  /** Batches that may wait for one table. */
  waiting: number;
}

interface Member {
  readonly text: CopyData;
  readonly signal: Departure;
  readonly send: SendCopies;
  settle(stored: Promise<boolean>): void;
}

export class SharedCopy {
  private underWay = 0;
  private waiting: Member[] = [];

  constructor(private readonly limits: WaitLimits) {}

  /** True while nothing is under way: it may be forgotten. */
  get isIdle(): boolean {
    return this.underWay === 0;
  }

  /**
   * @param patience what the request has left of it
   * @param send how this batch goes out, alone or with those that wait behind it
   * @returns false where Postgres refused this batch
   * @throws EngineError overloaded, and what `send` throws
   */
  store(text: CopyData, signal: Departure, patience: Patience, send: SendCopies): Promise<boolean> {
    if (this.underWay < UNDER_WAY) return this.sendTogether([text], signal, send);
    if (this.waiting.length >= this.limits.waiting) throw overloaded();
    const waited = patience.wait();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => leave(overloaded()), patience.ms);
      const onAbort = () => leave(overloaded());
      const leave = (error: EngineError) => {
        this.waiting.splice(this.waiting.indexOf(member), 1);
        member.settle(Promise.reject(error));
      };
      const member: Member = {
        text,
        signal,
        send,
        settle: (stored) => {
          clearTimeout(timer);
          waited();
          signal.removeEventListener('abort', onAbort);
          stored.then(resolve, reject);
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      this.waiting.push(member);
    });
  }

  private async sendTogether(texts: readonly CopyData[], signal: Departure, send: SendCopies): Promise<boolean> {
    this.underWay++;
    try {
      return await send(texts, signal);
    } finally {
      this.underWay--;
      this.sendWaiting();
    }
  }

  /** Takes what waits, as far as it fits into one COPY, and sends it. */
  private sendWaiting(): void {
    let records = 0;
    let bytes = 0;
    let count = 0;
    for (const { text } of this.waiting) {
      records += text.records;
      bytes += text.data.length;
      if (count > 0 && (records > MOST_RECORDS || bytes > MOST_BYTES)) break;
      count++;
    }
    const members = this.waiting.splice(0, count);
    const [only] = members;
    if (only === undefined) return;
    if (members.length === 1) return only.settle(this.sendTogether([only.text], only.signal, only.send));
    // Nobody's leaving undoes what others wait for.
    const texts = members.map(({ text }) => text);
    const together = this.sendTogether(texts, NEVER, only.send);
    for (const member of members) {
      member.settle(together.then((stored) => stored || this.sendTogether([member.text], member.signal, member.send)));
    }
  }
}

const NEVER: Departure = new ClientDeparture();

const overloaded = () =>
  new EngineError('overloaded', 'Too many small batches to this table are waiting', { retryAfter: 1 });
