/**
 * Who owns the embedded server: one process at a time, the service or a command that found none running. Told by an
 * advisory lock, which ends with its connection, so that a killed process leaves none behind.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { ADVISORY_LOCKS } from './advisory-locks.js';
import type { ServerAddress } from './server.js';

/** The owner that runs until it is stopped. */
export const SERVICE = 'cdp serve';

/** How long a service waits: Postgres may need a moment to see that a killed one is gone, and a command ends soon. */
const PATIENCE_MS = { forService: 3_000, forCommand: 10_000 };

/** The data folder has an owner already. */
export class FolderInUse extends Error {
  /** @param owner such as `cdp backup (process 4711)`; null: it has just ended, or begun */
  constructor(asking: string, owner: string | null) {
    super(
      isService(asking) && isService(owner)
        ? 'Another service is running on this data folder; stop it first, or use --data-dir'
        : `${owner ?? 'Another process'} is using this data folder. Wait until it has started or ended, or use --data-dir`,
    );
  }
}

const isService = (owner: string | null): boolean => owner?.startsWith(SERVICE) === true;

export class Presence {
  private constructor(private readonly client: pg.Client) {}

  /**
   * A service waits a while for the owner before it. A command does not: its caller asks the owner meanwhile.
   * @param owner the command that wants the server, such as `cdp backup`
   * @throws FolderInUse; a network error or PostgresError where the server has gone
   */
  static async enter(address: ServerAddress, owner: string): Promise<Presence> {
    // Advisory locks belong to a database, and this one is always there.
    const application_name = `${owner} (process ${process.pid})`;
    const client = new pg.Client({ ...address, database: 'postgres', application_name });
    client.on('error', () => {});
    try {
      await client.connect();
      for (const started = Date.now(); !(await take(client)); await sleep(100)) {
        const other = await ownerNow(client);
        const patience = isService(other) ? PATIENCE_MS.forService : PATIENCE_MS.forCommand;
        if (!isService(owner) || Date.now() - started > patience) throw new FolderInUse(owner, other);
      }
      return new Presence(client);
    } catch (error) {
      await client.end().catch(() => {});
      throw error;
    }
  }

  async end(): Promise<void> {
    await this.client.end().catch(() => {});
  }
}

async function take(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>('SELECT pg_try_advisory_lock($1) AS held', [
    ADVISORY_LOCKS.owner,
  ]);
  return rows[0]?.held === true;
}

/** The lock's number is shown in two halves (Postgres manual 53.12, `pg_locks`). */
async function ownerNow(client: pg.Client): Promise<string | null> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT application_name AS name FROM pg_locks JOIN pg_stat_activity USING (pid)
     WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32) | objid::bigint = $1`,
    [ADVISORY_LOCKS.owner],
  );
  return rows[0]?.name ?? null;
}
