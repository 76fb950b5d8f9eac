/** Commands for people with a token: where they send requests, what they print, and how they end. */
import { execFile } from 'node:child_process';
import { chmod, lstat, mkdir, readdir, readFile, stat, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { person, type Person } from '../support/cdp.js';
import { endEverything, freePort, projectRoot } from '../support/program.js';
import { runningRequests, startTestService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let ada: Person;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('people', { name: 'TEXT', age: 'INTEGER', notes: 'JSONB' });
  await project.rows(`INSERT INTO people (name, age, notes) VALUES ('Ada', 36, '{"a": 1.50}'), ('', NULL, NULL)`);
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

describe('cdp login', () => {
  it('keeps a valid token in a file only its owner can read, names its project, and deletes it on logout', async () => {
    const grace = await person();
    const token = await project.tokenWith('schema:read', 'sql:read');
    const login = await grace.run(['login', '--url', service.url], `${token}\n`);
    expect(login).toMatchObject({ code: 0, stderr: '' });
    expect(login.stdout).toContain(`the project ${project.name} at ${service.url}`);
    expect(login.stdout).toContain('Scopes: schema:read, sql:read\n');
    expect(login.stdout).not.toContain(token);
    const file = join(grace.folder, 'config/cdp/profiles.json');
    expect(((await stat(file)).mode & 0o777).toString(8)).toBe('600');
    expect(((await stat(join(file, '..'))).mode & 0o777).toString(8)).toBe('700');
    expect(await grace.output('tables')).toContain('people');

    const other = await service.project();
    await grace.run(['login', '--profile', 'other', '--url', service.url], other.token);
    expect(await grace.output('tables', '--profile', 'other')).toBe('No tables yet\n');
    expect(await grace.output('tables')).toContain('people');

    expect((await grace.run(['logout'])).code).toBe(0);
    expect(await grace.read('config/cdp/profiles.json')).not.toContain(token);
    expect(await grace.run(['tables'])).toMatchObject({ code: 2, stdout: '' });
    expect((await grace.run(['logout'])).code).toBe(2);
  });

  it('lists profiles, uses the chosen one, and does not replace the profile of another project', async () => {
    const grace = await person();
    const [shop, zoo] = [await service.project(), await service.project()];
    await zoo.table('animals', { name: 'TEXT' });
    const login = (profile: string, token: string, ...more: string[]) =>
      grace.run(['login', '--profile', profile, '--url', service.url, ...more], token);
    expect((await login('shop', shop.token)).code).toBe(0);
    expect((await login('zoo', zoo.token)).code).toBe(0);
    expect(await grace.run(['tables'])).toMatchObject({
      code: 2,
      stderr: 'cdp: Which profile? You have shop, zoo\nChoose one: cdp use shop\n',
    });
    expect(await grace.output('use', 'zoo')).toBe(`Commands use the profile zoo (${service.url})\n`);
    expect(await grace.output('tables')).toContain('animals');
    expect(JSON.parse(await grace.output('profiles', '--json'))).toEqual([
      { name: 'shop', project: shop.name, url: service.url, in_use: false },
      { name: 'zoo', project: zoo.name, url: service.url, in_use: true },
    ]);
    expect(await grace.run(['use', 'none'])).toMatchObject({ code: 2 });

    const refused = await login('zoo', shop.token);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      `cdp: The profile zoo is for the project ${zoo.name} at ${service.url}\n` +
        'Choose another name with --profile NAME, or replace it with --force\n',
    ]);
    expect(await grace.output('tables')).toContain('animals');
    expect((await login('zoo', await zoo.tokenWith('schema:read'))).code).toBe(0);
    expect((await login('zoo', shop.token, '--force')).code).toBe(0);
    expect(await grace.output('tables')).toBe('No tables yet\n');

    const profiles = { XDG_CONFIG_HOME: join(grace.folder, 'config') };
    const byName = await person({ ...profiles, CDP_PROFILE: 'shop' });
    expect(await byName.output('tables')).toBe('No tables yet\n');
    expect((await byName.run(['use', 'zoo'])).stderr).toBe('Warning: this takes effect when CDP_PROFILE is unset\n');
    const inUse = async (someone: typeof byName) =>
      (JSON.parse(await someone.output('profiles', '--json')) as { name: string; in_use: boolean }[])
        .filter(({ in_use: isUsed }) => isUsed)
        .map(({ name }) => name);
    expect(await inUse(byName)).toEqual(['shop']);
    const byAddress = await person({ ...profiles, CDP_URL: service.url, CDP_TOKEN: shop.token });
    expect(await inUse(byAddress)).toEqual([]);
    expect((await byAddress.run(['use', 'zoo'])).stderr).toBe('Warning: this takes effect when CDP_URL is unset\n');
    expect((await byAddress.run(['login', '--profile', 'zoo'], shop.token)).stderr).toBe(
      'Warning: this takes effect when CDP_URL is unset\n',
    );
    expect((await byName.run(['login', '--profile', 'shop'], shop.token)).stderr).toBe('');
    const both = await person({ ...profiles, CDP_PROFILE: 'shop', CDP_URL: service.url, CDP_TOKEN: shop.token });
    expect(await both.run(['tables'])).toMatchObject({
      code: 2,
      stderr: 'cdp: Both CDP_PROFILE and CDP_URL are set\nUnset one of them\n',
    });
  });

  it('logs out of the profile in use', async () => {
    const grace = await person();
    for (const name of ['default', 'shop', 'zoo']) {
      const { token } = await service.project();
      expect((await grace.run(['login', '--url', service.url, '--profile', name], token)).code).toBe(0);
    }
    const names = async () =>
      (JSON.parse(await grace.output('profiles', '--json')) as { name: string }[]).map(({ name }) => name);
    await grace.output('use', 'shop');
    const byName = await person({ XDG_CONFIG_HOME: join(grace.folder, 'config'), CDP_PROFILE: 'zoo' });
    expect(await byName.output('logout')).toMatch(/^Forgot the profile zoo;/);
    expect(await grace.output('logout')).toMatch(/^Forgot the profile shop;/);
    expect(await names()).toEqual(['default']);
    expect(await grace.output('tables')).toBe('No tables yet\n');
    expect(await grace.output('logout')).toMatch(/^Forgot the profile default;/);
  });

  it('takes an address with and without a slash at its end as the same service', async () => {
    const grace = await person();
    const { token } = await service.project();
    for (const url of [`${service.url}/`, service.url, `${service.url}/`])
      expect((await grace.run(['login', '--url', url], token)).code).toBe(0);
    expect(JSON.parse(await grace.output('profiles', '--json'))).toMatchObject([{ url: service.url }]);
    const stored = await grace.read('config/cdp/profiles.json');
    await grace.write('config/cdp/profiles.json', stored.replace(service.url, `${service.url}/`));
    expect((await grace.run(['login', '--url', service.url], token)).code).toBe(0);
  });

  it.each(['/console', '/console/tables/people', '/api/cdp/', '?page=1', '#tables'])(
    'says which address it needs if there is %s after it',
    async (rest) => {
      const grace = await person();
      const url = `${service.url}${rest}`;
      const { code, stderr } = await grace.run(['login', '--url', url], 'any');
      expect([code, stderr]).toEqual([
        2,
        `cdp: "${url.replace(/\/$/, '')}" has more than the address of the service\nUse ${service.url}\n`,
      ]);
    },
  );

  it('does not keep a token that does not work', async () => {
    const grace = await person();
    const { code, stderr } = await grace.run(['login', '--url', service.url], 'cdp_wrong');
    expect([code, stderr]).toEqual([1, expect.stringContaining('unauthorized')]);
    expect(await grace.exists('config/cdp/profiles.json')).toBe(false);
    expect(await grace.run(['login', '--url', 'nowhere:80'], 'x')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('http://nowhere:80') as string,
    });
    expect((await grace.run(['login'], 'x')).stderr).toContain('--url');
  });

  it('does not offer itself for a token of the environment', async () => {
    const { token } = await service.engine.tokens.create(project.id, { expiresAt: new Date(Date.now() - 1) });
    const saysLast = async (used: string) => {
      const grace = await person({ CDP_URL: service.url, CDP_TOKEN: used });
      return (await grace.run(['tables'])).stderr.trim().split('\n').at(-1);
    };
    expect(await saysLast(token)).toBe('CDP_TOKEN has an expired token: replace or unset it');
    expect(await saysLast('cdp_wrong')).toBe('CDP_TOKEN is not a token of this service: replace or unset it');
    const grace = await person({ CDP_URL: service.url, CDP_TOKEN: token });
    const login = await grace.run(['login'], token);
    expect(login.stderr.trim().split('\n').at(-1)).toBe('Log in with another one: cdp login');
  });

  it('says why the folder for profiles cannot be created', async () => {
    const grace = await person({ XDG_CONFIG_HOME: '/proc/cdp' });
    expect(await grace.run(['login', '--url', service.url], `${(await service.project()).token}\n`)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('The folder /proc/cdp/cdp cannot be created: ENOENT') as string,
    });
  });
});

