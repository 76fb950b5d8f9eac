/** Changing the type of a column over HTTP: every value is kept, or nothing changes (contract C7). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testServers } from '../../support/postgres.js';
import { columnTypes, expectRefused } from '../../support/schema.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { columnPath, freshName, Tables } from '../../support/tables.js';

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** The table of contract C7.1, its diagonal left out: values sent, and what is read after the change. */
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
  ['TEXT', 'FLOAT', ['', '1e400', ' 1', '1,5', 'inf', '9007199254740993', '0.1234567890123456789']],
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

  it.each(KEPT)('%s to %s keeps every value', async (from, to, pairs) => {
    const name = await tables.fresh({ v: from, n: 'INTEGER' });
    await tables.insert(name, [...pairs.map(([v], n) => ({ n, v })), { n: pairs.length }]);
    const response = await tables.alter(name, 'v', { new_type: to });
    expect(response.text).toContain('"success":true');
    expect(await columnTypes(project, name)).toMatchObject({ v: to });
    const rows = await project.rows(`SELECT v FROM ${name} ORDER BY n`);
    expect(rows.map(({ v }) => v)).toEqual([...pairs.map(([, read]) => read), null]);
    await tables.drop(name);
  });

  it.each(REFUSED)(
    '%s to %s refuses values that would be lost, with their rows and without the values',
    async (from, to, values) => {
      const name = await tables.fresh({ v: from });
      for (const value of values) {
        const [id] = await tables.insert(name, [{ v: value }]);
        const error = await expectRefused(
          project,
          ['PUT', columnPath(name, 'v'), { new_type: to }],
          409,
          'not_convertible',
        );
        expect(error.message).toContain(id);
        expect(error.message).toMatch(/\b1 value\b/);
        await project.rows(`DELETE FROM ${name}`);
      }
      await tables.drop(name);
    },
  );

  it('turns JSON null into NULL when it leaves JSONB', async () => {
    for (const type of ['TEXT', 'INTEGER', 'FLOAT', 'BOOLEAN', 'TIMESTAMP']) {
      const name = await tables.fresh({ v: 'JSONB' });
      await project.rows(`INSERT INTO ${name} (v) VALUES ('null'), (NULL)`);
      expect((await tables.alter(name, 'v', { new_type: type })).status).toBe(200);
      expect(await project.rows(`SELECT v FROM ${name}`)).toEqual([{ v: null }, { v: null }]);
    }
  });

  it('reports the number of values and at most five of their rows, and no value', async () => {
    const name = await tables.fresh({ v: 'TEXT' });
    const bad = await tables.insert(
      name,
      Array.from({ length: 7 }, (_, i) => ({ v: `confidential-${i}` })),
    );
    const good = await tables.insert(name, [{ v: '1' }, { v: '2' }, {}]);
    const response = await tables.alter(name, 'v', { new_type: 'INTEGER' });
    const { message, rows, ids } = expectFailure(response, 409, 'not_convertible');
    expect({ rows, ids }).toEqual({ rows: 7, ids: bad.toSorted().slice(0, 5) });
    expect(message).toMatch(/\b7\b/);
    const named = message.match(UUID) ?? [];
    expect(new Set(named).size).toBe(5);
    for (const id of named) expect(bad).toContain(id);
    for (const id of good) expect(response.text).not.toContain(id);
    expect(response.text).not.toContain('confidential');
  });

  it('reports only the number if the table has no id', async () => {
    const name = freshName();
    await project.rows(`CREATE TABLE ${name} (v text); INSERT INTO ${name} VALUES ('secret'), ('1')`);
    const error = await expectRefused(
      project,
      ['PUT', columnPath(name, 'v'), { new_type: 'FLOAT' }],
      409,
      'not_convertible',
    );
    expect(error.message).toMatch(/\b1 value\b/);
    expect(error).toMatchObject({ rows: 1, ids: [] });
    expect(JSON.stringify(error)).not.toContain('secret');
  });

  it('of a type that free SQL created: to TEXT as responses show it, and to no other', async () => {
    const name = freshName();
    await project.rows(`CREATE TABLE ${name} (v numeric(6,2)); INSERT INTO ${name} VALUES (1.50)`);
    await expectRefused(project, ['PUT', columnPath(name, 'v'), { new_type: 'JSONB' }], 409, 'not_convertible');
    expect((await tables.alter(name, 'v', { new_type: 'TEXT' })).status).toBe(200);
    expect(await project.rows(`SELECT v FROM ${name}`)).toEqual([{ v: '1.50' }]);
  });

  it('is refused while views depend on the column, and names them', async () => {
    const name = await tables.fresh({ v: 'TEXT', w: 'TEXT' });
    await project.rows(`CREATE VIEW "${name}_One" AS SELECT v FROM ${name};
      CREATE MATERIALIZED VIEW ${name}_two AS SELECT upper(v) AS u FROM ${name};
      CREATE VIEW ${name}_other AS SELECT w FROM ${name}`);
    const error = await expectRefused(
      project,
      ['PUT', columnPath(name, 'v'), { new_type: 'JSONB' }],
      409,
      'dependent_objects',
    );
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
    const name = await tables.fresh({ v: 'TEXT' });
    await project.rows(make(name));
    await expectRefused(project, ['PUT', columnPath(name, 'v'), { new_type: 'INTEGER' }], 409, 'dependent_objects');
  });

  it.each<[string, (name: string) => string]>([
    ['a default', (t) => `ALTER TABLE ${t} ALTER COLUMN v SET DEFAULT 'x'`],
    ['a check', (t) => `ALTER TABLE ${t} ADD CHECK (v LIKE '%')`],
    ['an index over an expression', (t) => `CREATE INDEX ON ${t} (upper(v))`],
  ])('is refused with a conflict if %s does not fit the new type', async (_title, make) => {
    const name = await tables.fresh({ v: 'TEXT' });
    await project.rows(make(name));
    await expectRefused(project, ['PUT', columnPath(name, 'v'), { new_type: 'INTEGER' }], 409, 'not_convertible');
  });
});
