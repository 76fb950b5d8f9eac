/** What the service does in Postgres for itself, and what becomes of its failures there. */
import pg from 'pg';
import { EngineError } from '../contract/errors.js';
import { isUnreachable, PostgresError, unavailable } from '../postgres/errors.js';

/**
 * Work that the service does for itself while it serves a request: its logins, the control database, the making and mending
 * of projects. When Postgres fails it there, that is no error of the caller's SQL, and Postgres's words about it are not
 * for the caller's eyes.
 * @throws EngineError database_unavailable with Postgres's error as its cause; what else `work` throws
 */
export async function serviceWork<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const cause = error instanceof pg.DatabaseError ? PostgresError.fromDriver(error) : error;
    if (!(cause instanceof PostgresError || isUnreachable(cause))) throw error;
    throw unavailable(cause);
  }
}

/**
 * Such work of one statement that changes something and commits by itself. Once it was sent, the end of the connection, or
 * no answer in time, leaves open whether it was done.
 * @throws EngineError outcome_unknown; database_unavailable where nothing was done
 */
export async function serviceChange<R extends pg.QueryResultRow>(
  pool: pg.Pool,
  text: string,
  values: unknown[],
): Promise<pg.QueryResult<R>> {
  const client = await serviceWork(() => pool.connect());
  let failure: Error | undefined;
  const change = client.query<R>(text, values).catch((error: Error) => {
    failure = error;
    throw endsConnection(error) ? perhapsDone(error) : error;
  });
  return serviceWork(() => change).finally(() => client.release(failure));
}

/** It broke, gave no answer in time, or the server said that it ends it (57P01 and its kin), which may be behind the commit. */
const endsConnection = (error: Error): boolean =>
  isUnreachable(error) || (error instanceof pg.DatabaseError && error.code?.startsWith('57P') === true);

const perhapsDone = (cause: unknown): EngineError =>
  new EngineError(
    'outcome_unknown',
    'The connection to Postgres was lost during the commit: look whether the change is there before you repeat the request',
    { cause, retryAfter: null },
  );