describe('the destination', () => {
  it('never receives the token of a profile if its address comes from elsewhere', async () => {
    const grace = await person({ CDP_URL: service.url });
    expect(await grace.run(['tables'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('CDP_TOKEN is not') as string,
    });
  });

  it('ends the command with 3 if it does not respond', { timeout: 90_000 }, async () => {
    const nowhere = await person({ CDP_URL: `http://127.0.0.1:${await freePort()}`, CDP_TOKEN: 'cdp_any' });
    const { code, stderr } = await nowhere.run(['sql', 'SELECT 1']);
    expect([code, stderr]).toEqual([3, expect.stringContaining('network_error')]);
    const withTls = await person({ CDP_URL: service.url.replace('http:', 'https:'), CDP_TOKEN: 'cdp_any' });
    expect((await withTls.run(['tables'])).stderr).toBe(
      'cdp: network_error: No response: the server does not use TLS; should the URL start with http://?\n',
    );
  });
});

describe('cdp console', () => {
  it('prints the address and opens it if there is a screen, without the token', async () => {
    expect(await ada.output('console')).toBe(`${service.url}/console/\n`);
    expect(await (await person()).output('console')).toBe('http://127.0.0.1:8080/console/\n');
    const grace = await person({ DISPLAY: ':0', PATH: `${ada.folder}:${process.env.PATH}` });
    const opener = await ada.write('xdg-open', `#!/bin/sh\necho "$# $@" > "${grace.folder}/opened"\n`);
    await chmod(opener, 0o755);
    await grace.run(['login', '--url', service.url], project.token);
    expect(await grace.output('console')).toBe(`${service.url}/console/\n`);
    await expect.poll(() => grace.exists('opened')).toBe(true);
    await expect.poll(() => grace.read('opened')).toBe(`1 ${service.url}/console/\n`);
    expect(await grace.run(['console', '--url', '--help'])).toMatchObject({ code: 2, stdout: '' });
    expect(await grace.run(['console', '--url', 'file:///etc/passwd'])).toMatchObject({ code: 2, stdout: '' });
  });
});

describe('messages and help of commands', () => {
  it('have one form of error, also for wrong usage', async () => {
    for (const command of [['tables'], ['quarantine', 'list'], ['server', 'add']]) {
      const { code, stderr } = await ada.run([...command, '--nothing']);
      expect([code, stderr]).toEqual([2, "cdp: unknown option '--nothing'\n(add --help for the options)\n"]);
    }
  });

  it.each([
    [['import', 'a.csv', '--tabel', 'a'], "unknown option '--tabel'\n(Did you mean --table?)"],
    [['export', 'SELECT 1', '--outptu', 'a.csv'], "unknown option '--outptu'\n(Did you mean --output?)"],
    [['project', 'move', 'a', '--too', 'b'], "unknown option '--too'\n(Did you mean --to?)"],
    [['import', 'a.csv'], "required option '--table <NAME>' not specified"],
    [['export', 'SELECT 1'], "required option '-o, --output <FILE>' not specified"],
    [['project', 'move', 'a'], "required option '--to <SERVER>' not specified"],
  ])('name a misspelt option before a missing one: %j', async (command, message) => {
    const { code, stderr } = await ada.run(command);
    expect([code, stderr]).toEqual([2, `cdp: ${message}\n(add --help for the options)\n`]);
  });

  it('name commands that work as typed if npm runs the program', async () => {
    const grace = await person({ npm_command: 'exec' });
    expect((await grace.run(['tables'])).stderr).toContain('Log in with npx cdp-data-engine login, or');
    expect(await grace.output('import', '--help')).toMatch(
      /^Usage: npx cdp-data-engine import [^]*^ {2}npx cdp-data-engine import customers\.csv /m,
    );
    expect(await grace.output('quarantine', 'list', '--help')).toMatch(/^Usage: npx cdp-data-engine quarantine list /);
    const installed = await person();
    expect((await installed.run(['tables'])).stderr).toContain('Log in with cdp login, or');
  });
});

describe('cdp tables and cdp describe', () => {
  it('show the tables and columns, for people and as JSON', async () => {
    expect(await ada.output('tables')).toMatch(/^table +\| kind +\| columns[^]*^people \| table \| +4 \|/m);
    expect(await ada.output('describe', 'people')).toMatch(/^column \| type[^]*^age +\| INTEGER/m);
    const described = JSON.parse(await ada.output('describe', 'people', '--json')) as { columns: { name: string }[] };
    expect(described.columns.map(({ name }) => name)).toEqual(['id', 'name', 'age', 'notes']);
    expect(described).toMatchObject({ indexes: [{ name: 'people_pkey', columns: ['id'], primary: true }] });
    expect(await ada.output('describe', 'people')).toMatch(
      /^notes[^]*\n\nindex [^]*^people_pkey +\| id +\| primary key\n$/m,
    );
    await ada.output('sql', "CREATE TABLE ruled (a text NOT NULL DEFAULT 'x', b text)");
    expect(await ada.output('describe', 'ruled')).toBe(
      'column | type | rules                      | comment\n' +
        '-------+------+----------------------------+--------\n' +
        "a      | TEXT | NOT NULL DEFAULT 'x'::text |\n" +
        'b      | TEXT |                            |\n',
    );
    await ada.output('sql', 'DROP TABLE ruled');
    const { code, stderr } = await ada.run(['describe', 'poeple']);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/table_not_found[^]*people/)]);
  });
});

