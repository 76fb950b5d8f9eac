/** Adding, altering and dropping columns over HTTP (specification 4.2 and 4.3, contract sections 3 and 5). */
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService } from '../../src/service.js';
import { testServers } from '../support/postgres.js';
import { columnTypes, refused, snapshot } from '../support/schema.js';
import { failure, onServer, startTestService, type TestProject, type TestService } from '../support/service.js';

const table = (name: string) => `/api/cdp/schema/table/${name}`;
const column = (of: string, name: string) => `${table(of)}/column/${encodeURIComponent(name)}`;
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g;

let counter = 0;

describe.each(testServers())('columns on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
  });
  afterAll(() => service.close());

  /** A new table; returns its name. */
  const fresh = async (columns: Record<string, string>, by = project): Promise<string> => {
    const name = `t${++counter}`;
    await by.table(name, columns);
    return name;
  };
  const add = (to: string, body: unknown, by = project) => by.call('POST', `${table(to)}/column`, { body });
  const alter = (of: string, name: string, body: unknown, by = project) => by.call('PUT', column(of, name), { body });
  const insert = async (into: string, records: unknown, by = project): Promise<string[]> => {
    const answer = await by.call('POST', `/api/cdp/data/${into}?return=ids`, { body: records });
    if (answer.status !== 201) throw new Error(answer.text);
    return answer.body.ids as string[];
  };
  const shown = async (of: string, name: string) => {
    const { body } = await project.call('GET', table(of));
    return (body.table as { columns: { name: string }[] }).columns.find((candidate) => candidate.name === name);
  };
  /** As the superuser in the project's own database, beside the service. */
  const inDatabase = async <T>(of: TestProject, work: Parameters<typeof onServer<T>>[1]): Promise<T> => {
    const row = await service.engine.control.projectByName(of.name);
    return onServer(server, work, row?.placement.database);
  };

  describe('adding works', () => {
    it('and answers 201 with the column', async () => {
      const name = await fresh({ a: 'TEXT' });
      await insert(name, [{ a: 'x' }]);
      const answer = await add(name, { name: 'country', type: 'text', comment: `it's \\ "odd" 🎉` });
      expect(answer.status).toBe(201);
      expect(answer.body).toEqual({
        success: true,
        message: 'column added',
        table: name,
        column: { name: 'country', type: 'TEXT', comment: `it's \\ "odd" 🎉` },
      });
      expect(await shown(name, 'country')).toEqual(answer.body.column);
      expect(await project.rows(`SELECT a, country FROM ${name}`)).toEqual([{ a: 'x', country: null }]);
    });

    it.each([{}, { comment: null }, { comment: '' }])('without a comment: %j', async (more) => {
      const name = await fresh({ a: 'TEXT' });
      expect((await add(name, { name: 'b', type: 'JSONB', ...more })).body.column).toEqual({
        name: 'b',
        type: 'JSONB',
        comment: null,
      });
    });

    it('for names that are keywords, have 63 characters, or stand in another table too', async () => {
      const name = await fresh({ a: 'TEXT' });
      for (const added of ['select', 'table', 'User', 'z'.repeat(63)]) {
        expect((await add(name, { name: added, type: 'INTEGER' })).status).toBe(201);
        expect((await alter(name, added, { comment: 'c' })).status).toBe(200);
        expect((await project.call('DELETE', column(name, added))).body).toEqual({
          success: true,
          message: 'column dropped',
          table: name,
          column: added,
        });
      }
      expect(await columnTypes(project, name)).toEqual({ id: 'uuid', a: 'TEXT' });
    });

    it('up to 500 columns, and not for the next one', async () => {
      const columns = Object.fromEntries(Array.from({ length: 499 }, (_, i) => [`c${i}`, 'INTEGER']));
      const name = await fresh(columns);
      expect((await add(name, { name: 'c499', type: 'TEXT' })).status).toBe(201);
      const body = { name: 'c500', type: 'TEXT' };
      await refused(project, ['POST', `${table(name)}/column`, body], 400, 'invalid_request');
    });
  });

  describe('adding refuses', () => {
    it.each<[string, unknown, string]>([
      ['an empty object', {}, 'invalid_request'],
      ['a list', [], 'invalid_request'],
      ['no name', { type: 'TEXT' }, 'invalid_request'],
      ['no type', { name: 'b' }, 'invalid_request'],
      ['a name that is null', { name: null, type: 'TEXT' }, 'invalid_request'],
      ['an unknown field', { name: 'b', type: 'TEXT', default: 1 }, 'invalid_request'],
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
      const name = await fresh({ a: 'TEXT' });
      await refused(project, ['POST', `${table(name)}/column`, body], 400, code);
      await project.call('DELETE', table(name));
    });

    it('a column that exists, also by case alone', async () => {
      const name = await fresh({ Email: 'TEXT' });
      for (const twin of ['Email', 'email', 'EMAIL']) {
        await refused(project, ['POST', `${table(name)}/column`, { name: twin, type: 'TEXT' }], 409, 'column_exists');
      }
    });

    it('a table that is not there, and a view', async () => {
      const body = { name: 'b', type: 'TEXT' };
      await project.rows('CREATE OR REPLACE VIEW a_view AS SELECT 1 AS one');
      for (const path of ['nowhere', 'a_view', '%00', 'a%22b']) {
        await refused(project, ['POST', `${table(path)}/column`, body], 404, 'table_not_found');
      }
    });
  });

  describe('altering works', () => {
    it('for the name alone, keeping type, values and comment', async () => {
      const name = await fresh({ a: 'INTEGER', b: 'TEXT' });
      await insert(name, [{ a: 1 }]);
      await alter(name, 'a', { comment: 'kept' });
      const answer = await alter(name, 'a', { new_name: 'Select' });
      expect(answer.status).toBe(200);
      expect(answer.body).toMatchObject({ success: true, table: name });
      expect(answer.body.message).toBeTypeOf('string');
      expect(answer.body.column).toEqual({ name: 'Select', type: 'INTEGER', comment: 'kept' });
      expect(await project.rows(`SELECT "Select" FROM ${name}`)).toEqual([{ Select: 1 }]);
    });

    it('for the type alone, in any case', async () => {
      const name = await fresh({ a: 'TEXT' });
      await insert(name, [{ a: '12' }, { a: null }]);
      expect((await alter(name, 'a', { new_type: 'integer' })).body.column).toEqual({
        name: 'a',
        type: 'INTEGER',
        comment: null,
      });
      expect(await project.rows(`SELECT a FROM ${name} ORDER BY a`)).toEqual([{ a: 12 }, { a: null }]);
    });

    it('for name, type and comment together', async () => {
      const name = await fresh({ a: 'TEXT' });
      await insert(name, [{ a: '2024-05-06' }]);
      const column = { name: 'day', type: 'TIMESTAMP', comment: 'When' };
      const answer = await alter(name, 'a', { new_name: 'day', new_type: 'TIMESTAMP', comment: 'When' });
      expect(answer.body.column).toEqual(column);
      expect(await shown(name, 'day')).toEqual(column);
      expect(await project.rows(`SELECT day FROM ${name}`)).toEqual([{ day: '2024-05-06T00:00:00Z' }]);
    });

    it('to its own name and type, and to another case of its own name', async () => {
      const name = await fresh({ email: 'TEXT' });
      expect((await alter(name, 'email', { new_name: 'email', new_type: 'TEXT' })).status).toBe(200);
      expect((await alter(name, 'email', { new_name: 'Email' })).status).toBe(200);
      expect(await columnTypes(project, name)).toEqual({ id: 'uuid', Email: 'TEXT' });
    });

    it.each(['', null])('to clear a comment with %j', async (comment) => {
      const name = await fresh({ a: 'TEXT' });
      await alter(name, 'a', { comment: 'x' });
      expect((await alter(name, 'a', { comment })).body.column).toEqual({ name: 'a', type: 'TEXT', comment: null });
      expect(await shown(name, 'a')).toEqual({ name: 'a', type: 'TEXT', comment: null });
    });

    it('for the comment of id, and for nothing else of it', async () => {
      const name = await fresh({ a: 'TEXT' });
      expect((await alter(name, 'id', { comment: 'The key' })).body.column).toEqual({
        name: 'id',
        type: 'uuid',
        comment: 'The key',
      });
      expect(await shown(name, 'id')).toMatchObject({ comment: 'The key' });
      for (const body of [{ new_name: 'key' }, { new_type: 'TEXT' }, { new_name: 'key', comment: 'x' }]) {
        await refused(project, ['PUT', column(name, 'id'), body], 400, 'reserved_name');
      }
      await refused(project, ['DELETE', column(name, 'id')], 400, 'reserved_name');
    });

    it('for a name that a view uses: the view goes on', async () => {
      const name = await fresh({ a: 'TEXT' });
      await project.rows(`CREATE VIEW ${name}_view AS SELECT a FROM ${name}`);
      expect((await alter(name, 'a', { new_name: 'b', comment: 'x' })).status).toBe(200);
      expect(await project.rows(`SELECT a FROM ${name}_view`)).toEqual([]);
    });

    it('for a column of an index, a default and a constraint that go with the new type', async () => {
      const name = await fresh({ a: 'INTEGER' });
      await project.rows(`CREATE UNIQUE INDEX ON ${name} (a)`);
      await insert(name, [{ a: 2 }, { a: 10 }]);
      expect((await alter(name, 'a', { new_type: 'TEXT' })).status).toBe(200);
      expect(await project.rows(`SELECT a FROM ${name} ORDER BY a COLLATE "C"`)).toEqual([{ a: '10' }, { a: '2' }]);
    });
  });

  /** The contract's table, its diagonal left out: values sent, and what is read after the change. */
  const KEPT: [from: string, to: string, pairs: [sent: unknown, read: unknown][]][] = [
    [
      'TEXT',
      'INTEGER',
      [
        ['0', 0],
        ['-17', -17],
        ['9007199254740993', '9007199254740993'],
      ],
    ],
    [
      'TEXT',
      'FLOAT',
      [
        ['1.5', 1.5],
        ['-2e3', -2000],
        ['NaN', 'NaN'],
        ['-Infinity', '-Infinity'],
      ],
    ],
    [
      'TEXT',
      'BOOLEAN',
      [
        ['true', true],
        ['false', false],
      ],
    ],
    [
      'TEXT',
      'TIMESTAMP',
      [
        ['2024-02-29', '2024-02-29T00:00:00Z'],
        ['2024-01-01T01:00:00+02:00', '2023-12-31T23:00:00Z'],
      ],
    ],
    [
      'TEXT',
      'JSONB',
      [
        ['{"a": [1, null]}', { a: [1, null] }],
        ['"x"', 'x'],
        ['12', 12],
      ],
    ],
    [
      'INTEGER',
      'TEXT',
      [
        [-5, '-5'],
        ['9223372036854775807', '9223372036854775807'],
      ],
    ],
    [
      'INTEGER',
      'FLOAT',
      [
        [3, 3],
        [9007199254740992, 9007199254740992],
      ],
    ],
    [
      'INTEGER',
      'BOOLEAN',
      [
        [0, false],
        [1, true],
      ],
    ],
    ['INTEGER', 'JSONB', [[7, 7]]],
    [
      'FLOAT',
      'TEXT',
      [
        [0.1, '0.1'],
        [1, '1'],
        ['NaN', 'NaN'],
      ],
    ],
    [
      'FLOAT',
      'INTEGER',
      [
        [3, 3],
        [-4.0, -4],
      ],
    ],
    ['FLOAT', 'JSONB', [[1.25, 1.25]]],
    [
      'BOOLEAN',
      'TEXT',
      [
        [true, 'true'],
        [false, 'false'],
      ],
    ],
    [
      'BOOLEAN',
      'INTEGER',
      [
        [true, 1],
        [false, 0],
      ],
    ],
    [
      'BOOLEAN',
      'FLOAT',
      [
        [true, 1],
        [false, 0],
      ],
    ],
    [
      'BOOLEAN',
      'JSONB',
      [
        [true, true],
        [false, false],
      ],
    ],
    [
      'TIMESTAMP',
      'TEXT',
      [
        ['2024-01-02T03:04:05.123456Z', '2024-01-02T03:04:05.123456Z'],
        ['2024-01-02', '2024-01-02T00:00:00Z'],
      ],
    ],
    ['TIMESTAMP', 'JSONB', [['2024-01-02T03:04:05+01:00', '2024-01-02T02:04:05Z']]],
    [
      'JSONB',
      'TEXT',
      [
        [{ a: 1 }, '{"a": 1}'],
        ['x', '"x"'],
      ],
    ],
    [
      'JSONB',
      'INTEGER',
      [
        [12, 12],
        [-3, -3],
      ],
    ],
    ['JSONB', 'FLOAT', [[1.5, 1.5]]],
    [
      'JSONB',
      'BOOLEAN',
      [
        [true, true],
        [false, false],
      ],
    ],
    ['JSONB', 'TIMESTAMP', [['2024-01-02T03:04:05Z', '2024-01-02T03:04:05Z']]],
  ];

  const REFUSED: [from: string, to: string, values: unknown[]][] = [
    ['TEXT', 'INTEGER', ['', ' 1', '0x10', '1_000', '1.5', '9223372036854775808', 'one']],
    ['TEXT', 'FLOAT', ['', '1e400', ' 1', '1,5', 'inf']],
    ['TEXT', 'BOOLEAN', ['', 'yes', '1', 'TRUE', 't']],
    ['TEXT', 'TIMESTAMP', ['', 'now', 'today', 'infinity', '2023-02-29', '01/02/2024']],
    ['TEXT', 'JSONB', ['', '{', "{'a':1}", 'NaN']],
    ['INTEGER', 'FLOAT', ['9007199254740993']],
    ['INTEGER', 'BOOLEAN', [2, -1]],
    ['INTEGER', 'TIMESTAMP', [0]],
    ['FLOAT', 'INTEGER', [1.5, 'NaN', 'Infinity', 1e19]],
    ['FLOAT', 'BOOLEAN', [1, 0]],
    ['FLOAT', 'TIMESTAMP', [1]],
    ['FLOAT', 'JSONB', ['NaN', '-Infinity']],
    ['BOOLEAN', 'TIMESTAMP', [true]],
    ['TIMESTAMP', 'INTEGER', ['2024-01-01']],
    ['TIMESTAMP', 'FLOAT', ['2024-01-01']],
    ['TIMESTAMP', 'BOOLEAN', ['2024-01-01']],
    ['JSONB', 'INTEGER', [1.5, '1', true, [1], { a: 1 }, 9223372036854775808]],
    ['JSONB', 'FLOAT', ['1.5', false, []]],
    ['JSONB', 'BOOLEAN', [0, 1, 'true']],
    ['JSONB', 'TIMESTAMP', ['now', 20240101, 'x']],
  ];

  describe('a type change', () => {
    it.each(KEPT)('%s to %s keeps every value', async (from, to, pairs) => {
      const name = await fresh({ v: from, n: 'INTEGER' });
      await insert(name, [...pairs.map(([v], n) => ({ n, v })), { n: pairs.length }]);
      const answer = await alter(name, 'v', { new_type: to });
      expect(answer.text).toContain('"success":true');
      expect(await columnTypes(project, name)).toMatchObject({ v: to });
      const rows = await project.rows(`SELECT v FROM ${name} ORDER BY n`);
      expect(rows.map(({ v }) => v)).toEqual([...pairs.map(([, read]) => read), null]);
      await project.call('DELETE', table(name));
    });

    it.each(REFUSED)(
      '%s to %s refuses what would be lost, with its rows and not its values',
      async (from, to, values) => {
        const name = await fresh({ v: from });
        for (const value of values) {
          const [id] = await insert(name, [{ v: value }]);
          const error = await refused(project, ['PUT', column(name, 'v'), { new_type: to }], 409, 'not_convertible');
          expect(error.message).toContain(id);
          expect(error.message).toMatch(/\b1 value\b/);
          await project.rows(`DELETE FROM ${name}`);
        }
        await project.call('DELETE', table(name));
      },
    );

    it('makes NULL of the null of JSON when it leaves JSONB', async () => {
      for (const type of ['TEXT', 'INTEGER', 'FLOAT', 'BOOLEAN', 'TIMESTAMP']) {
        const name = await fresh({ v: 'JSONB' });
        await project.rows(`INSERT INTO ${name} (v) VALUES ('null'), (NULL)`);
        expect((await alter(name, 'v', { new_type: type })).status).toBe(200);
        expect(await project.rows(`SELECT v FROM ${name}`)).toEqual([{ v: null }, { v: null }]);
      }
    });

    it('tells the number of values, five of their rows at most, and no value', async () => {
      const name = await fresh({ v: 'TEXT' });
      const bad = await insert(
        name,
        Array.from({ length: 7 }, (_, i) => ({ v: `confidential-${i}` })),
      );
      const good = await insert(name, [{ v: '1' }, { v: '2' }, {}]);
      const answer = await alter(name, 'v', { new_type: 'INTEGER' });
      const { message } = failure(answer, 409, 'not_convertible');
      expect(message).toMatch(/\b7\b/);
      const named = message.match(UUID) ?? [];
      expect(new Set(named).size).toBe(5);
      for (const id of named) expect(bad).toContain(id);
      for (const id of good) expect(answer.text).not.toContain(id);
      expect(answer.text).not.toContain('confidential');
    });

    it('tells the number alone where the table has no id', async () => {
      const name = `t${++counter}`;
      await project.rows(`CREATE TABLE ${name} (v text); INSERT INTO ${name} VALUES ('secret'), ('1')`);
      const error = await refused(project, ['PUT', column(name, 'v'), { new_type: 'FLOAT' }], 409, 'not_convertible');
      expect(error.message).toMatch(/\b1 value\b/);
      expect(JSON.stringify(error)).not.toContain('secret');
    });

    it('of a type that free SQL made: to TEXT as answers show it, to no other', async () => {
      const name = `t${++counter}`;
      await project.rows(`CREATE TABLE ${name} (v numeric(6,2)); INSERT INTO ${name} VALUES (1.50)`);
      await refused(project, ['PUT', column(name, 'v'), { new_type: 'JSONB' }], 409, 'not_convertible');
      expect((await alter(name, 'v', { new_type: 'TEXT' })).status).toBe(200);
      expect(await project.rows(`SELECT v FROM ${name}`)).toEqual([{ v: '1.50' }]);
    });

    it('is refused while views depend on the column, and names them', async () => {
      const name = await fresh({ v: 'TEXT', w: 'TEXT' });
      await project.rows(`CREATE VIEW "${name}_One" AS SELECT v FROM ${name};
        CREATE MATERIALIZED VIEW ${name}_two AS SELECT upper(v) AS u FROM ${name};
        CREATE VIEW ${name}_other AS SELECT w FROM ${name}`);
      const error = await refused(project, ['PUT', column(name, 'v'), { new_type: 'JSONB' }], 409, 'dependent_objects');
      expect(error.message).toContain(`${name}_One`);
      expect(error.message).toContain(`${name}_two`);
      expect(error.message).not.toContain(`${name}_other`);
    });

    it.each<[string, (name: string) => string]>([
      ['a generated column', (t) => `ALTER TABLE ${t} ADD COLUMN g text GENERATED ALWAYS AS (upper(v)) STORED`],
      [
        'a trigger on the column',
        (t) => `CREATE FUNCTION f_${t}() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RETURN NEW; END $$; CREATE TRIGGER x BEFORE UPDATE OF v ON ${t} EXECUTE FUNCTION f_${t}()`,
      ],
    ])('is refused while %s depends on the column', async (_title, make) => {
      const name = await fresh({ v: 'TEXT' });
      await project.rows(make(name));
      await refused(project, ['PUT', column(name, 'v'), { new_type: 'INTEGER' }], 409, 'dependent_objects');
    });

    it.each<[string, (name: string) => string]>([
      ['a default', (t) => `ALTER TABLE ${t} ALTER COLUMN v SET DEFAULT 'x'`],
      ['a check', (t) => `ALTER TABLE ${t} ADD CHECK (v LIKE '%')`],
      ['an index over an expression', (t) => `CREATE INDEX ON ${t} (upper(v))`],
    ])('is refused with a conflict where %s does not go with the new type', async (_title, make) => {
      const name = await fresh({ v: 'TEXT' });
      await project.rows(make(name));
      await refused(project, ['PUT', column(name, 'v'), { new_type: 'INTEGER' }], 409, 'not_convertible');
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
      const name = await fresh({ a: 'TEXT', Other: 'TEXT' });
      await refused(project, ['PUT', column(name, 'a'), body], status, code);
      await project.call('DELETE', table(name));
    });

    it('a column or table that is not there, with a near name as hint', async () => {
      const name = await fresh({ country: 'TEXT' });
      for (const [method, body] of [
        ['PUT', { comment: 'x' }],
        ['DELETE', undefined],
      ] as const) {
        const error = await refused(project, [method, column(name, 'cuontry'), body], 404, 'column_not_found');
        expect(error.hint).toContain('country');
        for (const other of ['Country', 'ctid', 'country"', '\u0000', `x'; --`, 'a'.repeat(300)]) {
          await refused(project, [method, column(name, other), body], 404, 'column_not_found');
        }
        await refused(project, [method, column('nowhere', 'country'), body], 404, 'table_not_found');
      }
    });

    it('to drop a column that a view depends on, and names the view', async () => {
      const name = await fresh({ a: 'TEXT' });
      await project.rows(`CREATE VIEW ${name}_view AS SELECT a FROM ${name}`);
      const error = await refused(project, ['DELETE', column(name, 'a')], 409, 'dependent_objects');
      expect(error.message).toContain(`${name}_view`);
    });
  });

  describe('protects', () => {
    it('the whole: what fails in one part changes no other', async () => {
      const name = await fresh({ a: 'TEXT', b: 'TEXT' });
      await insert(name, [{ a: 'no number' }]);
      const body = { new_name: 'c', new_type: 'INTEGER', comment: 'x' };
      await refused(project, ['PUT', column(name, 'a'), body], 409, 'not_convertible');
      await refused(project, ['PUT', column(name, 'a'), { ...body, new_type: 'JSONB' }], 409, 'not_convertible');
    });

    it('the whole: a column whose comment fails is not added', async () => {
      const other = await service.project();
      const name = await fresh({ a: 'TEXT' }, other);
      await inDatabase(other, async (client) => {
        await client.query(`CREATE FUNCTION data.refuse() RETURNS event_trigger LANGUAGE plpgsql
          AS $$ BEGIN RAISE EXCEPTION 'no comments today'; END $$`);
        await client.query(`CREATE EVENT TRIGGER refuse ON ddl_command_end WHEN TAG IN ('COMMENT')
          EXECUTE FUNCTION data.refuse()`);
      });
      const before = await snapshot(other);
      expect((await add(name, { name: 'b', type: 'TEXT', comment: 'x' }, other)).status).toBeGreaterThanOrEqual(400);
      const all = { new_name: 'b', new_type: 'JSONB', comment: 'x' };
      expect((await alter(name, 'a', all, other)).status).toBeGreaterThanOrEqual(400);
      expect(await snapshot(other)).toEqual(before);
    });

    it('the tables from SQL in names and comments', async () => {
      const other = await service.project();
      await other.table('kept', { a: 'TEXT' });
      await insert('kept', [{ a: 'still here' }], other);
      const before = await snapshot(other);
      for (const attack of [
        `x" TEXT; DROP TABLE kept; --`,
        `a'; DROP TABLE kept; --`,
        `a\\'; DROP TABLE kept; --`,
        `a" TYPE text USING (SELECT 'x'); --`,
        `$$; DROP TABLE kept; $$`,
      ]) {
        for (const answer of [
          await add('kept', { name: attack, type: 'TEXT' }, other),
          await add('kept', { name: 'b', type: attack }, other),
          await alter('kept', 'a', { new_name: attack }, other),
          await alter('kept', 'a', { new_type: attack }, other),
          await alter('kept', attack, { comment: 'x' }, other),
          await other.call('DELETE', column('kept', attack)),
          await other.call('POST', `${table(encodeURIComponent(attack))}/column`, {
            body: { name: 'b', type: 'TEXT' },
          }),
        ]) {
          expect([400, 404]).toContain(answer.status);
        }
        expect(await snapshot(other)).toEqual(before);
        expect((await alter('kept', 'a', { comment: attack }, other)).body.column).toMatchObject({ comment: attack });
        await alter('kept', 'a', { comment: null }, other);
        expect(await snapshot(other)).toEqual(before);
      }
    });

    it('projects from each other: the same column of the same table is another one', async () => {
      const [one, two] = [await service.project(), await service.project()];
      for (const by of [one, two]) await by.table('orders', { a: 'TEXT' });
      const before = await snapshot(two);
      expect((await alter('orders', 'a', { new_name: 'b', new_type: 'JSONB', comment: 'x' }, one)).status).toBe(200);
      expect((await add('orders', { name: 'c', type: 'TEXT' }, one)).status).toBe(201);
      expect(await snapshot(two)).toEqual(before);
      expect((await two.call('DELETE', column('orders', 'a'))).status).toBe(200);
      expect(await columnTypes(one, 'orders')).toEqual({ id: 'uuid', b: 'JSONB', c: 'TEXT' });
    });

    it('one name: of many that add it at once, in two cases and on two instances, one succeeds', async () => {
      const name = await fresh({ a: 'TEXT' });
      const second = await startService(service.config, pino({ level: 'silent' }));
      try {
        const adding = Array.from({ length: 8 }, async (_, i) => {
          const response = await fetch(`${i % 2 === 0 ? service.url : second.url}${table(name)}/column`, {
            method: 'POST',
            headers: { authorization: `Bearer ${project.token}`, 'content-type': 'application/json' },
            body: JSON.stringify({ name: i < 4 ? 'race' : 'RACE', type: 'TEXT' }),
          });
          return ((await response.json()) as { error?: string }).error ?? response.status;
        });
        const answers = await Promise.all(adding);
        expect(answers.filter((answer) => answer === 201)).toHaveLength(1);
        expect(answers.filter((answer) => answer === 'column_exists')).toHaveLength(7);
      } finally {
        await second.close();
      }
    });

    it('the caller from waiting: while another transaction uses the table, a change is refused after 2 s', async () => {
      const name = await fresh({ a: 'TEXT' });
      await inDatabase(project, async (client) => {
        await client.query('BEGIN');
        // A mere reader is enough: the change needs the table for itself.
        await client.query(`SELECT * FROM data.${name}`);
        const attempts = [
          () => add(name, { name: 'b', type: 'TEXT' }),
          () => alter(name, 'a', { new_name: 'b' }),
          () => alter(name, 'a', { new_type: 'JSONB' }),
          () => project.call('DELETE', column(name, 'a')),
        ];
        for (const attempt of attempts) {
          const started = performance.now();
          const answer = await attempt();
          failure(answer, 503, 'table_busy');
          expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
          expect(performance.now() - started).toBeLessThan(3_500);
        }
        await client.query('ROLLBACK');
      });
      expect(await columnTypes(project, name)).toEqual({ id: 'uuid', a: 'TEXT' });
      expect((await add(name, { name: 'b', type: 'TEXT' })).status).toBe(201);
    });

    it('the table from a change that would hold it for long: it is undone, and the table is free', async () => {
      const impatient = await startTestService({ 'schema-hold-ms': '700' }, server);
      try {
        const own = await impatient.project();
        await own.table('slow', { a: 'TEXT', b: 'TEXT' });
        // An index over an expression is built anew when the table is rewritten; its function gets slow later.
        await own.rows(`CREATE FUNCTION dawdle(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
          CREATE INDEX ON slow (dawdle(b))`);
        await insert(
          'slow',
          Array.from({ length: 100 }, () => ({ a: '1', b: 'x' })),
          own,
        );
        await own.rows(`CREATE OR REPLACE FUNCTION dawdle(text) RETURNS text IMMUTABLE LANGUAGE plpgsql
          AS 'BEGIN PERFORM pg_sleep(0.1); RETURN $1; END'`);
        const before = await snapshot(own);
        const started = performance.now();
        const answer = await alter('slow', 'a', { new_type: 'INTEGER', comment: 'x' }, own);
        failure(answer, 503, 'table_busy');
        expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
        expect(performance.now() - started).toBeLessThan(3_000);
        expect(await snapshot(own)).toEqual(before);
        expect((await alter('slow', 'a', { comment: 'x' }, own)).status).toBe(200);
      } finally {
        await impatient.close();
      }
    });
  });
});
