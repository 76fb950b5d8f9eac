/**
 * Runs queries with their own parameters, one statement each, in one transaction. Unlike other free SQL, it returns
 * whole results instead of capped ones, and columns as Postgres's protocol describes them.
 */
import { type BufferList, type JsonNode, rowEncoder, type RowMode } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { type FieldDescription, PostgresError, readCommandTag } from '../../pg/index.js';
import type { Project } from '../../db/project.js';
import { REJECTION_MESSAGES, type Splitter } from '../parser/splitter.js';
import { collectRows, RowCollector } from './row-collector.js';
import { overQuotaFor, parsingRequestOf, runStatements, type SqlOptions, type SqlServices } from './run-sql.js';
import type { BoundStatement, DescribedStatement } from './statement.js';

export interface Query {
  readonly text: string;
  /** The field that holds the text, for messages. */
  readonly field: string;
  readonly params: readonly JsonNode[];
}

interface QueriesRequest extends SqlOptions {
  readonly queries: readonly Query[];
  readonly rowMode: RowMode;
  /** Every value is Postgres's text, or null; otherwise values are those of free SQL. */
  readonly asText: boolean;
}

export interface QueryResult {
  /** Postgres's command tag without its counts. */
  readonly type: string;
  /** Rows returned or affected; null if the tag of the statement counts none. */
  readonly rowCount: number | null;
  readonly fields: readonly FieldDescription[];
  /** The rows as JSON, each after a comma. The sender frees them. */
  readonly rows: BufferList;
}

/** Only the bytes are limited: a row of JSON has at least three. */
const MAX_ROWS = LIMITS.resultBytes;

/** Estimated bytes of a field in a response, without its name. */
const FIELD_BYTES = 160;

/**
 * @returns one result for each query; the transaction is committed by then
 * @throws EngineError as `runSql`; result_too_large if a response cannot hold all rows, and then nothing is changed
 */
export async function runQueries(
  services: SqlServices,
  project: Project,
  request: QueriesRequest,
): Promise<QueryResult[]> {
  if (request.queries.length === 0) return [];
  const results: QueryResult[] = [];
  let bytesLeft = LIMITS.resultBytes;
  const collect = async (statement: DescribedStatement): Promise<void> => {
    const fields = statement.columns ?? [];
    bytesLeft -= fields.reduce((sum, { name }) => sum + FIELD_BYTES + name.length, 0);
    const encoder = rowEncoder(fields, 'list', request.rowMode, request.asText ? 'text' : undefined);
    const rows = new RowCollector(encoder, MAX_ROWS, bytesLeft);
    const tag = await collectRows(services.throttle, project.id, statement, rows);
    if (tag === null || rows.truncated || bytesLeft < 0) throw tooLarge();
    bytesLeft -= rows.length;
    const { type, count = null } = readCommandTag(tag);
    // The tag counts only the rows of the last step.
    const rowCount = statement.columns === null || count === null ? count : rows.received;
    results.push({ type, rowCount, fields, rows: rows.bytes });
  };
  const overQuota = await overQuotaFor(project, request);
  const statements = await statementsOf(services.splitter, project, request, overQuota !== null);
  await runStatements(project, request, statements, overQuota, collect);
  return results;
}

/** What the driver can do instead; it shows no hints, and takes one statement at a time. */
const REJECTED: typeof REJECTION_MESSAGES = {
  ...REJECTION_MESSAGES,
  transaction_control:
    'One request is one transaction: BEGIN, COMMIT, ROLLBACK, SAVEPOINT and the like are not allowed. ' +
    'Send the statements as a batch, by sql.transaction([…]); they take effect together or not at all.',
  copy_out:
    'COPY … TO STDOUT is not allowed. Send the query itself, for CSV to POST /api/cdp/sql with "Accept: text/csv".',
};

/**
 * A text of several statements is left to Postgres, which refuses it (42601). @throws EngineError as `Splitter.split`
 */
async function statementsOf(
  splitter: Splitter,
  project: Project,
  request: QueriesRequest,
  tellsFreed: boolean,
): Promise<BoundStatement[]> {
  const requester = parsingRequestOf(project, request.signal);
  const statements: BoundStatement[] = [];
  for (const { text, field, params } of request.queries) {
    const [only, ...others] = await splitter.split(text, requester, { tellsFreed, field, rejections: REJECTED });
    const isOne = only !== undefined && others.length === 0;
    statements.push({ params, ...(isOne ? only : { text, offset: 0, frees: null }) });
  }
  return statements;
}

/** The Postgres error with which a query failed; null: another error. */
export const saidByPostgres = ({ cause }: EngineError): PostgresError | null =>
  cause instanceof PostgresError ? cause : null;

const tooLarge = () =>
  new EngineError('result_too_large', `The results are larger than ${LIMITS.resultBytes} bytes. Nothing was changed`, {
    hint: 'Fetch fewer rows at a time, or stream them: POST /api/cdp/sql with "Accept: application/x-ndjson".',
  });
