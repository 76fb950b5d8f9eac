/**
 * The frame of free SQL (contract section 7): one request is one transaction, its statements run in order on a
 * connection that logged in as the project's own role, and take effect together or not at all.
 */
import { isUtf8 } from 'node:buffer';
import { EngineError } from '../../contract/errors.js';
import { PostgresError, toEngineError } from '../../postgres/errors.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { BEGIN, callerSql, fixed, ROLLBACK, type Statement } from '../../postgres/sql.js';
import { ACTIVE_SQL_TRANSACTION } from '../../postgres/sqlstate.js';
import type { Described, Session } from '../../postgres/wire/session.js';
import { type Clock, queryTimeout } from '../admission/deadline.js';
import type { Departure } from '../admission/departure.js';
import type { JsonNode } from '../json/nodes.js';
import type { Project } from '../project.js';
import type { Growth } from '../quota.js';
import { commitAndReset, outcomeUnknown } from '../transaction.js';
import { leadingKeyword } from './leading-keyword.js';
import { OverQuota } from './over-quota.js';
import { encodeParameters } from './parameters.js';
import { mayChangeRights } from './rights.js';
import { positionInText, type SplitStatement } from './split.js';

export interface SqlRequest {
  sql: string;
  params: readonly JsonNode[];
  /** Run as the reader, in a READ ONLY transaction. */
  readOnly: boolean;
  timeoutMs: number;
  /** Aborted when the client leaves. */
  signal: Departure;
}

/** A statement that is parsed and waits to be executed. */
export interface PreparedStatement extends Described {
  readonly session: Session;
  readonly clock: Clock;
  readonly text: string;
  readonly params: readonly (string | null)[];
  readonly isLast: boolean;
  /** False where Postgres refused it inside a transaction: then rows cannot be fetched in steps. */
  readonly inTransaction: boolean;
}

/**
 * The first query of a READ ONLY transaction is ours: after it, Postgres refuses SET TRANSACTION READ WRITE (Postgres
 * manual, SET TRANSACTION), so nothing the caller sends can open the fence.
 */
export const BEGIN_READ_ONLY: readonly Statement[] = [fixed('BEGIN READ ONLY'), fixed('SELECT 1')];

/** Takes the rows of a statement, and whatever else comes back. */
type Run<T> = (statement: PreparedStatement) => Promise<T>;

/**
 * Runs the statements, each through `run`, and commits.
 * @param again a query that the writer may have committed already: it is run READ ONLY, for its rows alone
 * @returns what `run` returned for each
 * @throws EngineError sql_error and whatever else the table of SQLSTATEs says, statement_not_allowed, query_timeout,
 * overloaded, outcome_unknown, quota_exceeded
 */
export async function runStatements<T>(
  project: Project,
  request: SqlRequest,
  run: Run<T>,
  again = false,
): Promise<T[]> {
  const { readOnly, signal, params } = request;
  const asReader = readOnly || again;
  const looked = asReader ? null : project.excess();
  const excess = looked === null ? null : await looked;
  const asker = { project: project.name, patience: project.patience, signal };
  const statements = await project.splitter.split(request.sql, asker, excess !== null);
  if (params.length > 0 && statements.length > 1) {
    throw new EngineError('invalid_request', '"params" go with one statement only');
  }
  const overQuota = excess === null ? null : new OverQuota(excess, statements);
  return new Transaction(project, request, asReader, statements, overQuota, run).run();
}

/** The statements of one request, on one connection. */
class Transaction<T> {
  constructor(
    private readonly project: Project,
    private readonly request: SqlRequest,
    /** READ ONLY, on whichever connection. */
    private readonly asReader: boolean,
    private readonly statements: readonly SplitStatement[],
    /** null: the project has room. */
    private readonly overQuota: OverQuota | null,
    private readonly runOne: Run<T>,
  ) {}

  /** @throws EngineError as {@link runStatements} */
  run(): Promise<T[]> {
    const { readOnly, timeoutMs, signal } = this.request;
    const deadline = { timeoutMs, signal, expired: queryTimeout(timeoutMs) };
    return this.project.use(readOnly ? 'sql-read' : 'sql-write', deadline, this.work, this.growth());
  }

  private growth(): Growth {
    if (this.overQuota !== null) return this.overQuota.growth;
    return this.statements.every(({ text }) => rewritesTables(text)) ? 'rewrites' : 'writes';
  }

