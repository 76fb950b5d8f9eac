/**
 * Schemas of tables that were written to lately. One may serve an insert only if the insert's own transaction confirms
 * it (`schemaUnchanged`), so that no change made in between, here or elsewhere, can be missed.
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

/**
 * To an upsert a column that a record does not give is no NULL. The encoder must not fill in any that has a default.
 */
const uniformEncoder = ({ columns }: Table): BatchEncoder | null =>
  batchEncoder(
    columns.map((column) => ({ ...column, hasDefault: true })),
    false,
  );

interface Checked {
  readonly outcome: CopyOutcome;
  /** Of the steps; empty unless all was stored. */
  readonly results: readonly Result[];
}

/**
 * Stores rows and confirms the schema, in one round trip. The lock of the COPY, or INSERT, keeps the schema as it is
 * until the end of the transaction, so the check comes after it.
 * @param end the rest of the transaction that is under way, with its COMMIT; if none is under way, COPY and check are
 * one by themselves
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
    // The table may have got a trigger since it was looked at, and what that did to the session is not rolled back.
    lease.resetAfterUse();
    if (!(error instanceof PostgresError) || session.closed) throw error;
    // The check fails by a division; one in a constraint or a trigger fails before it or after it.
    if (error.sqlstate === SQLSTATE.DIVISION_BY_ZERO && ran.results.length === 1) return OUTDATED;
    if (MAY_BE_A_RECORD.has(error.sqlstate) || !NO_RECORDS_FAULT.has(errorCode(error))) return REFUSED;
    throw error;
  }
}

const stored = (results: readonly Result[]): Checked => ({ outcome: 'stored', results });
const OUTDATED: Checked = { outcome: 'outdated', results: [] };
const REFUSED: Checked = { outcome: 'refused', results: [] };

/**
 * Binary data for a type that the column does not have any more; batches that wait for one other each, which only in a
 * shared COPY have more than one to wait for.
 */
const MAY_BE_A_RECORD = new Set<string>([SQLSTATE.PROTOCOL_VIOLATION, SQLSTATE.DEADLOCK_DETECTED]);
