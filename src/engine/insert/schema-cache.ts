/**
 * Schemas of recently written tables, and what is prepared once for the inserts into each: encoders and queues of COPY.
 * An insert may use them only if its own transaction confirms the schema (`schemaUnchanged`), so that no change, on this
 * instance or another, can be missed.
 */
import { LRUCache } from 'lru-cache';
import { type BatchEncoder, batchEncoder, type EncodedBatch } from '../../codec/index.js';
import { Counts } from '../../contract/counts.js';
import type { Statement } from '../../pg/index.js';
import { schemaUnchanged, type Table } from '../catalog/catalog.js';
import { CopyQueue, type TableWithCheck, type WaitingBatches } from './copy-queue.js';

/** Over all tables. A column takes about 2 KB, including its part of the encoder and the statements. */
const MAX_COLUMNS = 40_000;
/** The overhead of a table, counted in columns. */
const TABLE_COLUMNS = 10;

/** Maximum queues per table: each set of columns in a batch has one. */
const MAX_QUEUES = 16;

export class CachedSchema implements TableWithCheck {
  readonly check: Statement;
  /** null: COPY into the table would behave differently from INSERT. */
  readonly encoder: BatchEncoder | null;
  /** The same for an upsert: it accepts only batches whose records all have the same columns. */
  readonly upsertEncoder: BatchEncoder | null;
  private readonly queues = new LRUCache<string, CopyQueue>({ max: MAX_QUEUES });

  constructor(
    readonly table: Table,
    private readonly waiting: WaitingBatches,
  ) {
    this.check = schemaUnchanged(table);
    this.encoder = table.needsInsert ? null : batchEncoder(table.columns, table.marksDefaults);
    this.upsertEncoder = table.needsInsert ? null : uniformEncoder(table);
  }

  /** The queue of batches with the columns and the format of these rows. */
  queueFor(rows: EncodedBatch): CopyQueue {
    const key = `${rows.format} ${rows.columns.join()}`;
    const known = this.queues.get(key);
    if (known !== undefined) return known;
    const queue = new CopyQueue(this, rows, this.waiting);
    this.queues.set(key, queue);
    return queue;
  }
}

export class SchemaCache {
  private readonly schemas = new LRUCache<string, CachedSchema>({
    maxSize: MAX_COLUMNS,
    sizeCalculation: ({ table }) => TABLE_COLUMNS + table.columns.length,
  });

  private readonly waiting: WaitingBatches;

  /** @param maxWaiting the most batches of a project that may wait for COPYs */
  constructor(maxWaiting: number) {
    this.waiting = { counts: new Counts(), max: maxWaiting };
  }

  /** @param project its `cacheKey` */
  get(project: string, table: string): CachedSchema | undefined {
    return this.schemas.get(`${project} ${table}`);
  }

  /** @returns what {@link get} returns from now on */
  remember(project: string, table: Table): CachedSchema {
    const known = this.get(project, table.name);
    // Concurrent requests get the same object, so that their batches can share COPYs.
    if (known?.table.version === table.version) return known;
    const schema = new CachedSchema(table, this.waiting);
    this.schemas.set(`${project} ${table.name}`, schema);
    return schema;
  }

  /** Call this if the table has changed. A newer schema that another request has cached is kept. */
  forget(project: string, schema: CachedSchema): void {
    const key = `${project} ${schema.table.name}`;
    if (this.schemas.get(key) === schema) this.schemas.delete(key);
  }
}

/**
 * In an upsert, a column that a record lacks is not NULL. The encoder must not fill in a column that has a default.
 */
const uniformEncoder = ({ columns }: Table): BatchEncoder =>
  batchEncoder(
    columns.map((column) => ({ ...column, hasDefault: true })),
    false,
  );