  private readonly work = async (lease: Lease, clock: Clock): Promise<T[]> => {
    const { statements } = this;
    const { session } = lease;
    const results: T[] = [];
    try {
      for (const [i, statement] of statements.entries()) {
        const begin = i > 0 ? [] : this.asReader ? BEGIN_READ_ONLY : [BEGIN];
        const fence = this.overQuota?.around(statement);
        const before = [...begin, ...(fence?.before ?? [])];
        results.push(await this.execute(session, clock, statement, before, i === statements.length - 1));
        if (fence !== undefined && fence.after.length > 0) await session.run(fence.after);
      }
    } catch (error) {
      const [only] = statements;
      if (this.asReader || statements.length > 1 || only === undefined || !refusedInTransaction(error, only))
        throw error;
      return this.outside(session, clock, only);
    }
    await this.end(session);
    if (!this.request.readOnly && statements.some(({ text }) => mayChangeRights(text))) this.project.distrust(lease);
    return results;
  };

  private async execute(
    session: Session,
    clock: Clock,
    statement: SplitStatement,
    before: readonly Statement[],
    isLast: boolean,
  ): Promise<T> {
    const inTransaction = before.length > 0 || session.transaction === 'T';
    try {
      const { text } = statement;
      const described = await session.prepare(callerSql(text).text, before);
      const params = encodeParameters(this.request.params, described.parameterOids);
      const result = await this.runOne({ ...described, session, clock, text, params, isLast, inTransaction });
      await restoreEncoding(session, described);
      return result;
    } catch (error) {
      const translated = located(error, statement);
      throw this.overQuota === null ? translated : this.overQuota.explained(translated);
    }
  }

  /** What Postgres runs outside a transaction alone, and has refused inside one. */
  private async outside(session: Session, clock: Clock, only: SplitStatement): Promise<T[]> {
    await session.run([ROLLBACK, ...(this.overQuota?.outside(only) ?? [])]);
    try {
      return [await this.execute(session, clock, only, [], true)];
    } catch (failure) {
      throw session.closed ? outcomeUnknown(failure, false) : failure;
    }
  }

  private end(session: Session): Promise<unknown> {
    if (this.overQuota?.readsOnly) return this.overQuota.endReads(session);
    return this.asReader ? session.runAndReset([ROLLBACK]) : commitAndReset(session);
  }
}

/**
 * The first words of the statements that Postgres runs outside a transaction alone. Code of a project may raise the same
 * state, but not from one of these.
 */
const OUTSIDE_A_TRANSACTION = new Set(['ALTER', 'CLUSTER', 'CREATE', 'DISCARD', 'DROP', 'REINDEX', 'VACUUM']);

export const refusedInTransaction = (error: unknown, { text }: SplitStatement): boolean =>
  error instanceof EngineError &&
  error.postgres?.sqlstate === ACTIVE_SQL_TRANSACTION &&
  OUTSIDE_A_TRANSACTION.has(leadingKeyword(text) ?? '');

/** They write tables or indexes anew before the old files go away. */
const REWRITING = new Set(['CLUSTER', 'REINDEX', 'VACUUM']);

export const rewritesTables = (text: string): boolean => REWRITING.has(leadingKeyword(text) ?? '');

/**
 * A statement may have changed the encoding in which Postgres sends text. For the next statement it is set back; rows
 * of this one may have come in either encoding, so they are not passed on.
 */
async function restoreEncoding(session: Session, { columns }: Described): Promise<void> {
  if (session.clientEncoding === 'UTF8') return;
  if (columns !== null && columns.length > 0) throw otherEncoding();
  await session.run([fixed(`SET client_encoding = 'UTF8'`)]);
}

/**
 * The same for a statement that has set the encoding back before its end, which Postgres does not report.
 * @param rows whole rows, as they would go out
 * @throws EngineError statement_not_allowed
 */
export function refuseOtherEncoding(rows: Buffer): void {
  if (!isUtf8(rows)) throw otherEncoding();
}

const otherEncoding = () =>
  new EngineError('statement_not_allowed', 'A statement that returns rows must not change client_encoding', {
    hint: 'Answers are always UTF-8; leave the setting alone.',
  });

/** Postgres's position within the statement as one within the caller's whole text. */
export function located(error: unknown, statement: SplitStatement): unknown {
  if (!(error instanceof PostgresError)) return error;
  const translated = toEngineError(error);
  const { position } = error.fields;
  if (position !== undefined && translated instanceof EngineError && translated.postgres !== undefined) {
    translated.postgres.position = positionInText(statement, position);
  }
  return translated;
}
