/** A client generated from our OpenAPI document compiles and works. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import openapiTS, { astToString } from 'openapi-typescript';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestService, type TestService } from '../support/service.js';
import { projectRoot } from '../support/program.js';
import { compile } from '../support/compile.js';

const run = promisify(execFile);

/** What a developer writes who has the document alone. */
const PROGRAM = `
import createClient from 'openapi-fetch';
import type { paths } from './schema.js';

const [baseUrl = '', token = ''] = process.argv.slice(2);
const api = createClient<paths>({ baseUrl, headers: { authorization: \`Bearer \${token}\` } });

function must<T>({ data, error }: { data?: T; error?: { error: string; message: string } }): T {
  if (data === undefined) throw new Error(error?.message);
  return data;
}

const created = must(await api.POST('/api/cdp/schema/table', {
  body: { table_name: 'pets', columns: [{ name: 'name', type: 'TEXT' }], comment: null },
}));
const added = must(await api.POST('/api/cdp/schema/table/{table_name}/column', {
  params: { path: { table_name: 'pets' } },
  body: { name: 'age', type: 'INTEGER' },
}));
const altered = must(await api.PUT('/api/cdp/schema/table/{table_name}/column/{column_name}', {
  params: { path: { table_name: 'pets', column_name: 'age' } },
  body: { new_name: 'years' },
}));
const inserted = must(await api.POST('/api/cdp/data/{table_name}', {
  params: { path: { table_name: 'pets' }, query: { return: 'ids' }, header: { 'Idempotency-Key': 'one' } },
  body: [{ name: 'Rex', years: 3 }, { name: 'Tom' }],
}));
const found = must(await api.POST('/api/cdp/sql', {
  body: { sql: 'SELECT name, years FROM pets WHERE years > $1', params: [2], read_only: true },
}));
const refused = await api.POST('/api/cdp/data/{table_name}', {
  params: { path: { table_name: 'pets' } },
  body: [{ nmae: 'Rex' }],
});
const columns: string[] = created.columns;
const type: string = added.column.type;
const name: string = altered.column.name;
if (!('inserted_rows' in inserted)) throw new Error('The token may only append');
const rows: number = inserted.inserted_rows;
const code: string | undefined = refused.error?.errors?.[0]?.error;
console.log(JSON.stringify({ columns, type, name, rows, ids: inserted.ids?.length, found: found.rows, code }));
`;

let service: TestService;
let folder: string;
beforeAll(async () => {
  service = await startTestService();
  // Within the project, so that the program finds its packages.
  const cache = join(projectRoot, 'node_modules', '.cache');
  mkdirSync(cache, { recursive: true });
  folder = mkdtempSync(join(cache, 'generated-'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service.close();
});

it('with types from openapi-typescript, a program on openapi-fetch uses the five operations', async () => {
  const { token } = await service.project();
  const document = await (await fetch(`${service.url}/openapi.json`)).text();
  writeFileSync(join(folder, 'schema.ts'), astToString(await openapiTS(document)));
  writeFileSync(join(folder, 'program.ts'), PROGRAM);
  expect(compile([join(folder, 'schema.ts'), join(folder, 'program.ts')])).toEqual([]);
  const { stdout } = await run(process.execPath, [join(folder, 'program.js'), service.url, token]);
  expect(JSON.parse(stdout)).toEqual({
    columns: ['id', 'name'],
    type: 'INTEGER',
    name: 'years',
    rows: 2,
    ids: 2,
    found: [{ name: 'Rex', years: 3 }],
    code: 'unknown_column',
  });
});
