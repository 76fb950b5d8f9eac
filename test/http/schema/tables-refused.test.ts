/** Table requests that are refused and change nothing (contract C4, C6). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedServer } from '../../support/postgres.js';
import { expectRefused, snapshot } from '../../support/schema.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { TABLE, Tables } from '../../support/tables.js';

const TEXT = [{ name: 'a', type: 'TEXT' }];

describe.each([embeddedServer()])('a table request refuses on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  let tables: Tables;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    tables = new Tables(project);
  });
  afterAll(() => service.close());

  const table = (over: object) => ({ table_name: 'fresh', columns: TEXT, ...over });
  const column = (over: object) => table({ columns: [{ name: 'a', type: 'TEXT', ...over }] });

  it.each<[string, unknown, string]>([
    ['an array', [], 'invalid_request'],
    ['null', null, 'invalid_request'],
    ['no table_name', { columns: TEXT }, 'invalid_request'],
    ['a table_name that is a number', table({ table_name: 1 }), 'invalid_request'],
    ['no columns', { table_name: 'fresh' }, 'invalid_request'],
    ['an empty list of columns', table({ columns: [] }), 'invalid_request'],
    ['columns that are an object', table({ columns: { a: 'TEXT' } }), 'invalid_request'],
    ['a column that is a string', table({ columns: ['a'] }), 'invalid_request'],
    ['a column without a name', table({ columns: [{ type: 'TEXT' }] }), 'invalid_request'],
    ['a column without a type', table({ columns: [{ name: 'a' }] }), 'invalid_request'],
    ['a type that is a list', column({ type: ['TEXT'] }), 'invalid_request'],
    ['an unknown field', table({ tablename: 'x' }), 'invalid_request'],
    ['an unknown field of a column', column({ nullable: false }), 'invalid_request'],
    ['a declared primary key field', table({ id: 'uuid' }), 'invalid_request'],
    ['the field __proto__', JSON.parse('{"table_name":"fresh","columns":[],"__proto__":{}}'), 'invalid_request'],
    ['a comment that is a number', table({ comment: 1 }), 'invalid_request'],
    ['a comment of 2,001 characters', table({ comment: 'x'.repeat(2_001) }), 'invalid_request'],
    ['a comment of 2,001 characters on a column', column({ comment: '🎉'.repeat(2_001) }), 'invalid_request'],
    ['U+0000 in a comment', table({ comment: 'a\u0000b' }), 'invalid_request'],
    ['U+0000 in the comment of a column', column({ comment: '\u0000' }), 'invalid_request'],
    ['an empty type', column({ type: '' }), 'unknown_type'],
    ['a type of Postgres', column({ type: 'VARCHAR' }), 'unknown_type'],
    ['a type with a space behind it', column({ type: 'TEXT ' }), 'unknown_type'],
    ['a type with SQL behind it', column({ type: 'TEXT); DROP TABLE kept; --' }), 'unknown_type'],
    ['a type whose capital is no ASCII', column({ type: 'ınteger' }), 'unknown_type'],
    ['a type named like a property', column({ type: 'constructor' }), 'unknown_type'],
    ['one name twice', table({ columns: [...TEXT, ...TEXT] }), 'invalid_request'],
  ])('%s', async (_title, body, code) => {
    await expectRefused(project, ['POST', TABLE, body], 400, code);
  });

  it('everything wrong with the shape, all at once', async () => {
    const body = {
      table_name: 1,
      columns: [{ name: 'a' }, { name: 2, type: 'TEXT', comment: 3 }],
      comment: 4,
      more: 5,
    };
    const { errors, error_count } = await expectRefused(project, ['POST', TABLE, body], 400, 'invalid_request');
    expect(errors?.map((error) => error.message).sort()).toEqual([
      'body has an unknown field "more"',
      'body.columns.0 must have the field "type"',
      'body.columns.1.comment must be a string or null',
      'body.columns.1.name must be a string',
      'body.comment must be a string or null',
      'body.table_name must be a string',
    ]);
    expect(error_count).toBe(6);
  });

  it('501 columns', async () => {
    const columns = Array.from({ length: 501 }, (_, i) => ({ name: `c${i}`, type: 'INTEGER' }));
    await expectRefused(project, ['POST', TABLE, { table_name: 'fresh', columns }], 400, 'invalid_request');
  });

  it('a lone surrogate in a comment', async () => {
    const body = '{"table_name":"fresh","columns":[{"name":"a","type":"TEXT"}],"comment":"\\ud800"}';
    await expectRefused(project, ['POST', TABLE, body], 400, 'invalid_request');
  });

  it('a duplicate key in a column', async () => {
    const body = '{"table_name":"fresh","columns":[{"name":"a","name":"b","type":"TEXT"}]}';
    await expectRefused(project, ['POST', TABLE, body], 400, 'invalid_json');
  });

  const INVALID = [
    '',
    '1a',
    'a b',
    'a-b',
    'a.b',
    'a"b',
    "a'b",
    'ä',
    'a\u0000',
    'a\n',
    ' a',
    'a;',
    '💥',
    'a'.repeat(64),
  ];
  it.each(INVALID)('the name %j for a table', async (name) => {
    await expectRefused(project, ['POST', TABLE, { table_name: name, columns: TEXT }], 400, 'invalid_name');
  });
  it.each(INVALID)('the name %j for a column', async (name) => {
    await expectRefused(project, ['POST', TABLE, column({ name })], 400, 'invalid_name');
  });

  it.each(['_cdp_', '_cdp_x', '_CDP_x'])('the reserved name %s for a table', async (name) => {
    await expectRefused(project, ['POST', TABLE, { table_name: name, columns: TEXT }], 400, 'reserved_name');
  });
  it.each(['id', 'ctid', 'xmin', 'xmax', 'cmin', 'cmax', 'tableoid', '_cdp_', '_cdp_x', '_CDP_x'])(
    'the reserved name %s for a column',
    async (name) => {
      await expectRefused(project, ['POST', TABLE, column({ name })], 400, 'reserved_name');
    },
  );

  it('columns that differ only in case', async () => {
    const columns = ['email', 'Email'].map((name) => ({ name, type: 'TEXT' }));
    const before = await snapshot(project);
    const response = await tables.create({ table_name: 'fresh', columns });
    expect([400, 409]).toContain(response.status);
    expectFailure(response, response.status, response.status === 409 ? 'column_exists' : 'invalid_request');
    expect(await snapshot(project)).toEqual(before);
  });

  it('every bad column in one response, and lists 50 of them', async () => {
    const columns = Array.from({ length: 60 }, (_, i) => ({ name: `${i}`, type: 'TEXT' }));
    const error = await expectRefused(project, ['POST', TABLE, { table_name: 'fresh', columns }], 400, 'invalid_name');
    expect(error.errors).toHaveLength(50);
    expect(error.error_count).toBe(60);
    expect(error.message).toMatch(/ \(and 59 more errors\)$/);
    const [one, other] = columns;
    const two = await expectRefused(
      project,
      ['POST', TABLE, { table_name: 'fresh', columns: [one, other] }],
      400,
      'invalid_name',
    );
    expect(two.message).toMatch(/ \(and 1 more error\)$/);
    expect(error.errors?.[7]).toMatchObject({ column: '7', error: 'invalid_name' });
  });

  it('a bad table name together with bad columns, all in one response', async () => {
    const columns = [
      { name: 'ctid', type: 'TEXT' },
      { name: 'b', type: 'VARCHAR' },
    ];
    const body = { table_name: '1st', comment: '\u0000', columns };
    const error = await expectRefused(project, ['POST', TABLE, body], 400, 'invalid_name');
    expect(error.message).toMatch(/^"1st" is not a valid table name: .* \(and 3 more errors\)$/);
    expect(error.error_count).toBe(4);
    expect(error.errors?.map((place) => [place.error, place.column])).toEqual([
      ['invalid_name', undefined],
      ['invalid_request', undefined],
      ['reserved_name', 'ctid'],
      ['unknown_type', 'b'],
    ]);
    const many = Array.from({ length: 60 }, (_, i) => ({ name: `${i}`, type: 'TEXT' }));
    const cut = await expectRefused(project, ['POST', TABLE, { ...body, columns: many }], 400, 'invalid_name');
    expect([cut.errors?.length, cut.error_count]).toEqual([50, 62]);
    const alone = await expectRefused(project, ['POST', TABLE, table({ table_name: '1st' })], 400, 'invalid_name');
    expect(alone.errors).toBeUndefined();
  });

  it.each<[string, string]>([
    ['the same name', 'Taken'],
    ['a name that differs by case', 'tAKEN'],
    ['the name of a view', 'taken_view'],
    ['the name of a view in another case', 'TAKEN_VIEW'],
    ['the name of a sequence', 'taken_sequence'],
    ['the name of an index', 'taken_index'],
    ['the name of a type', 'taken_type'],
  ])('%s with 409', async (_title, name) => {
    await project.rows(`
      CREATE TABLE IF NOT EXISTS "Taken" (a text);
      CREATE OR REPLACE VIEW taken_view AS SELECT 1 AS one;
      CREATE SEQUENCE IF NOT EXISTS taken_sequence;
      CREATE INDEX IF NOT EXISTS taken_index ON "Taken" (a);
      DROP TYPE IF EXISTS taken_type;
      CREATE TYPE taken_type AS ENUM ('a')`);
    await expectRefused(project, ['POST', TABLE, { table_name: name, columns: TEXT }], 409, 'table_exists');
  });

  it('to read or drop a table that does not exist, and suggests a similar name', async () => {
    await project.table('invoices', { a: 'TEXT' });
    for (const method of ['GET', 'DELETE']) {
      const error = await expectRefused(project, [method, `${TABLE}/invoicse`], 404, 'table_not_found');
      expect(error.hint).toContain('invoices');
      await expectRefused(project, [method, `${TABLE}/INVOICES`], 404, 'table_not_found');
    }
  });

  it.each(['%00', '%22', '..%2F..', 'a%20b', '%F0%9F%8E%89', "x'--", 'a'.repeat(64), 'a'.repeat(400), '_cdp_x'])(
    'the path %s like a table that does not exist',
    async (path) => {
      for (const method of ['GET', 'DELETE']) {
        await expectRefused(project, [method, `${TABLE}/${path}`], 404, 'table_not_found');
      }
    },
  );

  it('to drop a view', async () => {
    await project.rows('CREATE OR REPLACE VIEW kept_view AS SELECT 1 AS one');
    await expectRefused(project, ['DELETE', `${TABLE}/kept_view`], 404, 'table_not_found');
  });

  it('to drop a table that views and foreign keys depend on, and names them', async () => {
    await project.table('base', { a: 'TEXT' });
    await project.rows(`CREATE VIEW base_view AS SELECT a FROM base;
      CREATE TABLE base_child (b uuid REFERENCES base)`);
    const error = await expectRefused(project, ['DELETE', `${TABLE}/base`], 409, 'dependent_objects');
    expect(error.message).toContain('base_view');
    expect(error.message).toContain('base_child');
    expect(error.hint).toContain('POST /api/cdp/sql');
    const bySql = await project.call('POST', '/api/cdp/sql', { body: { sql: 'DROP TABLE base' } });
    expect(expectFailure(bySql, 409, 'dependent_objects').hint).toBe(
      'Use DROP ... CASCADE to drop the dependent objects too.',
    );
  });
});
