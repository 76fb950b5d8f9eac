/** The management commands, with a running service and without one: what they print, change and refuse. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  endEverything,
  eventually,
  newDataDir,
  postmasterOf,
  preparedDataDir,
  projectRoot,
  runProgram,
  type RunningService,
  startServe,
} from '../support/program.js';
import { call, expectFailure } from '../support/service.js';
import { openTerminal } from '../support/terminal.js';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const NOBODY = '00000000-0000-7000-8000-000000000000';
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const TOKEN = /^cdp_[0-9A-Za-z]{49}$/;
const ALL_SCOPES = ['schema:read', 'schema:write', 'data:write', 'sql:read', 'sql:write'];

let dataDir: string;
beforeAll(async () => {
  dataDir = await preparedDataDir();
});
afterAll(endEverything);

const run = (...args: string[]) => runProgram([...args, '--data-dir', dataDir]);

/** The lines that a command prints for people. */
async function lines(...args: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await run(...args);
  expect([code, stderr]).toEqual([0, '']);
  return stdout.trimEnd().split('\n');
}

/** What a command prints with --json: one line. */
async function json<T = Record<string, unknown>>(...args: string[]): Promise<T> {
  const [line, ...more] = await lines(...args, '--json');
  expect(more).toEqual([]);
  return JSON.parse(line ?? '') as T;
}

describe.each(['without a running service', 'with a running service'])('%s', (situation) => {
  let service: RunningService | undefined;
  /** Each situation has projects of its own. */
  const name = situation.replaceAll(' ', '-');

  beforeAll(async () => {
    if (situation.startsWith('with ')) service = await startServe(['--data-dir', dataDir]);
  });
  afterAll(async () => {
    if (service !== undefined) expect((await service.end()).code).toBe(0);
    expect(await postmasterOf(dataDir), 'the last one out has stopped Postgres').toBeUndefined();
  });

  it('escapes control characters in a name for the terminal', async () => {
    const { code, stdout, stderr } = await run('project', 'delete', '\u001b]0;OWNED\u0007\u009b2K', '--yes');
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain('\\u{1b}]0;OWNED\\u{7}\\u{9b}2K');
    expect(stderr).toMatch(/^[\x20-\x7e\n]+$/);
  });

  it('creates, lists, deactivates, activates and deletes a project', async () => {
    const shown = {
      id: expect.stringMatching(UUID) as string,
      name,
      quota: 'default',
      own_schemas: true,
      server: 'default',
      created_at: expect.stringMatching(TIME) as string,
    };
    const created = await json('project', 'create', name);
    expect(created).toEqual({ ...shown, status: 'active' });
    const place = {
      size_bytes: expect.any(Number) as number,
      database: 'project',
      folder: expect.stringMatching(/^[0-9a-f]{12}$/) as string,
      archive: 'off',
      saved_at: null,
    };
    expect(await json('project', 'list')).toContainEqual({ ...created, ...place });
    expect(await json('project', 'deactivate', name)).toEqual({ ...created, status: 'inactive' });
    expect((await lines('project', 'list')).join('\n')).toMatch(
      new RegExp(
        `^${name} +inactive +\\d+\\.\\d MB +default +off +- +\\d{4}-\\S+ +default +project in postgres/projects/[0-9a-f]{12}$`,
        'm',
      ),
    );
    expect(await json('project', 'activate', name)).toEqual({ ...created, status: 'active' });
    expect(await json('project', 'repair', name)).toEqual({ ...created, repaired: [] });
    expect(await json('project', 'rename', name, `${name}-9`)).toEqual({ ...created, name: `${name}-9` });
    expect(await lines('project', 'rename', `${name}-9`, name)).toEqual([`Project ${name}-9 is now ${name}`]);
    expect(await json('project', 'delete', name, '--yes')).toMatchObject({ id: created.id, name });
    expect(await json<unknown[]>('project', 'list')).not.toContainEqual(expect.objectContaining({ name }));
  });

  it('creates an admin token that belongs to no project and has no scopes', async () => {
    const { token, id } = await json('token', 'create', '--admin', '--name', 'ops');
    expect(token).toMatch(TOKEN);
    const listed = expect.objectContaining({ id, name: 'ops', scopes: [] }) as object;
    expect(await json('token', 'list', '--admin')).toContainEqual(listed);
    expect(await json('token', 'list', '--all')).toContainEqual(expect.objectContaining({ id, project: null }));
    expect(await json('token', 'revoke', id as string)).toMatchObject({ id, name: 'ops' });
  });
});

