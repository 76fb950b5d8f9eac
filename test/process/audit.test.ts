/**
 * The audit log with real processes: `cdp audit` reads it, a stop writes pending entries, and a kill loses at most one
 * interval.
 */
import { randomUUID } from 'node:crypto';
import { userInfo } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { endEverything, preparedDataDir, type RunningService, runProgram, startServe } from '../support/program.js';
import { call } from '../support/service.js';

interface Entry {
  id: string;
  time: string;
  request_id: string | null;
  project: string | null;
  actor: string;
  actor_id: string | null;
  operation: string;
  object: string | null;
  outcome: string;
  status: number | null;
}

let dataDir: string;
beforeAll(async () => {
  dataDir = await preparedDataDir();
});
afterAll(endEverything);

const run = (...args: string[]) => runProgram(args, { env: { CDP_DATA_DIR: dataDir } });

async function output(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(...args);
  expect([code, stderr], args.join(' ')).toEqual([0, '']);
  return stdout;
}

const entries = async (...args: string[]): Promise<Entry[]> =>
  (await output('audit', '--json', ...args))
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Entry);

const serve = (): Promise<RunningService> => startServe(['--data-dir', dataDir]);

describe('cdp audit', () => {
  let token: { token: string; id: string };
  beforeAll(async () => {
    await output('project', 'create', 'shop');
    token = JSON.parse(await output('token', 'create', '--project', 'shop', '--name', 'importer', '--json')) as never;
    const service = await serve();
    const send = (method: string, path: string, body?: unknown) =>
      call(service.url, method, path, { token: token.token, body });
    await send('POST', '/api/cdp/schema/table', { table_name: 't', columns: [{ name: 'a', type: 'TEXT' }] });
    await send('POST', '/api/cdp/data/t', [{ a: '1' }, { a: '2' }]);
    await send('POST', '/api/cdp/data/t', [{ b: '1' }]);
    await send('GET', '/api/cdp/schema/table/%E2%80%AE%1B%5B2J');
    expect((await service.end()).code).toBe(0);
  });

  it('shows what a stopped service did up to its last request, and what commands did', async () => {
    const found = await entries('--project', 'shop');
    expect(found.map(({ operation, outcome, actor }) => [operation, outcome, actor])).toEqual([
      ['project.create', 'ok', 'command_line'],
      ['token.create', 'ok', 'command_line'],
      ['create_table', 'ok', 'token'],
      ['insert', 'ok', 'token'],
      ['insert', 'unknown_column', 'token'],
      ['read_table', 'table_not_found', 'token'],
    ]);
    expect(found[0]?.actor_id).toBe(userInfo().username);
    expect(found[1]?.object).toBe(token.id);
  });

  it('prints a table for people, without control characters', async () => {
    const lines = (await output('audit', '--project', 'shop')).split('\n');
    expect(lines[0]).toMatch(/^TIME +PROJECT +WHO +OPERATION +OBJECT +ROWS +OUTCOME +FROM$/);
    expect(lines[4]).toMatch(/^\S+Z +shop +importer \([0-9a-f]{8}\) +insert +t +2 +ok +127\.0\.0\.1$/);
    expect(lines.join('')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect(lines).toHaveLength(8);
  });

  it('filters by operation, outcome, token, time and number', async () => {
    const operations = async (...args: string[]) =>
      (await entries('--project', 'shop', ...args)).map(({ operation }) => operation);
    expect(await operations('--operation', 'insert')).toEqual(['insert', 'insert']);
    expect(await operations('--failed')).toEqual(['insert', 'read_table']);
    expect(await operations('--changes')).toEqual([
      'project.create',
      'token.create',
      'create_table',
      'insert',
      'read_table',
    ]);
    expect(await operations('--outcome', 'unknown_column')).toEqual(['insert']);
    expect(await operations('--token', token.id)).toEqual(['create_table', 'insert', 'insert', 'read_table']);
    expect(await operations('--limit', '2')).toEqual(['insert', 'read_table']);
    expect(await operations('--since', '1h')).toHaveLength(6);
    expect(await operations('--until', '1h')).toEqual([]);
    const [, second] = await entries('--project', 'shop');
    expect(await operations('--until', second?.time ?? '')).toEqual(['project.create']);
    expect(await operations('--since', '2099-01-01')).toEqual([]);
  });

  it.each([
    ['a time that is none', ['--since', 'yesterday'], '--since takes 2h'],
    ['a unit that is none', ['--until', '3w'], '--until takes 2h'],
    ['an operation that is none', ['--operation', 'nothing'], '--operation must be one of create_table, '],
    ['no limit', ['--limit', '0'], '--limit takes a number'],
    ['a limit beyond all limits', ['--limit', '100001'], '--limit takes a number'],
    ['two outcomes', ['--failed', '--outcome', 'ok'], 'Give either'],
    ['an unknown flag', ['--all'], "unknown option '--all'"],
  ])('refuses %s', async (_what, args, message) => {
    const { code, stdout, stderr } = await run('audit', ...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
  });
});

describe('a service that is killed', () => {
  it('has written everything that ended before the last interval', async () => {
    const token = JSON.parse(await output('token', 'create', '--project', 'shop', '--json')) as { token: string };
    const service = await serve();
    const id = randomUUID();
    const headers = { 'x-request-id': id };
    expect((await call(service.url, 'GET', '/api/cdp/schema', { token: token.token, headers })).status).toBe(200);
    const reads = async () => (await entries('--operation', 'read_schema')).map((entry) => entry.request_id);
    await expect.poll(reads).toContain(id);
    await service.end('SIGKILL');
    expect(await reads()).toContain(id);
  });
});
