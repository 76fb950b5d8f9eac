/** Batches with the same columns share COPYs. */
import type { EncodedBatch } from '../../codec/index.js';
import { type Fragment, ident, join, literal, sql, type Statement, type Step } from '../../pg/index.js';
import type { Table } from '../catalog/catalog.js';
import type { Project } from '../../db/project.js';
import { resetIfCodeRuns, endByStoring, type StoreOutcome } from './store-rows.js';
import { type SharedWrite, type WaitingWrites, WriteQueue } from './write-queue.js';

/** The encoder's mark for a default; in a value, a backslash is doubled. */
const DEFAULT_MARK = '\\D';

const COPY_OPTIONS: Readonly<Record<EncodedBatch['format'], Fragment>> = {
  binary: sql`FORMAT binary`,
  text: sql`FORMAT text`,
  marked: sql`FORMAT text, DEFAULT ${literal(DEFAULT_MARK)}`,
};

interface QueuedBatch {
  readonly encoded: EncodedBatch;
  readonly project: Project;
  /** See {@link SharedWrite.signal}. */
  readonly signal: AbortSignal;
}

export interface TableWithCheck {
  readonly table: Table;
  /** Confirms the schema if it runs after the rows were stored. */
  readonly check: Statement;
}

export class CopyQueue {
  /** The COPY, without data. */
  private readonly copy: Step;
  private readonly queue: WriteQueue<QueuedBatch & SharedWrite>;

  /** @param encoded a batch; the queue takes batches with the same columns and format */
  constructor({ table, check }: TableWithCheck, { format, columns }: EncodedBatch, waiting: WaitingWrites) {
    const names = join(columns.map((index) => ident(table.columns[index]?.name ?? '')));
    const { text } = sql`COPY ${ident(table.schema, table.name)} (${names}) FROM STDIN (${COPY_OPTIONS[format]})`;
    this.copy = { text, params: [], ...(format === 'binary' && { format }) };
    this.queue = new WriteQueue(waiting, (db, batches) => {
      resetIfCodeRuns(db, table, false);
      const copy = this.copyOf(batches.map(({ encoded }) => encoded));
      return endByStoring(copy, check, { response: null, resultOf: (results) => results });
    });
  }

  copyOf(batches: readonly EncodedBatch[]): Step {
    return { ...this.copy, data: batches.map(({ data }) => data) };
  }

  /**
   * Stores the batch, perhaps in one COPY with others.
   * @throws EngineError overloaded, and what `Project.write` throws
   */
  store(batch: QueuedBatch): Promise<StoreOutcome> {
    const { recordCount, data } = batch.encoded;
    return this.queue.add({ ...batch, records: recordCount, bytes: data.length });
  }
}
