/**
 * Who is using the embedded server: one service at most, and any number of commands. Whoever leaves last stops it. Told
 * by advisory locks, which end with their connection, so that a killed process leaves none behind.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { ADVISORY_LOCKS } from './advisory-locks.js';
import type { ServerAddress } from './server.js';

/** Postgres may need a moment to see that a killed service is gone. */
const SERVICE_PATIENCE_MS = 3_000;

/** Thrown where the data folder has its service already. */
export class AnotherService extends Error {
  constructor() {
    super('Another service is running on this data folder; stop it first, or use --data-dir');
  }
}

export class Presence {
  private constructor(private readonly client: pg.Client) {}

  /**
   * Waits while somebody is stopping the server; then the connection breaks, and the caller must start it again.
   * @throws AnotherService; a network error or PostgresError where the server has gone
   */
  static async enter(address: ServerAddress, role: 'service' | 'command'): Promise<Presence> {
    // Advisory locks belong to a database, and this one is always there.
    const client = new pg.Client({ ...address, database: 'postgres', application_name: `cdp ${role}` });
    client.on('error', () => {});
    try {
      await client.connect();
      await client.query('SELECT pg_advisory_lock_shared($1)', [ADVISORY_LOCKS.present]);
      if (role === 'service' && !(await patiently(client))) throw new AnotherService();
      return new Presence(client);
    } catch (error) {
      await client.end().catch(() => {});
      throw error;
    }
  }

  /** @param stop runs where nobody else is present, and keeps out whoever comes in the meantime */
  async leave(stop: () => Promise<void>): Promise<void> {
    await this.client.query('SELECT pg_advisory_unlock_shared($1)', [ADVISORY_LOCKS.present]);
    if (await take(this.client, ADVISORY_LOCKS.present)) await stop();
    await this.end();
  }

  /** Leaves without a look at who else is there. */
  async end(): Promise<void> {
    await this.client.end().catch(() => {});
  }
}

async function patiently(client: pg.Client): Promise<boolean> {
  for (const until = Date.now() + SERVICE_PATIENCE_MS; Date.now() < until; await sleep(100)) {
    if (await take(client, ADVISORY_LOCKS.service)) return true;
  }
  return false;
}

async function take(client: pg.Client, lock: number): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>('SELECT pg_try_advisory_lock($1) AS held', [lock]);
  return rows[0]?.held === true;
}
