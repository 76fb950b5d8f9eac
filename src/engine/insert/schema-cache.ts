/**
 * Schemas of tables that were written to lately. One may serve an insert only if the insert's own transaction confirms
 * it (`schemaUnchanged`), so that no change made in between, here or elsewhere, can be missed.
 */
import { LRUCache } from 'lru-cache';
import { type BatchEncoder, batchEncoder, type EncodedBatch } from '../../codec/index.js';
import { type Fragment, ident, join, literal, sql, type Statement, type Step } from '../../pg/index.js';
import { schemaUnchanged, type Table } from '../catalog/catalog.js';
import { CopyQueue } from './copy-queue.js';

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

type CopyFormat = EncodedBatch['format'];

/** What the encoder writes for a default; in a value a backslash is doubled. */
const DEFAULT_MARK = '\\D';

const OPTIONS: Readonly<Record<CopyFormat, Fragment>> = {
  binary: sql`FORMAT binary`,
  text: sql`FORMAT text`,
  marked: sql`FORMAT text, DEFAULT ${literal(DEFAULT_MARK)}`,
};

/** Targets of a table that are kept: each set of columns that batches give is one. */
const MAX_TARGETS = 16;

/** Where COPY puts rows: some columns of a table, in one format. Batches with the same target can share a COPY. */
class CopyTarget {
  /** The batches on their way here. */
  readonly queue: CopyQueue;

  private constructor(
    private readonly text: string,
    private readonly format: CopyFormat,
    maxWaiting: number,
  ) {
    this.queue = new CopyQueue(maxWaiting);
  }

  /**
   * The targets of a table, by the columns and the format that the encoder gives.
   * @param maxWaiting batches that may wait for each
   */
  static of({ schema, name, columns }: Table, maxWaiting: number): (rows: EncodedBatch) => CopyTarget {
    const known = new LRUCache<string, CopyTarget>({ max: MAX_TARGETS });
    return ({ format, columns: given }) => {
      const key = `${format} ${given.join()}`;
      const found = known.get(key);
      if (found !== undefined) return found;
      const names = join(given.map((index) => ident(columns[index]?.name ?? '')));
      const copy = sql`COPY ${ident(schema, name)} (${names}) FROM STDIN (${OPTIONS[format]})`;
      const target = new CopyTarget(copy.text, format, maxWaiting);
      known.set(key, target);
      return target;
    };
  }

  /** The COPY of batches that were encoded for this target. */
  copy(batches: readonly EncodedBatch[]): Step {
    const data = batches.map((batch) => batch.data);
    return { text: this.text, params: [], data, ...(this.format === 'binary' && { format: this.format }) };
  }
}
