/** Idempotency-Key over HTTP (contract C11): whatever happens in between, one key stores one batch. */
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startService } from '../../../src/service.js';
import {
  call,
  expectFailure,
  onServer,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

describe('on Postgres', () => {
  let service: TestService;
  let project: TestProject;
  let neighbour: TestProject;
  let database: string;
  beforeAll(async () => {
    service = await startTestService();
    [project, neighbour] = await Promise.all([service.project(), service.project()]);
    for (const each of [project, neighbour]) await each.table('events', { n: 'INTEGER' });
    await project.table('others', { n: 'INTEGER' });
    const own = (await service.engine.projects.list()).find(({ id }) => id === project.id);
    database = own?.placement.database ?? '';
  });
  beforeEach(() => project.rows('DELETE FROM events; DELETE FROM others'));
  afterAll(() => service.close());

  const BATCH = [{ n: 1 }, { n: 2 }];
  const PATH = '/api/cdp/data/events';
  let keys = 0;
  const newKey = () => `key-${++keys}`;
  const insert = (key: string, body: unknown = BATCH, path = PATH) =>
    project.call('POST', path, { body, headers: { 'idempotency-key': key } });
  const stored = async (table = 'events') => Number((await project.rows(`SELECT count(*) AS n FROM ${table}`))[0]?.n);
  const inDatabase = <T>(work: (client: pg.Client) => Promise<T>) => onServer(service.server, work, database);

  /** Pids of the project's insert connections that wait: for a lock, or asleep in a trigger. */
  const waiting = async (client: pg.Client): Promise<number[]> => {
    // Within a transaction Postgres would go on showing what it saw first.
    await client.query('SELECT pg_stat_clear_snapshot()');
    const { rows } = await client.query<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE datname = $1 AND application_name = 'cdp write'
         AND (wait_event_type = 'Lock' OR wait_event = 'PgSleep')`,
      [database],
    );
    return rows.map(({ pid }) => pid);
  };
  const untilWaiting = async (client: pg.Client, count = 1): Promise<number[]> => {
    const since = performance.now();
    for (;;) {
      const pids = await waiting(client);
      if (pids.length >= count) return pids;
      if (performance.now() - since > 4_000) throw new Error(`${pids.length} of ${count} wait`);
      await sleep(10);
    }
  };

  describe('works', () => {
    it.each(['', '?return=ids'])(
      'a repeat returns the first response byte for byte and inserts nothing %s',
      async (query) => {
        const key = newKey();
        const first = await insert(key, BATCH, PATH + query);
        expect(first.status).toBe(201);
        expect(first.headers.get('idempotency-replayed')).toBeNull();
        for (let i = 0; i < 3; i++) {
          const repeat = await insert(key, BATCH, PATH + query);
          expect(repeat.status).toBe(201);
          expect(repeat.text).toBe(first.text);
          expect(repeat.headers.get('idempotency-replayed')).toBe('true');
          expect(repeat.headers.get('content-type')).toBe(first.headers.get('content-type'));
        }
        expect(await stored()).toBe(2);
        if (query !== '') {
          const ids = (await project.rows('SELECT id FROM events ORDER BY n')).map(({ id }) => id);
          expect(first.body.ids).toEqual(ids);
        }
      },
    );

    it('keys are separate for each table and each project', async () => {
      const key = newKey();
      expect((await insert(key)).headers.get('idempotency-replayed')).toBeNull();
      expect((await insert(newKey())).headers.get('idempotency-replayed')).toBeNull();
      expect((await insert(key, [{ n: 9 }], '/api/cdp/data/others')).status).toBe(201);
      const headers = { 'idempotency-key': key };
      const elsewhere = await neighbour.call('POST', PATH, { body: [{ n: 5 }], headers });
      expect([elsewhere.status, elsewhere.headers.get('idempotency-replayed')]).toEqual([201, null]);
      expect([await stored(), await stored('others')]).toEqual([4, 1]);
      expect(await neighbour.rows('DELETE FROM events RETURNING n')).toEqual([{ n: 5 }]);
    });

    it('the body is compared after decompression', async () => {
      const { gzipSync } = await import('node:zlib');
      const key = newKey();
      await insert(key);
      const headers = { 'idempotency-key': key, 'content-encoding': 'gzip' };
      const repeat = await project.call('POST', PATH, { body: gzipSync(JSON.stringify(BATCH)), headers });
      expect(repeat.headers.get('idempotency-replayed')).toBe('true');
      expect(await stored()).toBe(2);
    });

    it.each([['x'], ['k'.repeat(255)], ['"quoted" \'\\ %s $1 ; --'], ['a b']])('accepts the key %j', async (key) => {
      expect((await insert(key)).status).toBe(201);
      expect((await insert(key)).headers.get('idempotency-replayed')).toBe('true');
      expect(await stored()).toBe(2);
    });

    it('a key is kept for 24 hours, then it is free again', async () => {
      const key = newKey();
      const aged = (age: string) =>
        inDatabase((client) =>
          client.query(`UPDATE _cdp.idempotency_keys SET created_at = now() - $2::interval WHERE key = $1`, [key, age]),
        );
      await insert(key);
      await aged('23:59:30');
      expect((await insert(key)).headers.get('idempotency-replayed')).toBe('true');
      await aged('24:00:01');
      const again = await insert(key, [{ n: 3 }]);
      expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([201, null]);
      expect((await insert(key, [{ n: 3 }])).headers.get('idempotency-replayed')).toBe('true');
      expect(await stored()).toBe(3);
    });

    it('expired keys are removed over time, and kept ones are not', async () => {
      await inDatabase((client) =>
        client.query(`INSERT INTO _cdp.idempotency_keys (path, key, fingerprint, answer, expires_at)
          SELECT 'old', 'k' || n, ''::bytea, '{}', now() - interval '1 hour' FROM generate_series(1, 150) n
          UNION ALL SELECT 'young', 'k' || n, ''::bytea, '{}', now() + interval '1 hour' FROM generate_series(1, 150) n`),
      );
      for (let i = 0; i < 3; i++) await insert(newKey());
      const left = await inDatabase((client) =>
        client.query(
          `SELECT path, count(*)::int AS n FROM _cdp.idempotency_keys WHERE path IN ('old', 'young') GROUP BY 1`,
        ),
      );
      expect(left.rows).toEqual([{ path: 'young', n: 150 }]);
    });

    it('a second instance on the same control database honors the key', async () => {
      const key = newKey();
      const first = await insert(key);
      const second = await startService(service.config, pino({ level: 'silent' }));
      try {
        const headers = { 'idempotency-key': key };
        const repeat = await call(second.url, 'POST', PATH, { body: BATCH, headers, token: project.token });
        expect([repeat.status, repeat.text]).toEqual([201, first.text]);
        expect(repeat.headers.get('idempotency-replayed')).toBe('true');
      } finally {
        await second.close();
      }
      expect(await stored()).toBe(2);
    });

    it('a batch with a key into a table that was dropped and recreated is still a repeat', async () => {
      const key = newKey();
      await project.table('fleeting', { n: 'INTEGER' });
      const first = await insert(key, BATCH, '/api/cdp/data/fleeting');
      await project.rows('DROP TABLE fleeting');
      const repeat = await insert(key, BATCH, '/api/cdp/data/fleeting');
      expect([repeat.status, repeat.text]).toEqual([201, first.text]);
    });
  });

  describe('refuses', () => {
    it('another body under the same key, even if only a space differs', async () => {
      const key = newKey();
      await insert(key);
      expectFailure(await insert(key, [{ n: 3 }]), 422, 'idempotency_key_reused');
      expectFailure(await insert(key, JSON.stringify(BATCH, null, 1)), 422, 'idempotency_key_reused');
      expect(await stored()).toBe(2);
    });

    it('another query under the same key', async () => {
      const key = newKey();
      await insert(key);
      expectFailure(await insert(key, BATCH, `${PATH}?return=ids`), 422, 'idempotency_key_reused');
      expect(await stored()).toBe(2);
    });

    it.each([
      ['', 'empty'],
      ['k'.repeat(256), '256 characters'],
      ['é', 'not ASCII'],
      ['a\tb', 'a tab'],
    ])('the key %j (%s)', async (key) => {
      expectFailure(await insert(key), 400, 'invalid_request');
      expect(await stored()).toBe(0);
    });

    it('nothing is kept of a refused batch', async () => {
      const key = newKey();
      expectFailure(await insert(key, [{ n: 'x' }]), 400, 'invalid_value');
      expectFailure(await insert(key, []), 400, 'empty_batch');
      expectFailure(await insert(key, [{ n: 1, m: 2 }]), 400, 'unknown_column');
      const taken = '0192aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee';
      await insert(newKey(), [{ id: taken }]);
      expectFailure(await insert(key, [{ n: 1 }, { id: taken }]), 409, 'unique_violation');
      expectFailure(await insert(key, BATCH, '/api/cdp/data/nosuch'), 404, 'table_not_found');
      const right = await insert(key);
      expect([right.status, right.headers.get('idempotency-replayed')]).toEqual([201, null]);
      expect(await stored()).toBe(3);
    });
  });

  describe('protects', () => {
    it('a second request is refused at once while the first is running; then it is a repeat', async () => {
      const key = newKey();
      await inDatabase(async (client) => {
        await client.query('BEGIN; LOCK TABLE data.events IN ACCESS EXCLUSIVE MODE');
        const first = insert(key);
        await untilWaiting(client);
        const started = performance.now();
        const second = await insert(key);
        expectFailure(second, 409, 'request_in_flight');
        expectFailure(await insert(key, [{ n: 7 }]), 409, 'request_in_flight');
        expect(performance.now() - started, 'without waiting for the lock').toBeLessThan(4_000);
        const other = insert(newKey());
        await untilWaiting(client, 2);
        await client.query('COMMIT');
        expect((await first).status).toBe(201);
        expect((await other).status).toBe(201);
        expect((await insert(key)).text).toBe((await first).text);
      });
      expect(await stored()).toBe(4);
    });

    it('many requests at once with one key: one batch, and every response is the same or request_in_flight', async () => {
      for (let round = 0; round < 5; round++) {
        const key = newKey();
        const responses = await Promise.all(Array.from({ length: 12 }, () => insert(key, BATCH, `${PATH}?return=ids`)));
        const done = responses.filter(({ status }) => status === 201);
        expect(new Set(done.map(({ text }) => text)).size).toBe(1);
        expect(done.filter(({ headers }) => headers.get('idempotency-replayed') === null)).toHaveLength(1);
        for (const response of responses)
          if (response.status !== 201) expectFailure(response, 409, 'request_in_flight');
      }
      expect(await stored()).toBe(10);
    });

    it('a backend killed while it waits: 503, and the repeat stores exactly one batch', async () => {
      const key = newKey();
      await insert(newKey(), [{ n: 0 }]);
      await project.rows('DELETE FROM events');
      await inDatabase(async (client) => {
        await client.query('BEGIN; LOCK TABLE data.events IN ACCESS EXCLUSIVE MODE');
        const killed = insert(key);
        const [pid] = await untilWaiting(client);
        await client.query('SELECT pg_terminate_backend($1, 5000)', [pid]);
        const response = await killed;
        expectFailure(response, 503, 'database_unavailable');
        expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
        await client.query('COMMIT');
      });
      expect(await stored()).toBe(0);
      expect((await insert(key)).status).toBe(201);
      expect((await insert(key)).headers.get('idempotency-replayed')).toBe('true');
      expect(await stored()).toBe(2);
    });

    it('a connection that died while idle: the batch is stored once, on another connection', async () => {
      for (let round = 0; round < 3; round++) {
        const key = newKey();
        await inDatabase((client) =>
          client.query(
            `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
             WHERE datname = $1 AND application_name = 'cdp write'`,
            [database],
          ),
        );
        expect((await insert(key)).status).toBe(201);
        expect((await insert(key)).headers.get('idempotency-replayed')).toBe('true');
      }
      expect(await stored()).toBe(6);
    });

    it('a backend killed during its commit: the outcome is unknown, and the repeat settles it', async () => {
      await project.rows(`CREATE TABLE slow (n bigint);
        CREATE FUNCTION rest() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER rest AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
          FOR EACH ROW EXECUTE FUNCTION rest()`);
      const keyed = newKey();
      const unkeyed = project.call('POST', '/api/cdp/data/slow', { body: BATCH });
      const killed = insert(keyed, BATCH, '/api/cdp/data/slow');
      await inDatabase(async (client) => {
        for (const pid of await untilWaiting(client, 2)) await client.query('SELECT pg_terminate_backend($1)', [pid]);
      });
      expectFailure(await killed, 503, 'outcome_unknown');
      expect((await killed).headers.get('retry-after')).not.toBeNull();
      expect((await killed).body.message).toContain('Idempotency-Key');
      expectFailure(await unkeyed, 503, 'outcome_unknown');
      expect((await unkeyed).headers.get('retry-after')).toBeNull();
      expect((await unkeyed).body.message).toContain('check');
      await project.rows('DROP TRIGGER rest ON slow');
      expect(await stored('slow')).toBe(0);
      expect((await insert(keyed, BATCH, '/api/cdp/data/slow')).status).toBe(201);
      expect((await insert(keyed, BATCH, '/api/cdp/data/slow')).headers.get('idempotency-replayed')).toBe('true');
      expect(await stored('slow')).toBe(2);
    });

    it('a batch and its key are stored together or not at all, even if the commit fails', async () => {
      await project.rows('CREATE TABLE late (n bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)');
      const key = newKey();
      expectFailure(await insert(key, [{ n: 1 }, { n: 1 }], '/api/cdp/data/late'), 409, 'unique_violation');
      const keysLeft = await inDatabase((client) =>
        client.query('SELECT FROM _cdp.idempotency_keys WHERE key = $1', [key]),
      );
      expect(keysLeft.rowCount).toBe(0);
      expect(await stored('late')).toBe(0);
    });

    it('operators that a trigger puts before those of Postgres do not affect what is kept', async () => {
      await project.rows(`CREATE FUNCTION never(text, text) RETURNS boolean LANGUAGE sql RETURN false;
        CREATE OPERATOR = (FUNCTION = never, LEFTARG = text, RIGHTARG = text);
        CREATE FUNCTION never(timestamptz, timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
          BEGIN RAISE 'looked at'; END $$;
        CREATE OPERATOR > (FUNCTION = never, LEFTARG = timestamptz, RIGHTARG = timestamptz);
        CREATE FUNCTION turn() RETURNS trigger LANGUAGE plpgsql AS $$
          BEGIN PERFORM set_config('search_path', 'data, pg_catalog', false); RETURN NEW; END $$;
        CREATE TRIGGER turn BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION turn()`);
      const key = newKey();
      for (const replayed of [null, 'true']) {
        const response = await insert(key);
        expect([response.status, response.headers.get('idempotency-replayed')]).toEqual([201, replayed]);
      }
      expect(await stored()).toBe(BATCH.length);
      await project.rows(`DROP FUNCTION turn, never(text, text), never(timestamptz, timestamptz) CASCADE`);
    });

    it('a repeat needs the same scope as the first request, and shows nothing without it', async () => {
      const key = newKey();
      await insert(key);
      const token = await project.tokenWith('sql:read');
      const response = await project.call('POST', PATH, { body: BATCH, headers: { 'idempotency-key': key }, token });
      expectFailure(response, 403, 'insufficient_scope');
      expect(response.headers.get('idempotency-replayed')).toBeNull();
    });
  });
});
