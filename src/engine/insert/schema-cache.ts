/**
 * Schemas of recently written tables. An insert may use one only if its own transaction confirms it
 * (`schemaUnchanged`), so that no change, on this instance or another, can be missed.
 */
import { LRUCache } from 'lru-cache';
import { type BatchEncoder, batchEncoder, type EncodedBatch } from '../../codec/index.js';
import { PostgresError, type Result, SQLSTATE, type Statement, type Step } from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { errorCode } from '../../tenancy/engine-error.js';
import { schemaUnchanged, type Table } from '../catalog/catalog.js';
import { resultsOf } from '../write/transaction.js';
import { type CopyOutcome, CopyTarget } from './copy-queue.js';
import { NO_RECORDS_FAULT } from './record-error.js';

export interface CachedSchema {
  readonly table: Table;
  /** null: COPY into the table would behave differently from INSERT, or its batches cannot be encoded. */
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
      targetOf: CopyTarget.of(table, this.maxWaiting),
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
const uniformEncoder = ({ columns }: Table): BatchEncoder | null =>
  batchEncoder(
    columns.map((column) => ({ ...column, hasDefault: true })),
    false,
  );

interface Checked {
  readonly outcome: CopyOutcome;
  /** Results of the steps; empty unless everything was stored. */
  readonly results: readonly Result[];
}

/**
 * Stores rows and confirms the schema in one round trip. The check follows the COPY or INSERT, whose lock prevents
 * changes until the end of the transaction.
 * @param end the rest of the current transaction, with its COMMIT; without a transaction, COPY and check form one
 */
export async function storeAndCheck(
  lease: Lease,
  { table, check }: CachedSchema,
  store: Step,
  end: readonly Statement[] = [],
): Promise<Checked> {
  const { session } = lease;
  if (table.runsProjectCode) lease.resetAfterUse();
  const steps = [store, check, ...end];
  const beforeCommit = end.length === 0 ? steps.length : steps.length - 1;
  const commits = end.length > 0 || !session.inTransaction;
  const ran = await session.pipeline(steps, { prepared: true });
  try {
    if (commits) return stored(resultsOf(session, ran, beforeCommit, end.length > 0));
    if (ran.error !== null) throw ran.error;
    return stored(ran.results);
  } catch (error) {
    // The table may have gained a trigger since then, whose effects on the session are not rolled back.
    lease.resetAfterUse();
    if (!(error instanceof PostgresError) || session.closed) throw error;
    // The check fails with a division by zero. One in a constraint or trigger fails earlier or later.
    if (error.sqlstate === SQLSTATE.DIVISION_BY_ZERO && ran.results.length === 1) return OUTDATED;
    if (mayBeARecord(error)) return REFUSED;
    throw error;
  }
}

/** Whether the checked path may find a record at fault. */
export const mayBeARecord = (error: PostgresError): boolean =>
  MAY_BE_A_RECORD.has(error.sqlstate) || !NO_RECORDS_FAULT.has(errorCode(error));

const stored = (results: readonly Result[]): Checked => ({ outcome: 'stored', results });
const OUTDATED: Checked = { outcome: 'outdated', results: [] };
const REFUSED: Checked = { outcome: 'refused', results: [] };

/** Binary data for a type that the column no longer has; a deadlock that arises only because batches share a COPY. */
const MAY_BE_A_RECORD = new Set<string>([SQLSTATE.PROTOCOL_VIOLATION, SQLSTATE.DEADLOCK_DETECTED]);
