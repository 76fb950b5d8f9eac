/**
 * The fast way for a statement that is known: its whole transaction and the reset of the session in one round trip
 * (docs/decisions/0024-one-write.md). Where what is remembered does not hold any more, the statement takes the ordinary
 * path.
 */
import { isUtf8 } from 'node:buffer';
import { EngineError } from '../../contract/errors.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { ConnectionLost, MessageTooLarge, PostgresError } from '../../postgres/errors.js';
import { BEGIN, COMMIT, ROLLBACK } from '../../postgres/sql.js';
import { PROTOCOL_VIOLATION } from '../../postgres/sqlstate.js';
import { Frame, runWhole, type WholeOutcome } from '../../postgres/wire/one-write.js';
import type { Session } from '../../postgres/wire/session.js';
import { type Clock, queryTimeout } from '../admission/deadline.js';
import type { Project } from '../project.js';
import { outcomeUnknown } from '../transaction.js';
import type { KnownStatement } from './known-statements.js';
import { SMALL_ANSWER } from './one-write-eligibility.js';
import { encodeParameters } from './parameters.js';
import { type CollectRequest, describeColumns, type SqlResult, sqlResult } from './sql-result.js';
import { BEGIN_READ_ONLY, located, refusedInTransaction } from './statements.js';
import { Outgrown, WholeRows } from './whole-rows.js';

const WRITER = new Frame([BEGIN], COMMIT);
const READER = new Frame(BEGIN_READ_ONLY, ROLLBACK);

/** A query is the first of its transaction itself: to analyse it takes a snapshot, behind which READ WRITE is refused. */
const READER_QUERY = new Frame(BEGIN_READ_ONLY.slice(0, 1), ROLLBACK);

/** A query that can do nothing needs no fence, and nothing is left to be cleared away behind it. */
const ALONE = new Frame([], null);

function frameOf({ isConstant, columns }: KnownStatement, readOnly: boolean): Frame {
  if (isConstant) return ALONE;
  if (!readOnly) return WRITER;
  return columns === null ? READER : READER_QUERY;
}

/**
 * The writer's query was committed, and its rows came in formats that do not fit their types any more, in another encoding,
 * or too long; or the connection was lost with its COMMIT on the way.
 */
export type Repeat = 'not readable' | 'may have run';

/** Of a known statement; `not run`: nothing was done; take the ordinary path. */
export type Outcome = SqlResult | 'not run' | Repeat;

/**
 * @throws EngineError what Postgres says of the statement; query_timeout, overloaded, database_unavailable; outcome_unknown
 * where the connection was lost
 */
export async function runKnown(project: Project, known: KnownStatement, request: CollectRequest): Promise<Outcome> {
  const looked = request.readOnly ? null : project.excess();
  if (looked !== null && (await looked) !== null) return 'not run';
  const write = new OneWrite(project, known, request);
  try {
    return await write.run();
  } catch (error) {
    return write.failed(error);
  }
}

/** Nothing was done, because there was no place or no connection for it. */
export const isUnavailable = (error: unknown): boolean =>
  error instanceof EngineError && (error.code === 'database_unavailable' || error.code === 'overloaded');

/** One known statement of one request. Only `work` awaits; the rest return promises, to keep little alive. */
class OneWrite {
  /** The writer has sent a query with its COMMIT, and the connection was lost: it must do nothing twice. */
  private mayHaveRun = false;

  constructor(
    private readonly project: Project,
    private readonly known: KnownStatement,
    private readonly request: CollectRequest,
  ) {}

  run(): Promise<Outcome> {
    const { readOnly, timeoutMs, signal } = this.request;
    const deadline = { timeoutMs, signal, expired: queryTimeout(timeoutMs) };
    return this.project.use(readOnly ? 'sql-read' : 'sql-write', deadline, this.work);
  }

  /** @throws EngineError as {@link runKnown} */
  failed(error: unknown): 'not run' {
    if (this.mayHaveRun && isUnavailable(error)) throw outcomeUnknown(error, false);
    if (!(error instanceof Outgrown)) throw error;
    this.project.statements.markLarge(this.request.readOnly, this.request.sql);
    return 'not run';
  }

  /** @throws ConnectionLost for a query; {@link Outgrown} from the clock; and what {@link runKnown} throws */
  private readonly work = async ({ session }: Lease, clock: Clock): Promise<Outcome> => {
    if (this.mayHaveRun) return 'may have run';
    const rows = new WholeRows(this.known, this.request.rowMode, this.request.maxRows, clock);
    const outcome = await this.send(session, rows);
    if (outcome.error !== null) return this.refused(session, outcome.error, outcome.statementEnded);
    return this.shown(session, clock, rows, outcome.tag);
  };

  private send(session: Session, rows: WholeRows): Promise<WholeOutcome> {
    const { known, request } = this;
    const params = encodeParameters(request.params, known.parameterOids);
    const rowLimit = known.columns === null ? 0 : request.maxRows + 1;
    return runWhole(session, frameOf(known, request.readOnly), known, known.bound(params), rowLimit, rows);
  }

  private refused(session: Session, error: Error, statementEnded: boolean): 'not run' {
    const { readOnly, sql: text } = this.request;
    if (error instanceof PostgresError && !session.closed) {
      const whole = { text, offset: 0, removal: null };
      const translated = located(error, whole);
      // "bind message has … result formats but query has … columns"
      if (error.sqlstate !== PROTOCOL_VIOLATION && !refusedInTransaction(translated, whole)) throw translated;
      this.project.statements.forget(readOnly, text);
      return 'not run';
    }
    // What Postgres still said of the statement it said before the commit.
    if (readOnly || (error instanceof PostgresError && !statementEnded)) throw error;
    // It is larger than what fits between here and there: Postgres has not come to the commit.
    if (error instanceof MessageTooLarge) throw error;
    if (error instanceof ConnectionLost && this.known.columns !== null) throw this.lost(error);
    throw outcomeUnknown(error, false);
  }

  private lost(error: unknown): unknown {
    this.mayHaveRun = !this.request.readOnly && error instanceof ConnectionLost;
    return error;
  }

  private shown(session: Session, clock: Clock, rows: WholeRows, tag: string | null): Outcome | Promise<Outcome> {
    const { known, project } = this;
    const { readOnly, sql: text } = this.request;
    const { collector, columns } = rows;
    const isShowable = rows.areReadable && rows.tooLong === null && (collector?.bytes.views().every(isUtf8) ?? true);
    if (columns !== known.columns || !isShowable) project.statements.forget(readOnly, text);
    if (!isShowable) return readOnly ? 'not run' : 'not readable';
    if (columns === known.columns) return this.counted(clock, rows, sqlResult(text, tag, collector, known.columnsJson));
    return describeColumns(session, columns).then(
      (columnsJson) => this.counted(clock, rows, sqlResult(text, tag, collector, columnsJson)),
      (error: unknown) => {
        throw this.lost(error);
      },
    );
  }

  private counted(clock: Clock, { collector }: WholeRows, result: SqlResult): SqlResult | Promise<SqlResult> {
    if (collector === null) return result;
    const { known, project, request } = this;
    const { length } = collector.bytes;
    known.answerBytes = length;
    if (length > SMALL_ANSWER) project.statements.markLarge(request.readOnly, request.sql);
    const turn = project.pace(length);
    if (turn === undefined) return result;
    // It is committed: no time limit may say otherwise while others have their turn.
    clock.pause();
    return turn.then(() => {
      clock.resume();
      return result;
    });
  }
}
