/** What the lock guard is told: locks of both tables by process, and how many the smaller one takes. */
import pg from 'pg';
import { expect, it } from 'vitest';
import { Absence } from '../../src/tenancy/absence.js';
import { LockHolders } from '../../src/postgres/lock-holders.js';
import { withDatabase } from '../support/postgres.js';

it('counts the predicate locks of a serializable transaction with the others', () =>
  withDatabase(async ({ connection }) => {
    const holders = new LockHolders({ ...connection, connectionTimeoutMillis: 5_000 }, new Absence());
    const client = new pg.Client(connection);
    await client.connect();
    try {
      const show = async (name: string) =>
        Number((await client.query<Record<string, string>>(`SHOW ${name}`)).rows[0]?.[name]);
      const smaller = Math.min(await show('max_locks_per_transaction'), await show('max_pred_locks_per_transaction'));
      expect(await holders.open()).toBe(smaller * (await show('max_connections')));

      await client.query('CREATE TABLE pages AS SELECT g FROM generate_series(1, 2000) g');
      const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      const held = async () => (await holders.byProcess()).get(rows[0]?.pid ?? 0) ?? 0;
      await client.query('BEGIN ISOLATION LEVEL SERIALIZABLE');
      const before = await held();
      for (let page = 0; page < 5; page++) await client.query(`SELECT FROM pages WHERE ctid = '(${page},1)'`);
      expect(await held()).toBeGreaterThanOrEqual(before + 5);
      await client.query('ROLLBACK');
      expect(await held()).toBe(0);
    } finally {
      await client.end();
      await holders.close();
    }
  }));
