/** Runs every schema change: a write with a short lock timeout, and a limit on how long it holds the table. */
import { EngineError } from '../../contract/errors.js';
import type { Schema } from '../../contract/schema.js';
import type { IdempotencyKey, Replayable } from '../../db/idempotency.js';
import type { Project, WriteOptions } from '../../db/project.js';
import type { Growth } from '../../db/quota.js';
import type { WriteWork } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { functionsThatMention } from '../catalog/project-code.js';
import { fixed, SQLSTATE } from '../../pg/index.js';

export interface SchemaOptions {
  /** A change that scans or rewrites a table is rolled back after this time (contract C6.17). */
  holdMs: number;
  signal: AbortSignal;
}

export interface ChangeOptions extends SchemaOptions {
  key?: IdempotencyKey | null;
}

/** How long DDL waits for a lock (contract C6.16). */
const LOCK_TIMEOUT_MS = 2_000;

const SHORT_WAIT = fixed(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);

/**
 * Runs a change.
 * @throws EngineError table_busy, and what `work` throws; quota_exceeded if it grows; with a key also
 * request_in_flight, idempotency_key_reused, key_settled
 */
export async function schemaChange<A>(
  project: Project,
  { holdMs, signal, key = null }: ChangeOptions,
  responseSchema: Schema<A>,
  growth: Growth,
  work: WriteWork<A, Replayable<A>>,
): Promise<Replayable<A>> {
  const timeoutError = () =>
    new EngineError(
      'table_busy',
      `The change would have held the table for more than ${holdMs} ms and was rolled back`,
    );
  const underKey = { key, responseSchema };
  const options: WriteOptions<A> = {
    signal,
    timeoutMs: holdMs,
    timeoutError,
    underKey,
    growth,
    afterBegin: [SHORT_WAIT],
  };
  return project.write(options, work).catch((error: unknown) => {
    throw withoutCascade(error);
  });
}

/** Postgres's hint is DROP … CASCADE, which no call of the schema has. */
function withoutCascade(error: unknown): unknown {
  if (error instanceof EngineError && error.postgres?.sqlstate === SQLSTATE.DEPENDENT_OBJECTS_STILL_EXIST)
    error.hint = 'Drop those first, or all of them with SQL: POST /api/cdp/sql {"sql": "DROP … CASCADE"}.';
  return error;
}

/** For a dry run: names what would not follow the new name. @param word a table's or a column's old name */
export async function noteMentions(
  db: QueryRunner,
  { dryRun, schema }: Project,
  table: string,
  word: string,
): Promise<void> {
  if (dryRun === null) return;
  const rows = await db.query(functionsThatMention(schema, table, word));
  dryRun.mentions = rows.map(([name, triggers]) => ({
    function: name ?? '',
    triggers: JSON.parse(triggers ?? '[]') as string[],
  }));
}

export function schemaRead<T>(
  project: Project,
  { holdMs, signal }: SchemaOptions,
  work: (db: QueryRunner) => Promise<T>,
): Promise<T> {
  const timeoutError = () => new EngineError('query_timeout', 'Reading the schema took too long');
  return project.read({ connection: 'write-unless-fenced', signal, timeoutMs: holdMs, timeoutError }, work);
}
