/** A query of only constants is sent alone: no transaction, no reset (docs/decisions/0024-constant-queries.md). */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { Session } from '../../../src/pg/index.js';
import {
  expectFailure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';
import { testServers } from '../../support/postgres.js';
import { freeSql } from '../../support/sql.js';

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let service: TestService;
  let project: TestProject;
  let readToken: string;

  beforeAll(async () => {
    service = await startTestService({}, server);
  });
  afterAll(() => service.close());
  beforeEach(async () => {
    project = await service.project();
    readToken = await project.tokenWith('sql:read');
  });
  afterEach(() => void vi.restoreAllMocks());

  const { sql } = freeSql(() => project);
  const read = (text: string, rest: object = {}): Promise<TestResponse> =>
    project.call('POST', '/api/cdp/sql', { body: { sql: text, ...rest }, token: readToken });
  const POOLS = [
    ['the writer', sql],
    ['the reader', read],
  ] as const;

  it.each(POOLS)('is answered like any other query, by %s', async (_pool, ask) => {
    for (const select of [
      'SELECT 1 AS a, 2 AS a, NULL AS "ü\\"',
      `select 9007199254740993 as i, 1.50 as n, '1.5'::numeric as m, true as b, false::bool as c, 'é€😀' as s`,
      `SELECT '{"a": 1}'::jsonb AS j, '6f2a1b3c-0000-4000-8000-000000000000'::uuid AS u, 'x'::text AS t, '7'::int8 AS l;`,
    ]) {
      for (const rest of [{}, { row_mode: 'array' }]) {
        const response = await ask(select, rest);
        expect({ select, status: response.status }).toEqual({ select, status: 200 });
        expect(response.text).toBe((await ask(`/* not a constant query */ ${select}`, rest)).text);
      }
    }
  });

  it.each(POOLS)('needs no round trip before it and no reset after it, by %s', async (_pool, ask) => {
    for (let i = 0; i < 2; i++) await ask('SELECT 1');
    const describes = vi.spyOn(Session.prototype, 'describe');
    const resets = vi.spyOn(Session.prototype, 'reset');
    const pipelines = vi.spyOn(Session.prototype, 'pipeline');
    expect((await ask('SELECT 1 AS n')).body.rows).toEqual([{ n: 1 }]);
    // The audit log writes by pipelines, too, and resets nothing.
    const pipelinesWithReset = pipelines.mock.calls.filter(([, options]) => options?.reset === true);
    expect([describes.mock.calls, resets.mock.calls, pipelinesWithReset]).toEqual([[], [], []]);
  });

  it('cannot be made to run code of the project', async () => {
    await project.rows(`CREATE FUNCTION litter(text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
      PERFORM pg_advisory_lock(79), set_config('work_mem', '1MB', false); RETURN true; END $$`);
    for (const type of ['int4', 'text', 'uuid', 'bool', 'jsonb'])
      await project.rows(`CREATE DOMAIN ${type} AS pg_catalog.text CHECK (litter(VALUE))`);
    await project.rows(`CREATE FUNCTION int8(text) RETURNS bigint LANGUAGE sql AS 'SELECT litter($1)::int::bigint'`);
    const text = `SELECT '1'::int4 AS a, 'x'::text AS b, '1'::int8 AS c, true::bool AS d, '[]'::jsonb AS e`;
    const rows = [{ a: 1, b: 'x', c: 1, d: true, e: [] }];
    for (let i = 0; i < 3; i++) expect((await sql(text)).body.rows).toEqual(rows);
    // The same words, but a type that is the project's.
    for (let i = 0; i < 2; i++) expect((await sql(`SELECT 'x'::data.text AS b`)).body.rows).toEqual([{ b: 'x' }]);
    expect(await project.rows(`SELECT pg_try_advisory_xact_lock(79) AS free`)).toEqual([{ free: true }]);
  });

  it.each(POOLS)('reports the position of an error, and leaves nothing behind, by %s', async (_pool, ask) => {
    for (let i = 0; i < 2; i++) {
      const { postgres } = expectFailure(await ask(`SELECT 'x'::int`), 400, 'sql_error');
      expect(postgres).toMatchObject({ sqlstate: '22P02', position: 8 });
      expect((await ask('SELECT 2 AS n')).body.rows).toEqual([{ n: 2 }]);
    }
  });
});
