/** Ends what runs in a project: waits for the transactions of one that accepts no new requests, and terminates sessions. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Fragment, type Session, sql } from '../pg/index.js';
import { isMadeRole, type Placement, PROJECT_ROLES, type ProjectRole } from './placement.js';
import { unavailable, serviceWork } from './postgres-errors.js';
import type { Tenancy } from './tenancy.js';

/** After this time every instance knows that the project accepts no new requests, or during a move no new writes. */
const NOTICED_MS = 1_000;

/** No statement may take longer than a minute, but a stream with a slow reader may. */
const MAX_MS = 70_000;

const CHECK_MS = 100;

interface DrainOptions {
  /** The roles whose transactions to wait for; with the writer, also those that the project has made. */
  readonly roles?: readonly ProjectRole[];
  /** Milliseconds until they are terminated. */
  readonly maxMs?: number;
  /** If aborted, the wait ends. */
  readonly signal?: AbortSignal;
}

/** How long to wait for the end of transactions that were terminated: some code of Postgres does not look for that. */
const END_MS = 30_000;

/**
 * Waits until no transaction of the project's roles runs, from any instance. Those that take too long are terminated,
 * and their clients get an error, so that nothing is acknowledged afterward.
 * @throws EngineError database_unavailable; the signal's reason
 */
export async function drain(
  tenancy: Tenancy,
  placement: Placement,
  { roles = PROJECT_ROLES, maxMs = MAX_MS, signal }: DrainOptions = {},
): Promise<void> {
  await sleep(NOTICED_MS);
  const transactions = transactionsOf(placement, roles);
  const until = performance.now() + maxMs;
  // Checked twice in a row: between two transactions, the next one may still be waiting to begin.
  for (let quiet = 0; quiet < 2 && tenancy.isRunning(placement); await sleep(CHECK_MS)) {
    signal?.throwIfAborted();
    const { pool } = tenancy.serverOf(placement);
    const running = await serviceWork(() => pool.query(sql`SELECT pid ${transactions}`));
    quiet = running.length === 0 ? quiet + 1 : 0;
    if (performance.now() > until + END_MS) throw unavailable(new Error('Transactions of the project do not end'));
    if (performance.now() > until) {
      await serviceWork(() => pool.query(sql`SELECT pg_terminate_backend(pid) ${transactions}`));
    }
  }
}

/**
 * Every transaction holds a lock on its virtual ID. Not by `state`, which not every role may see for others' sessions.
 */
const transactionsOf = (placement: Placement, roles: readonly ProjectRole[]): Fragment =>
  sql`FROM pg_stat_activity WHERE (usename = ANY (${roles.map((role) => placement[role])}::name[])
          OR ${roles.includes('writer')} AND datname = ${placement.database} AND ${isMadeRole(placement, sql`usename::text`)})
        AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'virtualxid')`;

/** Ends idle sessions in a project's database, including those of roles dropped meanwhile. */
export async function endIdleSessions(session: Session, { database }: Placement): Promise<void> {
  await session.query(
    sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${database} AND state = 'idle'`,
  );
}

/**
 * Ends all sessions of these roles, wherever they are connected: one that the project has opened past the service, with
 * a password of its own, would outlive the repair of the password, and escapes all limits. Postgres does not tell it
 * from those of the service.
 */
export async function endSessions(session: Session, roles: readonly string[]): Promise<void> {
  await session.query(
    sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ANY (${roles}::name[])`,
  );
}
