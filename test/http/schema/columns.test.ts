/** Adding, altering and dropping columns over HTTP (contract C4, C6). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedServer } from '../../support/postgres.js';
import { columnTypes, expectRefused } from '../../support/schema.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';
import { columnPath, tablePath, Tables } from '../../support/tables.js';

describe.each([embeddedServer()])('columns on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  let tables: Tables;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    tables = new Tables(project);
  });
  afterAll(() => service.close());

  describe('adding works', () => {
    it('with 201 and the column', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      await tables.insert(name, [{ a: 'x' }]);
      const response = await tables.add(name, { name: 'country', type: 'text', comment: `it's \\ "odd" 🎉` });
      expect(response.status).toBe(201);
      expect(response.body).toEqual({
        success: true,
        message: 'column added',
        table: name,
        column: { name: 'country', type: 'TEXT', comment: `it's \\ "odd" 🎉` },
      });
      expect(await tables.column(name, 'country')).toEqual(response.body.column);
      expect(await project.rows(`SELECT a, country FROM ${name}`)).toEqual([{ a: 'x', country: null }]);
    });

    it.each([{}, { comment: null }, { comment: '' }])('without a comment: %j', async (more) => {
      const name = await tables.fresh({ a: 'TEXT' });
      expect((await tables.add(name, { name: 'b', type: 'JSONB', ...more })).body.column).toEqual({
        name: 'b',
        type: 'JSONB',
        comment: null,
      });
    });

    it('for names that are keywords, have 63 characters, or exist in another table', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      for (const added of ['select', 'table', 'User', 'z'.repeat(63)]) {
        expect((await tables.add(name, { name: added, type: 'INTEGER' })).status).toBe(201);
        expect((await tables.alter(name, added, { comment: 'c' })).status).toBe(200);
        expect((await tables.dropColumn(name, added)).body).toEqual({
          success: true,
          message: 'column dropped',
          table: name,
          column: added,
        });
      }
      expect(await columnTypes(project, name)).toEqual({ id: 'uuid', a: 'TEXT' });
    });

    it('up to 500 columns, and no further', async () => {
      const columns = Object.fromEntries(Array.from({ length: 499 }, (_, i) => [`c${i}`, 'INTEGER']));
      const name = await tables.fresh(columns);
      expect((await tables.add(name, { name: 'c499', type: 'TEXT' })).status).toBe(201);
      const body = { name: 'c500', type: 'TEXT' };
      await expectRefused(project, ['POST', `${tablePath(name)}/column`, body], 400, 'invalid_request');
    });
  });

  describe('adding refuses', () => {
    it.each<[string, unknown, string]>([
      ['an empty object', {}, 'invalid_request'],
      ['a list', [], 'invalid_request'],
      ['no name', { type: 'TEXT' }, 'invalid_request'],
      ['no type', { name: 'b' }, 'invalid_request'],
      ['a name that is null', { name: null, type: 'TEXT' }, 'invalid_request'],
      ['an unknown field', { name: 'b', type: 'TEXT', position: 1 }, 'invalid_request'],
      ['a comment of 2,001 characters', { name: 'b', type: 'TEXT', comment: 'é'.repeat(2_001) }, 'invalid_request'],
      ['U+0000 in the comment', { name: 'b', type: 'TEXT', comment: '\u0000' }, 'invalid_request'],
      ['an unknown type', { name: 'b', type: 'BIGINT' }, 'unknown_type'],
      ['a name with a digit first', { name: '1b', type: 'TEXT' }, 'invalid_name'],
      ['a name of 64 characters', { name: 'b'.repeat(64), type: 'TEXT' }, 'invalid_name'],
      ['a name with a quote', { name: 'b"', type: 'TEXT' }, 'invalid_name'],
      ['the name id', { name: 'id', type: 'TEXT' }, 'reserved_name'],
      ['the name ctid', { name: 'ctid', type: 'TEXT' }, 'reserved_name'],
      ['the name xmin', { name: 'xmin', type: 'TEXT' }, 'reserved_name'],
      ['a name of the service', { name: '_cdp_x', type: 'TEXT' }, 'reserved_name'],
    ])('%s', async (_title, body, code) => {
      const name = await tables.fresh({ a: 'TEXT' });
      await expectRefused(project, ['POST', `${tablePath(name)}/column`, body], 400, code);
      await tables.drop(name);
    });

    it('a bad name together with a bad type and comment, new or old, all in one response', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      for (const request of [
        ['POST', `${tablePath(name)}/column`, { name: '1b', type: 'BIGINT', comment: '\u0000' }],
        ['PUT', columnPath(name, 'a'), { new_name: '1b', new_type: 'BIGINT', comment: '\u0000' }],
      ] as const) {
        const error = await expectRefused(project, request, 400, 'invalid_name');
        const codes = error.errors?.map((place) => place.error);
        expect(codes).toEqual(['invalid_name', 'invalid_request', 'unknown_type']);
      }
    });

    it('a column that exists, also in another case', async () => {
      const name = await tables.fresh({ Email: 'TEXT' });
      for (const twin of ['Email', 'email', 'EMAIL']) {
        await expectRefused(
          project,
          ['POST', `${tablePath(name)}/column`, { name: twin, type: 'TEXT' }],
          409,
          'column_exists',
        );
      }
    });

    it('a table that does not exist, and a view', async () => {
      const body = { name: 'b', type: 'TEXT' };
      await project.rows('CREATE OR REPLACE VIEW a_view AS SELECT 1 AS one');
      for (const path of ['nowhere', 'a_view', '%00', 'a%22b']) {
        await expectRefused(project, ['POST', `${tablePath(path)}/column`, body], 404, 'table_not_found');
      }
    });
  });

  describe('altering works', () => {
    it('for only the name, and keeps type, values and comment', async () => {
      const name = await tables.fresh({ a: 'INTEGER', b: 'TEXT' });
      await tables.insert(name, [{ a: 1 }]);
      await tables.alter(name, 'a', { comment: 'kept' });
      const response = await tables.alter(name, 'a', { new_name: 'Select' });
      expect(response.status).toBe(200);
      expect(response.body).toMatchObject({ success: true, table: name });
      expect(response.body.message).toBeTypeOf('string');
      expect(response.body.column).toEqual({ name: 'Select', type: 'INTEGER', comment: 'kept' });
      expect(await project.rows(`SELECT "Select" FROM ${name}`)).toEqual([{ Select: 1 }]);
    });

    it('for only the type, in any case', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      await tables.insert(name, [{ a: '12' }, { a: null }]);
      expect((await tables.alter(name, 'a', { new_type: 'integer' })).body.column).toEqual({
        name: 'a',
        type: 'INTEGER',
        comment: null,
      });
      expect(await project.rows(`SELECT a FROM ${name} ORDER BY a`)).toEqual([{ a: 12 }, { a: null }]);
    });

    it('for name, type and comment together', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      await tables.insert(name, [{ a: '2024-05-06' }]);
      const column = { name: 'day', type: 'TIMESTAMP', comment: 'When' };
      const response = await tables.alter(name, 'a', { new_name: 'day', new_type: 'TIMESTAMP', comment: 'When' });
      expect(response.body.column).toEqual(column);
      expect(await tables.column(name, 'day')).toEqual(column);
      expect(await project.rows(`SELECT day FROM ${name}`)).toEqual([{ day: '2024-05-06T00:00:00Z' }]);
    });

    it('to its own name and type, and to another case of its own name', async () => {
      const name = await tables.fresh({ email: 'TEXT' });
      expect((await tables.alter(name, 'email', { new_name: 'email', new_type: 'TEXT' })).status).toBe(200);
      expect((await tables.alter(name, 'email', { new_name: 'Email' })).status).toBe(200);
      expect(await columnTypes(project, name)).toEqual({ id: 'uuid', Email: 'TEXT' });
    });

    it.each(['', null])('to remove a comment with %j', async (comment) => {
      const name = await tables.fresh({ a: 'TEXT' });
      await tables.alter(name, 'a', { comment: 'x' });
      expect((await tables.alter(name, 'a', { comment })).body.column).toEqual({
        name: 'a',
        type: 'TEXT',
        comment: null,
      });
      expect(await tables.column(name, 'a')).toEqual({ name: 'a', type: 'TEXT', comment: null });
    });

    it('for the comment of id, and for no other property of it', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      expect((await tables.alter(name, 'id', { comment: 'The key' })).body.column).toEqual({
        name: 'id',
        type: 'uuid',
        comment: 'The key',
      });
      expect(await tables.column(name, 'id')).toMatchObject({ comment: 'The key' });
      for (const body of [{ new_name: 'key' }, { new_type: 'TEXT' }, { new_name: 'key', comment: 'x' }]) {
        await expectRefused(project, ['PUT', columnPath(name, 'id'), body], 400, 'reserved_name');
      }
      await expectRefused(project, ['DELETE', columnPath(name, 'id')], 400, 'reserved_name');
    });

    it('for a column that a view uses: the view still works', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      await project.rows(`CREATE VIEW ${name}_view AS SELECT a FROM ${name}`);
      expect((await tables.alter(name, 'a', { new_name: 'b', comment: 'x' })).status).toBe(200);
      expect(await project.rows(`SELECT a FROM ${name}_view`)).toEqual([]);
    });

    it('for a column with an index, a default and a constraint that fit the new type', async () => {
      const name = await tables.fresh({ a: 'INTEGER' });
      await project.rows(`CREATE UNIQUE INDEX ON ${name} (a)`);
      await tables.insert(name, [{ a: 2 }, { a: 10 }]);
      expect((await tables.alter(name, 'a', { new_type: 'TEXT' })).status).toBe(200);
      expect(await project.rows(`SELECT a FROM ${name} ORDER BY a COLLATE "C"`)).toEqual([{ a: '10' }, { a: '2' }]);
    });
  });

  describe('altering refuses', () => {
    it.each<[string, unknown, number, string]>([
      ['an empty object', {}, 400, 'invalid_request'],
      ['a list', [], 400, 'invalid_request'],
      ['new_name null', { new_name: null }, 400, 'invalid_request'],
      ['new_type null', { new_type: null }, 400, 'invalid_request'],
      ['the fields of creation', { name: 'b', type: 'TEXT' }, 400, 'invalid_request'],
      ['an unknown field beside a known one', { new_name: 'c', position: 1 }, 400, 'invalid_request'],
      ['a comment of 2,001 characters', { comment: 'x'.repeat(2_001) }, 400, 'invalid_request'],
      ['U+0000 in the comment', { comment: 'a\u0000' }, 400, 'invalid_request'],
      ['an unknown type', { new_type: 'VARCHAR(10)' }, 400, 'unknown_type'],
      ['an empty name', { new_name: '' }, 400, 'invalid_name'],
      ['a name with a space', { new_name: 'b c' }, 400, 'invalid_name'],
      ['a name of 64 characters', { new_name: 'b'.repeat(64) }, 400, 'invalid_name'],
      ['the name id', { new_name: 'id' }, 400, 'reserved_name'],
      ['the name ctid', { new_name: 'ctid' }, 400, 'reserved_name'],
      ['a name of the service', { new_name: '_cdp_x' }, 400, 'reserved_name'],
      ['a name that is taken', { new_name: 'Other' }, 409, 'column_exists'],
      ['a name that is taken in another case', { new_name: 'oTHER' }, 409, 'column_exists'],
      ['a taken name together with a comment', { new_name: 'Other', comment: 'x' }, 409, 'column_exists'],
    ])('%s', async (_title, body, status, code) => {
      const name = await tables.fresh({ a: 'TEXT', Other: 'TEXT' });
      await expectRefused(project, ['PUT', columnPath(name, 'a'), body], status, code);
      await tables.drop(name);
    });

    it('a column or table that does not exist, and suggests a similar name', async () => {
      const name = await tables.fresh({ country: 'TEXT' });
      for (const [method, body] of [
        ['PUT', { comment: 'x' }],
        ['DELETE', undefined],
      ] as const) {
        const error = await expectRefused(
          project,
          [method, columnPath(name, 'cuontry'), body],
          404,
          'column_not_found',
        );
        expect(error.hint).toContain('country');
        for (const other of ['Country', 'ctid', 'country"', '\u0000', `x'; --`, 'a'.repeat(300)]) {
          await expectRefused(project, [method, columnPath(name, other), body], 404, 'column_not_found');
        }
        await expectRefused(project, [method, columnPath('nowhere', 'country'), body], 404, 'table_not_found');
      }
    });

    it('to drop a column that a view depends on, and names the view', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      await project.rows(`CREATE VIEW ${name}_view AS SELECT a FROM ${name}`);
      const error = await expectRefused(project, ['DELETE', columnPath(name, 'a')], 409, 'dependent_objects');
      expect(error.message).toContain(`${name}_view`);
    });
  });
});