describe('on the running service', () => {
  const name = 'served';
  let service: RunningService;
  let token: string;
  let id: string;
  beforeAll(async () => {
    service = await startServe(['--data-dir', dataDir]);
    await lines('project', 'create', 'live');
    ({ token, id } = await json<{ token: string; id: string }>('token', 'create', '--project', 'live'));
  });
  afterAll(() => service.end());

  it('prints one line about what it did', async () => {
    expect(await lines('project', 'create', `${name}-2`)).toEqual([`Project ${name}-2 created`]);
    expect(await lines('project', 'deactivate', `${name}-2`)).toEqual([`Project ${name}-2 inactive`]);
    expect(await lines('project', 'activate', `${name}-2`)).toEqual([`Project ${name}-2 active`]);
    expect(await lines('project', 'repair', `${name}-2`)).toEqual([`Project ${name}-2 repaired`]);
    expect(await lines('project', 'quota', `${name}-2`, '5gb')).toEqual([`Project ${name}-2 has the quota 5GB`]);
    expect((await run('token', 'create', '--project', `${name}-2`)).stdout).toMatch(/^cdp_[0-9A-Za-z]{49}\n$/);
    expect(await lines('project', 'delete', `${name}-2`, '--yes')).toEqual([`Project ${name}-2 deleted`]);
  });

  it('repairs all projects with one command', async () => {
    await lines('project', 'create', `${name}-5`);
    await lines('project', 'create', `${name}-6`);
    const { code, stdout, stderr } = await run('project', 'repair', '--all', '--json');
    expect([code, stderr]).toEqual([0, expect.stringContaining(`${name}-6\n`)]);
    const repaired = JSON.parse(stdout) as { repaired: unknown[]; failed: unknown[] };
    expect(repaired.failed).toEqual([]);
    for (const number of [5, 6]) expect(repaired.repaired).toContainEqual({ name: `${name}-${number}`, repaired: [] });
    expect((await run('project', 'repair', '--all', `${name}-5`)).code).toBe(2);
    expect((await run('project', 'repair')).code).toBe(2);
    for (const number of [5, 6]) await lines('project', 'delete', `${name}-${number}`, '--yes');
  });

  it('says what a new token may do, and shows it again by its name or ID', async () => {
    await lines('project', 'create', `${name}-7`);
    const of = ['--project', `${name}-7`];
    const all = await run('token', 'create', ...of, '--name', `${name}-all`);
    expect([all.code, all.stdout]).toEqual([0, expect.stringMatching(/^cdp_\w+\n$/)]);
    expect(all.stderr).toBe(
      'It may see tables and columns; create and change tables; insert, update and delete records; run SQL that reads; run any SQL. It never expires.\n' +
        'For a program that only reads, create one with --read-only --expires 90d\n',
    );
    const reading = await run('token', 'create', ...of, '--read-only', '--expires', '90d', '--name', `${name}-reading`);
    expect(reading.stderr).toMatch(/^It may see tables and columns; run SQL that reads\. It expires at 20\S+Z\.\n$/);
    const shown = await lines('token', 'show', `${name}-reading`);
    expect(shown).toEqual([
      `${name}-reading, of the project ${name}-7`,
      expect.stringMatching(/^It may see tables and columns; run SQL that reads\. It expires at /) as string,
      expect.stringMatching(/^Created at 20\S+Z by command_line \S+; last used: never$/) as string,
      '',
      'By SQL it may use now:',
      'no table',
    ]);
    const { id } = await json('token', 'show', `${name}-reading`);
    await lines('token', 'revoke', String(id));
    expect((await lines('token', 'show', String(id))).at(-1)).toMatch(/^Revoked at 20/);
    expect(await json('token', 'show', String(id))).toMatchObject({
      project: `${name}-7`,
      scopes: ['schema:read', 'sql:read'],
    });
    expect((await run('token', 'show', NOBODY)).code).toBe(2);
  });

  it('creates a key that may be public, and says what narrows it', async () => {
    await lines('project', 'create', `${name}-5`);
    const limits = ['--tables', 'clicks,views', '--origins', 'https://shop.example.com', '--rows-per-day', '5000'];
    const create = [
      'token',
      'create',
      '--project',
      `${name}-5`,
      '--scopes',
      'data:append',
      '--name',
      'page',
      ...limits,
    ];
    const created = await run(...create);
    expect(created.stderr).toContain(
      'It may insert records, and learn nothing about those that are stored, only into clicks, views, ' +
        'from a browser only by pages of https://shop.example.com, at most 5000 rows a day, without changing users and accounts. It never expires.',
    );
    const shown = await json('token', 'show', 'page');
    expect(shown.limits).toMatchObject({ tables: ['clicks', 'views'], rows_per_day: 5000, requests_per_day: null });
    const listed = await lines('token', 'list', '--project', `${name}-5`);
    expect(listed.join('\n')).toContain('only into clicks, views, from a browser only by pages of');
    const refused = await run(...['token', 'create', '--project', `${name}-5`, '--rows-per-day', '5']);
    expect(refused.stderr).toContain('only scope is data:append');
  });

  it('creates a token with scopes, a name and an expiry, lists it without its secret, and revokes it', async () => {
    await lines('project', 'create', `${name}-3`);
    const of = ['--project', `${name}-3`];
    const { token, ...details } = await json(
      ...['token', 'create', ...of, '--scopes', 'data:write', '--name', 'x', '--expires', '30d'],
    );
    expect(token).toMatch(TOKEN);
    expect(details).toEqual({
      id: expect.stringMatching(UUID) as string,
      name: 'x',
      scopes: ['data:write'],
      role: null,
      limits: null,
      created_at: expect.stringMatching(TIME) as string,
      created_by: expect.stringMatching(/^command_line \S/) as string,
      expires_at: expect.stringMatching(TIME) as string,
      revoked_at: null,
      last_used_at: null,
    });
    const days = (Date.parse(details.expires_at as string) - Date.parse(details.created_at as string)) / 86_400_000;
    expect(days).toBeCloseTo(30, 2);
    expect(await json('token', 'create', ...of)).toMatchObject({ scopes: ALL_SCOPES, expires_at: null });

    const listed = await json<Record<string, unknown>[]>('token', 'list', ...of);
    expect(listed).toHaveLength(2);
    expect(listed[0]).toMatchObject({ id: details.id, name: 'x', scopes: ['data:write'] });
    expect(JSON.stringify(listed)).not.toContain('cdp_');
    await lines('project', 'create', `${name}-4`);
    await json('token', 'create', '--project', `${name}-4`);
    const [ofOther] = await json<Record<string, unknown>[]>('token', 'list', '--project', `${name}-4`);
    const everywhere = await json<Record<string, unknown>[]>('token', 'list', '--all');
    expect(everywhere).toContainEqual({ project: `${name}-3`, ...listed[0] });
    expect(everywhere).toContainEqual({ project: `${name}-4`, ...ofOther });
    expect((await lines('token', 'list', '--all')).join('\n')).toMatch(
      new RegExp(`^${name}-3 +${details.id as string} +x`, 'm'),
    );
    expect((await run('token', 'list', '--all', ...of)).code).toBe(2);

    const revoked = await json('token', 'revoke', details.id as string);
    expect(revoked).toMatchObject({ id: details.id, name: 'x', revoked_at: expect.stringMatching(TIME) as string });
    const shown = (await lines('token', 'list', ...of)).find((line) => line.startsWith(details.id as string));
    expect(shown).toMatch(/ x +revoked +\d{4}-.* +never +- +data:write +-$/);

    // By its name, while no other valid token has it.
    const ofName = `${name}-nightly`;
    const { id } = await json('token', 'create', ...of, '--name', ofName);
    await json('token', 'create', '--admin', '--name', ofName);
    const { code, stderr } = await run('token', 'revoke', ofName);
    expect([code, stderr]).toEqual([2, expect.stringContaining(`${id as string} (${name}-3)`)]);
    await lines('token', 'revoke', id as string);
    expect((await json('token', 'revoke', ofName)).name).toBe(ofName);
    expect((await run('token', 'revoke', ofName)).code).toBe(2);
  });

  const ask = () => call(service.url, 'GET', '/api/cdp/schema', { token });

  /**
   * The service has just been asked, so it remembers what held before. How soon it knows, test/faults/instances
   * measures.
   */
  async function answersAfter(status: number, ...args: string[]) {
    await ask();
    await lines(...args);
    return eventually(`it answers ${status}`, async () => {
      const response = await ask();
      return response.status === status && response;
    });
  }

  it('makes the service refuse a deactivated project soon, and serve it again once activated', async () => {
    expect((await ask()).status).toBe(200);
    expectFailure(await answersAfter(403, 'project', 'deactivate', 'live'), 403, 'cdp_inactive');
    await answersAfter(200, 'project', 'activate', 'live');
  });

  it('makes the service refuse a revoked token soon; the list shows its last use', async () => {
    const [listed] = await json<Record<string, unknown>[]>('token', 'list', '--project', 'live');
    expect(listed).toMatchObject({ id, last_used_at: expect.stringMatching(TIME) as string });
    expectFailure(await answersAfter(401, 'token', 'revoke', id), 401, 'unauthorized');
  });

  it('says that nobody has used a project of a mistaken name', async () => {
    const { code, stdout, stderr } = await run('usage', '--project', 'liev');
    expect([code, stderr]).toEqual([0, 'No usage of a project "liev" in these days\n']);
    expect(stdout).toMatch(/^DAY +PROJECT/);
  });

  it('makes the service refuse the tokens of a deleted project soon', async () => {
    ({ token } = await json<{ token: string }>('token', 'create', '--project', 'live'));
    expect((await ask()).status).toBe(200);
    expectFailure(await answersAfter(401, 'project', 'delete', 'live', '--yes'), 401, 'unauthorized');
  });

  it.each([
    [
      'a name that is no project name',
      ['project', 'create', 'No Name'],
      2,
      "A project's name must be 1 to 63 lowercase",
    ],
    ['a project that exists', ['project', 'create', 'taken'], 1, 'already exists'],
    ['a project that is not there', ['project', 'deactivate', 'nobody'], 1, 'There is no project "nobody"'],
    ['tokens of a project that is not there', ['token', 'list', '--project', 'nobody'], 1, 'There is no project'],
    ['a token that is not there', ['token', 'revoke', NOBODY], 1, 'There is no token with this id'],
    ['a name that no token has', ['token', 'revoke', 'nothing'], 2, 'No valid token has the ID or the name "nothing"'],
    ['a backup into a folder that is not there', ['backup', '/nowhere/x.cdp'], 2, 'There is no folder /nowhere'],
  ])('refuses %s with a message and an exit code', async (_what, args, expected, message) => {
    if (args[2] === 'taken') await run('project', 'create', 'taken');
    const { code, stdout, stderr } = await run(...args, '--json');
    expect([code, stdout]).toEqual([expected, '']);
    expect(stderr).toMatch(/^cdp: /);
    expect(stderr).toContain(message);
    expect(stderr).not.toMatch(/^ +at /m);
  });
});

