/** Type changes that list the values that prevent them, and that replace values first. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testServers } from '../../support/postgres.js';
import { expectRefused } from '../../support/schema.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { columnPath, Tables } from '../../support/tables.js';

describe.each(testServers())('a type change on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  let tables: Tables;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    tables = new Tables(project);
  });
  afterAll(() => service.close());

  const filled = async (type: string, values: unknown[]) => {
    const name = await tables.fresh({ a: type });
    if (values.length > 0)
      await tables.insert(
        name,
        values.map((a) => ({ a })),
      );
    return name;
  };
  const values = async (table: string) => (await project.rows(`SELECT a FROM ${table} ORDER BY id`)).map(({ a }) => a);
  const asked = (table: string) => `${columnPath(table, 'a')}?return=values`;

  describe('that would lose values lists them', () => {
    it('on request: the ten most frequent with their rows, long ones truncated', async () => {
      const long = 'ü🎉'.repeat(200);
      const name = await filled('TEXT', [
        ...['b', 'a', 'b', '1', long, long, long, `${long} and more`, null],
        ...Array.from({ length: 20 }, (_, i) => `z${i}`),
      ]);
      const error = await expectRefused(project, ['PUT', asked(name), { new_type: 'INTEGER' }], 409, 'not_convertible');
      expect(error.message).toMatch(/^27 values of "a" \(TEXT\) cannot be kept as INTEGER; some of their rows: /);
      expect(error.values).toEqual([
        { value: `${'ü🎉'.repeat(50)}…`, rows: 4 },
        { value: 'b', rows: 2 },
        ...['a', 'z0', 'z1', 'z10', 'z11', 'z12', 'z13', 'z14'].map((value) => ({ value, rows: 1 })),
      ]);
    });

    it.each<[string, unknown[], string, unknown]>([
      ['INTEGER', [2, 2, 0], 'BOOLEAN', [{ value: '2', rows: 2 }]],
      [
        'FLOAT',
        [0.1, 'NaN'],
        'INTEGER',
        [
          { value: '0.1', rows: 1 },
          { value: 'NaN', rows: 1 },
        ],
      ],
      [
        'JSONB',
        ['x', { b: 1, a: [] }],
        'INTEGER',
        [
          { value: '"x"', rows: 1 },
          { value: '{"a": [], "b": 1}', rows: 1 },
        ],
      ],
      ['TIMESTAMP', ['2026-01-31'], 'INTEGER', [{ value: '2026-01-31T00:00:00Z', rows: 1 }]],
    ])('of %s %j, as responses show them', async (type, sent, to, shown) => {
      const name = await filled(type, sent);
      const error = await expectRefused(project, ['PUT', asked(name), { new_type: to }], 409, 'not_convertible');
      expect(error.values).toEqual(shown);
    });

    it('only on request, and only to a token that may query all of them', async () => {
      const name = await filled('TEXT', ['secret']);
      const body = { new_type: 'INTEGER' };
      const plain = await expectRefused(project, ['PUT', columnPath(name, 'a'), body], 409, 'not_convertible');
      expect(JSON.stringify(plain)).not.toMatch(/secret|"values"/);
      // Row level security may hide rows from one that only reads.
      const token = await project.tokenWith('schema:read', 'schema:write', 'data:write', 'sql:read');
      const response = await project.call('PUT', asked(name), { body, token });
      expectFailure(response, 409, 'not_convertible');
      expect(response.text).not.toMatch(/secret|"values"/);
      const writer = await project.tokenWith('schema:write', 'sql:write');
      expect((await project.call('PUT', asked(name), { body, token: writer })).body.values).toEqual([
        { value: 'secret', rows: 1 },
      ]);
      expectFailure(await project.call('PUT', `${columnPath(name, 'a')}?return=ids`, { body }), 400, 'invalid_request');
    });
  });

  describe('with a map', () => {
    it.each<[string, unknown[], string, Record<string, string | null>, unknown[]]>([
      [
        'TEXT',
        ['yes', 'no', 'true', 'n/a', '', null, 'YES'],
        'BOOLEAN',
        { yes: 'true', YES: 'true', no: 'false', 'n/a': null, '': null, unused: 'true' },
        [true, false, true, null, null, null, true],
      ],
      ['TEXT', ['one', '2'], 'INTEGER', { one: '9007199254740993', '2': '3' }, ['9007199254740993', 3]],
      [
        'TEXT',
        [`it's \\ "odd" 🎉`, '__proto__'],
        'JSONB',
        JSON.parse(`{"it's \\\\ \\"odd\\" 🎉": "[1]", "__proto__": "null"}`),
        [[1], null],
      ],
      ['TEXT', ['NULL', 'x'], 'TEXT', { NULL: null }, [null, 'x']],
      ['INTEGER', [0, 2], 'BOOLEAN', { '2': 'true' }, [false, true]],
      ['FLOAT', [1.5, 2], 'INTEGER', { '1.5': '2' }, [2, 2]],
      ['JSONB', ['x', 7, null], 'INTEGER', { '"x"': '0' }, [0, 7, null]],
      ['BOOLEAN', [true, false], 'INTEGER', { false: null }, [1, null]],
    ])('of %s %j to %s', async (type, sent, to, map, read) => {
      const name = await filled(type, sent);
      const response = await tables.alter(name, 'a', { new_type: to, map });
      expect([response.status, response.body.column]).toEqual([200, { name: 'a', type: to, comment: null }]);
      expect(await values(name)).toEqual(read);
    });

    it('changes all or nothing: a value that is not in it keeps the others unchanged', async () => {
      const name = await filled('TEXT', ['yes', 'yes', 'maybe']);
      const body = { new_type: 'BOOLEAN', map: { yes: 'true' }, new_name: 'b', comment: 'x' };
      const error = await expectRefused(project, ['PUT', asked(name), body], 409, 'not_convertible');
      expect(error.values).toEqual([{ value: 'maybe', rows: 1 }]);
      expect(error.message).toContain('1 value of "a"');
    });

    it.each<[unknown, string]>([
      [{ new_type: 'BOOLEAN', map: { yes: 'yes', no: 'false', on: '1' } }, 'invalid_value'],
      [{ map: { yes: 'true' } }, 'invalid_request'],
      [{ new_type: 'BOOLEAN', map: { yes: true } }, 'invalid_request'],
      [{ new_type: 'BOOLEAN', map: [['yes', 'true']] }, 'invalid_request'],
      [{ new_type: 'BOOLEAN', map: null }, 'invalid_request'],
      [{ new_type: 'TEXT', map: { 'a\u0000': 'b' } }, 'invalid_request'],
      [{ new_type: 'TEXT', map: { a: '\ud800' } }, 'invalid_request'],
      [
        { new_type: 'TEXT', map: Object.fromEntries(Array.from({ length: 1_001 }, (_, i) => [`k${i}`, 'v'])) },
        'invalid_request',
      ],
    ])('refuses %j', async (body, code) => {
      const name = await filled('TEXT', ['yes']);
      const error = await expectRefused(project, ['PUT', columnPath(name, 'a'), body], 400, code);
      if (code === 'invalid_value') {
        expect(error.errors?.map(({ message }) => message)).toEqual([
          'map: "on" cannot become "1", which is not a value of BOOLEAN',
          'map: "yes" cannot become "yes", which is not a value of BOOLEAN',
        ]);
      }
    });

    it('never makes an inconvertible pair of types convertible, and refuses a duplicate key', async () => {
      const name = await filled('TIMESTAMP', ['2026-01-31']);
      const body = { new_type: 'INTEGER', map: { '2026-01-31T00:00:00Z': '1' } };
      await expectRefused(project, ['PUT', columnPath(name, 'a'), body], 409, 'not_convertible');
      const twice = '{"new_type": "TEXT", "map": {"a": "b", "a": "c"}}';
      await expectRefused(project, ['PUT', columnPath(name, 'a'), twice], 400, 'invalid_json');
    });

    it('treats SQL in it as text', async () => {
      const attacks = [`'; DROP TABLE kept; --`, `\\'; DROP TABLE kept; --`, `' || pg_sleep(9) || '`];
      const name = await filled('TEXT', attacks);
      const map = Object.fromEntries(attacks.map((attack) => [attack, `${attack} mapped`]));
      expect((await tables.alter(name, 'a', { new_type: 'TEXT', map })).status).toBe(200);
      expect(await values(name)).toEqual(Object.values(map));
    });
  });
});
