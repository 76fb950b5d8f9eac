/**
 * A Postgres whose synchronous standby is away, and one whose control tables are locked: a commit that was not
 * confirmed is not reported as stored, and a statement whose client has left does not continue in Postgres.
 */
import { chmod, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { examineCommits } from '../../src/engine/servers/server-findings.js';
import { makeFolder } from '../support/folder.js';
import { connected } from '../support/postgres.js';
import {
  failure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../support/service.js';
import { startThrowaway, type ThrowawayServer } from '../support/throwaway-postgres.js';

let folder: string;
let server: ThrowawayServer;
let service: TestService;
let project: TestProject;

const onServer = <T>(work: (client: pg.Client) => Promise<T>, database = 'postgres') =>
  connected({ ...server.connection, database }, work);

beforeAll(async () => {
  folder = makeFolder('cdp-standby-');
  await chmod(folder, 0o711);
  server = await startThrowaway(join(folder, 'server'));
  service = await startTestService({}, { major: 18, connection: server.connection });
  project = await service.project();
});
afterAll(async () => {
  await service.close();
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

/** How many sessions wait like this; Postgres names the events in its manual, table 27.4. */
const waiting = (client: pg.Client, condition: string) =>
  client.query<{ pid: number }>(`SELECT pid FROM pg_stat_activity WHERE ${condition}`).then(({ rows }) => rows);

describe('a commit that waits for a standby', () => {
  /** As of the next statement of every session. */
  const setStandbys = (names: string) =>
    onServer(async (client) => {
      await client.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
      await client.query('SELECT pg_reload_conf()');
      const shown = async () => (await client.query<{ names: string }>('SHOW synchronous_standby_names')).rows;
      await expect.poll(shown).toEqual([{ synchronous_standby_names: names }]);
    });
  beforeAll(() => project.table('events', { n: 'INTEGER' }));
  beforeEach(() => setStandbys('*'));
  afterEach(() => setStandbys(''));

  /** What the operator does who sees it hang. */
  const cancelWait = () =>
    onServer(async (client) => {
      const waits = "wait_event = 'SyncRep' AND application_name LIKE 'cdp %' AND application_name <> 'cdp service'";
      let pids: { pid: number }[] = [];
      await expect.poll(async () => (pids = await waiting(client, waits)).length, { timeout: 20_000 }).toBe(1);
      await client.query('SELECT pg_cancel_backend($1)', [pids[0]?.pid]);
    });
  const canceled = async (response: Promise<TestResponse>): Promise<TestResponse> => {
    await cancelWait();
    return response;
  };

  it.each([
    ['a batch', 'POST', '/api/cdp/data/events', [{ n: 1 }]],
    ['a batch with its ids', 'POST', '/api/cdp/data/events?return=ids', [{ n: 2 }]],
    ['free SQL', 'POST', '/api/cdp/sql', { sql: 'INSERT INTO events (n) VALUES (3)' }],
    ['a schema change', 'POST', '/api/cdp/schema/table/events/column', { name: 'm', type: 'TEXT' }],
  ])('answers outcome_unknown if it is canceled: %s', async (_what, method, path, body) => {
    const { message } = failure(await canceled(project.call(method, path, { body })), 503, 'outcome_unknown');
    expect(message).toContain('standby');
  });

  it('causes warnings in the metrics and the doctor until a standby is connected', async () => {
    const address = { ...server.connection, database: service.database, connectionTimeoutMillis: 5_000 };
    const metrics = async () => (await service.call('GET', '/metrics')).text;
    const text = await metrics();
    expect(text).toMatch(/^cdp_standby_missing\{server="default"\} 1$/m);
    expect(text).toMatch(/^cdp_standbys\{server="default"\} 0$/m);
    expect(text).toMatch(/^cdp_commit_duration_seconds\{server="default"\} Nan$/im);
    const found = "no commit returns: no standby of synchronous_standby_names ('*') is connected";
    expect(await examineCommits(address)).toMatchObject([{ subject: 'commits', health: 'problem', found }]);
    await setStandbys('');
    const standby: pg.ClientConfig & { replication: string } = { ...server.connection, replication: 'database' };
    await connected(standby, async () => {
      expect(await metrics()).toMatch(/^cdp_standbys\{server="default"\} 1$/m);
      expect(await metrics()).toMatch(/^cdp_standby_missing\{server="default"\} 0$/m);
      expect(await examineCommits(address)).toMatchObject([
        { subject: 'commits', health: 'ok' },
        { subject: 'replication', found: expect.stringMatching(/^1 standby connected/) as string },
      ]);
    });
  });

  it('answers outcome_unknown if the time of free SQL is up', async () => {
    const body = { sql: 'INSERT INTO events (n) VALUES (4)', timeout_ms: 500 };
    failure(await project.call('POST', '/api/cdp/sql', { body }), 503, 'outcome_unknown');
  });

  it('of a batch with a key: a repeat waits for the standby as well', async () => {
    const insert = () =>
      project.call('POST', '/api/cdp/data/events', { body: [{ n: 5 }], headers: { 'idempotency-key': 'k' } });
    failure(await canceled(insert()), 503, 'outcome_unknown');
    failure(await canceled(insert()), 503, 'outcome_unknown');
    await setStandbys('');
    const repeat = await insert();
    expect([repeat.status, repeat.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
    expect(await project.rows('SELECT count(*) FROM events WHERE n = 5')).toEqual([{ count: 1 }]);
  });

  it('of a new token: answers outcome_unknown, and Postgres does not continue to wait', async () => {
    await expect(service.engine.tokens.create(project.id)).rejects.toMatchObject({ code: 'outcome_unknown' });
    // What its audit log still writes at the moment may wait.
    await service.engine.audit.flush();
    await onServer((client) =>
      expect.poll(async () => (await waiting(client, "wait_event = 'SyncRep'")).length, { timeout: 20_000 }).toBe(0),
    );
  });
});

it('a query of the service that timed out leaves no backend waiting for its lock', async () => {
  await onServer(async (client) => {
    await client.query('BEGIN; LOCK TABLE cdp.instance');
    const pings = await Promise.allSettled(Array.from({ length: 6 }, () => service.engine.control.ping()));
    expect(pings.map(({ status }) => status)).toEqual(Array.from(pings, () => 'rejected'));
    const stuck = async () => (await waiting(client, "wait_event_type = 'Lock'")).length;
    // The snapshot of a transaction would stay the same.
    await client.query('SET stats_fetch_consistency = none');
    await expect.poll(stuck, { timeout: 20_000 }).toBe(0);
    await client.query('ROLLBACK');
  }, service.database);
});
