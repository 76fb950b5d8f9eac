/** A request to insert a batch, as the steps of an insert pass it on. */
import type { Deadline } from '../limits/deadline.js';
import type { Project } from '../project.js';
import type { IdempotencyKey } from '../write/idempotency.js';
import type { UpsertRule } from './upsert.js';

export interface InsertRequest {
  readonly project: Project;
  readonly tableName: string;
  /** Decoded: a JSON array of records. */
  readonly body: Buffer;
  readonly deadline: Deadline;
  /** Return the ids as well. */
  readonly returnIds: boolean;
  readonly idempotency: IdempotencyKey | null;
  /** What to do with a row that has the key of a record; null: refuse the record. */
  readonly upsert: UpsertRule | null;
  /** Store the valid records, and quarantine the others. */
  readonly quarantine: boolean;
}
