/**
 * Schemas of tables that were written to lately. One may serve an insert only if the insert's own transaction confirms
 * it (`schemaUnchanged`), so that no change made in between, here or elsewhere, can be missed.
 */
import { LRUCache } from 'lru-cache';
import { type BatchEncoder, batchEncoder, type EncodedBatch } from '../../codec/index.js';
import type { Statement } from '../../pg/index.js';
import { schemaUnchanged, type Table } from '../catalog/catalog.js';
import { CopyTarget } from './copy-target.js';

export interface CachedSchema {
  readonly table: Table;
  /** null: COPY into the table does not do what an INSERT does, or its batches cannot be encoded. */
  readonly encoder: BatchEncoder | null;
  /** The same for an upsert: it takes only batches whose records all give the same columns. */
  readonly upsertEncoder: BatchEncoder | null;
  readonly targetOf: (rows: EncodedBatch) => CopyTarget;
  /** Run after a COPY, it confirms the schema. */
  readonly check: Statement;
}

/** Over all tables; one takes some 2 KB, with its part of the encoder and of the statements. */
const MAX_COLUMNS = 40_000;
/** What a table takes besides its columns, in columns. */
const TABLE_COLUMNS = 10;

export class SchemaCache {
  private readonly schemas = new LRUCache<string, CachedSchema>({
    maxSize: MAX_COLUMNS,
    sizeCalculation: ({ table }) => TABLE_COLUMNS + table.columns.length,
  });

  /** @param maxWaiting batches that may wait for the COPYs into one table to end */
  constructor(private readonly maxWaiting: number) {}

  /** @param project the one at its place */
  get(project: string, table: string): CachedSchema | undefined {
    return this.schemas.get(`${project} ${table}`);
  }

  /** @returns what {@link get} returns from now on */
  remember(project: string, table: Table): CachedSchema {
    const known = this.get(project, table.name);
    // Requests that look at the same time go on with the same object, so that their batches meet.
    if (known?.table.version === table.version) return known;
    const schema = {
      table,
      encoder: table.needsInsert ? null : batchEncoder(table.columns, table.marksDefaults),
      upsertEncoder: table.needsInsert ? null : uniformEncoder(table),
      targetOf: CopyTarget.of(table, this.maxWaiting),
      check: schemaUnchanged(table),
    };
    this.schemas.set(`${project} ${table.name}`, schema);
    return schema;
  }

  /** The table has changed. What others have learnt of it since then is kept. */
  forget(project: string, schema: CachedSchema): void {
    const key = `${project} ${schema.table.name}`;
    if (this.schemas.get(key) === schema) this.schemas.delete(key);
  }
}

/** To an upsert a column that a record does not give is no NULL. The encoder must not fill in any that has a default. */
const uniformEncoder = ({ columns }: Table): BatchEncoder | null =>
  batchEncoder(
    columns.map((column) => ({ ...column, hasDefault: true })),
    false,
  );
