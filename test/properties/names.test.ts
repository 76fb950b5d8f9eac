/** Any text as the name of a table or column: either created and read back unchanged, or clearly refused. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { columnPath, TABLE, tablePath } from '../support/tables.js';
import { checkClear, parameters } from './run.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
});
afterAll(() => service.close());

const name = fc.oneof(
  fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,62}$/),
  fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{60,66}$/),
  fc.string({ unit: 'binary', maxLength: 70 }),
  fc.string({ unit: 'grapheme', maxLength: 20 }),
  fc.constantFrom(
    'id',
    'ID',
    'ctid',
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    'select',
    'user',
    '_cdp_x',
    'pg_class',
    'ı',
    'K',
    'a"b',
    "a'b",
    'a\\b',
    '',
    ' ',
    '..',
    '%00',
    '\u0000',
    '\ud800',
  ),
);
const VALID = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/;

it('a name is kept as given, or refused', async () => {
  await fc.assert(
    fc.asyncProperty(
      name,
      fc.uniqueArray(name, { minLength: 1, maxLength: 4 }),
      name,
      async (table, columns, added) => {
        const list = columns.map((column) => ({ name: column, type: 'TEXT' }));
        const made = await project.call('POST', TABLE, { body: { table_name: table, columns: list } });
        checkClear(made);
        expect([201, 400, 409]).toContain(made.status);
        if (![table, ...columns].every((text) => VALID.test(text))) expect(made.status).not.toBe(201);
        if (made.status !== 201) return;
        try {
          const more = await project.call('POST', `${tablePath(table)}/column`, {
            body: { name: added, type: 'INTEGER' },
          });
          checkClear(more);
          const all = ['id', ...columns, ...(more.status === 201 ? [added] : [])];
          const read = await project.call('GET', tablePath(table));
          checkClear(read);
          const shown = read.body.table as { name: string; columns: { name: string }[] };
          expect([shown.name, shown.columns.map((column) => column.name)]).toEqual([table, all]);
          const record = `{${columns.map((column) => `${JSON.stringify(column)}:"x"`).join()}}`;
          const insert = () =>
            project.call('POST', `/api/cdp/data/${encodeURIComponent(table)}`, { body: `[${record}]` });
          for (const response of [await insert(), await insert()])
            expect([response.status, response.text]).toEqual([201, response.text]);
          const [row] = await project.rows(`SELECT * FROM data."${table}"`);
          expect(Object.keys(row ?? {}).sort()).toEqual([...all].sort());
          const [first = ''] = columns;
          const renamed = await project.call('PUT', columnPath(table, first), { body: { new_name: added } });
          checkClear(renamed);
          if (renamed.status === 200) expect(renamed.body.column).toMatchObject({ name: added });
        } finally {
          expect((await project.call('DELETE', tablePath(table))).status).toBe(200);
        }
      },
    ),
    parameters(60),
  );
});
