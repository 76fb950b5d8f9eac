/** Schedules over HTTP: saved, run at their time and on request, paused, deleted; and who may do what. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import type { DetailedSchedule, Schedule, ScheduleRun } from '../../../src/contract/wire/schedules.js';
import { eventually } from '../../support/program.js';
import {
  expectFailure,
  onServer,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('runs_of', { name: 'TEXT' });
});
afterAll(() => service.close());

const path = (name: string, rest = '') => `/api/cdp/schedules/${name}${rest}`;

/** Far away, so that only the test makes it due. */
const YEARLY = { cron: '0 0 1 1 *' };

async function save(name: string, body: object, of = project): Promise<Schedule> {
  const response = await of.call('PUT', path(name), { body: { ...YEARLY, ...body } });
  expect(response.status, response.text).toBe(200);
  return response.body.schedule as Schedule;
}

async function read(name: string, of = project): Promise<DetailedSchedule> {
  const response = await of.call('GET', path(name));
  expect(response.status, response.text).toBe(200);
  return response.body.schedule as DetailedSchedule;
}

const inControl = (sql: string, params: unknown[] = []) =>
  onServer(service.server, (client) => client.query(sql, params), service.database);

const makeDue = (name: string, ago = '0 s') =>
  inControl('UPDATE cdp.schedules SET next_at = now() - $2::interval WHERE name = $1', [name, ago]);

/** The first run that has ended and that the schedule did not have before. */
async function ended(name: string, before = 0, of = project): Promise<ScheduleRun> {
  let run: ScheduleRun | undefined;
  await eventually(`a run of ${name} ends`, async () => {
    const { runs } = await read(name, of);
    run = runs.at(-1 - before);
    return run?.ended_at != null;
  });
  return run as ScheduleRun;
}

const countOf = async (name: string) =>
  Number((await project.rows('SELECT count(*) AS n FROM runs_of WHERE name = $1', [name]))[0]?.['n']);

const insert = (name: string) => `INSERT INTO runs_of (name) VALUES ('${name}')`;