describe('cdp index', () => {
  it('creates, lists and drops indexes, for people and as JSON', async () => {
    expect(await ada.output('index', 'create', 'people', 'name', 'age', '--name', 'by_name')).toBe(
      'Index by_name created\n',
    );
    await project.rows(`CREATE UNIQUE INDEX lower_name ON people (lower(name)) WHERE name <> ''`);
    expect(await ada.output('index', 'list', 'people')).toBe(
      [
        'index       | columns      | kind',
        '------------+--------------+----------------',
        'people_pkey | id           | primary key',
        'by_name     | name, age    |',
        'lower_name  | (expression) | unique, partial',
        '',
      ].join('\n'),
    );
    expect(JSON.parse(await ada.output('index', 'list', 'people', '--json'))).toHaveLength(3);
    const json = JSON.parse(await ada.output('index', 'create', 'people', 'age', '--unique', '--json')) as object;
    expect(json).toMatchObject({ name: 'people_age_idx', unique: true });
    for (const name of ['by_name', 'lower_name', 'people_age_idx']) {
      expect(await ada.output('index', 'drop', 'people', name)).toBe(`Index ${name} dropped\n`);
    }
    expect((await ada.run(['index', 'drop', 'people', 'people_pkey'])).stderr).toContain('reserved_name');
    expect((await ada.run(['index', 'create', 'people'])).code).toBe(2);
  });
});

