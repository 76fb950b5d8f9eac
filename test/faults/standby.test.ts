/**
 * A Postgres whose synchronous standby is away, and one whose control tables are locked: a commit that was not
 * confirmed is not reported as stored, and a statement whose client has left does not continue in Postgres.
 */
import { chmod, rm } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { examineCommits } from '../../src/engine/servers/server-findings.js';
import { messageOf } from '../../src/contract/errors.js';
import { ControlPool } from '../../src/tenancy/control/control-pool.js';
import { ServerRows } from '../../src/tenancy/control/server-rows.js';
import { servicePool, withServiceSession } from '../../src/tenancy/service-pool.js';
import { awaitStandby } from '../../src/tenancy/standby-wait.js';
import { makeFolder } from '../support/folder.js';
import { connected } from '../support/postgres.js';
import { eventually, startProgram } from '../support/program.js';
import {
  expectFailure,
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

/** How many sessions wait like this; the Postgres manual lists the events under pg_stat_activity. */
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
  let admin: string;
  beforeAll(async () => {
    await project.table('events', { n: 'INTEGER' });
    admin = (await service.engine.tokens.create(null)).token;
  });
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
    const { message } = expectFailure(await canceled(project.call(method, path, { body })), 503, 'outcome_unknown');
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
    expectFailure(await project.call('POST', '/api/cdp/sql', { body }), 503, 'outcome_unknown');
  });

  it('of a batch with a key: a repeat waits for the standby as well', async () => {
    const insert = () =>
      project.call('POST', '/api/cdp/data/events', { body: [{ n: 5 }], headers: { 'idempotency-key': 'k' } });
    expectFailure(await canceled(insert()), 503, 'outcome_unknown');
    expectFailure(await canceled(insert()), 503, 'outcome_unknown');
    await setStandbys('');
    const repeat = await insert();
    expect([repeat.status, repeat.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
    expect(await project.rows('SELECT count(*) FROM events WHERE n = 5')).toEqual([{ count: 1 }]);
  });

  it('keeps no command waiting for ever, and without a word', async () => {
    const said: string[] = [];
    const address = { ...server.connection, database: service.database, connectionTimeoutMillis: 5_000 };
    const wait = (ms: number) =>
      withServiceSession(address, service.database, (session) => awaitStandby(session, ms, (what) => said.push(what)));
    await expect(wait(600)).rejects.toThrow(/^no commit returns: no standby .* is connected\. Start the standby/);
    expect(said).toEqual([
      "waiting for a standby: no commit returns: no standby of synchronous_standby_names ('*') is connected",
    ]);
    const { host, port, user, password } = server.connection;
    const url = `postgres://${user}:${password}@/${service.database}?host=${encodeURIComponent(host)}&port=${port}`;
    const env = { DATABASE_URL: url, CDP_SECRET: service.config.secret ?? '' };
    const program = startProgram(['token', 'create', '--project', project.name], { env });
    await new Promise<void>((told) =>
      program.process.stderr?.on('data', (text: string) => {
        if (text.startsWith('waiting for a standby: no commit returns')) told();
      }),
    );
    await setStandbys('');
    expect(await program.ended).toMatchObject({ code: 0 });
  });

  it('of a new token: answers outcome_unknown, and Postgres does not continue to wait', async () => {
    const failed = await service.engine.tokens.create(project.id).catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: 'outcome_unknown' });
    const [, id] =
      /^The change was made, but no synchronous standby .* The id of the new token is (\S+): no commit returns/.exec(
        messageOf(failed),
      ) ?? [messageOf(failed)];
    expect((await service.engine.tokens.list(project.id)).map((token) => token.id)).toContain(id);
    // What its audit log still writes at the moment may wait.
    await service.engine.audit.flush();
    await onServer((client) =>
      expect.poll(async () => (await waiting(client, "wait_event = 'SyncRep'")).length, { timeout: 20_000 }).toBe(0),
    );
  });

  it('of the removal of a server: says so, and why, although the pool has no other session', async () => {
    const address = { ...server.connection, database: service.database, connectionTimeoutMillis: 5_000 };
    const pool = servicePool(address, 1);
    const removed = new ServerRows(new ControlPool(pool)).remove('default', null);
    const failed: unknown = await removed.catch((error: unknown) => error);
    await pool.close();
    expect(failed).toMatchObject({ code: 'outcome_unknown' });
    expect(messageOf(failed)).toContain('no commit returns: no standby of');
  });

  /** The service itself settles moves, too. */
  const settled = async (id: string) => {
    const { moves } = service.engine;
    await eventually('it has ended', async () => {
      await moves.recover();
      return (await moves.get(id)).endedAt;
    });
    return (await moves.get(id)).state;
  };

  it('of a move that is begun, and of one that is canceled: says so', async () => {
    const { moves, projects, servers } = service.engine;
    const source = (await projects.get(project.name)).placement;
    const target = await servers.defaultTenancy.newPlacement();
    const move = { id: randomUUID(), projectId: project.id, source, target, mode: 'copy' } as const;
    await expect(moves.rows.insert(move)).rejects.toMatchObject({ code: 'outcome_unknown' });
    expect((await moves.get(move.id)).state).toBe('preparing');
    const canceled = await service.call('DELETE', `/api/cdp/admin/moves/${move.id}`, { token: admin });
    expectFailure(canceled, 503, 'outcome_unknown');
    await setStandbys('');
    expect(await settled(move.id)).toBe('undone');
  });

  it('of a switch: the source of the move is kept until it is confirmed', async () => {
    await setStandbys('');
    const { moves, projects, servers } = service.engine;
    const { id: projectId, name } = await service.project();
    const source = (await projects.get(name)).placement;
    const target = await servers.defaultTenancy.newPlacement();
    const move = { id: randomUUID(), projectId, source, target, mode: 'copy' } as const;
    expect(await moves.rows.insert(move)).toBeNull();
    const switched = `UPDATE cdp.moves SET state = 'switched' WHERE id = $1`;
    await onServer((client) => client.query(switched, [move.id]), service.database);
    const isKept = () =>
      onServer(async (client) => {
        const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [source.database]);
        return rowCount === 1;
      });
    await setStandbys('*');
    const reason = async () => {
      await moves.recover();
      return (await moves.get(move.id)).reason;
    };
    await expect.poll(reason, { timeout: 60_000 }).toContain('no commit returns: no standby of');
    expect(await isKept()).toBe(true);
    await setStandbys('');
    expect(await settled(move.id)).toBe('done');
    expect(await isKept()).toBe(false);
  });

  it('is not given as the reason why a query fails', async () => {
    await onServer(async (client) => {
      await client.query('BEGIN; LOCK TABLE cdp.instance');
      const failed: unknown = await service.engine.control.ping().catch((error: unknown) => error);
      expect(failed).toMatchObject({ code: 'database_unavailable' });
      expect(messageOf(failed)).not.toContain('standby');
      await client.query('ROLLBACK');
    }, service.database);
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
