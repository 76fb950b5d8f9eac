/**
 * What ends a session of the Postgres port from outside, whatever it is doing: each reason has its SQLSTATE, and no
 * backend is left.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ProjectSessions } from '../../src/tenancy/connections/project-session.js';
import { EngineError } from '../../src/contract/errors.js';
import { sha256 } from '../../src/engine/access/tokens.js';
import { WrongTokenLimiter } from '../../src/engine/access/rate-limits.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import {
  inProject,
  startOwnService,
  startTestService,
  type TestProject,
  type TestService,
} from '../support/service.js';
import { errorOf, errorsIn, login, query, RawClient, refusedLogin, withClient } from './connect.js';

const SETTINGS = {
  'pg-port': '0',
  'pg-idle-ms': '4000',
  'pg-idle-transaction-ms': '1500',
  'pg-transaction-ms': '2500',
  'shutdown-ms': '1000',
};

/** The service ends them by its own clocks, and the same way on each major. */
const stages: [string, () => Promise<TestService>][] = [
  ['a server of its own', () => startOwnService(SETTINGS)],
  ['a shared Postgres', () => startTestService(SETTINGS)],
];

const WAIT = { timeout: 20_000, interval: 100 };

/** Settings by which a session might try to stay, and a statement that catches its cancellation. */
const STUBBORN = `SET idle_in_transaction_session_timeout = 0; SET statement_timeout = 0; SET client_connection_check_interval = 0;
  DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(1000); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$`;

