/** What the fast inserts of a service share: the encoder, and the batches that are under way. */
import type { ColumnSet } from '../batch/copy/column-sets.js';
import { CopyEncoder } from '../batch/copy/copy-encoder.js';
import { SharedCopy, type WaitLimits } from './shared-copy.js';

export class CopyInserts {
  /** It works through a body at a time, without waiting for anything in between. */
  readonly encoder = new CopyEncoder();
  private readonly shared = new WeakMap<ColumnSet, SharedCopy>();

  constructor(private readonly limits: WaitLimits) {}

  /** Where batches of the same columns meet. */
  sharedBy(columns: ColumnSet): SharedCopy {
    let shared = this.shared.get(columns);
    if (shared === undefined) {
      shared = new SharedCopy(this.limits);
      this.shared.set(columns, shared);
    }
    return shared;
  }
}