describe('cdp alter', () => {
  it('changes a type, or names the values that prevent it and accepts their replacements', async () => {
    await project.table('flags', { f: 'TEXT' });
    await project.rows(`INSERT INTO flags (f) VALUES ('yes'), ('no'), ('no'), ('n/a'), ('a=b'), ('true')`);
    const { code, stderr, stdout } = await ada.run(['alter', 'flags', 'f', 'boolean']);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(
      /^cdp: not_convertible: 5 values of "f" [^]*\n {2}"no": 2 rows\n {2}"a=b": 1 row\n {2}"n\/a": 1 row\n {2}"yes": 1 row\nHint: [^\n]* --map VALUE=NEW/,
    );
    const map = ['yes=true', 'no=false', 'n/a='].flatMap((pair) => ['--map', pair]);
    expect((await ada.run(['alter', 'flags', 'f', 'BOOLEAN', ...map])).stderr).toContain('  "a=b": 1 row\n');
    expect(await ada.output('alter', 'flags', 'f', 'BOOLEAN', ...map, '--map', 'a=b=true')).toBe(
      'Column f of flags is BOOLEAN\n',
    );
    expect(await project.rows('SELECT f, count(*) AS n FROM flags GROUP BY f ORDER BY f')).toEqual([
      { f: false, n: 2 },
      { f: true, n: 3 },
      { f: null, n: 1 },
    ]);
    for (const wrong of [
      ['--map', 'yes'],
      ['--map', 'a=1', '--map', 'a=2'],
    ]) {
      expect((await ada.run(['alter', 'flags', 'f', 'TEXT', ...wrong])).code).toBe(2);
    }
    expect((await ada.run(['alter', 'flags', 'f', 'flag'])).stderr).toContain('unknown_type');
    await project.rows('DROP TABLE flags');
  });
});

