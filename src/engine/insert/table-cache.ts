/**
 * The columns of recently written tables, and what is prepared once for the inserts into each: encoders and queues of
 * COPY. An insert may use them only if its own transaction confirms the columns (`schemaUnchanged`), so that no change, on
 * this instance or another, can be missed.
 */
import { LRUCache } from 'lru-cache';
import { type BatchEncoder, batchEncoder, type EncodedBatch } from '../../codec/index.js';
import { Counts } from '../../counts.js';
import type { Statement } from '../../pg/index.js';
import { schemaUnchanged, type Table } from '../catalog/catalog.js';
import { CopyQueue, type TableWithCheck } from './copy-queue.js';
import type { WaitingWrites } from './write-queue.js';

/** Over all tables. A column takes about 2 KB, including its part of the encoder and the statements. */
const MAX_COLUMNS = 40_000;
/** The overhead of a table, counted in columns. */
const TABLE_COLUMNS = 10;

/** Maximum queues per table: each set of columns in a batch has one. */
const MAX_QUEUES = 16;

export class CachedTable implements TableWithCheck {
  readonly check: Statement;
  /** null: COPY into the table would behave differently from INSERT. */
  readonly encoder: BatchEncoder | null;
  /** The same for an upsert: it accepts only batches whose records all have the same columns. */
  readonly upsertEncoder: BatchEncoder | null;
  private readonly queues = new LRUCache<string, CopyQueue>({ max: MAX_QUEUES });

  constructor(
    readonly table: Table,
    private readonly waiting: WaitingWrites,
  ) {
    this.check = schemaUnchanged(table);
    this.encoder = table.needsInsert ? null : batchEncoder(table.columns, table.marksDefaults);
    this.upsertEncoder = table.needsInsert ? null : uniformEncoder(table);
  }

  /** The queue of batches with the columns and the format of these rows. */
  queueFor(rows: EncodedBatch): CopyQueue {
    const key = `${rows.format} ${rows.columns.join()}`;
    const existing = this.queues.get(key);
    if (existing !== undefined) return existing;
    const queue = new CopyQueue(this, rows, this.waiting);
    this.queues.set(key, queue);
    return queue;
  }
}

export class TableCache {
  private readonly tables = new LRUCache<string, CachedTable>({
    maxSize: MAX_COLUMNS,
    sizeCalculation: ({ table }) => TABLE_COLUMNS + table.columns.length,
  });

  private readonly waiting: WaitingWrites;

  /** @param maxWaiting the most batches of a project that may wait for COPYs */
  constructor(maxWaiting: number) {
    this.waiting = { counts: new Counts(), max: maxWaiting };
  }

  /** @param cacheKey of the project */
  get(cacheKey: string, tableName: string): CachedTable | undefined {
    return this.tables.get(`${cacheKey} ${tableName}`);
  }

  /** @returns what {@link get} returns from now on */
  remember(cacheKey: string, table: Table): CachedTable {
    const cached = this.get(cacheKey, table.name);
    // Concurrent requests get the same object, so that their batches can share COPYs.
    if (cached?.table.version === table.version) return cached;
    const added = new CachedTable(table, this.waiting);
    this.tables.set(`${cacheKey} ${table.name}`, added);
    return added;
  }

  /** Call this if the table has changed. What another request has cached since is kept. */
  forget(cacheKey: string, cached: CachedTable): void {
    const key = `${cacheKey} ${cached.table.name}`;
    if (this.tables.get(key) === cached) this.tables.delete(key);
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
