/** Runs the service's own work in Postgres, and translates its failures. */
import { CommitNotReplicated, ConnectionLost, PostgresError } from '../pg/index.js';
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
