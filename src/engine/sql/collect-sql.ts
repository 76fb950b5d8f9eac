/** Collects the results of free SQL into one response, up to the caps (contract section 7). */
import { LIMITS } from '../../contract/limits.js';
import { rowEncoder } from '../../codec/index.js';
import type { Replayable, IdempotencyKey } from '../write/idempotency.js';
import type { Project } from '../project.js';
import { isConstantQuery, runConstantQuery } from './constant-query.js';
import { RowCollector } from './row-collector.js';
import { runSql } from './run-sql.js';
import type { CollectRequest } from './sql-request.js';
import { columnsJson, type SqlResult, sqlResult } from './sql-result.js';
import { collectRows, type DescribedStatement } from './statement.js';
import { restoredResults, storedResults } from './stored-results.js';

/**
 * @param key Idempotency-Key of a request that is not read-only
 * @returns one result for each statement
 * @throws EngineError see {@link runSql}; result_too_large
 */
export async function collectSql(
  project: Project,
  request: CollectRequest,
  key: IdempotencyKey | null = null,
): Promise<Replayable<SqlResult[]>> {
  if (key === null && project.dryRun === null && isConstantQuery(request)) {
    return { response: [await runConstantQuery(project, request)], replayed: false };
  }
  let bytesLeft = request.maxBytes ?? LIMITS.resultBytes;
  const fetchResult = async (described: DescribedStatement): Promise<SqlResult> => {
    const result = await collect(project, described, request, bytesLeft);
    bytesLeft -= Math.max(0, (result.rows?.length ?? 0) - 1);
    return result;
  };
  return runSql(project, request, fetchResult, key && { key, store: storedResults, restore: restoredResults });
}

async function collect(
  project: Project,
  described: DescribedStatement,
  { maxRows, rowMode, numbers }: CollectRequest,
  maxBytes: number,
): Promise<SqlResult> {
  const { session, columns, text } = described;
  const encoder = rowEncoder(columns ?? [], 'list', rowMode, numbers);
  const rows = new RowCollector(encoder, maxRows, maxBytes);
  const tag = await collectRows(project, described, rows);
  return sqlResult(text, tag, columns === null ? null : rows, await columnsJson(session, columns));
}