describe('at the same time', () => {
  it('commands without a service share one Postgres, and the last one stops it', async () => {
    const names = ['one', 'two', 'three', 'four'];
    const ends = await Promise.all(names.map((name) => run('project', 'create', name)));
    expect(ends.map(({ code, stderr }) => [code, stderr])).toEqual(names.map(() => [0, '']));
    expect(await postmasterOf(dataDir)).toBeUndefined();
    const listed = await json<{ name: string }[]>('project', 'list');
    expect(listed.map(({ name }) => name)).toEqual(expect.arrayContaining(names));
  });

  it('a command and a starting service do not interfere with each other', async () => {
    for (const delay of [0, 150, 300, 450]) {
      const command = run('project', 'list', '--json');
      await sleep(delay);
      const service = await startServe(['--data-dir', dataDir]);
      expect((await command).code).toBe(0);
      expect((await call(service.url, 'GET', '/readyz')).status).toBe(200);
      expect((await service.end()).code).toBe(0);
      expect(await postmasterOf(dataDir)).toBeUndefined();
    }
  });
});

describe('in a folder without a database', () => {
  it.each([
    [['project', 'list']],
    [['project', 'create', 'a']],
    [['project', 'delete', 'a', '--yes']],
    [['token', 'create', '--project', 'a']],
    [['token', 'list', '--admin']],
    [['audit']],
    [['backup', 'file']],
    [['restore', 'file']],
  ])('%j creates no database, and says where to look', async (args) => {
    const missing = await newDataDir();
    const { code, stdout, stderr } = await runProgram(args, { env: { CDP_DATA_DIR: missing } });
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(`There is no database in ${missing}`);
    expect(existsSync(missing)).toBe(false);
  });
});

