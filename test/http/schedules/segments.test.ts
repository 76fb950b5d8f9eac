/** Segments over HTTP: their members are those that the query yields, and what enters and leaves is kept once. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DetailedSegment, Segment } from '../../../src/contract/wire/segments.js';
import { inControl } from '../../support/audit.js';
import { eventually } from '../../support/program.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.rows('CREATE TABLE people (id int PRIMARY KEY, spent int)');
  await setPeople([1, 2, 3]);
});
afterAll(() => service.close());

const path = (name: string, rest = '') => `/api/cdp/segments/${name}${rest}`;

const setPeople = (spenders: number[]) =>
  project.rows(`DELETE FROM people; INSERT INTO people SELECT i, 100 FROM unnest('{${spenders.join()}}'::int[]) i`);

const QUERY = 'SELECT id AS key FROM people WHERE spent > 50';

async function save(name: string, body: object = {}): Promise<Segment> {
  const response = await project.call('PUT', path(name), { body: { sql: QUERY, cron: '0 0 1 1 *', ...body } });
  expect(response.status, response.text).toBe(200);
  return response.body.segment as Segment;
}

async function run(name: string, query = '') {
  const response = await project.call('POST', path(name, `/run${query}`));
  expect(response.status, response.text).toBe(200);
  return response.body as { run: { id: string; rows: number; outcome: string } };
}

async function members(name: string): Promise<string[]> {
  const { body } = await project.call('GET', path(name, '/members'));
  return (body.rows as { key: string }[]).map(({ key }) => key);
}

const changes = (name: string) =>
  project.rows('SELECT run_id, key, change FROM segment_changes WHERE segment = $1 ORDER BY id, key', [name]);

describe('works', () => {
  it('members enter and leave, in the tables of the project, with the id of their run', async () => {
    expect(await save('spenders', { max_change: null })).toMatchObject({ name: 'spenders', max_change: null });
    expect(await members('spenders')).toEqual([]);
    await setPeople([1, 2, 3]);
    const { run: first } = await run('spenders');
    expect(first).toMatchObject({ outcome: 'ok', rows: 3 });
    expect(await members('spenders')).toEqual(['1', '2', '3']);
    const [entered] = await project.rows("SELECT entered_at FROM segment_members WHERE key = '2'");
    await setPeople([2, 3, 4]);
    const { run: second } = await run('spenders');
    expect(second.rows).toBe(2);
    expect(await members('spenders')).toEqual(['2', '3', '4']);
    expect(await project.rows("SELECT entered_at FROM segment_members WHERE key = '2'")).toEqual([entered]);
    const of = (await changes('spenders')).filter(({ run_id: id }) => id === second.id);
    expect(of.map(({ key, change }) => `${String(key)} ${String(change)}`).sort()).toEqual(['1 left', '4 entered']);
    expect((await run('spenders')).run.rows).toBe(0);
    expect(await changes('spenders')).toHaveLength(5);
    const shown = (await project.call('GET', path('spenders'))).body.segment as DetailedSegment;
    expect(shown.runs.map(({ rows }) => rows)).toEqual([0, 2, 3]);
    expect((await project.call('GET', '/api/cdp/segments')).body.segments).toMatchObject([{ name: 'spenders' }]);
    // Segments and schedules have names of their own.
    expect((await project.call('GET', '/api/cdp/schedules')).body.schedules).toEqual([]);
  });

  it('paused, it waits; resumed, it goes on', async () => {
    await save('waiting');
    const { body: paused } = await project.call('POST', path('waiting', '/pause'));
    expect(paused).toMatchObject({ message: 'segment paused', segment: { paused: true, next_run_at: null } });
    const { body: resumed } = await project.call('POST', path('waiting', '/resume'));
    expect(resumed).toMatchObject({ message: 'segment resumed', segment: { paused: false, max_change: null } });
    // No schedule has that name.
    expectFailure(await project.call('POST', '/api/cdp/schedules/waiting/pause'), 404, 'not_found');
  });

  it('at its time', async () => {
    await save('timely');
    await inControl(service, "UPDATE cdp.schedules SET next_at = now() WHERE name = 'timely'");
    await eventually('it has members', async () => (await members('timely')).length === 3);
  });

  it('keys that come twice count once, NULL not at all; the query may end with a comment and a semicolon', async () => {
    await save('odd', { sql: "WITH a AS (SELECT 1) SELECT key FROM (VALUES ('a'), ('a'), (NULL)) v(key) -- all\n;" });
    expect((await run('odd')).run.rows).toBe(1);
    expect(await members('odd')).toEqual(['a']);
  });

  it('members as CSV, all of them, to a token that only reads', async () => {
    const token = await project.tokenWith('sql:read');
    const { text } = await project.call('GET', path('odd', '/members'), { token, headers: { accept: 'text/csv' } });
    expect(text).toMatch(/^key,entered_at\na,.+\n$/);
  });

  it('a dry run says how many would change', async () => {
    await save('dry');
    const { body } = await project.call('POST', path('dry', '/run?dry_run=true'));
    expect(body).toMatchObject({ rows: 3, dry_run: true });
    expect(await members('dry')).toEqual([]);
  });

  it('deleted, it has no members; what has changed stays', async () => {
    expect((await project.call('DELETE', path('odd'))).status).toBe(200);
    expectFailure(await project.call('GET', path('odd', '/members')), 404, 'not_found');
    expect(await project.rows("SELECT FROM segment_members WHERE segment = 'odd'")).toEqual([]);
    expect(await changes('odd')).toHaveLength(1);
  });
});

describe('refuses', () => {
  it('SQL that is not one query, and a role', async () => {
    const parameter = { sql: 'SELECT $1::int AS key' };
    for (const body of [
      ...[{ sql: 'DELETE FROM people' }, { sql: 'SELECT 1; SELECT 2' }, { sql: QUERY, role: 'x' }, parameter],
    ]) {
      const response = await project.call('PUT', path('bad'), { body: { every: '1h', ...body } });
      expectFailure(response, 400, 'invalid_request');
    }
    expectFailure(await project.call('GET', path('bad')), 404, 'not_found');
  });

  it('a query that yields no column "key", or cannot run', async () => {
    const put = (sql: string) => project.call('PUT', path('never'), { body: { sql, every: '1h' } });
    expect(expectFailure(await put('SELECT id FROM people'), 400, 'invalid_request')).toMatchObject({
      ...{ message: '"sql" must be one query with a column "key"', hint: 'column "key" does not exist' },
    });
    expect(expectFailure(await put('SELECT id AS key FROM peopel'), 400, 'sql_error').postgres).toMatchObject({
      position: 23,
    });
    expectFailure(await put('SELECT id AS key FROM people WHER true'), 400, 'sql_error');
    expectFailure(await project.call('GET', path('never')), 404, 'not_found');
  });

  it('a run without a column "key", and changes nothing', async () => {
    await project.rows('CREATE VIEW keyed AS SELECT id AS key FROM people');
    await save('wrong', { sql: 'SELECT * FROM keyed' });
    await project.rows('DROP VIEW keyed; CREATE VIEW keyed AS SELECT id FROM people');
    expectFailure(await project.call('POST', path('wrong', '/run')), 400, 'sql_error');
    expect(await changes('wrong')).toEqual([]);
  });
});

describe('protects', () => {
  it('a run that changes more than max_change is refused unless it is forced', async () => {
    await setPeople([1, 2, 3, 4]);
    await save('guarded', { max_change: 50 });
    await run('guarded');
    await setPeople([3, 4, 5]);
    const refused = expectFailure(await project.call('POST', path('guarded', '/run')), 400, 'sql_error');
    expect(refused.message).toBe('Of 4 members 2 would leave and 1 enter, more than max_change (50 %) allows');
    expect(await members('guarded')).toEqual(['1', '2', '3', '4']);
    expect(await changes('guarded')).toHaveLength(4);
    expect((await run('guarded', '?force=true')).run.rows).toBe(3);
    expect(await members('guarded')).toEqual(['3', '4', '5']);
    await setPeople([3, 4, 6]);
    expectFailure(await project.call('POST', path('guarded', '/run')), 400, 'sql_error');
    await setPeople([3, 4]);
    expect((await run('guarded')).run.rows).toBe(1);
  });

  it('names and keys that look like SQL are text', async () => {
    const key = `'; DROP TABLE people; -- \\ $guard$ "`;
    await save('Hostile-1', { sql: `SELECT ${"'"}${key.replaceAll("'", "''")}${"'"} AS key`, max_change: 10 });
    await run('Hostile-1');
    expect(await members('Hostile-1')).toEqual([key]);
  });
});
