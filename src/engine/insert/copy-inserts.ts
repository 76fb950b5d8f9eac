/** What the fast inserts of a service share: the encoder, and the batches that are under way. */
import type { ColumnSet } from '../batch/copy/column-sets.js';
import { CopyEncoder } from '../batch/copy/copy-encoder.js';
import { LARGE, SharedCopy, SMALL, type WaitLimits } from './shared-copy.js';

/** More records take Postgres longer than the statement and the commit around them. */
const SMALL_RECORDS = 25;

/** Where batches of the same columns meet: one kind would wait for the other. */
interface MeetingPoint {
  readonly small: SharedCopy;
  readonly large: SharedCopy;
}

export class CopyInserts {
  /** It works through a body at a time, without waiting for anything in between. */
  readonly encoder = new CopyEncoder();
  private readonly meetingPoints = new WeakMap<ColumnSet, MeetingPoint>();

  constructor(private readonly limits: WaitLimits) {}

  /** Where a batch meets others that it can share a COPY with. */
  sharedBy(columns: ColumnSet, records: number): SharedCopy {
    let point = this.meetingPoints.get(columns);
    if (point === undefined) {
      point = { small: new SharedCopy(this.limits, SMALL), large: new SharedCopy(this.limits, LARGE) };
      this.meetingPoints.set(columns, point);
    }
    return records > SMALL_RECORDS ? point.large : point.small;
  }
}
