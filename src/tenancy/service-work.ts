/** Runs the service's own work in Postgres, and translates its failures. */
import { EngineError } from '../contract/errors.js';
import {
  CommitNotReplicated,
  ConnectionLost,
  type Pool,
  PostgresError,
  type Row,
  type Statement,
} from '../pg/index.js';
import { unavailable } from './engine-error.js';

/**
 * Runs work of the service itself: logins, the control database, creating and repairing projects. A failure in Postgres
 * is then not an error in the caller's SQL, and the caller must not see Postgres's message.
 * @throws EngineError database_unavailable with Postgres's error as its cause; any other error of `work`
 */
export async function serviceWork<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw isOfPostgres(error) ? unavailable(error) : error;
  }
}

const isOfPostgres = (error: unknown): boolean =>
  error instanceof PostgresError || error instanceof ConnectionLost || error instanceof CommitNotReplicated;

/**
 * The same for a single statement that makes a change and commits by itself. If the connection is lost after it was
 * sent, or no response arrives in time, the outcome is unknown.
 * @returns the rows of RETURNING
 * @throws EngineError outcome_unknown; database_unavailable if nothing was changed
 */
export function serviceChange(pool: Pool, statement: Statement): Promise<Row[]> {
  return serviceWork(() =>
    pool.use((session) =>
      session.query(statement).catch((error: unknown) => {
        throw leavesOpen(error) ? changeUnknown(error) : error;
      }),
    ),
  );
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