describe('cdp restore', () => {
  it('says if there is no such file', async () => {
    expect(await run('restore', 'none.cdp')).toMatchObject({
      code: 2,
      stderr: 'cdp: There is no file or folder none.cdp\n',
    });
  });
});

describe('cdp project delete', () => {
  it('without a terminal deletes only with --yes', async () => {
    await lines('project', 'create', 'kept');
    const { code, stdout, stderr } = await run('project', 'delete', 'kept');
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain('--yes');
    expect(await json<unknown[]>('project', 'list')).toContainEqual(expect.objectContaining({ name: 'kept' }));
    await lines('project', 'delete', 'kept', '--yes');
  });

  it('creates a read-only token', async () => {
    await lines('project', 'create', 'readable');
    const create = ['token', 'create', '--project', 'readable'];
    expect(await json(...create, '--read-only')).toMatchObject({ scopes: ['schema:read', 'sql:read'] });
  });

  it('on a terminal deletes only if its name is typed', async () => {
    await lines('project', 'create', 'typed');
    const bin = join(projectRoot, 'dist/cli/bin.js');
    const attempt = async (typed: string) => {
      const terminal = openTerminal([process.execPath, bin, 'project', 'delete', 'typed', '--data-dir', dataDir]);
      await terminal.until('Type the name of the project to confirm: ');
      terminal.type(typed);
      return terminal.ended;
    };
    for (const other of ['other\r', '\u0004', '\u0003']) expect(await attempt(other)).toBe(1);
    expect(await json<unknown[]>('project', 'list')).toContainEqual(expect.objectContaining({ name: 'typed' }));
    expect(await attempt('typed\r')).toBe(0);
    expect(await json<unknown[]>('project', 'list')).not.toContainEqual(expect.objectContaining({ name: 'typed' }));
  });
});

