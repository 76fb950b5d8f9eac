/** Collects the results of free SQL into one response, up to the caps (contract section 7). */
import { LIMITS } from '../../contract/limits.js';
import { rowEncoder } from '../../codec/index.js';
import type { Replayable } from '../write/idempotency.js';
import type { Project } from '../project.js';
import { isConstantQuery, runConstantQuery } from './constant-query.js';
import { RowCollector } from './row-collector.js';
import { type CollectRequest, runSql } from './run-sql.js';
import { columnsJson, type SqlResult, sqlResult } from './sql-result.js';
import { collectRows, type DescribedStatement } from './statement.js';
import { restoredResults, storedResults } from './stored-results.js';

/**
 * @returns one result for each statement
 * @throws EngineError see {@link runSql}; result_too_large
 */
export async function collectSql(project: Project, request: CollectRequest): Promise<Replayable<SqlResult[]>> {
  const { maxRows, maxBytes = LIMITS.resultBytes, rowMode, numbers, idempotency = null } = request;
  if (idempotency === null && project.dryRun === null && isConstantQuery(request)) {
    return { response: [await runConstantQuery(project, request)], replayed: false };
  }
  const results: SqlResult[] = [];
  let bytesLeft = maxBytes;
  const take = async (described: DescribedStatement): Promise<void> => {
    const { session, columns, text } = described;
    const rows = new RowCollector(rowEncoder(columns ?? [], 'list', rowMode, numbers), maxRows, bytesLeft);
    const tag = await collectRows(project, described, rows);
    const result = sqlResult(text, tag, columns === null ? null : rows, await columnsJson(session, columns));
    bytesLeft -= rows.length;
    results.push(result);
  };
  const earlier = await runSql(project, request, take, () => storedResults(results));
  if (earlier !== null) return { response: restoredResults(earlier), replayed: true };
  return { response: results, replayed: false };
}
