/** Checks SQL that is kept for later, so that a mistake is known when it is saved and not at night. */
import { queryTimeout } from '../../db/backend-request.js';
import type { Project } from '../../db/project.js';
import { LIMITS } from '../../contract/limits.js';
import { callerSql } from '../../pg/index.js';
import type { Splitter } from '../parser/splitter.js';
import { parsingRequestOf } from './run-sql.js';
import { locateError } from './statement.js';

/**
 * Has Postgres parse a statement, and find the tables and columns that it names, without running it. Of several statements only the
 * grammar is checked: a later one may use what an earlier one makes.
 * @returns how many parameters the statement has; null: there are several statements, which can have none
 * @throws EngineError sql_error and other codes in the table of SQLSTATEs, statement_not_allowed, invalid_request, overloaded
 */
export async function checkSql(
  splitter: Splitter,
  project: Project,
  sql: string,
  signal: AbortSignal,
): Promise<number | null> {
  const [only, ...others] = await splitter.split(sql, parsingRequestOf(project, signal));
  if (only === undefined || others.length > 0) return null;
  const timeoutMs = LIMITS.timeoutMsDefault;
  const options = { connection: 'sql-read', timeoutMs, signal, timeoutError: queryTimeout(timeoutMs) } as const;
  return project.read(options, async (db) => {
    try {
      return (await db.describe(callerSql(only.text).text)).parameterOids.length;
    } catch (error) {
      throw locateError(error, only);
    }
  });
}
