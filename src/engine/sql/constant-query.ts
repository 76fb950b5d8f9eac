/**
 * Queries of constants only, as connection pools and monitors send them. They name no relation, function or operator
 * that could be the project's, and their types are found in pg_catalog, which comes first in the search path of a clean
 * session. So they leave nothing behind in the session, and need no transaction, no round trip to learn their columns,
 * and no reset (docs/decisions/0024-constant-queries.md).
 */
import { type ResultColumn, rowEncoder } from '../../codec/index.js';
import { unstorable } from '../../contract/column-types.js';
import { LIMITS } from '../../contract/limits.js';
import type { Project } from '../../db/project.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { callerSql, type RowHandler } from '../../pg/index.js';
import { RowCollector } from './row-collector.js';
import type { SqlRequest, CollectRequest } from './run-sql.js';
import { columnsJson, type SqlResult, sqlResult } from './sql-result.js';
import { locateError } from './statement.js';

const MAX_LENGTH = 200;

const SPACE = String.raw`[ \t\n\r\f]`;

/** No backslash or quote inside a string: its end must not depend on settings. */
const VALUE = String.raw`(?:\d{1,18}(?:\.\d{1,18})?|'[^'\\]*'|true|false|null)`;

/** Only built-in types: a domain could check its values with the project's code. Rows hold all of them as text. */
const TYPE = '(?:smallint|int2|integer|int|int4|bigint|int8|numeric|boolean|bool|text|uuid|jsonb)';

const NAME = String.raw`(?:[a-z_][a-z0-9_]*|"[^"]+")`;

const COLUMN = `${VALUE}(?:::${TYPE})?(?:${SPACE}+as${SPACE}+${NAME})?`;

const CONSTANT_QUERY = new RegExp(
  `^${SPACE}*select${SPACE}+${COLUMN}(?:${SPACE}*,${SPACE}*${COLUMN})*${SPACE}*(?:;${SPACE}*)?$`,
  'i',
);

export const isConstantQuery = ({ sql, params }: Pick<SqlRequest, 'sql' | 'params'>): boolean =>
  params.length === 0 && sql.length <= MAX_LENGTH && CONSTANT_QUERY.test(sql) && unstorable(sql) === undefined;

/** @throws EngineError as `runSql` */
export function runConstantQuery(project: Project, request: CollectRequest): Promise<SqlResult> {
  const { sql, readOnly, timeoutMs, signal, maxRows, maxBytes = LIMITS.resultBytes, rowMode, numbers } = request;
  const work = async (db: QueryRunner): Promise<SqlResult> => {
    let columns: readonly ResultColumn[] = [];
    let rows: RowCollector | null = null;
    const describe = (described: readonly ResultColumn[]) => {
      columns = described;
      rows = new RowCollector(rowEncoder(described, 'list', rowMode, numbers), maxRows, maxBytes);
    };
    const takeRows: RowHandler = (buffer, start, end) => (rows as RowCollector).takeRows(buffer, start, end);
    try {
      const tag = await db.fetchAtOnce(callerSql(sql).text, describe, takeRows);
      return sqlResult(sql, tag, rows, await columnsJson(db, columns));
    } catch (error) {
      throw locateError(error, { offset: 0 });
    }
  };
  const connection = readOnly || project.row.isFenced ? 'sql-read' : 'sql-write';
  return project.read({ connection, timeoutMs, signal }, work);
}
