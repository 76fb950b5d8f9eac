/**
 * Results of free SQL as one answer: rows become JSON bytes as they arrive, and what is past the caps is left in
 * Postgres (contract section 7).
 */
import { LIMITS } from '../../contract/limits.js';
import { jsonRowEncoder } from '../../postgres/results/rows.js';
import { resultFormat } from '../../postgres/results/types.js';
import type { Project } from '../project.js';
import { notShown, outcomeUnknown } from '../transaction.js';
import type { KnownStatement } from './known-statements.js';
import { mainKeyword } from './main-keyword.js';
import { isUnavailable, type Repeat } from './one-write.js';
import { fitsOneWrite } from './one-write-eligibility.js';
import { isRefusedWrite } from './over-quota.js';
import { RowCollector } from './row-collector.js';
import { runSharing } from './shared-write.js';
import { type CollectRequest, describeColumns, MODIFYING, type SqlResult, sqlResult } from './sql-result.js';
import { type PreparedStatement, refuseOtherEncoding, runStatements } from './statements.js';

/** Rows of the first step: enough to learn how long a row is. */
const FIRST_STEP = 16;

/** @throws EngineError see {@link runStatements}; result_too_large */
export function collectSql(project: Project, request: CollectRequest): Promise<SqlResult[]> {
  const known = takesNoArrays(request) ? project.statements.get(request.readOnly, request.sql) : undefined;
  return known === undefined ? collectInSteps(project, request) : collectKnown(project, known, request);
}

async function collectKnown(project: Project, known: KnownStatement, request: CollectRequest): Promise<SqlResult[]> {
  const startedAt = performance.now();
  const result = await runSharing(project, known, request);
  return typeof result === 'object' ? [result] : collectAnew(project, request, startedAt, result);
}

function collectAnew(
  project: Project,
  request: CollectRequest,
  startedAt: number,
  why: 'not run' | Repeat,
): Promise<SqlResult[]> {
  const timeoutMs = Math.max(1, Math.ceil(request.timeoutMs - (performance.now() - startedAt)));
  const rest = { ...request, timeoutMs };
  return why === 'not run' ? collectInSteps(project, rest) : collectAgain(project, rest, why);
}

/**
 * For the rows of a query that the writer has sent already, READ ONLY: it must do nothing twice.
 * @throws EngineError outcome_unknown where it writes, or cannot be run now
 */
async function collectAgain(project: Project, request: CollectRequest, why: Repeat): Promise<SqlResult[]> {
  try {
    return await collectInSteps(project, request, true);
  } catch (error) {
    if (!isRefusedWrite(error) && !isUnavailable(error)) throw error;
    throw why === 'may have run' ? outcomeUnknown(error, false) : notShown(error);
  }
}

/** What an array becomes depends on the type of its parameter, which may be another one by now. */
const takesNoArrays = ({ params }: CollectRequest): boolean => params.every(({ kind }) => kind !== 'array');

async function collectInSteps(project: Project, request: CollectRequest, again = false): Promise<SqlResult[]> {
  let bytesLeft = LIMITS.resultBytes;
  let last: PreparedStatement | null = null;
  const run = async (prepared: PreparedStatement) => {
    last = prepared;
    const result = await collect(project, prepared, request, bytesLeft);
    bytesLeft -= result.rows?.length ?? 0;
    return result;
  };
  const results = await runStatements(project, request, run, again);
  remember(project, request, results, last);
  return results;
}

/** So that a lone statement that ran the ordinary way goes out in one write the next time. */
function remember(
  project: Project,
  { readOnly, sql }: CollectRequest,
  results: readonly SqlResult[],
  ran: PreparedStatement | null,
): void {
  const [result] = results;
  if (ran === null || result === undefined || results.length > 1 || !ran.inTransaction) return;
  const bytes = result.rows?.length ?? 0;
  if (!fitsOneWrite(sql, ran.columns, bytes)) return;
  const known = project.statements.remember(readOnly, sql, ran, result.columnsJson);
  if (known !== undefined) known.answerBytes = bytes;
}

async function collect(
  project: Project,
  prepared: PreparedStatement,
  { maxRows, rowMode }: CollectRequest,
  maxBytes: number,
): Promise<SqlResult> {
  const { session, columns, text } = prepared;
  const rows = new RowCollector(jsonRowEncoder(columns ?? [], rowMode, 'list'), maxRows, maxBytes);
  const tag = await fetch(project, prepared, rows, maxRows);
  for (const piece of rows.bytes.views()) refuseOtherEncoding(piece);
  return sqlResult(text, tag, columns === null ? null : rows, await describeColumns(session, columns));
}

/** @returns the command tag, or null where the rows were cut off before the statement ended */
async function fetch(
  project: Project,
  prepared: PreparedStatement,
  rows: RowCollector,
  maxRows: number,
): Promise<string | null> {
  const { session, clock, columns, params, inTransaction, text } = prepared;
  const formats = (columns ?? []).map(({ typeOid }) => resultFormat(typeOid));
  // Without a transaction around it the portal ends with its first step.
  const step = inTransaction && columns !== null ? Math.min(FIRST_STEP, maxRows) : 0;
  let { tag } = await session.execute(params, formats, step, rows.takeRows);
  while (tag === null && !rows.truncated) {
    const turn = project.pace(rows.newBytes());
    if (turn !== undefined) {
      // The time of the statement is not spent on what others do.
      clock.pause();
      await turn;
      clock.resume();
    }
    // A full answer is followed by one more row, which only tells whether there is one.
    ({ tag } = await session.resume(rows.nextStep(), rows.takeRows));
  }
  if (tag !== null) return tag;
  // INSERT … RETURNING and the like have made all rows already, and EXECUTE may stand for one of them. What it was, and
  // how many rows there are, shows at the end.
  const keyword = mainKeyword(text);
  if (MODIFYING.has(keyword) || keyword === 'EXECUTE') ({ tag } = await session.resume(0, rows.takeRows));
  return tag;
}
