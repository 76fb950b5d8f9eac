/** Responses to free SQL do not depend on settings that a statement has changed (contract C5.18). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { freeSql } from '../../support/sql.js';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
});
afterAll(() => service.close());

const { sql, run } = freeSql(() => project);

describe('responses do not depend on settings', () => {
  const VALUES = `SELECT '2024-02-03 04:05:06.5+00'::timestamptz AS at, '2024-02-03'::date AS day,
    0.1::float8 + 0.2::float8 AS f, '1 mon 2 days'::interval AS i, '\\x00ff'::bytea AS b, 'é€😀' AS s`;
  const EXPECTED = {
    at: '2024-02-03T04:05:06.5Z',
    day: '2024-02-03',
    f: 0.30000000000000004,
    i: '1 mon 2 days',
    b: '\\x00ff',
    s: 'é€😀',
  };
  const SETTINGS: [name: string, value: string][] = [
    ['DateStyle', 'German, DMY'],
    ['TimeZone', 'Asia/Kolkata'],
    ['extra_float_digits', '-10'],
    ['IntervalStyle', 'iso_8601'],
    ['bytea_output', 'escape'],
    ['client_encoding', 'LATIN1'],
    ['client_encoding', 'SQL_ASCII'],
  ];

  it('changed by an earlier statement of the request', async () => {
    for (const [name, value] of SETTINGS) {
      const { rows } = await run(`SET ${name} = '${value}'; ${VALUES}`);
      expect({ name, rows }).toEqual({ name, rows: [EXPECTED] });
      const byFunction = await run(`DO $$ BEGIN PERFORM set_config('${name}', '${value}', false); END $$; ${VALUES}`);
      expect(byFunction.rows).toEqual([EXPECTED]);
    }
  });

  it('changed while the rows are produced', async () => {
    for (const [name, value] of SETTINGS.slice(0, 5)) {
      const text = VALUES.replace('SELECT', `SELECT set_config('${name}', '${value}', false) IS NULL AS x,`);
      expect((await run(text)).rows).toEqual([{ x: false, ...EXPECTED }]);
    }
  });

  it('that change the client encoding: such rows are refused rather than garbled', async () => {
    for (const text of [
      `SELECT set_config('client_encoding', 'LATIN1', false), 'é' AS s`,
      // Changed back before the end: the server never reports the change.
      `SELECT set_config('client_encoding', CASE g WHEN 1 THEN 'LATIN1' ELSE 'UTF8' END, false), 'é' AS s
       FROM generate_series(1, 2) g`,
    ]) {
      expect(expectFailure(await sql(text), 400, 'statement_not_allowed').message).toContain('client_encoding');
    }
    expect((await run(`SELECT 'é' AS s`)).rows).toEqual([{ s: 'é' }]);
  });

  it('changed in an earlier request', async () => {
    await run(SETTINGS.map(([name, value]) => `SET SESSION ${name} = '${value}'`).join(';'));
    for (let i = 0; i < 3; i++) expect((await run(VALUES)).rows).toEqual([EXPECTED]);
  });
});
