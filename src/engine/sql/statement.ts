/**
 * One statement of free SQL: it is parsed and described, then its rows are fetched and encoded as JSON as they arrive.
 * Rows beyond the caps are not fetched from Postgres (contract section 7).
 */
import { encodeParameters, type JsonNode } from '../../codec/index.js';
import { callerSql, type Described, type Session, type Statement } from '../../pg/index.js';
import type { Clock } from '../limits/deadline.js';
import type { Project } from '../project.js';
import { mainKeyword, MODIFYING } from '../parser/keywords.js';
import { textTypesOf } from './own-types.js';
import type { RowCollector } from './row-collector.js';
import type { SplitStatement } from '../parser/splitter.js';
import { rejectOtherEncoding } from './client-encoding.js';

/** A statement with the values of its parameters. */
export interface BoundStatement extends SplitStatement {
  readonly params: readonly JsonNode[];
}

/** A statement that is parsed and described, and ready to be executed. */
export interface DescribedStatement extends Described {
  readonly session: Session;
  readonly clock: Clock;
  readonly text: string;
  /** The parameters as Postgres accepts them. */
  readonly params: readonly (string | null)[];
}

/**
 * Asks Postgres for the columns of a statement and the types of its parameters.
 * @param before statements to run first, in the same round trip
 * @throws PostgresError, ConnectionLost; EngineError invalid_request, invalid_value, as `encodeParameters`
 */
export async function describeStatement(
  session: Session,
  clock: Clock,
  { text, params: values }: BoundStatement,
  before: readonly Statement[],
): Promise<DescribedStatement> {
  const { text: prepared } = callerSql(text);
  let described = await session.describe(prepared, before);
  const textTypes = await textTypesOf(session, values, described.parameterOids);
  if (textTypes !== null) described = await session.describe(prepared, []);
  const params = encodeParameters(values, described.parameterOids, textTypes);
  return { session, clock, text, params, ...described };
}

/**
 * INSERT … RETURNING and the like have produced all rows before the first is sent, and EXECUTE may run one of them. The
 * command tag says which it was, and how many rows there are.
 */
const PRODUCED_AT_ONCE = new Set([...MODIFYING, 'EXECUTE']);

/**
 * Collects the rows of a statement, up to the caps.
 * @returns the command tag, or null if the rows were cut off before the statement ended
 * @throws PostgresError, ConnectionLost, MessageTooLarge; EngineError statement_not_allowed
 */
export async function collectRows(
  project: Project,
  { session, clock, columns, params, text }: DescribedStatement,
  rows: RowCollector,
): Promise<string | null> {
  // Outside a transaction, the portal ends with its first step.
  const step = session.inTransaction && columns !== null ? rows.nextStep() : 0;
  let tag = await session.fetch(params, rows.formats, step, rows.takeRows);
  while (tag === null && !rows.truncated) {
    const pause = project.shared.throttle.pause(project.id, rows.newBytes());
    if (pause !== undefined) {
      // The pause does not count as time of the statement.
      clock.pause();
      await pause;
      clock.resume();
    }
    tag = await session.fetchMore(rows.nextStep(), rows.takeRows);
  }
  if (tag === null && PRODUCED_AT_ONCE.has(mainKeyword(text))) tag = await session.fetchMore(0, rows.takeRows);
  for (const bytes of rows.bytes.buffers) rejectOtherEncoding(bytes);
  return tag;
}
