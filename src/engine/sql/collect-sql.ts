/** Collects the results of free SQL into one response, up to the caps (contract C14.4, C14.5). */
import { rowEncoder } from '../../codec/index.js';
import { LIMITS } from '../../contract/limits.js';
import type { Replayable } from '../../db/idempotency.js';
import type { Project } from '../../db/project.js';
import { isConstantQuery, runConstantQuery } from './constant-query.js';
import { collectRows, RowCollector } from './row-collector.js';
import { type CollectRequest, runSql, type SqlServices } from './run-sql.js';
import {
  columnsJson,
  restoredResults,
  type SqlAnswer,
  type SqlResult,
  sqlResult,
  storedResults,
} from './sql-result.js';
import type { DescribedStatement } from './statement.js';
import { WarningCollector } from './warning-collector.js';

/**
 * @returns one result for each statement, and the warnings of all
 * @throws EngineError see {@link runSql}; result_too_large
 */
export async function collectSql(
  services: SqlServices,
  project: Project,
  request: CollectRequest,
): Promise<Replayable<SqlAnswer>> {
  const { maxRows, maxBytes = LIMITS.resultBytes, rowMode, numbers, key = null } = request;
  if (key === null && project.dryRun === null && isConstantQuery(request)) {
    return { response: { results: [await runConstantQuery(project, request)], warnings: [] }, replayed: false };
  }
  const results: SqlResult[] = [];
  const warnings = new WarningCollector();
  let bytesLeft = maxBytes;
  const collect = async (statement: DescribedStatement): Promise<void> => {
    const { db, columns, text } = statement;
    const rows = new RowCollector(rowEncoder(columns ?? [], 'list', rowMode, numbers), maxRows, bytesLeft);
    const tag = await collectRows(services.throttle, project.id, statement, rows);
    const result = sqlResult(text, tag, columns === null ? null : rows, await columnsJson(db, columns));
    bytesLeft -= rows.length;
    results.push(result);
  };
  const toStore = () => storedResults(results, warnings.all);
  const earlier = await runSql(services, project, { ...request, warnings }, collect, toStore);
  if (earlier !== null) return { response: restoredResults(earlier), replayed: true };
  return { response: { results, warnings: warnings.all }, replayed: false };
}
