/** What the fast inserts of a service share: the encoder, and the small batches that are under way. */
import { CopyEncoder } from './batch/copy/copy-encoder.js';
import type { Departure } from './departure.js';
import type { Patience } from './patience.js';
import { type SendCopies, SharedCopy, type WaitingBatch, type WaitLimits } from './shared-copy.js';

export class CopyInserts {
  /** It works through a body at a time, without waiting for anything in between. */
  readonly encoder = new CopyEncoder();
  /** Small batches under way, by the shape and the columns they are for. */
  private readonly shared = new Map<string, SharedCopy>();

  constructor(private readonly limits: WaitLimits) {}

  async storeShared(
    key: string,
    text: WaitingBatch,
    signal: Departure,
    patience: Patience,
    send: SendCopies,
  ): Promise<boolean> {
    const copies = this.shared.get(key) ?? new SharedCopy(this.limits);
    this.shared.set(key, copies);
    try {
      return await copies.store(text, signal, patience, send);
    } finally {
      if (copies.isIdle) this.shared.delete(key);
    }
  }
}
