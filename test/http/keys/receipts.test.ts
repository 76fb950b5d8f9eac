/**
 * Receipts over HTTP: what happened to a batch with an Idempotency-Key, and how to settle a key whose batch was not
 * stored.
 */
import { createHash } from 'node:crypto';
import type pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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
    service = await startTestService({ 'receipt-days': '2' });
    [project, neighbour] = await Promise.all([service.project(), service.project()]);
    for (const table of ['events', 'others']) await project.table(table, { n: 'INTEGER' });
    await project.rows('CREATE UNIQUE INDEX ON events (n)');
    const own = (await service.engine.projects.list()).find(({ id }) => id === project.id);
    database = own?.placement.database ?? '';
  });
  afterAll(() => service.close());

  const inDatabase = <T>(work: (client: pg.Client) => Promise<T>) => onServer(service.server, work, database);
  let count = 0;
  const newKey = () => `key-${++count}`;
  /** Different ones each time: the table has a unique index. */
  const batch = () => JSON.stringify([{ n: ++count }, { n: ++count }]);
  const insert = (key: string, body: string = batch(), path = '/api/cdp/data/events') =>
    project.call('POST', path, { body, headers: { 'idempotency-key': key } });
  const receipt = async (key: string, query = '?table=events') => {
    const response = await project.call('GET', `/api/cdp/receipts/${encodeURIComponent(key)}${query}`);
    expect(response.status, response.text).toBe(200);
    return response.body;
  };
  const ask = async (body: object) => {
    const response = await project.call('POST', '/api/cdp/receipts/query', { body });
    expect(response.status, response.text).toBe(200);
    return response.body.receipts as Record<string, unknown>[];
  };
  const aged = (key: string, age: string) =>
    inDatabase((client) =>
      client.query(
        `UPDATE _cdp.idempotency_keys
         SET created_at = created_at - $2::interval, expires_at = expires_at - $2::interval WHERE key = $1`,
        [key, age],
      ),
    );
  const sha256 = (body: string) => createHash('sha256').update(body).digest('hex');
  /** Runs work while a batch under the key waits for its table, and has its lock. */
  const whileRunning = (key: string, work: () => Promise<void>) =>
    inDatabase(async (client) => {
      await client.query('BEGIN; LOCK TABLE data.events IN ACCESS EXCLUSIVE MODE');
      const running = insert(key);
      await expect
        .poll(async () => {
          await client.query('SELECT pg_stat_clear_snapshot()');
          const waiting = `SELECT FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'`;
          return (await client.query(waiting, [database])).rowCount;
        })
        .toBe(1);
      await work();
      await client.query('COMMIT');
      return running;
    });

  describe('works', () => {
    it('for a batch, from its own transaction: table, rows, time, transaction and the SHA-256 of its body', async () => {
      const [key, body, before] = [newKey(), batch(), Date.now()];
      expect(await receipt(key)).toMatchObject({ success: true, key, status: 'not_stored', settled: false });
      await insert(key, body);
      const [row] = await project.rows('SELECT xmin FROM events ORDER BY n DESC LIMIT 1');
      const found = await receipt(key);
      expect(found).toEqual({
        success: true,
        key,
        status: 'stored',
        table: 'events',
        operation: 'insert',
        rows: 2,
        stored_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/) as string,
        transaction_id: String(row?.xmin),
        body_sha256: sha256(body),
      });
      expect(Math.abs(new Date(String(found.stored_at)).getTime() - before)).toBeLessThan(60_000);
      expect(await receipt(key, '')).toEqual(found);
      expect(await ask({ keys: [key] })).toEqual([(({ success: _, ...rest }) => rest)(found)]);
      // A repeat changes nothing about it.
      await insert(key, body);
      expect(await receipt(key)).toEqual(found);
    });

    it.each(['?return=ids', '?on_conflict=n', '?on_conflict=n&return=ids'])(
      'for a batch sent with %s',
      async (query) => {
        const [key, body] = [newKey(), batch()];
        expect((await insert(key, body, `/api/cdp/data/events${query}`)).status).toBe(201);
        expect(await receipt(key)).toMatchObject({
          status: 'stored',
          operation: 'insert',
          rows: 2,
          body_sha256: sha256(body),
        });
      },
    );

    it('for a batch that deletes, and with the SHA-256 of the decompressed body for one in gzip', async () => {
      const { gzipSync } = await import('node:zlib');
      const [key, body] = [newKey(), batch()];
      const gzipped = { 'idempotency-key': key, 'content-encoding': 'gzip' };
      await project.call('POST', '/api/cdp/data/events', { body: gzipSync(body), headers: gzipped });
      expect(await receipt(key)).toMatchObject({ status: 'stored', body_sha256: sha256(body) });
      const deletes = newKey();
      const headers = { 'idempotency-key': deletes };
      expect((await project.call('DELETE', '/api/cdp/data/events?by=n', { body, headers })).status).toBe(200);
      expect(await receipt(deletes)).toMatchObject({ status: 'stored', operation: 'delete', table: 'events', rows: 2 });
    });

    it('for a thousand keys at once, in their order', async () => {
      const stored = [newKey(), newKey()];
      for (const key of stored) await insert(key);
      const keys = Array.from({ length: 1_000 }, (_, i) => (i % 500 === 7 ? stored[i > 500 ? 1 : 0] : `nobody-${i}`));
      for (const settle of [false, true]) {
        const receipts = await ask({ keys, table: 'events', settle });
        expect(receipts.map(({ key }) => key)).toEqual(keys);
        const statuses = receipts.map(({ status, settled }) => (status === 'not_stored' ? settled : status));
        expect(statuses).toEqual(keys.map((_, i) => (i % 500 === 7 ? 'stored' : settle)));
      }
      expectFailure(await insert('nobody-999'), 409, 'key_settled');
    });

    it('while a batch is running: the response says so, and the key cannot be settled', async () => {
      const key = newKey();
      const first = await whileRunning(key, async () => {
        for (const query of ['?table=events', '', '?table=events&settle=true', '?settle=true']) {
          expect(await receipt(key, query)).toEqual({ success: true, key, status: 'running' });
        }
        expect(await receipt(key, '?table=others')).toMatchObject({ status: 'not_stored' });
      });
      expect(first.status).toBe(201);
      expect(await receipt(key, '?settle=true')).toMatchObject({ status: 'stored' });
    });

    it('with a receipt for each table if a key is used for several', async () => {
      const key = newKey();
      await insert(key);
      await insert(key, batch(), '/api/cdp/data/others');
      expect((await ask({ keys: [key] })).map(({ table }) => table)).toEqual(['others', 'events']);
      expect(await receipt(key, '?table=others')).toMatchObject({ status: 'stored', table: 'others' });
      const response = await project.call('GET', `/api/cdp/receipts/${key}`);
      expectFailure(response, 400, 'invalid_request');
      expect(response.body.message).toContain('"others", "events"');
    });

    it('for free SQL and a schema change, without a table, so that nothing done is `not_stored`', async () => {
      const [key, body] = [newKey(), JSON.stringify({ sql: `INSERT INTO others VALUES (DEFAULT, ${++count})` })];
      const headers = { 'idempotency-key': key };
      expect((await project.call('POST', '/api/cdp/sql', { body, headers })).status).toBe(200);
      for (const query of ['', '?settle=true']) {
        const stored = { status: 'stored', table: null, operation: 'sql', rows: null, body_sha256: sha256(body) };
        expect(await receipt(key, query)).toMatchObject(stored);
      }
      expect(await receipt(key)).toMatchObject({ status: 'not_stored' });
      const column = { body: { name: `c${++count}`, type: 'TEXT' }, headers };
      expect((await project.call('POST', '/api/cdp/schema/table/others/column', column)).status).toBe(201);
      expect((await ask({ keys: [key] })).map(({ operation }) => operation)).toEqual(['schema', 'sql']);
      const both = await project.call('GET', `/api/cdp/receipts/${key}`);
      expect(expectFailure(both, 400, 'invalid_request').message).toBe('2 requests have this key: schema, sql');
    });

    it.each(['k'.repeat(255), 'a/b c%?#&+"\\;..', '.'])('for the key %j in the path', async (key) => {
      await insert(key);
      if (key !== '.') expect(await receipt(key)).toMatchObject({ key, status: 'stored' });
      expect(await ask({ keys: [key] })).toMatchObject([{ key, status: 'stored' }]);
    });

    it('on a second instance, which can also settle the key for both', async () => {
      const [key, settled] = [newKey(), newKey()];
      await insert(key);
      const second = await startService(service.config, pino({ level: 'silent' }));
      try {
        const { token } = project;
        const there = (path: string) => call(second.url, 'GET', `/api/cdp/receipts/${path}`, { token });
        expect((await there(key)).body).toMatchObject({ status: 'stored' });
        expect((await there(`${settled}?settle=true`)).body).toMatchObject({ status: 'not_stored', settled: true });
      } finally {
        await second.close();
      }
      expectFailure(await insert(settled), 409, 'key_settled');
    });

    it('for receipt-days, although the key itself is free after 24 hours', async () => {
      const key = newKey();
      await insert(key);
      const first = await receipt(key);
      await aged(key, '47:59:00');
      await insert(newKey());
      expect(await receipt(key)).toMatchObject({ status: 'stored', transaction_id: first.transaction_id });
      // A new batch under the old key: while it runs it is the one that is asked for, then the receipt is its own.
      await whileRunning(key, async () => expect(await receipt(key)).toMatchObject({ status: 'running' }));
      const second = await receipt(key);
      expect(second.transaction_id).not.toBe(first.transaction_id);
      await aged(key, '48:00:01');
      await insert(newKey());
      const gone = await receipt(key);
      expect(gone).toMatchObject({ status: 'not_stored' });
      const days = (Date.now() - new Date(String(gone.since)).getTime()) / 86_400_000;
      expect(days).toBeCloseTo(2, 1);
    });
  });

  describe('refuses', () => {
    it('a batch under a settled key permanently, and stores nothing', async () => {
      for (const [settled, query] of [
        [newKey(), '?settle=true'],
        [newKey(), '?table=events&settle=true'],
      ] as const) {
        expect(await receipt(settled, query)).toMatchObject({ status: 'not_stored', settled: true });
        await aged(settled, '10 years');
        await insert(newKey());
        const before = await project.rows('SELECT count(*) AS n FROM events');
        for (const path of ['events', 'events?return=ids', 'events?on_conflict=n']) {
          expectFailure(await insert(settled, batch(), `/api/cdp/data/${path}`), 409, 'key_settled');
        }
        const headers = { 'idempotency-key': settled };
        const deletes = await project.call('DELETE', '/api/cdp/data/events?by=n', { body: '[{"n":1}]', headers });
        expectFailure(deletes, 409, 'key_settled');
        expect(await project.rows('SELECT count(*) AS n FROM events')).toEqual(before);
        expect(await receipt(settled)).toMatchObject({ status: 'not_stored', settled: true });
        // Of one table alone, or of everything that takes a key.
        const elsewhere = await insert(settled, batch(), '/api/cdp/data/others');
        const sql = await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT 1' }, headers });
        if (query === '?settle=true')
          for (const response of [elsewhere, sql]) expectFailure(response, 409, 'key_settled');
        else expect([elsewhere.status, sql.status]).toEqual([201, 200]);
      }
    });

    it('to change what is stored: settling its key leaves the receipt and repeats as they are', async () => {
      const [key, body] = [newKey(), batch()];
      const first = await insert(key, body);
      for (const query of ['?settle=true', '?table=events&settle=true']) {
        expect(await receipt(key, query)).toMatchObject({ status: 'stored' });
      }
      expect((await insert(key, body)).text).toBe(first.text);
    });

    it.each([
      ['GET', '/api/cdp/receipts/%C3%A9', undefined],
      ['GET', `/api/cdp/receipts/${'k'.repeat(256)}`, undefined],
      ['GET', '/api/cdp/receipts/k?settle=1', undefined],
      ['GET', '/api/cdp/receipts/k?table=a%20b', undefined],
      ['POST', '/api/cdp/receipts/query', { keys: [] }],
      ['POST', '/api/cdp/receipts/query', { keys: Array(1_001).fill('k') }],
      ['POST', '/api/cdp/receipts/query', { keys: ['k', 'é'] }],
      ['POST', '/api/cdp/receipts/query', { keys: ['k'], tables: 'events' }],
    ])('%s %s %j', async (method, path, body) => {
      expectFailure(await project.call(method, path, body === undefined ? {} : { body }), 400, 'invalid_request');
    });
  });

  describe('protects', () => {
    it('other projects: they see no receipt, and can settle only their own keys', async () => {
      const [key, free] = [newKey(), newKey()];
      await insert(key);
      const seen = await neighbour.call('GET', `/api/cdp/receipts/${key}`);
      expect(seen.body).toMatchObject({ status: 'not_stored' });
      await neighbour.call('GET', `/api/cdp/receipts/${free}?settle=true`);
      expect((await insert(free)).status).toBe(201);
    });

    it('keys that are settled while their batches are sent: each is stored or refused permanently, and the receipt says which', async () => {
      const outcomes = { stored: 0, settled: 0 };
      for (let round = 0; round < 4; round++) {
        const keys = Array.from({ length: 40 }, newKey);
        const sent = keys.map((key) => insert(key));
        const tables = round % 2 === 0 ? { table: 'events' } : {};
        const asked = await Promise.all([0, 1, 2].map(() => ask({ keys, ...tables, settle: true })));
        const responses = await Promise.all(sent);
        const receipts = await ask({ keys, ...tables, settle: true });
        const repeats = await Promise.all(keys.map((key) => insert(key)));
        for (const [i, { status, body }] of responses.entries()) {
          const isStored = receipts[i]?.status === 'stored';
          outcomes[isStored ? 'stored' : 'settled']++;
          // What was once said holds.
          for (const earlier of asked) {
            expect([isStored ? 'stored' : 'not_stored', 'running']).toContain(earlier[i]?.status);
          }
          if (status === 201) expect(isStored).toBe(true);
          else expect([isStored, status], JSON.stringify(body)).toEqual([false, 409]);
          // With another body: what is stored says 422.
          expect(repeats[i]?.body.error).toBe(isStored ? 'idempotency_key_reused' : 'key_settled');
        }
      }
      expect(outcomes.stored + outcomes.settled).toBe(160);
    });
  });
});