describe('cdp sql', () => {
  const query = 'SELECT name, age, notes FROM people ORDER BY age';

  it('prints CSV, NDJSON and JSON with every digit, and a table', async () => {
    expect(await ada.output('sql', query)).toBe('name,age,notes\nAda,36,"{""a"": 1.50}"\n"",,\n');
    expect(await ada.output('sql', query, '--ndjson')).toBe(
      '{"name":"Ada","age":36,"notes":{"a": 1.50}}\n{"name":"","age":null,"notes":null}\n',
    );
    expect(JSON.parse(await ada.output('sql', query, '--json'))).toHaveLength(2);
    expect(await ada.output('sql', 'SELECT 1 WHERE false', '--json')).toBe('[]\n');
    expect(await ada.output('sql', `SELECT 'a' AS t, 1 AS n, E'\\u001b[2J' AS bad, NULL AS x`, '--table')).toBe(
      't | n | bad       | x\n--+---+-----------+-----\na | 1 | \\u{1b}[2J | NULL\n(1 row)\n',
    );
    expect(await ada.output('sql', 'CREATE TABLE made (n int)', '--table')).toBe('CREATE TABLE\n');
    const exact = `SELECT 1.50 AS a, '[9007199254740993.10, {"b": 1e400}]'::jsonb AS b, 12345678901234.123456789 AS c`;
    expect(await ada.output('sql', exact, '--expanded')).toBe(
      `-[ 1 ]\na | 1.50\nb | [9007199254740993.10,{"b":1${'0'.repeat(400)}}]\nc | 12345678901234.123456789\n(1 row)\n`,
    );
    const numbers = 'SELECT 9007199254740993 AS big, 7::bigint AS small';
    const raw = '{"big":9007199254740993,"small":7}\n';
    expect(await ada.output('sql', numbers, '--ndjson', '--numbers', 'raw')).toBe(raw);
    expect(await ada.output('export', numbers, '-o', '-', '--format', 'ndjson', '--numbers', 'raw')).toBe(raw);
    expect(await ada.output('sql', numbers, '--ndjson', '--numbers', 'string')).toBe(raw.replace(/\d+/g, '"$&"'));
    expect(await ada.output('sql', 'SELECT generate_series(1, 3) AS n', '--table', '--max-rows', '2')).toBe(
      'n\n-\n1\n2\n(the first 2 rows; more with --max-rows, all with --csv)\n',
    );
  });

  it('says on standard error what a statement without rows has done, and of what Postgres warns', async () => {
    const inPipe = async (...words: string[]) => {
      const { code, stdout, stderr } = await ada.run(['sql', ...words]);
      return [code, stdout, stderr];
    };
    const warning = `RAISE WARNING 'careful' USING DETAIL = 'very', HINT = 'Look.'`;
    await inPipe('CREATE TABLE gone AS SELECT generate_series(1, 7) AS n');
    expect(await inPipe('WITH a AS (SELECT 1 AS n) DELETE FROM gone USING a WHERE gone.n = a.n')).toEqual([
      0,
      '',
      'DELETE 1\n',
    ]);
    expect(await inPipe('DELETE FROM gone WHERE n < 4; UPDATE gone SET n = 0', '--json')).toEqual([
      0,
      '[]\n',
      'DELETE 2\nUPDATE 4\n',
    ]);
    expect(await inPipe('DELETE FROM gone WHERE n = 0 RETURNING n', '--csv')).toEqual([0, 'n\n0\n0\n0\n0\n', '']);
    expect(await inPipe('CREATE TABLE gone_too AS SELECT 1 AS n')).toEqual([0, '', 'SELECT 1\n']);
    expect(await inPipe(`DO $$ BEGIN ${warning}; END $$`)).toEqual([0, '', 'Warning: careful\nvery\nLook.\nDO\n']);
    await inPipe(`CREATE FUNCTION warns() RETURNS int LANGUAGE plpgsql AS $$ BEGIN ${warning}; RETURN 1; END $$`);
    expect(await inPipe('SELECT warns()', '--ndjson')).toEqual([0, '{"warns":1}\n', 'Warning: careful\nvery\nLook.\n']);
    await inPipe('DROP TABLE gone, gone_too; DROP FUNCTION warns');
  });

  it('takes a time limit in units', async () => {
    for (const time of ['100ms', '100']) {
      const { stderr } = await ada.run(['sql', 'SELECT pg_sleep(9)', '--timeout', time]);
      expect(stderr).toContain('longer than 100 ms');
      expect(stderr).toContain('at the Postgres port');
    }
    expect(await ada.output('sql', 'SELECT 1 AS n', '--timeout', '60s')).toBe('n\n1\n');
    expect((await ada.run(['sql', 'SELECT 1', '--timeout', '2m'])).stderr).toContain('60000');
    expect((await ada.run(['sql', 'SELECT 1', '--timeout', '1h'])).stderr).toContain('such as 60s');
  });

  it('uses colors for NULL, warnings and errors if they are wanted, and none otherwise', async () => {
    const CSI = '\u001b[';
    const colorful = await person({ CDP_URL: service.url, CDP_TOKEN: project.token, FORCE_COLOR: '1' });
    const table = ['sql', `SELECT NULL AS a, 'NULL' AS b, E'\\u001b[31m' AS bad`, '--table'];
    const plain = 'a    | b    | bad\n-----+------+-----------\nNULL | NULL | \\u{1b}[31m\n(1 row)\n';
    expect(await ada.output(...table)).toBe(plain);
    expect(await colorful.output(...table)).toBe(plain.replace(/^NULL/m, `${CSI}2mNULL${CSI}22m`));
    expect((await colorful.run(['sql', 'SELECT 1; SELECT 2'])).stderr).toContain(`${CSI}33mWarning: `);
    const { stderr } = await colorful.run(['sql', 'SELECT 1/0']);
    expect(stderr).toBe(`${CSI}31mcdp: sql_error: division by zero${CSI}39m\n`);
    expect(await colorful.output('sql', 'SELECT 1 AS a, NULL AS b')).toBe('a,b\n1,\n');
  });

  it('warns that a stream of several statements has only the rows of the last one', async () => {
    const said = 'Warning: only the rows of the last statement are written; cdp sql --table shows all\n';
    for (const options of [['--csv'], ['--json']]) {
      const { code, stderr } = await ada.run(['sql', 'SELECT 1 AS a; SELECT 2 AS b', ...options]);
      expect([code, stderr]).toEqual([0, said]);
    }
    expect((await ada.run(['export', 'SELECT 1 AS a; SELECT 2 AS b', '-o', '-'])).stderr).toContain(said);
    expect(await ada.run(['sql', 'CREATE TEMP TABLE t AS SELECT 1 AS a; SELECT a FROM t;'])).toMatchObject({
      stdout: 'a\n1\n',
      stderr: '',
    });
    expect(await ada.output('sql', 'SELECT 1 AS a; SELECT 2 AS b', '--table')).toMatch(/^a\n[^]*^b\n/m);
  });

  it('reads the statement from a file or standard input, and takes parameters', async () => {
    await ada.write('query.sql', '\ufeffSELECT $1::int + $2::int AS sum');
    expect(await ada.output('sql', '-f', 'query.sql', '--param', '1', '--param', '2')).toBe('sum\n3\n');
    expect((await ada.run(['sql', '--ndjson'], 'SELECT 1 AS one')).stdout).toBe('{"one":1}\n');
    expect((await ada.run(['sql', '-f', 'query.sql', 'SELECT 1'])).code).toBe(2);
    expect((await ada.run(['sql'], ' \n')).code).toBe(2);
    const missing = await ada.run(['sql', '-f', 'missing.sql']);
    expect(missing).toMatchObject({ code: 2, stderr: 'cdp: There is no file missing.sql\n' });
  });

  it('says to quote a statement of several arguments', async () => {
    expect(await ada.run(['sql', 'select', 'count', 'from', 'people'])).toMatchObject({
      code: 2,
      stderr: `cdp: Put the statement in quotes: cdp sql 'select count from people'\n`,
    });
    expect(await ada.output('sql', '--help')).toContain('Usage: cdp sql [options] [SQL]\n');
  });

  it('shows the code, message, hint and position of an error, and ends with 1', async () => {
    const { code, stderr, stdout } = await ada.run(['sql', 'SELECT name,\n  ages FROM people']);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toBe(
      [
        'cdp: sql_error: column "ages" does not exist',
        'LINE 2:   ages FROM people',
        '          ^',
        'Hint: Perhaps you meant to reference the column "people.age".',
        '',
      ].join('\n'),
    );
    for (const command of [['sql'], ['export', '-o', '-']]) {
      expect((await ada.run([...command, 'SELECT name FROM people WHERE age > $1'])).stderr).toBe(
        'cdp: invalid_request: The statement has 1 parameter, but "params" has 0 values\n' +
          'Hint: "params" are the values of --param, one for each of $1, $2, …\n',
      );
    }
    expect((await ada.run(['sql', 'DELETE FROM people', '--read-only'])).code).toBe(1);
    expect((await ada.run(['describe', 'peopl'])).stderr).toBe(
      'cdp: table_not_found: There is no table "peopl". Did you mean "people"?\n',
    );
  });

  it('ends quietly if the reader closes the pipe, and reports a full disk', async () => {
    const large = `SELECT i, repeat('x', 500) FROM generate_series(1, 100000) i`;
    for (const args of [['tables'], ['sql', query, '--table'], ['sql', large], ['sql', large, '--json']]) {
      const started = ada.start(args);
      started.process.stdout?.destroy();
      expect(await started.ended).toMatchObject({ code: 0, stderr: expect.not.stringContaining('EPIPE') as string });
    }
    const { code, stderr } = await ada.run(['export', large, '-o', '/dev/full/x.csv']);
    expect([code, stderr]).toEqual([2, 'cdp: There is no folder /dev/full\n']);
    const full = ['-c', '"$@" > /dev/full', 'sh', process.execPath, join(projectRoot, 'dist/cli/bin.js'), 'tables'];
    const env = { ...process.env, CDP_URL: service.url, CDP_TOKEN: project.token };
    await expect(promisify(execFile)('sh', full, { env })).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^cdp: Standard output: ENOSPC[^\n]*\n$/) as string,
    });
  });

  it('explains that a CSV stream cannot carry its error, and that NDJSON can', async () => {
    const query = `SELECT 1 / (i - 90000), repeat('x', 500) FROM generate_series(1, 100000) i`;
    expect((await ada.run(['sql', query])).stderr).toContain('NDJSON can');
    expect((await ada.run(['sql', query, '--ndjson'])).stderr).toContain('division by zero');
  });

  it('ends the statement on Ctrl-C, with 130', async () => {
    const started = ada.start(['sql', 'SELECT pg_sleep(50)']);
    await project.rows('SELECT 1');
    const until = async (n: number) => {
      while (runningRequests(service) !== n) await new Promise((resolve) => setTimeout(resolve, 50));
    };
    await until(1);
    expect((await started.end('SIGINT')).code).toBe(130);
    await until(0);
  });
});

