/**
 * Waits until commits return. With synchronous standbys of which none is connected, each commit waits without a limit
 * (Postgres manual, Synchronous Replication).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionLost, type Fragment, type Row, sql, type Statement } from '../pg/index.js';

/**
 * Over the rows of pg_stat_replication: `synchronous_standby_names` if none of them is connected, so that no commit
 * returns; otherwise null.
 */
export const NO_STANDBY: Fragment = sql`CASE WHEN current_setting('synchronous_commit') NOT IN ('off', 'local')
    AND 0 = count(*) FILTER (WHERE sync_state IS DISTINCT FROM 'async')
  THEN nullif(current_setting('synchronous_standby_names'), '') END`;

const POLL_MS = 500;

/** No commit returns. */
export class StandbyMissing extends ConnectionLost {
  constructor(names: string, cause?: Error) {
    super(`${noCommitReturns(names)}. Start the standby, or ALTER SYSTEM RESET synchronous_standby_names`, { cause });
  }
}

export const noCommitReturns = (names: string): string =>
  `no commit returns: no standby of synchronous_standby_names ('${names}') is connected`;

/** @returns `synchronous_standby_names` if none of them is connected */
export async function missingStandbys(server: { row(statement: Statement): Promise<Row> }): Promise<string | null> {
  // A role without the right to see details of a standby still sees its row.
  const [names] = await server.row(sql`SELECT ${NO_STANDBY} FROM pg_stat_replication`);
  return names ?? null;
}

/**
 * @param ms how long to wait
 * @param waiting told once, in words, what the wait is for
 * @throws StandbyMissing after that time
 */
export async function awaitStandby(
  server: Parameters<typeof missingStandbys>[0],
  ms: number,
  waiting: (what: string) => void,
): Promise<void> {
  const until = performance.now() + ms;
  for (let isFirst = true; ; isFirst = false) {
    const names = await missingStandbys(server);
    if (names === null) return;
    if (isFirst) waiting(`waiting for a standby: ${noCommitReturns(names)}`);
    if (performance.now() > until) throw new StandbyMissing(names);
    await sleep(POLL_MS);
  }
}