describe('works', () => {
  it('a schedule is saved with its defaults, listed and read', async () => {
    const saved = await save('first', { sql: insert('first') });
    expect(saved).toMatchObject({
      ...{ name: 'first', cron: '0 0 1 1 *', every: null, time_zone: 'UTC', timeout_ms: 300_000, role: null },
      ...{ missed: 'run_once', paused: false, running: false, missed_count: 0, last_run: null },
      ...{ created_by: 'token default', updated_by: 'token default' },
    });
    expect(saved.next_run_at).toMatch(/-01-01T00:00:00.000Z$/);
    const list = await project.call('GET', '/api/cdp/schedules');
    expect((list.body.schedules as Schedule[]).map(({ name }) => name)).toContain('first');
    expect(await read('first')).toEqual({ ...saved, runs: [] });
  });

  it('it runs when its time has come, and says when, how long and how many rows', async () => {
    await save('due', { sql: `${insert('due')}; ${insert('due')}; UPDATE runs_of SET name = name WHERE name = 'due'` });
    const { next_run_at: next } = await read('due');
    await makeDue('due');
    const run = await ended('due');
    expect(run).toMatchObject({ outcome: 'ok', error: null, rows: 2, missed: 0, attempts: 1 });
    expect(run.due_at).not.toBeNull();
    expect(run.duration_ms).toBeGreaterThanOrEqual(0);
    expect(await countOf('due')).toBe(2);
    expect(await read('due')).toMatchObject({ running: false, next_run_at: next, last_run: { id: run.id } });
  });

  it('it leaves an entry of the service in the audit log, and that of a request who asked', async () => {
    await save('audited', { sql: insert('audited') });
    const asked = await project.call('POST', path('audited', '/run'));
    expect(asked.status, asked.text).toBe(200);
    expect(asked.body).toMatchObject({ message: 'run ended', run: { outcome: 'ok', rows: 1, due_at: null } });
    await service.engine.audit.flush();
    const entries = await service.engine.audit.read({ project: project.name, limit: 100 });
    const of = entries.filter(({ object }) => object === 'audited');
    expect(of.map(({ operation, actor, outcome, rows }) => [operation, actor, outcome, rows])).toEqual(
      expect.arrayContaining([
        ['run_schedule', 'service', 'ok', 1],
        ['start_schedule', 'token', 'ok', null],
        ['save_schedule', 'token', 'ok', null],
      ]),
    );
  });

  it('all rows of a query are fetched, so that what they do is done', async () => {
    await project.rows(
      `CREATE FUNCTION note(n integer) RETURNS integer LANGUAGE sql AS $$ INSERT INTO runs_of (name) VALUES ('noted') RETURNING 1 $$`,
    );
    await save('noting', { sql: 'SELECT note(i) FROM generate_series(1, 300) i' });
    await project.call('POST', path('noting', '/run'));
    expect(await ended('noting')).toMatchObject({ outcome: 'ok', rows: 300 });
    expect(await countOf('noted')).toBe(300);
  });

  it('what Postgres runs only outside a transaction runs, and its warnings are kept', async () => {
    await save('vacuum', { sql: 'VACUUM runs_of' });
    await project.call('POST', path('vacuum', '/run'));
    expect(await ended('vacuum')).toMatchObject({ outcome: 'ok' });
    await save('warned', { sql: 'VACUUM _cdp.idempotency_keys' });
    await project.call('POST', path('warned', '/run'));
    expect((await ended('warned')).warnings).toHaveLength(1);
  });

  it('it runs as a role, with the rights of that', async () => {
    expect((await project.call('POST', '/api/cdp/schema/role', { body: { name: 'cleaner' } })).status).toBe(201);
    await save('as_role', { sql: insert('as_role'), role: 'cleaner' });
    expectFailure(await project.call('POST', path('as_role', '/run')), 403, 'permission_denied');
    expect(await ended('as_role')).toMatchObject({ outcome: 'permission_denied', rows: null });
    const { placement } = await service.engine.projects.get(project.name);
    await project.rows(`GRANT INSERT ON runs_of TO p_${placement.writer.slice(2)}_cleaner`);
    await project.call('POST', path('as_role', '/run'));
    expect(await ended('as_role', 1)).toMatchObject({ outcome: 'ok', rows: 1 });
  });

  it('a dry run says what it would do, and leaves nothing', async () => {
    await save('dry', { sql: insert('dry') });
    const { status, body } = await project.call('POST', path('dry', '/run?dry_run=true'));
    expect(status).toBe(200);
    expect(body).toMatchObject({ rows: 1, dry_run: true, impact: { rows: [{ table: 'runs_of', inserted: 1 }] } });
    expect(await countOf('dry')).toBe(0);
    expect((await read('dry')).runs).toEqual([]);
  });

  it('paused, it waits; it may still be asked to run; resumed, it goes on from its next time', async () => {
    await save('paused', { sql: insert('paused') });
    expect((await project.call('POST', path('paused', '/pause'))).body).toMatchObject({
      schedule: { paused: true, next_run_at: null },
    });
    // It stays paused when it is changed.
    expect(await save('paused', { sql: insert('paused'), cron: '0 1 1 1 *' })).toMatchObject({ paused: true });
    await project.call('POST', path('paused', '/run'));
    expect(await countOf('paused')).toBe(1);
    const resumed = await project.call('POST', path('paused', '/resume'));
    expect((resumed.body.schedule as Schedule).next_run_at).toMatch(/-01-01T01:00:00.000Z$/);
  });

  it('replaced, it keeps its next time unless its times change', async () => {
    const first = await save('changed', { sql: 'SELECT 1', cron: null, every: '1h' });
    await sleep(5);
    const second = await save('changed', { sql: 'SELECT 2', cron: null, every: '1h' });
    expect(second).toMatchObject({ sql: 'SELECT 2', next_run_at: first.next_run_at, created_at: first.created_at });
    const third = await save('changed', { sql: 'SELECT 2', cron: null, every: '2h' });
    expect(third.next_run_at).not.toBe(first.next_run_at);
  });

  it('times that have passed are made up for by one run, or skipped; both are counted', async () => {
    const every = { cron: null, every: '1h' };
    await save('once', { ...every, sql: insert('once') });
    await save('skipped', { ...every, sql: insert('skipped'), missed: 'skip' });
    await makeDue('once', '3.5 h');
    await makeDue('skipped', '3.5 h');
    expect(await ended('once')).toMatchObject({ outcome: 'ok', missed: 3 });
    expect(await read('once')).toMatchObject({ missed_count: 3 });
    await eventually('it is skipped', async () => (await read('skipped')).missed_count === 4);
    expect(await countOf('once')).toBe(1);
    expect(await countOf('skipped')).toBe(0);
    const inHalfAnHour = Date.now() + 1_800_000;
    for (const name of ['once', 'skipped']) {
      const { next_run_at: next } = await read(name);
      expect(Math.abs(Date.parse(next ?? '') - inHalfAnHour)).toBeLessThan(60_000);
    }
  });

  it('a deleted schedule is gone with its runs', async () => {
    await save('deleted', { sql: 'SELECT 1' });
    await project.call('POST', path('deleted', '/run'));
    expect((await project.call('DELETE', path('deleted'))).status).toBe(200);
    expectFailure(await project.call('GET', path('deleted')), 404, 'not_found');
    const { rows } = await inControl("SELECT FROM cdp.schedule_runs WHERE schedule = 'deleted'");
    expect(rows).toEqual([]);
  });

  it('only the last 50 runs are kept', async () => {
    await save('many', { sql: 'SELECT 1' });
    await inControl(
      `INSERT INTO cdp.schedule_runs (id, project_id, kind, schedule, started_at, ended_at, outcome)
       SELECT gen_random_uuid(), project_id, kind, name, now() - i * interval '1 h', now(), 'ok'
       FROM cdp.schedules, generate_series(1, 60) i WHERE name = 'many'`,
    );
    await project.call('POST', path('many', '/run'));
    expect((await read('many')).runs).toHaveLength(50);
  });
});