describe('cdp export', () => {
  const query = 'SELECT name FROM people WHERE age IS NOT NULL';

  it('writes rows to standard output and messages to standard error', async () => {
    const csv = await ada.run(['export', query, '-o', '-']);
    expect(csv).toMatchObject({ code: 0, stdout: 'name\nAda\n' });
    expect(csv.stderr).toContain('1 row written to standard output');
    expect(await ada.output('export', query, '-o', '-', '--format', 'ndjson')).toBe('{"name":"Ada"}\n');
    expect(await ada.exists('-')).toBe(false);
    const shell = `echo before; "$@" -o /dev/stdout; echo after`;
    const command = [process.execPath, join(projectRoot, 'dist/cli/bin.js'), 'export', query];
    const env = { ...process.env, CDP_URL: service.url, CDP_TOKEN: project.token };
    await promisify(execFile)('sh', ['-c', `{ ${shell}; } > out`, 'sh', ...command], { env, cwd: ada.folder });
    expect(await ada.read('out')).toBe('before\nname\nAda\nafter\n');
  });

  it('writes through a link and into a pipe without replacing them, and keeps the mode of a file', async () => {
    await ada.write('kept.csv', 'before');
    await chmod(join(ada.folder, 'kept.csv'), 0o600);
    await symlink('kept.csv', join(ada.folder, 'link.csv'));
    await ada.output('export', query, '-o', 'link.csv', '--force');
    expect(await ada.read('kept.csv')).toBe('name\nAda\n');
    expect((await lstat(join(ada.folder, 'link.csv'))).isSymbolicLink()).toBe(true);
    expect((await stat(join(ada.folder, 'kept.csv'))).mode & 0o777).toBe(0o600);

    const pipe = join(ada.folder, 'pipe.csv');
    await promisify(execFile)('mkfifo', [pipe]);
    const [read] = await Promise.all([readFile(pipe, 'utf8'), ada.output('export', query, '-o', 'pipe.csv')]);
    expect(read).toBe('name\nAda\n');
    expect((await lstat(pipe)).isFIFO()).toBe(true);
    expect((await readdir(ada.folder)).filter((name) => name.endsWith('.part'))).toEqual([]);
  });

  it('overwrites a file only with --force', async () => {
    await ada.write('precious.csv', 'before');
    expect(await ada.run(['export', query, '-o', 'precious.csv'])).toMatchObject({
      code: 2,
      stderr: 'cdp: The file precious.csv exists\nOverwrite it with --force\n',
    });
    expect(await ada.read('precious.csv')).toBe('before');
    await ada.output('export', query, '-o', 'precious.csv', '--force');
    expect(await ada.read('precious.csv')).toBe('name\nAda\n');
  });

  it('runs as the reader if the token may read, otherwise as the writer', async () => {
    const role = `SELECT current_user = (SELECT relowner::regrole::name FROM pg_class WHERE relname = 'people') AS is_writer`;
    for (const [scope, isWriter] of [
      ['sql:write', 'true'],
      ['sql:read', 'false'],
    ] as const) {
      const bob = await person({ CDP_URL: service.url, CDP_TOKEN: await project.tokenWith(scope) });
      for (const format of ['csv', 'ndjson']) {
        expect(await bob.output('export', role, '-o', '-', '--format', format)).toContain(isWriter);
      }
      await bob.output('export', role, '-o', 'role.parquet');
    }
    const all = await ada.output('export', role, '-o', '-', '--format', 'csv');
    expect(all).toBe('is_writer\nfalse\n');
  });

  it('says how to export a table if its name is in place of the query', async () => {
    expect(await ada.run(['export', 'people', '-o', 'my people.csv'])).toMatchObject({
      code: 2,
      stderr: `cdp: "people" is not a query\nTo export a table: cdp export --table people -o 'my people.csv'\n`,
    });
  });

  it('says why a file cannot be created at a path', async () => {
    const said = async (output: string) => (await ada.run(['export', query, '-o', output])).stderr;
    expect(await said('missing/x.csv')).toBe('cdp: There is no folder missing\n');
    await mkdir(join(ada.folder, 'taken.csv'));
    expect(await said('taken.csv')).toBe('cdp: taken.csv is a folder\n');
  });
});
