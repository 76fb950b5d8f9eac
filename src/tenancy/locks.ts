/**
 * How the service works beside other sessions: the locks that it takes, for a limited time, and who holds one that stays
 * taken; and repeats of statements with which another session has interfered.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  BEGIN,
  COMMIT,
  type Fragment,
  ident,
  PostgresError,
  ROLLBACK,
  type Session,
  sql,
  SQLSTATE,
  trusted,
} from '../pg/index.js';

/**
 * The advisory locks that the service takes by number (Postgres manual, Advisory Locks). A lock belongs to the database
 * of its session, and ends with the session. Any role that can log in to the database can hold it, so in a project's
 * database the service takes none but for requests of that project; there it locks tables instead. Three are missing
 * here: that of the owner of a data folder (`embedded/control-server.ts`), and two whose numbers are hashes: the lock
 * of a project (`control/project-lock.ts`) and that of an Idempotency-Key (`db/idempotency.ts`).
 */
export const ADVISORY_LOCKS = {
  /** Control database: held by the instance that prepares it. */
  start: 4_014_252_902,
  /**
   * Project: held until the end of a transaction that creates a table, so that two new names cannot differ only by
   * case.
   */
  newTable: 4_014_252_903,
  /** The database in a server's URL: held by the instance that prepares the template. */
  template: 4_014_252_909,
  /**
   * The database in a server's URL: the seed for the hash of a project's database. Held while that is created or
   * dropped, so that a drop waits for a CREATE DATABASE that Postgres still runs after its client was killed. On a
   * Citus cluster that is the project's own database.
   */
  database: 4_014_252_910,
  /** Control database: held by a backup into a folder. */
  backup: 4_014_252_911,
} as const;

/**
 * A lock stayed taken. The message names its holders, so only an operator may see it; `serviceWork` hides it from other
 * callers.
 */
export class LockHeld extends Error {}

/** How long a start waits for other instances that start. Each prepares the database for some seconds. */
export const START_WAIT_MS = 30_000;

interface Wait {
  /** For people, such as "the lock for migrations". */
  readonly name: string;
  /** At least 1. */
  readonly ms: number;
}

/**
 * Takes an advisory lock until the end of the session.
 * @param key a bigint
 * @throws LockHeld
 */
export async function takeAdvisoryLock(session: Session, key: Fragment, { name, ms }: Wait): Promise<void> {
  await session.query(sql`SELECT set_config('lock_timeout', ${ms}, false)`);
  try {
    await session.query(sql`SELECT pg_advisory_lock(${key})`);
  } catch (error) {
    throw isTaken(error) ? await lockHeld(session, holdsKey(key), { name, ms }) : error;
  }
  await session.query(sql`SET lock_timeout = 0`);
}

/**
 * Begins a transaction that holds a table against others that do the same, until its end. The mode conflicts with no
 * read and no write, and a role without privileges for the table cannot get it.
 * @param table one for which projects' roles have no privileges
 * @returns whether it had to wait for another session
 * @throws LockHeld, PostgresError; the transaction has ended
 */
export async function beginWithTableLock(session: Session, table: Fragment, { name, ms }: Wait): Promise<boolean> {
  for (const limit of [1, ms]) {
    try {
      await session.run([
        BEGIN,
        sql`SET LOCAL lock_timeout = ${trusted(String(limit))}`,
        sql`LOCK TABLE ${table} IN ${trusted(MODE)} MODE`,
        sql`SET LOCAL lock_timeout = 0`,
      ]);
      return limit !== 1;
    } catch (error) {
      // The error that led here is thrown below.
      await session.query(ROLLBACK).catch(() => {});
      if (!isTaken(error)) throw error;
    }
  }
  throw await lockHeld(session, holdsTable(table), { name, ms });
}

/**
 * Runs `work` in such a transaction.
 * @param work learns whether it had to wait for another session
 * @throws LockHeld; what `work` throws
 */
export async function withTableLock<T>(
  session: Session,
  table: Fragment,
  wait: Wait,
  work: (waited: boolean) => Promise<T>,
): Promise<T> {
  const waited = await beginWithTableLock(session, table, wait);
  try {
    const result = await work(waited);
    await session.query(COMMIT);
    return result;
  } catch (error) {
    // The error that led here is thrown below.
    await session.query(ROLLBACK).catch(() => {});
    throw error;
  }
}