describe('refuses', () => {
  const refused = (name: string, body: object) => project.call('PUT', path(name), { body });

  it('names every wrong place, and saves nothing', async () => {
    const response = await refused('9wrong', { sql: 'SELEC 1', cron: 'no', time_zone: 'Mars/North' });
    const { errors } = expectFailure(response, 400, 'invalid_name');
    expect(errors?.map(({ error }) => error)).toEqual([
      ...['invalid_name', 'invalid_request', 'invalid_request', 'sql_error'],
    ]);
    expect(response.text).toContain('Mars/North');
    expectFailure(await project.call('GET', path('9wrong')), 404, 'not_found');
  });

  it('no times, both kinds of times, too short ones, an unknown role, SQL that no request may run', async () => {
    expectFailure(await refused('bad', { sql: 'SELECT 1' }), 400, 'invalid_request');
    expectFailure(await refused('bad', { sql: 'SELECT 1', ...YEARLY, every: '1h' }), 400, 'invalid_request');
    expectFailure(await refused('bad', { sql: 'SELECT 1', every: '1s' }), 400, 'invalid_request');
    const zone = await refused('bad', { sql: 'SELECT 1', every: '1h', time_zone: 'Europe/Berlin' });
    expect(expectFailure(zone, 400, 'invalid_request').message).toContain('"time_zone" goes with "cron"');
    expectFailure(await refused('bad', { sql: 'SELECT 1', ...YEARLY, timeout_ms: 3_600_001 }), 400, 'invalid_request');
    expectFailure(await refused('bad', { sql: 'SELECT 1', ...YEARLY, color: 'red' }), 400, 'invalid_request');
    expectFailure(await refused('bad', { sql: 'SELECT 1', ...YEARLY, role: 'nobody' }), 404, 'not_found');
    expectFailure(await refused('bad', { sql: 'BEGIN; SELECT 2', ...YEARLY }), 400, 'statement_not_allowed');
    expectFailure(await refused('bad', { sql: ' '.repeat(65_537), ...YEARLY }), 400, 'invalid_request');
    expectFailure(await refused('bad', { sql: 'SELECT $1::int', ...YEARLY }), 400, 'invalid_request');
    expectFailure(await refused('bad', { sql: 'DELETE FROM missing', ...YEARLY }), 400, 'sql_error');
    expectFailure(await project.call('GET', path('bad')), 404, 'not_found');
  });

  it('a token without sql:write, one of a role, and one of another project', async () => {
    await save('guarded', { sql: insert('guarded') });
    const reader = await project.tokenWith('sql:read', 'schema:write', 'data:write');
    const ofRole = await project.tokenAs('cleaner', 'sql:write');
    const stranger = (await service.project()).token;
    for (const [method, url, body] of [
      ['GET', '/api/cdp/schedules'],
      ['GET', path('guarded')],
      ['PUT', path('guarded'), { sql: 'SELECT 1', ...YEARLY }],
      ['POST', path('guarded', '/run')],
      ['POST', path('guarded', '/pause')],
      ['POST', path('guarded', '/resume')],
      ['DELETE', path('guarded')],
    ] as const) {
      const given = body === undefined ? {} : { body };
      expectFailure(await project.call(method, url, { ...given, token: reader }), 403, 'insufficient_scope');
      expectFailure(await project.call(method, url, { ...given, token: ofRole }), 403, 'insufficient_scope');
      if (url.includes('guarded') && method !== 'PUT')
        expectFailure(await project.call(method, url, { ...given, token: stranger }), 404, 'not_found');
    }
    expect((await read('guarded')).runs).toEqual([]);
  });

  it('a 101st schedule', async () => {
    const full = await service.project();
    await save('one', { sql: 'SELECT 1' }, full);
    await inControl(
      `INSERT INTO cdp.schedules (project_id, kind, name, declaration, created_by, updated_by)
       SELECT project_id, kind, 'n' || i, declaration, '', '' FROM cdp.schedules, generate_series(2, 100) i WHERE project_id = $1`,
      [full.id],
    );
    const body = { sql: 'SELECT 1', ...YEARLY };
    expectFailure(await full.call('PUT', path('another'), { body }), 400, 'invalid_request');
    expect((await full.call('PUT', path('n100'), { body })).status).toBe(200);
  });
});

