/**
 * Results of free SQL as one answer: rows become JSON bytes as they arrive, and what is past the caps is not fetched from
 * Postgres (contract section 7).
 */
import { LIMITS } from '../../contract/limits.js';
import { type RowEncoder, rowEncoder } from '../../codec/index.js';
import type { Answered, IdempotencyKey } from '../idempotency.js';
import type { Project } from '../project.js';
import { isConstantQuery, runConstantQuery } from './constant-query.js';
import { RowCollector } from './row-collector.js';
import { type DescribedStatement, runSql } from './run-sql.js';
import { rejectOtherEncoding } from './sql-rules.js';
import { type CollectRequest, columnsJson, MODIFYING, type SqlResult, sqlResult } from './sql-result.js';
import { STORED_RESULTS } from './stored-results.js';
import { mainKeyword } from './keywords.js';

/** Rows of the first step: enough to learn how long a row is. */
const FIRST_STEP = 16;

/**
 * @param key Idempotency-Key of a request that is not read-only
 * @returns one result for each statement
 * @throws EngineError see {@link runSql}; result_too_large
 */
export async function collectSql(
  project: Project,
  request: CollectRequest,
  key: IdempotencyKey | null = null,
): Promise<Answered<SqlResult[]>> {
  if (key === null && project.rehearsal === null && isConstantQuery(request)) {
    return { answer: [await runConstantQuery(project, request)], replayed: false };
  }
  let bytesLeft = request.maxBytes ?? LIMITS.resultBytes;
  const execute = async (prepared: DescribedStatement): Promise<SqlResult> => {
    const result = await collect(project, prepared, request, bytesLeft);
    bytesLeft -= Math.max(0, (result.rows?.length ?? 0) - 1);
    return result;
  };
  return runSql(project, request, execute, key && { ...STORED_RESULTS, key });
}

async function collect(
  project: Project,
  prepared: DescribedStatement,
  { maxRows, rowMode, numbers }: CollectRequest,
  maxBytes: number,
): Promise<SqlResult> {
  const { session, columns, text } = prepared;
  const encoder = rowEncoder(columns ?? [], 'list', rowMode, numbers);
  const { rows, tag } = await collectRows(project, prepared, encoder, maxRows, maxBytes);
  return sqlResult(text, tag, columns === null ? null : rows, await columnsJson(session, columns));
}

/**
 * The rows of a statement as JSON, up to the caps.
 * @returns with the command tag, or null if the rows were cut off before the statement ended
 * @throws PostgresError, ConnectionLost, MessageTooLarge; EngineError statement_not_allowed
 */
export async function collectRows(
  project: Project,
  prepared: DescribedStatement,
  encoder: RowEncoder,
  maxRows: number,
  maxBytes: number,
): Promise<{ rows: RowCollector; tag: string | null }> {
  const rows = new RowCollector(encoder, maxRows, maxBytes);
  const tag = await fetchInSteps(project, prepared, encoder.formats, rows, maxRows);
  for (const bytes of rows.bytes.buffers) rejectOtherEncoding(bytes);
  return { rows, tag };
}

/** @returns the command tag, or null if the rows were cut off before the statement ended */
async function fetchInSteps(
  project: Project,
  { session, clock, columns, params, inTransaction, text }: DescribedStatement,
  formats: readonly number[],
  rows: RowCollector,
  maxRows: number,
): Promise<string | null> {
  // Without a transaction around it the portal ends with its first step.
  const step = inTransaction && columns !== null ? Math.min(FIRST_STEP, maxRows) : 0;
  let tag = await session.fetch(params, formats, step, rows.takeRows);
  while (tag === null && !rows.truncated) {
    const pause = project.throttle(rows.newBytes());
    if (pause !== undefined) {
      // The statement's time does not run while other projects have their turn.
      clock.pause();
      await pause;
      clock.resume();
    }
    // After a full answer one more row is fetched, only to learn whether there is one.
    tag = await session.fetchMore(rows.nextStep(), rows.takeRows);
  }
  if (tag !== null) return tag;
  // INSERT … RETURNING and the like have made all rows already, and EXECUTE may stand for one of them. The end tells what it
  // was, and how many rows there are.
  const keyword = mainKeyword(text);
  if (MODIFYING.has(keyword) || keyword === 'EXECUTE') tag = await session.fetchMore(0, rows.takeRows);
  return tag;
}