/** A repair that is idle for this long has stopped; ending its session lets others take over. */
const MAINTENANCE_IDLE = '30s';

const MAINTENANCE_WAIT = { name: "The lock for changes of the project's database", ms: 60_000 };

/**
 * Runs `work` in a transaction that holds the lock on a project's database, or on a template, that is held while it is
 * migrated or repaired, or while a move changes its fence. A project could hold any advisory lock of its database, so
 * this is a lock on a table that only the service may use.
 * @param work learns whether it had to wait for another session
 * @throws LockHeld; what `work` throws
 */
export async function withMaintenanceLock<T>(session: Session, work: (waited: boolean) => Promise<T>): Promise<T> {
  await session.query(sql`SELECT set_config('idle_in_transaction_session_timeout', ${MAINTENANCE_IDLE}, false)`);
  return withTableLock(session, sql`${ident('_cdp', 'migrations')}`, MAINTENANCE_WAIT, work);
}

const MODE = 'SHARE UPDATE EXCLUSIVE';

const isTaken = (error: unknown): boolean =>
  error instanceof PostgresError && error.sqlstate === SQLSTATE.LOCK_NOT_AVAILABLE;

/** pg_locks shows the number of an advisory lock in two halves (Postgres manual, pg_locks). */
const holdsKey = (key: Fragment): Fragment =>
  sql`locktype = 'advisory' AND objsubid = 1 AND (classid::bigint << 32) | objid::bigint = ${key}`;

const holdsTable = (table: Fragment): Fragment =>
  sql`locktype = 'relation' AND relation = ${table.text}::regclass
    AND mode IN ('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`;

async function lockHeld(session: Session, holds: Fragment, { name, ms }: Wait): Promise<LockHeld> {
  const holders = await holdersOf(session, sql`granted AND ${holds}`);
  return new LockHeld(`${name} was not free within ${ms / 1_000} s; ${holders}`);
}

/**
 * Who holds a lock in the session's database, as text. A service without pg_read_all_stats does not see everything
 * about the sessions of others.
 * @param condition on a row of pg_locks
 */
async function holdersOf(session: Session, condition: Fragment): Promise<string> {
  const rows = await session.query(
    sql`SELECT DISTINCT pid, usename, application_name, datname,
          to_char(coalesce(xact_start, backend_start) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
        FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND pid <> pg_backend_pid() AND ${condition} ORDER BY pid`,
  );
  if (rows.length === 0) return 'now it is free, so try again';
  const holders = rows.map(([pid, role, application, database, since]) => {
    const by = application ? `, application "${application}"` : '';
    return `process ${pid} of Postgres (role ${role}${by}, database ${database}${since == null ? '' : `, since ${since}`})`;
  });
  return `held by ${holders.join(' and ')}; SELECT pg_terminate_backend(${rows[0]?.[0]}) ends it`;
}

/** A deadlock, or the other session has changed or inserted the same row of the catalog. */
function isContention(error: unknown): boolean {
  if (!(error instanceof PostgresError)) return false;
  switch (error.sqlstate) {
    case SQLSTATE.DEADLOCK_DETECTED:
      return true;
    case SQLSTATE.UNIQUE_VIOLATION:
      return error.fields.schema === 'pg_catalog';
    case SQLSTATE.INTERNAL_ERROR:
      // "tuple concurrently updated" or "deleted": it has no SQLSTATE, and the message may be in any language.
      return error.fields.source === 'heapam.c';
    default:
      return false;
  }
}

const ATTEMPTS = 6;
const PAUSE_MS = 50;

/**
 * Runs `work` until no other session conflicts with it, at most six times. A statement that failed for that reason has
 * had no effect, and can be run again.
 * @param work can be repeated after it was partly done, and leaves no transaction open
 * @throws what `work` throws
 */
export async function retryOnContention<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isContention(error) || attempt === ATTEMPTS) throw error;
      // A random pause, so that two sessions do not collide again.
      await sleep(PAUSE_MS * attempt * (1 + Math.random()));
    }
  }
}