describe.each(stages)('on %s', (_name, start) => {
  let service: TestService;

  beforeAll(async () => {
    service = await start();
  });

  afterAll(() => service?.close());

  const open = async (project: TestProject, token = project.token): Promise<RawClient> => {
    const client = await RawClient.open(service.postgresPort ?? 0);
    await client.logIn('writer', project.name, token);
    return client;
  };

  /** How a session ended. */
  const ending = async (client: RawClient): Promise<string | undefined> => errorsIn(await client.until('none')).at(-1);

  const backends = async ({ name }: TestProject) => {
    const { placement } = await service.engine.projects.get(name);
    return inProject(service, placement, async (client) => {
      const found = await client.query(
        `SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename IN ($1, $2) AND application_name NOT LIKE 'cdp %'`,
        [placement.writer, placement.reader],
      );
      return (found.rows as { n: number }[])[0]?.n;
    });
  };

  const noneLeft = (project: TestProject) => vi.waitFor(async () => expect(await backends(project)).toBe(0), WAIT);

  it('the expiry of its token ends a session', async () => {
    const project = await service.project();
    const expiresAt = new Date(Date.now() + 2_000);
    const { token } = await service.engine.tokens.create(project.id, { expiresAt });
    expect(await ending(await open(project, token))).toBe('57P01');
    expect(await refusedLogin(login(service, project, 'writer', token))).toBe('28P01');
  });

  // At the same time: each waits for a time limit, in a project of its own.
  it.concurrent(
    'the revocation of its token ends a session: idle, in a transaction, and running a statement that catches everything',
    async () => {
      const project = await service.project();
      const { token, details } = await service.engine.tokens.create(project.id);
      const clients = await Promise.all([open(project, token), open(project, token), open(project, token)]);
      const other = await open(project);
      clients[1]?.send(query('BEGIN; SELECT 1'));
      await clients[1]?.until('Z');
      clients[2]?.send(query(STUBBORN));
      await service.engine.tokens.revoke(details.id, {}, BY_ITSELF);
      expect(await Promise.all(clients.map(ending))).toEqual(['57P01', '57P01', '57P01']);
      expect(await refusedLogin(login(service, project, 'writer', token))).toBe('28P01');
      other.send(query('SELECT 1'));
      expect(errorsIn(await other.until('Z'))).toEqual([]);
      other.close();
      await noneLeft(project);
    },
  );

  it.concurrent('the revocation of its token ends a session without running what it has already sent', async () => {
    const project = await service.project();
    await project.table('late', { n: 'INTEGER' });
    const { token, details } = await service.engine.tokens.create(project.id);
    const client = await open(project, token);
    client.send(query('SELECT pg_sleep(1000)'), query('INSERT INTO late (n) VALUES (1)'));
    await service.engine.tokens.revoke(details.id, {}, BY_ITSELF);
    expect(await ending(client)).toBe('57P01');
    await noneLeft(project);
    expect(await project.rows('SELECT n FROM late')).toEqual([]);
  });

  it('wrong tokens from its network do not end a session, nor do they hide that its token was revoked', async () => {
    const project = await service.project();
    const { token, details } = await service.engine.tokens.create(project.id);
    const client = await open(project, token);
    // As if the valid token had been forgotten, and its network were over the limit.
    const { authenticator, control } = service.engine;
    const { valid } = authenticator as unknown as { valid: Map<string, unknown> };
    const refusal = new EngineError('rate_limited', 'Too many wrong tokens have come from this address');
    const limited = vi.spyOn(WrongTokenLimiter.prototype, 'countWrongToken').mockReturnValue(refusal);
    const closed = vi.spyOn(WrongTokenLimiter.prototype, 'beginLookUp').mockImplementation(() => {
      throw refusal;
    });
    const lookUps = vi.spyOn(control.tokens, 'byHash');
    try {
      valid.clear();
      await vi.waitFor(() => expect(lookUps).toHaveBeenCalledWith(sha256(token)), WAIT);
      client.send(query('SELECT 1'));
      expect(errorsIn(await client.until('Z'))).toEqual([]);
      await service.engine.tokens.revoke(details.id, {}, BY_ITSELF);
      expect(await ending(client)).toBe('57P01');
    } finally {
      for (const spy of [limited, closed, lookUps]) spy.mockRestore();
    }
  });

  it.concurrent('the deactivation and the deletion of its project end a session', async () => {
    const project = await service.project();
    const first = await open(project);
    await service.engine.projects.setActive(project.name, false, BY_ITSELF);
    expect(await ending(first)).toBe('57P01');
    expect(await refusedLogin(login(service, project))).toBe('28000');
    await service.engine.projects.setActive(project.name, true, BY_ITSELF);
    const second = await open(await project.seenAnew());
    await service.engine.projects.delete(project.name, BY_ITSELF);
    expect(await ending(second)).toBe('57P01');
    expect(await refusedLogin(login(service, project))).toMatch(/^28(?:000|P01)$/);
  });

  it.concurrent('a session whose transaction is idle too long ends and releases its locks', async () => {
    const project = await service.project();
    await project.table('locked', { n: 'INTEGER' });
    const client = await open(project);
    client.send(query('SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE locked'));
    await client.until('Z');
    const inserted = await project.call('POST', '/api/cdp/data/locked', { body: [{ n: 1 }] });
    expect(inserted.status).toBe(201);
    expect(await ending(client)).toBe('57P01');
  });

  it.concurrent(
    'a statement that takes too long is canceled; the session ends only if the statement ignores that',
    async () => {
      const project = await service.project();
      const client = await open(project);
      client.send(query('SET statement_timeout = 0; SELECT pg_sleep(1000)'));
      expect(errorsIn(await client.until('Z'))).toEqual(['57014']);
      client.send(query('SELECT 1'));
      expect(errorsIn(await client.until('Z'))).toEqual([]);
      client.send(query(STUBBORN));
      expect(await ending(client)).toBe('57P01');
      await noneLeft(project);
    },
  );

  it.concurrent('a statement that takes too long is canceled even if it commits now and then', async () => {
    const client = await open(await service.project());
    client.send(query('DO $$ BEGIN LOOP PERFORM pg_sleep(0.1); COMMIT; END LOOP; END $$'));
    expect(errorsIn(await client.until('Z'))).toEqual(['57014']);
    client.close();
  });

  it.concurrent('a session that is idle too long ends', async () => {
    const project = await service.project();
    expect(await ending(await open(project))).toBe('57P01');
    await noneLeft(project);
  });

  it.concurrent(
    'a session whose client does not read its result ends at the time limit of its transaction',
    async () => {
      const project = await service.project();
      const client = await open(project);
      client.socket.pause();
      client.send(query("SELECT repeat('x', 1000) FROM generate_series(1, 1000000)"));
      await vi.waitFor(() => expect(service.engine.sessions?.load.sessions.writer).toBe(0), { timeout: 60_000 });
      await noneLeft(project);
      client.close();
    },
  );

  it.concurrent('a project over its quota ends sessions of the writer, not of the reader', async () => {
    const project = await service.project();
    await project.table('ballast', { text: 'TEXT' });
    const quota = 32 * 1024 * 1024;
    await service.engine.projects.setQuota(project.name, quota, BY_ITSELF);
    const anew = await project.seenAnew();
    const client = await open(anew);
    // On a slow machine the session ends within its INSERT. What that had written takes up space all the same.
    client.send(query("INSERT INTO ballast (text) SELECT repeat('x', 1000) FROM generate_series(1, 40000)"));
    // It goes on working, each time for less than a transaction may take, until the size has been measured again.
    for (let i = 0; i < 60; i++) client.send(query('SELECT pg_sleep(0.5)'));
    expect(await ending(client)).toBe('53100');
    expect(await refusedLogin(login(service, anew))).toBe('53100');
    const reading = await withClient(login(service, anew, 'reader'), (reader) => reader.query('SELECT 1 AS n'));
    expect(reading.rows).toEqual([{ n: 1 }]);
  });

  it('each session records two entries in the audit log, and is counted', async () => {
    const project = await service.project();
    await withClient(login(service, project), (client) => client.query('SELECT 1'));
    await vi.waitFor(
      async () => {
        await service.engine.audit.flush();
        const entries = await service.engine.audit.read({ limit: 20, project: project.name });
        const of = (operation: string) => entries.find((entry) => entry.operation === operation);
        const [opened, closed] = [of('session.open'), of('session.close')];
        expect(opened).toMatchObject({ actor: 'token', outcome: 'ok', object: 'writer' });
        expect(closed).toMatchObject({ outcome: 'ok', request_id: opened?.request_id });
        expect(closed?.object).toMatch(/^writer, [1-9]\d* bytes received, [1-9]\d* bytes sent$/);
      },
      { timeout: 20_000 },
    );
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    expect(metrics).toMatch(/^cdp_pg_sessions\{user="writer"\} 0$/m);
    expect(metrics).toMatch(/^cdp_pg_bytes_total\{direction="sent"\} [1-9]/m);
    expect(metrics).toMatch(/^cdp_pg_logins_refused_total\{reason="unauthorized"\} [1-9]/m);
    expect(metrics).toMatch(/^cdp_pg_sessions_ended_total\{reason="query_timeout"\} [1-9]/m);
  });
});

