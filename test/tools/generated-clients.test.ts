/**
 * Clients that other generators create from the OpenAPI document compile, and run SQL with types. npx fetches the
 * generators.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { compile } from '../support/compile.js';
import { startTestService, type TestService } from '../support/service.js';

const run = promisify(execFile);

let service: TestService;
let folder: string;
beforeAll(async () => {
  service = await startTestService();
  folder = mkdtempSync(join(tmpdir(), 'cdp-generated-'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(folder, 'openapi.json'), await (await fetch(`${service.url}/openapi.json`)).text());
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service.close();
});

const SHOW = 'console.log(JSON.stringify([found.rows, name, code]));';

/** Compiles and runs a program beside the generated files, with the service's address and a token. */
async function outputOf(program: string): Promise<unknown> {
  const file = join(folder, 'program.ts');
  writeFileSync(file, program);
  // The files that hey-api adds do not compile with this option, whatever the document.
  expect(compile([file], { exactOptionalPropertyTypes: false })).toEqual([]);
  const { token } = await service.project();
  const { stdout } = await run(process.execPath, [join(folder, 'program.js'), service.url, token]);
  return JSON.parse(stdout);
}

const generate = (...args: string[]) => run('npx', ['--yes', ...args], { cwd: folder });

const EXPECTED = [[{ n: 1 }], 'n', 'sql_error'];

it('works with orval', async () => {
  await generate('orval@8.38.0', '--input', 'openapi.json', '--output', 'orval.ts', '--client', 'fetch');
  const program = `
import { runSql, type ErrorCode, type SqlResult } from './orval.js';

const [url, token] = process.argv.slice(2);
const native = fetch;
globalThis.fetch = (input, init) => native(url + String(input), init);
const options = { headers: { authorization: \`Bearer \${token}\` } };
const answer = await runSql({ sql: 'SELECT $1::int AS n', params: [1] }, {}, options);
if (answer.status !== 200) throw new Error(answer.data.message);
const found: SqlResult = answer.data;
const name: string | undefined = found.columns[0]?.name;
const refused = await runSql({ sql: 'SELEC' }, undefined, options);
const code: ErrorCode | undefined = refused.status === 400 ? refused.data.error : undefined;
${SHOW}`;
  expect(await outputOf(program)).toEqual(EXPECTED);
});

it('works with hey-api', async () => {
  const output = { path: 'hey', importFileExtension: '.js' };
  const config = JSON.stringify({ input: 'openapi.json', output });
  writeFileSync(join(folder, 'openapi-ts.config.js'), `export default ${config};`);
  await generate('--package=typescript@5.9.3', '--package=@hey-api/openapi-ts@0.90.0', 'openapi-ts');
  const program = `
import { createClient } from './hey/client/index.js';
import { runSql, type ErrorCode, type SqlResult } from './hey/index.js';

const [baseUrl = '', token = ''] = process.argv.slice(2);
const client = createClient({ baseUrl, auth: token });
const { data } = await runSql({ client, body: { sql: 'SELECT $1::int AS n', params: [1] }, throwOnError: true });
const found: SqlResult = data;
const name: string | undefined = found.columns[0]?.name;
const refused = await runSql({ client, body: { sql: 'SELEC' } });
const code: ErrorCode | undefined = refused.error?.error;
${SHOW}`;
  expect(await outputOf(program)).toEqual(EXPECTED);
});
