/** Moves of projects between two servers with everything that they have, and what happens to a move that fails. */
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { NEVER_ABORTED } from '../../src/db/backend-request.js';
import { sql } from '../../src/pg/index.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { EngineError } from '../../src/contract/errors.js';
import type { MoveState } from '../../src/contract/moves.js';
import { serverRefOf } from '../../src/tenancy/control/server-rows.js';
import { raiseFence } from '../../src/moves/fence.js';
import pg from 'pg';
import type { ProjectRow } from '../../src/tenancy/control/control-rows.js';
import { dumpRole, type Placement } from '../../src/tenancy/placement.js';
import { tryWithProjectLock } from '../../src/tenancy/control/project-lock.js';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { connected } from '../support/postgres.js';
import { eventually } from '../support/program.js';
import {
  expectFailure,
  inProject,
  startOwnService,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../support/service.js';

const PROJECTS = '/api/cdp/admin/projects';

let other: AddedServer;
let variable: string;
beforeAll(async () => {
  other = await startAddedServer(18);
  variable = variableWith(other.url);
});
afterAll(() => other.close());

const isStill = () => Promise.resolve(true);

const HOMES = { 'a server by address': startTestService, 'servers of their own': startOwnService };

describe.each(Object.entries(HOMES))('to and from %s', (_name, start) => {
  const isOwn = start === startOwnService;
  let service: TestService;
  let admin: string;
  let project: TestProject;
  beforeAll(async () => {
    service = await start();
    service.engine.moves.startRecovering();
    admin = (await service.engine.tokens.create(null)).token;
    const body = { name: 'eu-1', url_reference: `env:${variable}` };
    const added = await service.call('POST', '/api/cdp/admin/servers', { token: admin, body });
    if (added.status !== 201) throw new Error(added.text);
  });
  afterAll(() => service.close());
  afterEach(() => service.engine.projects.delete(project.name, BY_ITSELF));

  const begin = async (): Promise<void> => {
    project = await service.project(undefined, 'default');
    await project.table('visits', { page: 'TEXT', count: 'INTEGER' });
  };

  const row = async (): Promise<ProjectRow> => service.engine.projects.get(project.name);

  const move = (to: string, more: object = {}): Promise<TestResponse> =>
    service.call('POST', `${PROJECTS}/${project.name}/move`, { token: admin, body: { to, ...more } });

  const seen = async (id: string): Promise<Record<string, unknown>> =>
    (await service.call('GET', `/api/cdp/admin/moves/${id}`, { token: admin })).body.move as Record<string, unknown>;

  const idOf = (response: TestResponse): string => {
    expect(response.status, response.text).toBe(202);
    return (response.body.move as { id: string }).id;
  };

  /** Waits for its end. */
  const moved = async (to: string, more: object = {}): Promise<Record<string, unknown>> => {
    const id = idOf(await move(to, more));
    await eventually('the move ends', async () => (await seen(id)).ended_at !== null);
    return seen(id);
  };

  const insert = (records: object[], key?: string): Promise<TestResponse> =>
    project.call('POST', '/api/cdp/data/visits', {
      body: records,
      ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
    });

  /** Databases and roles of projects on the added server. */
  const leftThere = (): Promise<string[]> =>
    connected(other.connection, async (client) => {
      const { rows } = await client.query<{ name: string }>(
        `SELECT datname AS name FROM pg_database WHERE datname LIKE 'd\\_%'
         UNION ALL SELECT rolname FROM pg_roles WHERE rolname ~ '^[wrb]_'`,
      );
      return rows.map(({ name }) => name);
    });

  it('a project that may not create schemas may not do so on its new server', async () => {
    await begin();
    await service.engine.projects.setOwnSchemas(project.name, false, BY_ITSELF);
    for (const to of ['eu-1', 'default']) {
      expect(await moved(to)).toMatchObject({ state: 'done' });
      expect(await service.engine.projects.examine(await row())).toEqual([]);
    }
  });

  it('a project keeps everything on its new server, and again on the way back', async () => {
    await begin();
    await insert(
      [
        { page: 'a', count: 1 },
        { page: 'b', count: 2 },
      ],
      'first',
    );
    await project.call('POST', '/api/cdp/data/visits?on_error=quarantine', { body: [{ page: 'c', count: 'x' }] });
    await project.rows(
      `CREATE VIEW pages AS SELECT page FROM visits;
       CREATE SEQUENCE numbers; SELECT nextval('numbers'), nextval('numbers');
       COMMENT ON TABLE visits IS 'who was here';
       CREATE TABLE writer (a integer);
       CREATE FUNCTION writers() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM writer); END $$`,
    );
    // The number of rows is an estimate.
    const schemaOf = async () =>
      (await project.call('GET', '/api/cdp/schema')).text.replaceAll(/"(approximate_rows|request_id)":[^,}]*/g, '');
    const schema = await schemaOf();
    const before = await row();
    for (const to of ['eu-1', 'default']) {
      expect(await moved(to, { verify: 'full' })).toMatchObject({ state: 'done', to, reason: null });
      expect((await row()).placement.added === null).toBe(to === 'default');
      expect(await schemaOf()).toBe(schema);
      expect(await project.rows('SELECT page, count FROM visits ORDER BY page')).toEqual([
        { page: 'a', count: 1 },
        { page: 'b', count: 2 },
      ]);
      expect(await project.rows('SELECT count(*)::int AS n, writers()::int AS w FROM pages')).toEqual([{ n: 2, w: 0 }]);
      const replayed = await insert(
        [
          { page: 'a', count: 1 },
          { page: 'b', count: 2 },
        ],
        'first',
      );
      expect(replayed.headers.get('idempotency-replayed')).toBe('true');
      expect((await project.call('GET', '/api/cdp/receipts/first')).body).toMatchObject({ status: 'stored' });
      expect((await project.call('GET', '/api/cdp/quarantine')).body.records).toHaveLength(1);
    }
    expect(await project.rows(`SELECT nextval('numbers')::int AS n`)).toEqual([{ n: 3 }]);
    expect((await insert([{ page: 'd', count: 4 }])).status).toBe(201);
    // Not autovacuum's.
    await eventually('the planner has statistics', async () => {
      const [{ n } = { n: 0 }] = await project.rows(
        `SELECT count(*)::int AS n FROM pg_stat_user_tables WHERE relname = 'visits' AND last_analyze IS NOT NULL`,
      );
      return n === 1;
    });
    const after = await row();
    expect({ ...after, placement: null, sizeBytes: null }).toEqual({ ...before, placement: null, sizeBytes: null });
    expect(await leftThere()).toEqual([]);
  });

  it('a move that is impossible is refused at once with every reason, and changes nothing', async () => {
    await begin();
    const plan = (to: string) => service.call('GET', `${PROJECTS}/${project.name}/move?to=${to}`, { token: admin });
    expect((await plan('eu-1')).body).toMatchObject({
      project: project.name,
      from: 'default',
      to: 'eu-1',
      obstacles: [],
    });
    expectFailure(await plan('nowhere'), 404, 'not_found');
    expectFailure(await move('nowhere'), 404, 'not_found');
    await project.rows('CREATE SCHEMA mine');
    await service.call('PUT', '/api/cdp/admin/servers/eu-1', { token: admin, body: { status: 'closed' } });
    const { message } = expectFailure(await move('eu-1'), 400, 'invalid_request');
    expect(message).toContain('the server eu-1 is closed; it has schemas of its own (mine)');
    await service.call('PUT', '/api/cdp/admin/servers/eu-1', { token: admin, body: { status: 'active' } });
    expect(expectFailure(await move('default'), 400, 'invalid_request').message).toContain(
      'it lives on default already',
    );
    expect(await leftThere()).toEqual([]);
  });

  it('a plan lists everything that would prevent the move', async () => {
    await begin();
    const { placement } = await row();
    const obstacles = async (): Promise<string[]> =>
      (await service.call('GET', `${PROJECTS}/${project.name}/move?to=eu-1`, { token: admin })).body
        .obstacles as string[];
    const set = (body: object) => service.call('PUT', '/api/cdp/admin/servers/eu-1', { token: admin, body });
    expect(await obstacles()).toEqual([]);
    const { name: neighbour } = await service.project(undefined, 'eu-1');
    await set({ max_projects: 1 });
    await inProject(service, placement, async (client) => {
      await client.query(
        `CREATE SUBSCRIPTION s CONNECTION 'dbname=none' PUBLICATION p WITH (connect = false, slot_name = NONE)`,
      );
      await client.query(`CREATE ROLE analyst; CREATE ROLE auditor; GRANT SELECT ON data.visits TO auditor`);
      await client.query(`CREATE POLICY theirs ON data.visits TO analyst`);
    });
    expect(await obstacles()).toEqual([
      'the server eu-1 has reached its limit of projects',
      'it has the subscriptions s: drop them',
      'row security policies or grants name roles that the target does not have: analyst, auditor',
    ]);
    await inProject(service, placement, async (client) => {
      await client.query(
        'DROP SUBSCRIPTION s; DROP POLICY theirs ON data.visits; DROP OWNED BY auditor; DROP ROLE analyst, auditor',
      );
    });
    await set({ max_projects: null });
    await service.engine.projects.delete(neighbour, BY_ITSELF);
    expect(await obstacles()).toEqual([]);
  });

  it('the plan names policies and other code with a role of the project as a constant', async () => {
    await begin();
    const { writer } = (await row()).placement;
    await project.rows(`CREATE POLICY mine ON visits USING (current_user = '${writer}' OR page = 'BY ${writer}');
      CREATE POLICY other ON visits USING (page = 'sent BY ${writer}');
      CREATE VIEW seen AS SELECT page FROM visits WHERE page = '${writer}';
      CREATE FUNCTION who() RETURNS boolean LANGUAGE sql AS $$ SELECT session_user = '${writer}' $$;
      CREATE FUNCTION nobody() RETURNS text LANGUAGE sql AS $$ SELECT 'it''${writer}''' $$`);
    const { body } = await service.call('GET', `${PROJECTS}/${project.name}/move?to=eu-1`, { token: admin });
    expect(body).toMatchObject({
      obstacles: [],
      warnings: ['function data.who()', 'policy mine on data.visits', 'view data.seen'].map(
        (what) => `${what} names a role of the project as a constant, and the role has another name on eu-1`,
      ),
    });
  });

  it('a plan does without what its server could not be asked', async () => {
    await begin();
    const target = await service.engine.control.servers.get('eu-1');
    if (target === null) throw new Error('It was added');
    const tenancy = service.engine.servers.tenancyOf(serverRefOf(target));
    const spy = vi.spyOn(tenancy, 'keepsRoleNames').mockImplementationOnce(() => {
      throw new EngineError('database_unavailable', 'It is away for a moment');
    });
    const plan = await service.engine.moves.plan(project.name, 'eu-1', 'copy');
    spy.mockRestore();
    expect(plan).toMatchObject({ obstacles: [], warnings: [] });
  });

  it('reads continue until the switch', async () => {
    await begin();
    await project.table('held', { a: 'TEXT' });
    await project.call('POST', '/api/cdp/data/visits?on_error=quarantine', {
      body: [
        { page: 'a', count: 1 },
        { page: 'b', count: 'x' },
      ],
      headers: { 'idempotency-key': 'first' },
    });
    await project.rows(`
      CREATE INDEX by_page ON visits (page);
      CREATE FUNCTION writes() RETURNS void LANGUAGE sql AS $$ INSERT INTO visits (page) VALUES ('w') $$;
      CREATE TABLE hidden (a integer);
      INSERT INTO hidden VALUES (1);
      ALTER TABLE hidden ENABLE ROW LEVEL SECURITY`);
    const run = (sql: string) => project.call('POST', '/api/cdp/sql', { body: { sql } });
    const reads: Record<string, () => Promise<TestResponse>> = {
      schema: () => project.call('GET', '/api/cdp/schema'),
      table: () => project.call('GET', '/api/cdp/schema/table/visits'),
      indexes: () => project.call('GET', '/api/cdp/schema/table/visits/index'),
      quarantine: () => project.call('GET', '/api/cdp/quarantine'),
      receipt: () => project.call('GET', '/api/cdp/receipts/first'),
      'no receipt': () => project.call('GET', '/api/cdp/receipts/second?table=visits'),
      receipts: () => project.call('POST', '/api/cdp/receipts/query', { body: { keys: ['first', 'second'] } }),
      select: () =>
        project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT page, count FROM visits', read_only: true } }),
      constant: () => project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT 1', read_only: true } }),
      'select with the right to write': () => run('SELECT page FROM visits; SELECT count(*) FROM visits'),
      'constant with the right to write': () => run('SELECT 1'),
      stream: () =>
        project.call('POST', '/api/cdp/sql', {
          body: { sql: 'SELECT page FROM visits' },
          headers: { accept: 'application/x-ndjson' },
        }),
    };
    // What changes by itself: estimates, and until when a receipt reaches back.
    const known = ({ text }: TestResponse) => text.replaceAll(/"(approximate_rows|request_id|since)":[^,}]*/g, '');
    const responses = async () => {
      const all: Record<string, string> = {};
      for (const [name, read] of Object.entries(reads)) {
        const response = await read();
        expect(response.status, `${name}: ${response.text}`).toBe(200);
        all[name] = known(response);
      }
      return all;
    };
    const before = await responses();
    const { placement } = await row();
    const id = await inProject(service, placement, async (client) => {
      await client.query('BEGIN; LOCK TABLE data.held');
      const moving = idOf(await move('eu-1'));
      await eventually('rows are about to be copied', async () => (await seen(moving)).state === 'copying');
      expect(await responses()).toEqual(before);
      expectFailure(await insert([{ page: 'a', count: 1 }]), 503, 'database_unavailable');
      for (const sql of [
        'SELECT writes()',
        'SELECT 1 FROM visits FOR UPDATE',
        'SELECT page INTO other FROM visits',
        `WITH w AS (INSERT INTO visits (page) VALUES ('w') RETURNING page) SELECT page FROM w`,
        `SELECT 1; INSERT INTO visits (page) VALUES ('w')`,
        // The writer owns the table, and would see its row; the reader would not.
        'SELECT a FROM hidden',
      ]) {
        expectFailure(await run(sql), 503, 'database_unavailable');
      }
      expectFailure(await run('SELECT none FROM visits'), 400, 'sql_error');
      const settled = await project.call('GET', '/api/cdp/receipts/second?settle=true');
      expectFailure(settled, 503, 'database_unavailable');
      return moving;
    });
    await eventually('the move ends', async () => (await seen(id)).ended_at !== null);
    expect(await seen(id)).toMatchObject({ state: 'done' });
    await eventually('the switch is known', async () => (await insert([{ page: 'c', count: 1 }])).status === 201);
    expect((await row()).placement.added).not.toBeNull();
  });

  it('a move that is canceled or takes too long is undone: the project accepts writes at its old place', async () => {
    await begin();
    await project.table('held', { a: 'TEXT' });
    let id = '';
    await inProject(service, (await row()).placement, async (client) => {
      await client.query('BEGIN; LOCK TABLE data.held');
      expect(await moved('eu-1', { max_pause: 1 })).toMatchObject({
        state: 'undone',
        reason: 'Writes would have been refused for more than 1 s',
      });
      expect((await insert([{ page: 'a', count: 1 }])).status).toBe(201);
      id = idOf(await move('eu-1'));
      expectFailure(await move('eu-1'), 409, 'request_in_flight');
      const canceled = await service.call('DELETE', `/api/cdp/admin/moves/${id}`, { token: admin });
      expect(canceled.status, canceled.text).toBe(202);
      await eventually('it is undone', async () => (await seen(id)).ended_at !== null);
      expect(await seen(id)).toMatchObject({ state: 'undone', reason: 'The move was canceled' });
    });
    expectFailure(await service.call('DELETE', `/api/cdp/admin/moves/${id}`, { token: admin }), 400, 'invalid_request');
    await eventually('it takes writes', async () => (await insert([{ page: 'b', count: 2 }])).status === 201);
    expect(await leftThere()).toEqual([]);
  });

  it('an instance that was suspended during the switch cannot write to the source or what is left of it', async () => {
    await begin();
    const asleep = await row();
    const { engine } = service;
    const tenancy = engine.servers.tenancyOf(asleep.placement);
    const placement = await made(asleep);
    const id = randomUUID();
    const write = () =>
      engine.admit(asleep, null).write({ connection: 'sql-write', signal: NEVER_ABORTED, timeoutMs: 60_000 }, () => ({
        beforeCommit: [sql`INSERT INTO visits (page) VALUES ('x')`],
        response: null,
        resultOf: () => null,
      }));
    // While the process that moves it lives, nobody settles it.
    await tryWithProjectLock(engine.control.address, project.id, async () => {
      const move = { id, projectId: asleep.id, source: asleep.placement, target: placement, mode: 'copy' as const };
      expect(await engine.moves.rows.insert(move)).toBeNull();
      expect(await engine.moves.rows.fence(move.id)).toBe(true);
      await raiseFence(tenancy, asleep.placement, 'writer', isStill);
      await expect(write()).rejects.toMatchObject({ code: 'database_unavailable' });
      // Nor does what repairs a project's roles lower the fence.
      await expect(engine.databaseSetup.restoreRights(tenancy, asleep.placement)).rejects.toMatchObject({
        code: 'database_unavailable',
      });
      await expect(write()).rejects.toMatchObject({ code: 'database_unavailable' });
    });
    await eventually('it is settled', async () => (await engine.moves.get(id)).endedAt !== null);
    await write();
    expect(await project.rows('SELECT page FROM visits')).toEqual([{ page: 'x' }]);
    expect(await leftThere()).toEqual([]);
  });

  it('the next request removes what an interrupted process left of a fence, and the doctor reports it', async () => {
    await begin();
    const { placement } = await row();
    const { engine } = service;
    const tenancy = engine.servers.tenancyOf(placement);
    for (const role of ['writer', 'reader'] as const) {
      expect(await raiseFence(tenancy, placement, role, isStill)).toBe(true);
      expect(await engine.projects.examine(await row())).toContain('its roles may not log in');
    }
    expect((await insert([{ page: 'a', count: 1 }])).status).toBe(201);
    expect(await project.rows('SELECT page FROM visits')).toEqual([{ page: 'a' }]);
    expect(await engine.projects.examine(await row())).toEqual([]);
    // A process that has lost the lock changes nothing.
    expect(await raiseFence(tenancy, placement, 'writer', () => Promise.resolve(false))).toBe(false);
    expect((await insert([{ page: 'b', count: 1 }])).status).toBe(201);
  });

  /** A target, as a move makes it. */
  const made = async (of: ProjectRow): Promise<Placement> => {
    const server = await service.engine.control.servers.get(of.placement.added === null ? 'eu-1' : 'default');
    if (server === null) throw new Error('It is not there');
    const tenancy = service.engine.servers.tenancyOf(serverRefOf(server));
    const placement = await tenancy.newPlacement();
    await tenancy.create(placement);
    return placement;
  };

  /** The others are undone as this one, wherever the project lives. */
  const UNDONE: MoveState[] = isOwn ? ['copying'] : ['preparing', 'fencing', 'copying', 'verifying', 'undoing'];

  it.each<[MoveState, string]>([
    ...UNDONE.map((state): [MoveState, string] => [state, 'undone']),
    ['switched', 'done'],
  ])('a move whose process was killed at %s is %s by another instance', async (state, end) => {
    await begin();
    await insert([{ page: 'a', count: 1 }]);
    const { engine, moves } = { engine: service.engine, moves: service.engine.moves.rows };
    const source = await row();
    const id = randomUUID();
    const target = await made(source);
    const entry = { id, projectId: project.id, source: source.placement, target, mode: 'copy' as const };
    await tryWithProjectLock(engine.control.address, project.id, async () => {
      expect(await moves.insert(entry)).toBeNull();
      if (state !== 'preparing') {
        await moves.fence(id);
        await raiseFence(engine.servers.tenancyOf(source.placement), source.placement, 'writer', isStill);
        if (state !== 'fencing') await moves.advance(id, 'copying');
        if (state !== 'fencing' && state !== 'copying') await moves.advance(id, 'verifying');
      }
      // The role that it was reading with, and what it had been granted.
      const role = dumpRole(source.placement);
      await inProject(service, source.placement, (client) =>
        client.query(`CREATE ROLE ${role} LOGIN; GRANT SELECT ON _cdp.idempotency_keys TO ${role}`),
      );
      if (state === 'undoing') await moves.beginUndo(id, 'for the test');
      // The table is not there: nothing was copied.
      if (state === 'switched') expect(await moves.switch(entry, source.schemaVersion, null)).toBe(true);
    });
    await eventually('it is settled', async () => (await engine.moves.get(id)).endedAt !== null);
    expect(await engine.moves.get(id)).toMatchObject({ state: end });
    if (end === 'undone') {
      await eventually('it takes writes', async () => (await insert([{ page: 'b', count: 2 }])).status === 201);
      expect(await project.rows('SELECT page FROM visits ORDER BY 1')).toEqual([{ page: 'a' }, { page: 'b' }]);
      expect(await leftThere()).toEqual([]);
      const { rows } = await inProject(service, source.placement, (client) =>
        client.query('SELECT rolname FROM pg_roles WHERE rolname = $1', [dumpRole(source.placement)]),
      );
      expect(rows).toEqual([]);
    } else {
      // An instance knows of it within a second.
      await eventually('it lives there', async () => {
        const { body } = await project.call('GET', '/api/cdp/schema');
        return Array.isArray(body.tables) && body.tables.length === 0;
      });
    }
    expect((await row()).isFenced).toBe(false);
  });

  it('a move that cannot drop its source says why, and ends once it can', async () => {
    await begin();
    const source = await row();
    const { engine } = service;
    const target = await made(source);
    const move = { id: randomUUID(), projectId: project.id, source: source.placement, target, mode: 'copy' as const };
    const client = new pg.Client({
      ...engine.servers.serverOf(source.placement).address,
      database: source.placement.database,
    });
    // What the plan refuses, made after it.
    const stuck = () => seen(move.id);
    await tryWithProjectLock(engine.control.address, project.id, async () => {
      await engine.moves.rows.insert(move);
      await engine.moves.rows.fence(move.id);
      await engine.moves.rows.advance(move.id, 'copying');
      await engine.moves.rows.advance(move.id, 'verifying');
      expect(await engine.moves.rows.switch(move, source.schemaVersion, null)).toBe(true);
      await client.connect();
      await client.query(`CREATE SUBSCRIPTION s CONNECTION 'dbname=none' PUBLICATION p WITH (connect = false)`);
    });
    if (source.placement.database === 'project') {
      // A folder goes with whatever is in it.
      await client.end().catch(() => {});
    } else {
      await eventually('the reason is noted', async () => (await stuck()).reason !== null);
      expect(await stuck()).toMatchObject({ state: 'switched', ended_at: null });
      const metrics = (await service.call('GET', '/metrics')).text;
      expect(metrics).toMatch(/cdp_moves_open\{state="switched"\} 1/);
      await client.query('ALTER SUBSCRIPTION s SET (slot_name = NONE)');
      await client.query('DROP SUBSCRIPTION s');
      await client.end();
    }
    await eventually('it is done', async () => (await stuck()).state === 'done');
    expect(await stuck()).toMatchObject({ reason: null });
  });

  it('a project can be deleted in the middle of an abandoned move', async () => {
    await begin();
    const source = await row();
    const target = await made(source);
    const id = randomUUID();
    await tryWithProjectLock(service.engine.control.address, project.id, () =>
      service.engine.moves.rows.insert({
        id,
        projectId: project.id,
        source: source.placement,
        target,
        mode: 'copy',
      }),
    );
    await service.engine.projects.delete(project.name, BY_ITSELF);
    expect(await leftThere()).toEqual([]);
    await begin();
  });

  // Where the project lives makes no difference to the others.
  if (isOwn) return;

  it('a project whose rights name a role that the target does not have stays where it is', async () => {
    project = await service.project(undefined, 'eu-1');
    await connected(other.connection, (client) => client.query('CREATE ROLE cdp_test_stranger'));
    await project.rows('CREATE TABLE t (a int); GRANT SELECT ON t TO cdp_test_stranger');
    const refused = expectFailure(await move('default'), 400, 'invalid_request');
    expect(refused.message).toContain('grants name roles that the target does not have: cdp_test_stranger');
    await project.rows('REVOKE SELECT ON t FROM cdp_test_stranger');
    const plan = await service.call('GET', `${PROJECTS}/${project.name}/move?to=default`, { token: admin });
    expect(plan.body).toMatchObject({ obstacles: [] });
    await connected(other.connection, (client) => client.query('DROP ROLE cdp_test_stranger'));
  });

  it('a switch whose response was lost is recorded once, as what it turned out to be', async () => {
    await begin();
    const { rows } = service.engine.moves;
    const makeSwitch = rows.switch.bind(rows);
    vi.spyOn(rows, 'switch').mockImplementationOnce(async (...given) => {
      await makeSwitch(...given);
      throw new EngineError('outcome_unknown', 'The response was lost');
    });
    vi.spyOn(rows, 'beginUndo').mockRejectedValueOnce(
      new EngineError('database_unavailable', 'It is away for a moment'),
    );
    expect(await moved('eu-1')).toMatchObject({ state: 'done' });
    vi.restoreAllMocks();
    await service.engine.audit.flush();
    const entries = await service.engine.audit.read({ project: project.name, operation: 'project.move', limit: 10 });
    expect(entries.map(({ outcome }) => outcome)).toEqual(['ok']);
  });

  it('a fifth is refused, even if all are started at the same moment', async () => {
    await begin();
    const options = { mode: 'copy', verify: 'counts', maxPauseMs: null } as const;
    const starts = Array.from({ length: 5 }, () =>
      service.engine.moves.start(project.name, 'eu-1', options, BY_ITSELF),
    );
    const codes = (await Promise.allSettled(starts)).map((start) =>
      start.status === 'fulfilled' ? 'begun' : (start.reason as EngineError).code,
    );
    // Three wait for the first. If that ends in time, the project is there already, which is not a valid request.
    const waited = codes.map((code) => (code === 'request_in_flight' ? 'invalid_request' : code));
    expect(waited.toSorted()).toEqual(['begun', ...Array<string>(3).fill('invalid_request'), 'overloaded']);
    await eventually('the move ends', () => Promise.resolve(service.engine.moves.underWay === 0));
    expect(await moved('default')).toMatchObject({ state: 'done' });
  });
});
