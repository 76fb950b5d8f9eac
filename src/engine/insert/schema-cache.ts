/**
 * Schemas of recently written tables, and what is prepared once for the inserts into each: encoders and COPY
 * statements. An insert may use them only if its own transaction confirms the schema (`schemaUnchanged`), so that no
 * change, on this instance or another, can be missed.
 */
import { LRUCache } from 'lru-cache';
import { type BatchEncoder, batchEncoder, type EncodedBatch } from '../../codec/index.js';
import type { Statement } from '../../pg/index.js';
import { schemaUnchanged, type Table } from '../catalog/catalog.js';
import { type CopyTarget, copyTargets } from './copy-target.js';

export interface CachedSchema {
  readonly table: Table;
  /** null: COPY into the table would behave differently from INSERT. */
  readonly encoder: BatchEncoder | null;
  /** The same for an upsert: it accepts only batches whose records all have the same columns. */
  readonly upsertEncoder: BatchEncoder | null;
  readonly targetOf: (rows: EncodedBatch) => CopyTarget;
  /** Confirms the schema if it runs after a COPY. */
  readonly check: Statement;
}

/** Over all tables. A column takes about 2 KB, including its part of the encoder and the statements. */
const MAX_COLUMNS = 40_000;
/** The overhead of a table, counted in columns. */
const TABLE_COLUMNS = 10;

export class SchemaCache {
  private readonly schemas = new LRUCache<string, CachedSchema>({
    maxSize: MAX_COLUMNS,
    sizeCalculation: ({ table }) => TABLE_COLUMNS + table.columns.length,
  });

  /** @param maxWaiting the most batches that may wait for the COPYs into one table */
  constructor(private readonly maxWaiting: number) {}

  /** @param project its `cacheKey` */
  get(project: string, table: string): CachedSchema | undefined {
    return this.schemas.get(`${project} ${table}`);
  }

  /** @returns what {@link get} returns from now on */
  remember(project: string, table: Table): CachedSchema {
    const known = this.get(project, table.name);
    // Concurrent requests get the same object, so that their batches can share COPYs.
    if (known?.table.version === table.version) return known;
    const schema = {
      table,
      encoder: table.needsInsert ? null : batchEncoder(table.columns, table.marksDefaults),
      upsertEncoder: table.needsInsert ? null : uniformEncoder(table),
      targetOf: copyTargets(table, this.maxWaiting),
      check: schemaUnchanged(table),
    };
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
