/** The pool of the control database, which translates the failures of Postgres. */
import { EngineError } from '../../contract/errors.js';
import {
  CommitNotReplicated,
  ConnectionLost,
  type Fragment,
  type Pool,
  PostgresError,
  ResponseTimeout,
  type Result,
  type Row,
  type Statement,
  type Step,
} from '../../pg/index.js';
import { serviceWork } from '../postgres-errors.js';
import { missingStandbys, StandbyMissing } from '../standby-wait.js';
import { type AuditRow, withEntry } from './audit-rows.js';

/** All methods throw EngineError database_unavailable. */
export class ControlPool {
  constructor(private readonly pool: Pool) {}

  query(statement: Statement): Promise<Row[]> {
    return serviceWork(() => this.pool.query(statement));
  }

  /** The first row; empty if there is none. */
  row(statement: Statement): Promise<Row> {
    return serviceWork(() => this.pool.row(statement));
  }

  /** For a change that is taken back if its outcome is unknown. */
  run(steps: readonly Step[]): Promise<Result[]> {
    const explained = async (error: unknown): Promise<never> => {
      throw await this.withReason(error);
    };
    return serviceWork(() => this.pool.run(steps).catch(explained));
  }

  /**
   * A change and its entry in the audit log, see {@link withEntry}.
   * @returns the rows of RETURNING
   * @throws EngineError as {@link transaction}
   */
  async change(change: Fragment, entry: AuditRow | null): Promise<Row[]> {
    const [result] = await this.transaction([withEntry(change, entry)]);
    return result?.rows ?? [];
  }

  /**
   * A change in several steps, from BEGIN to COMMIT, or in one, which commits by itself. If the connection is lost after
   * they were sent, the outcome is unknown. If they take too long, they are canceled, so that Postgres tells the outcome.
   * @returns their results
   * @throws EngineError outcome_unknown, also if no standby has confirmed it; database_unavailable if nothing was changed
   */
  transaction(steps: readonly Step[]): Promise<Result[]> {
    let failure: unknown;
    const changing = () =>
      this.pool.use(async (session) => {
        let isCanceled = false;
        const canceling = setTimeout(() => {
          isCanceled = true;
          void session.cancel();
        }, CHANGE_MS);
        try {
          return await session.run(steps, { timeoutMs: CHANGE_MS + CANCELED_MS });
        } catch (error) {
          failure = error;
          throw error;
        } finally {
          clearTimeout(canceling);
          // A late cancel would end the next statement.
          if (isCanceled) session.destroy(new ConnectionLost('The statement was canceled'));
        }
      });
    // The reason is asked for once the session is back: others may wait for it.
    const explained = async (error: unknown): Promise<never> => {
      throw error === failure && leavesOpen(error) ? changeUnknown(error, await this.withReason(error)) : error;
    };
    return serviceWork(() => changing().catch(explained));
  }

  /** Names the reason if commits do not return. */
  private async withReason(error: unknown): Promise<unknown> {
    if (!(error instanceof ResponseTimeout || error instanceof CommitNotReplicated)) return error;
    // If that fails too, the first error is all that is known.
    const names = await missingStandbys(this.pool).catch(() => null);
    return names === null ? error : new StandbyMissing(names, error);
  }
}

/** Time limits of a change, and of its end after a cancel. */
const CHANGE_MS = 3_000;
const CANCELED_MS = 3_000;

/**
 * The connection was lost, timed out, or was ended by the server (57P01 and the like), perhaps after the commit; or no
 * standby has confirmed the commit.
 */
const leavesOpen = (error: unknown): boolean =>
  error instanceof ConnectionLost ||
  error instanceof CommitNotReplicated ||
  (error instanceof PostgresError && error.sqlstate.startsWith('57P'));

const changeUnknown = (error: unknown, cause: unknown): EngineError =>
  new EngineError(
    'outcome_unknown',
    error instanceof CommitNotReplicated
      ? 'The change was made, but no synchronous standby has confirmed it: a failover now would undo it'
      : 'The connection to Postgres was lost during the commit: check whether the change was made before retrying',
    { cause, retryAfter: null },
  );
