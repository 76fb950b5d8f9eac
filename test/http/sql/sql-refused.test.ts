/** What free SQL refuses, with which code, status and SQLSTATE (contract C2.9, C13). */
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

describe('refuses', () => {
  const REFUSED: [text: string, code: string, status: number, sqlstate?: string][] = [
    ['BEGIN', 'statement_not_allowed', 400],
    ['START TRANSACTION READ WRITE', 'statement_not_allowed', 400],
    ['COMMIT', 'statement_not_allowed', 400],
    ['END', 'statement_not_allowed', 400],
    ['/* c */ ROLLBACK', 'statement_not_allowed', 400],
    ['ABORT', 'statement_not_allowed', 400],
    ['SAVEPOINT a', 'statement_not_allowed', 400],
    ['RELEASE a', 'statement_not_allowed', 400],
    ["PREPARE TRANSACTION 'x'", 'statement_not_allowed', 400],
    ["COMMIT PREPARED 'x'", 'statement_not_allowed', 400],
    ['SELECT 1; COMMIT; SELECT 2', 'statement_not_allowed', 400],
    ['LISTEN a', 'statement_not_allowed', 400],
    ['UNLISTEN *', 'statement_not_allowed', 400],
    ['COPY t FROM STDIN', 'statement_not_allowed', 400],
    ['COPY t TO STDOUT', 'statement_not_allowed', 400],
    ['COPY (SELECT 1) TO STDOUT', 'statement_not_allowed', 400],
    ['DO $$ BEGIN COMMIT; END $$', 'statement_not_allowed', 400, '2D000'],
    ["COPY t FROM '/etc/passwd'", 'permission_denied', 403, '42501'],
    ["COPY t TO '/tmp/cdp-should-not-exist'", 'permission_denied', 403, '42501'],
    ["COPY t TO PROGRAM 'true'", 'permission_denied', 403, '42501'],
    ['INSERT INTO u VALUES (1)', 'unique_violation', 409, '23505'],
    ['INSERT INTO u VALUES (NULL)', 'constraint_violation', 400, '23502'],
    ['INSERT INTO u VALUES (-1)', 'constraint_violation', 400, '23514'],
    ['CREATE TABLE u ()', 'table_exists', 409, '42P07'],
    ['CREATE VIEW u AS SELECT 1', 'table_exists', 409, '42P07'],
    ['ALTER TABLE u ADD COLUMN n int', 'column_exists', 409, '42701'],
    ['ALTER TABLE u DROP COLUMN n', 'dependent_objects', 409, '2BP01'],
    ['SELECT 1 / 0', 'sql_error', 400, '22012'],
    ['SELECT * FROM nowhere', 'sql_error', 400, '42P01'],
    ['SELECT nothing FROM u', 'sql_error', 400, '42703'],
    ['SELEC 1', 'sql_error', 400, '42601'],
    ["SELECT 'open", 'sql_error', 400, '42601'],
    ["SELECT 'a'::int", 'sql_error', 400, '22P02'],
    ['SELECT pg_catalog.pg_read_file($$/etc/passwd$$)', 'permission_denied', 403, '42501'],
    ['DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = $q$P0001$q$; END $$', 'sql_error', 400, 'P0001'],
    ['SELECT repeat($$x$$, 2000000000)', 'row_too_large', 400, '54000'],
    ['', 'invalid_request', 400],
    [' ;; -- nothing\n', 'invalid_request', 400],
    ['SELECT 1 -- \0', 'invalid_request', 400],
    [Array.from({ length: 101 }, () => 'SELECT 1').join(';'), 'invalid_request', 400],
    ['x'.repeat(1024 * 1024 + 1), 'payload_too_large', 413],
  ];

  it('each statement with its code, status and SQLSTATE, and changes nothing', async () => {
    await run('CREATE TABLE t (n int)');
    await run(`DROP TABLE IF EXISTS u CASCADE; CREATE TABLE u (n int PRIMARY KEY CHECK (n > 0)); INSERT INTO u VALUES (1);
      CREATE VIEW on_u AS SELECT n FROM u`);
    for (const [text, code, status, sqlstate] of REFUSED) {
      const body = expectFailure(await sql(text), status, code);
      expect({ text: text.slice(0, 80), sqlstate: body.postgres?.sqlstate }).toEqual({
        text: text.slice(0, 80),
        sqlstate,
      });
      expect(JSON.stringify(body)).not.toMatch(/routine|\.c:\d|node_modules|stack/);
    }
    expect(await project.rows('SELECT * FROM u')).toEqual([{ n: 1 }]);
  });

  it('lone surrogates written as escapes', async () => {
    for (const text of ['\\ud800', 'a\\udc00b', '\\udc00\\ud800']) {
      expectFailure(
        await project.call('POST', '/api/cdp/sql', { body: `{"sql":"SELECT '${text}'"}` }),
        400,
        'invalid_request',
      );
    }
    expect((await run(`SELECT '\u{1F600}' AS s`)).rows).toEqual([{ s: '\u{1F600}' }]);
  });

  it('fields of the body that are unknown, of a wrong type or out of range', async () => {
    for (const rest of [
      { sqls: 'x' },
      { params: {} },
      { params: 'a' },
      { read_only: 'yes' },
      { timeout_ms: 0 },
      { timeout_ms: 60_001 },
      { timeout_ms: 1.5 },
      { max_rows: 0 },
      { max_rows: 100_001 },
      { row_mode: 'tuple' },
      { numbers: 'exact' },
    ]) {
      expectFailure(await sql('SELECT 1', rest), 400, 'invalid_request');
    }
    const { message } = expectFailure(await sql('SELECT 1', { row_mode: 'tuple' }), 400, 'invalid_request');
    expect(message).toBe('body.row_mode must be one of object, array');
    const all = { sql: 5, max_rows: 0, timeout_ms: 60_001, row_mode: 'tuple', params: {}, read_only: 'no', more: 1 };
    const { errors } = expectFailure(await project.call('POST', '/api/cdp/sql', { body: all }), 400, 'invalid_request');
    expect(errors?.map((error) => error.message).sort()).toEqual([
      'body has an unknown field "more"',
      'body.max_rows must be at least 1',
      'body.params must be an array',
      'body.read_only must be a boolean',
      'body.row_mode must be one of object, array',
      'body.sql must be a string',
      'body.timeout_ms must be at most 60000',
    ]);
    const misspelt = expectFailure(await sql('SELECT 1', { readonly: true }), 400, 'invalid_request');
    expect(misspelt.hint).toBe('Did you mean "read_only"?');
    expect(expectFailure(await sql('SELECT 1', { more: 1 }), 400, 'invalid_request').hint).toBeUndefined();
    expectFailure(await project.call('POST', '/api/cdp/sql', { body: { sql: 5 } }), 400, 'invalid_request');
    expectFailure(await project.call('POST', '/api/cdp/sql', { body: {} }), 400, 'invalid_request');
    await run('SELECT 1', { timeout_ms: 60_000, max_rows: 100_000, row_mode: 'object', read_only: false, params: [] });
  });
});
