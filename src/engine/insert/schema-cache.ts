/**
 * Schemas of recently written tables, and what is prepared once for the inserts into each: encoders and COPY
 * statements. An insert may use them only if its own transaction confirms the schema (`schemaUnchanged`), so that no
 * change, on this instance or another, can be missed.
 */
import { LRUCache } from 'lru-cache';
import { type BatchEncoder, batchEncoder, type EncodedBatch } from '../../codec/index.js';
import { Counts } from '../../contract/counts.js';
import { type Fragment, ident, join, literal, sql, type Step } from '../../pg/index.js';
import { schemaUnchanged, type Table } from '../catalog/catalog.js';
import { CopyQueue, type WaitingBatches } from './copy-queue.js';
import type { TableWithCheck } from './store-rows.js';

export interface CachedSchema extends TableWithCheck {
  /** null: COPY into the table would behave differently from INSERT. */
  readonly encoder: BatchEncoder | null;
  /** The same for an upsert: it accepts only batches whose records all have the same columns. */
  readonly upsertEncoder: BatchEncoder | null;
  readonly targetOf: (rows: EncodedBatch) => CopyTarget;
}

/** Over all tables. A column takes about 2 KB, including its part of the encoder and the statements. */
const MAX_COLUMNS = 40_000;
/** The overhead of a table, counted in columns. */
const TABLE_COLUMNS = 10;

/** A COPY into some columns of a table, in one format. */
export interface CopyTarget {
  /** The COPY of batches that were encoded for this target. */
  readonly stepOf: (rows: readonly EncodedBatch[]) => Step;
  readonly queue: CopyQueue;
}

/** Maximum number of targets kept per table: each set of columns in a batch is one. */
const MAX_TARGETS = 16;

/** The encoder's mark for a default; in a value, a backslash is doubled. */
const DEFAULT_MARK = '\\D';

const COPY_OPTIONS: Readonly<Record<EncodedBatch['format'], Fragment>> = {
  binary: sql`FORMAT binary`,
  text: sql`FORMAT text`,
  marked: sql`FORMAT text, DEFAULT ${literal(DEFAULT_MARK)}`,
};

export class SchemaCache {
  private readonly schemas = new LRUCache<string, CachedSchema>({
    maxSize: MAX_COLUMNS,
    sizeCalculation: ({ table }) => TABLE_COLUMNS + table.columns.length,
  });

  private readonly waiting: WaitingBatches;

  /** @param maxWaiting maximum number of batches of a project that wait for COPYs */
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
    const withCheck = { table, check: schemaUnchanged(table) };
    const schema = {
      ...withCheck,
      encoder: table.needsInsert ? null : batchEncoder(table.columns, table.marksDefaults),
      upsertEncoder: table.needsInsert ? null : uniformEncoder(table),
      targetOf: copyTargets(withCheck, this.waiting),
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

/** @returns finds the target for the columns and format of a batch */
function copyTargets(table: TableWithCheck, waiting: WaitingBatches): (rows: EncodedBatch) => CopyTarget {
  const { schema, name, columns } = table.table;
  const targets = new LRUCache<string, CopyTarget>({ max: MAX_TARGETS });
  return ({ format, columns: given }) => {
    const key = `${format} ${given.join()}`;
    const known = targets.get(key);
    if (known !== undefined) return known;
    const names = join(given.map((index) => ident(columns[index]?.name ?? '')));
    const { text } = sql`COPY ${ident(schema, name)} (${names}) FROM STDIN (${COPY_OPTIONS[format]})`;
    const stepOf = (batches: readonly EncodedBatch[]): Step => {
      const data = batches.map((batch) => batch.data);
      return { text, params: [], data, ...(format === 'binary' && { format }) };
    };
    const target = { stepOf, queue: new CopyQueue(table, stepOf, waiting) };
    targets.set(key, target);
    return target;
  };
}