it('the end of the service ends its sessions, active or idle', async () => {
  const service = await startTestService(SETTINGS);
  const project = await service.project();
  const clients = await Promise.all(
    ['SELECT 1', STUBBORN].map(async (sql) => {
      const client = await RawClient.open(service.postgresPort ?? 0);
      await client.logIn('writer', project.name, project.token);
      client.send(query(sql));
      return client;
    }),
  );
  await clients[0]?.until('Z');
  await service.close();
  expect(await Promise.all(clients.map(async (client) => errorsIn(await client.until('none')).at(-1)))).toEqual([
    '57P01',
    '57P01',
  ]);
});

it('the end of the service ends a session that logs in at the same time', async () => {
  const service = await startTestService(SETTINGS);
  const project = await service.project();
  const port = service.postgresPort ?? 0;
  const client = await RawClient.open(port);
  let closed = Promise.resolve();
  const opening = vi.spyOn(ProjectSessions.prototype, 'openForClient');
  opening.mockImplementationOnce(async function (this: ProjectSessions, ...given) {
    closed = service.close();
    await vi.waitFor(async () => {
      const refused = await errorOf(RawClient.open(port));
      expect(refused.code).toBe('ECONNREFUSED');
    }, WAIT);
    return this.openForClient(...given);
  });
  try {
    const responses = await client.logIn('writer', project.name, project.token);
    expect(responses.at(-1)?.type).toBe('Z');
    await vi.waitFor(() => expect(client.isClosed).toBe(true), WAIT);
    expect(errorsIn(await client.until('none'))).toEqual(['57P01']);
  } finally {
    opening.mockRestore();
    client.close();
    await closed;
  }
});

it('kill -9 of its Postgres ends a session, and the next login starts the server again', async () => {
  const service = await startOwnService(SETTINGS);
  try {
    const project = await service.project();
    const login1 = async () => {
      const client = await RawClient.open(service.postgresPort ?? 0);
      await client.logIn('writer', project.name, project.token);
      return client;
    };
    const client = await login1();
    client.send(query('SELECT pg_backend_pid()'));
    const row = (await client.until('Z')).find(({ type }) => type === 'D');
    process.kill(Number(row?.body.toString('latin1', 6)), 'SIGKILL');
    expect(errorsIn(await client.until('none')).at(-1)).toMatch(/^57P0[12]$/);
    const next = await vi.waitFor(
      async () => {
        const again = await login1();
        again.send(query('SELECT 1'));
        expect((await again.until('Z')).at(-1)?.type).toBe('Z');
        return again;
      },
      { timeout: 60_000, interval: 500 },
    );
    next.close();
  } finally {
    await service.close();
  }
});
