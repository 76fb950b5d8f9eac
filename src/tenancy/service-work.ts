/** What the service does in Postgres for itself, and what becomes of its failures there. */
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
 * Work that the service does for itself while it serves a request: its logins, the control database, making and
 * repairing projects. If Postgres fails it there, that is no error of the caller's SQL, and Postgres's words about it
 * are not for the caller's eyes.
 * @throws EngineError database_unavailable with Postgres's error as its cause; what else `work` throws
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
 * Such work of one statement that changes something and commits by itself. Once it was sent, the end of the connection,
 * or no answer in time, leaves open whether it was done.
 * @returns the rows of RETURNING
 * @throws EngineError outcome_unknown; database_unavailable if nothing was done
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
 * The connection broke, gave no answer in time, or the server said that it ends it (57P01 and the like), maybe after
 * the commit; or no standby has confirmed it.
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