describe('protects', () => {
  it('a run that fails keeps its error, changes nothing, and the next one is not affected', async () => {
    await save('failing', { sql: `${insert('failing')}; SELECT 1 / 0` });
    expectFailure(await project.call('POST', path('failing', '/run')), 400, 'sql_error');
    expect(await ended('failing')).toMatchObject({ outcome: 'sql_error', error: 'division by zero', rows: null });
    expect(await countOf('failing')).toBe(0);
    await save('failing', { sql: insert('failing') });
    await project.call('POST', path('failing', '/run'));
    expect(await countOf('failing')).toBe(1);
  });

  it('a run ends at its time limit', async () => {
    await save('slow', { sql: `${insert('slow')}; SELECT pg_sleep(600)`, timeout_ms: 200 });
    await makeDue('slow');
    expect(await ended('slow')).toMatchObject({ outcome: 'query_timeout' });
    expect(await countOf('slow')).toBe(0);
  });

  it('another instance that goes on with a run finds what it has stored, though its SQL was replaced since', async () => {
    await save('replaced', { sql: "INSERT INTO runs_of (name) VALUES ('replaced')" });
    await project.call('POST', path('replaced', '/run'));
    await save('replaced', { sql: "INSERT INTO runs_of (name) VALUES ('replaced'), ('replaced')" });
    await inControl(
      `WITH lost AS (UPDATE cdp.schedule_runs SET ended_at = NULL, outcome = NULL WHERE schedule = 'replaced' RETURNING id)
       UPDATE cdp.schedules SET run_id = lost.id, claimed_by = gen_random_uuid(), claimed_until = now() FROM lost
       WHERE name = 'replaced'`,
    );
    expect(await ended('replaced')).toMatchObject({ outcome: 'ok', rows: 1, attempts: 2 });
    expect(await countOf('replaced')).toBe(1);
  });

  it('it never runs twice at once', async () => {
    await save('long', { sql: `SELECT pg_sleep(600)`, timeout_ms: 3_600_000 });
    await makeDue('long');
    await eventually('it runs', async () => (await read('long')).running);
    await makeDue('long');
    expectFailure(await project.call('POST', path('long', '/run')), 409, 'request_in_flight');
    await sleep(2_500);
    expect((await read('long')).runs).toHaveLength(1);
    // Deleted, it ends.
    const isRunning = async () => {
      const query = "SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)' AND state = 'active'";
      return (await inControl(query)).rows.length > 0;
    };
    expect(await isRunning()).toBe(true);
    await project.call('DELETE', path('long'));
    await eventually('it is canceled', async () => !(await isRunning()));
  });

  it('a project that is inactive keeps the error, and runs again when it is active', async () => {
    const sleeper = await service.project();
    await save('inactive', { sql: 'SELECT 1' }, sleeper);
    await service.engine.projects.setActive(sleeper.name, false, BY_ITSELF);
    await makeDue('inactive');
    await eventually('it has failed', async () => {
      const { rows } = await inControl(
        "SELECT FROM cdp.schedule_runs WHERE schedule = 'inactive' AND outcome = 'cdp_inactive'",
      );
      return rows.length === 1;
    });
    await service.engine.projects.setActive(sleeper.name, true, BY_ITSELF);
    await makeDue('inactive');
    expect(await ended('inactive', 1, await sleeper.seenAnew())).toMatchObject({ outcome: 'ok' });
  });

  it('what a project over its quota may not do fails with that', async () => {
    const full = await service.project();
    await full.table('t', { name: 'TEXT' });
    await save('filling', { sql: "INSERT INTO t (name) SELECT 'x' FROM generate_series(1, 1000)" }, full);
    await service.engine.control.projects.setQuota(full.id, 1, null);
    const anew = await full.seenAnew();
    expectFailure(await anew.call('POST', path('filling', '/run')), 403, 'quota_exceeded');
    expect(await ended('filling', 0, anew)).toMatchObject({ outcome: 'quota_exceeded' });
  });

  it('the role was dropped: the run says so', async () => {
    await project.call('POST', '/api/cdp/schema/role', { body: { name: 'passing' } });
    await save('of_role', { sql: 'SELECT 1', role: 'passing' });
    await project.call('DELETE', '/api/cdp/schema/role/passing');
    expectFailure(await project.call('POST', path('of_role', '/run')), 404, 'not_found');
    expect((await ended('of_role')).error).toContain('no role "passing"');
  });

  it('a hundred of one project do not delay those of another', async () => {
    const crowd = await service.project();
    const other = await service.project();
    await save('n1', { sql: 'SELECT pg_sleep(5)' }, crowd);
    await inControl(
      `INSERT INTO cdp.schedules (project_id, kind, name, declaration, created_by, updated_by, next_at)
       SELECT project_id, kind, 'm' || i, declaration, '', '', now() - interval '1 h' FROM cdp.schedules, generate_series(1, 99) i WHERE project_id = $1`,
      [crowd.id],
    );
    await save('beside', { sql: 'SELECT 1' }, other);
    await makeDue('beside');
    expect(await ended('beside', 0, other)).toMatchObject({ outcome: 'ok' });
    const { rows } = await inControl('SELECT FROM cdp.schedules WHERE project_id = $1 AND run_id IS NULL', [crowd.id]);
    expect(rows.length).toBeGreaterThanOrEqual(80);
    await inControl('DELETE FROM cdp.schedules WHERE project_id = $1', [crowd.id]);
  });
});