describe('refuses wrong usage before it starts anything:', () => {
  it.each([
    ['neither project nor admin', ['token', 'create'], 'Give either --project NAME or --admin'],
    ['both', ['token', 'list', '--project', 'a', '--admin'], 'Give --project NAME, --admin or --all'],
    ['a project that is no option', ['token', 'create', 'shop', '--name', 'a'], 'with --project: --project shop'],
    ['a limit that is no number', ['token', 'create', '--project', 'a', '--rows-per-day', '0'], 'whole number from 1'],
    ['a scope that is none', ['token', 'create', '--project', 'a', '--scopes', 'all'], '"all" is not a scope'],
    ['an end without a unit', ['token', 'create', '--project', 'a', '--expires', '30'], 'such as 30d'],
    ['an end in the past', ['token', 'create', '--project', 'a', '--expires', '-1d'], 'such as 30d'],
    ['no end at all', ['token', 'create', '--project', 'a', '--expires', '0d'], 'such as 30d'],
    ['no name', ['project', 'create'], "missing required argument 'NAME'"],
    ['a word too many', ['project', 'list', 'all'], 'too many arguments'],
    ['an unknown flag', ['project', 'list', '--all'], "unknown option '--all'"],
    ['an unknown command', ['project', 'drop', 'a'], "unknown command 'drop'"],
  ])('%s', async (_what, args, message) => {
    const missing = await newDataDir();
    const { code, stdout, stderr } = await runProgram(args, { env: { CDP_DATA_DIR: missing } });
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
    expect(await postmasterOf(missing)).toBeUndefined();
  });
});
