/** The pool of the control database, which translates the failures of Postgres. */
import { EngineError } from '../../contract/errors.js';
import {
  CommitNotReplicated,
  ConnectionLost,
  type Fragment,
  type Pool,
  PostgresError,
  type Result,
  type Row,
  type Statement,
  type Step,
} from '../../pg/index.js';
import { serviceWork } from '../service-work.js';
import { type AuditRow, withEntry } from './audit-log.js';

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

  run(steps: readonly Step[]): Promise<Result[]> {
    return serviceWork(() => this.pool.run(steps));
  }

  /**
   * A change and its entry in the audit log, see {@link withEntry}. It commits by itself: if the connection is lost
   * after it was sent, or no response arrives in time, the outcome is unknown.
   * @returns the rows of RETURNING
   * @throws EngineError outcome_unknown; database_unavailable if nothing was changed
   */
  change(change: Fragment, entry: AuditRow | null): Promise<Row[]> {
    return serviceWork(() =>
      this.pool.use((session) =>
        session.query(withEntry(change, entry)).catch((error: unknown) => {
          throw leavesOpen(error) ? changeUnknown(error) : error;
        }),
      ),
    );
  }
}

/**
 * The connection was lost, timed out, or was ended by the server (57P01 and the like), perhaps after the commit; or no
 * standby has confirmed the commit.
 */
const leavesOpen = (error: unknown): boolean =>
  error instanceof ConnectionLost ||
  error instanceof CommitNotReplicated ||
  (error instanceof PostgresError && error.sqlstate.startsWith('57P'));

const changeUnknown = (cause: unknown): EngineError =>
  new EngineError(
    'outcome_unknown',
    'The connection to Postgres was lost during the commit: check whether the change was made before retrying',
    { cause, retryAfter: null },
  );
