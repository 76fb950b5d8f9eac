/** The shell of `cdp sql` in a terminal, connected to the service. */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { person, type Person } from '../support/cdp.js';
import { endEverything, eventually, freePort, projectRoot } from '../support/program.js';
import { runningRequests, startTestService, type TestProject, type TestService } from '../support/service.js';
import { openTerminal, type Terminal, type TerminalOptions } from '../support/terminal.js';

const PROMPT = /shop=> $/;
const [UP, CTRL_C, CTRL_D] = ['\u001b[A', '\u0003', '\u0004'];

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project('shop');
  await project.table('people', { name: 'TEXT', age: 'INTEGER', notes: 'JSONB' });
  await project.rows(`INSERT INTO people (name, age, notes) VALUES ('Ada', 36, '{"a": 1.50}'), ('', NULL, NULL)`);
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const terminals: Terminal[] = [];
afterEach(() => terminals.splice(0).forEach(({ kill }) => kill()));

interface Options extends TerminalOptions {
  token?: string;
  args?: readonly string[];
}

function cdp(who: Person, { token = project.token, args = ['sql'], env = {}, ...options }: Options = {}): Terminal {
  const terminal = openTerminal([process.execPath, join(projectRoot, 'dist/cli/bin.js'), ...args], {
    cwd: who.folder,
    env: {
      XDG_CONFIG_HOME: join(who.folder, 'config'),
      XDG_STATE_HOME: join(who.folder, 'state'),
      CDP_URL: service.url,
      CDP_TOKEN: token,
      ...env,
    },
    ...options,
  });
  terminals.push(terminal);
  return terminal;
}

/** At its first prompt. */
async function shell(options?: Options & { who?: Person }): Promise<Terminal> {
  const terminal = cdp(options?.who ?? (await person()), options);
  await terminal.until(PROMPT);
  return terminal;
}

/** Types a line and waits for the next prompt. */
async function enter(terminal: Terminal, line: string): Promise<string> {
  terminal.type(`${line}\r`);
  return terminal.until(PROMPT);
}

describe('works', () => {
  it('with statements on several lines, every digit, NULL, and the position of an error', async () => {
    const terminal = await shell();
    expect(await enter(terminal, `SELECT name, age, notes FROM people ORDER BY 2;`)).toContain(
      [
        'name |  age | notes',
        '-----+------+-----------',
        'Ada  |   36 | {"a":1.50}',
        '     | NULL | NULL',
        '(2 rows)',
      ].join('\n'),
    );
    terminal.type('SELECT 1234567890123.1234567890::numeric AS n,\r');
    await terminal.until('shop-> ');
    terminal.type("'a;\r");
    await terminal.until("shop'> ");
    expect(await enter(terminal, "b' AS t;")).toMatch(/1234567890123\.1234567890 \| a;\\nb\n\(1 row\)/);
    expect(await enter(terminal, 'SELECT nmae FROM people;')).toContain(
      'sql_error: column "nmae" does not exist\nLINE 1: SELECT nmae FROM people;\n               ^\nHint: ',
    );
    expect(await enter(terminal, 'INSERT INTO people (name) VALUES (1); SELECT 1/0;')).toContain('division by zero');
    expect(await enter(terminal, 'SELECT count(*) FROM people;')).toContain('    2\n');
    terminal.type(CTRL_D);
    expect(await terminal.ended).toBe(0);
  });

  it('with pasted text, one statement after the other', async () => {
    const terminal = await shell();
    terminal.type("SELECT 'a' AS one,\n\t2 AS two;\nSELECT 3 AS three;\n\\q\n");
    expect(await terminal.ended).toBe(0);
    expect(terminal.raw()).toMatch(/one \| two[^]*three\r\n/);
  });

  it('with tables by \\d, and with files by \\i, as a whole or not at all', async () => {
    const who = await person();
    await who.write('make.sql', 'CREATE TABLE made (\n  n int PRIMARY KEY\n);\nINSERT INTO made VALUES (1), (2)');
    await who.write('fail.sql', 'CREATE TABLE undone (n int);\n\nSELECT 1/0;\n');
    const terminal = await shell({ who });
    expect(await enter(terminal, '\\i make.sql')).toMatch(/CREATE TABLE\nINSERT 2\n/);
    expect(await enter(terminal, '\\i fail.sql')).toContain('sql_error: division by zero');
    const tables = await enter(terminal, '\\d');
    expect(tables).toMatch(/made +\| table \| +1 [^]*people +\| table \| +4 /);
    expect(tables).not.toContain('undone');
    expect(await enter(terminal, '\\d made')).toMatch(/n +\| integer/);
    expect(await enter(terminal, '\\i none.sql')).toContain('There is no file none.sql');
    expect(await enter(terminal, '\\d nobody')).toContain('table_not_found');
    expect(await enter(terminal, '\\foo')).toContain('There is no command \\foo');
  });

  it('with one value to a line if the terminal is too narrow', async () => {
    const terminal = await shell({ columns: 30 });
    const query = `SELECT 'Ada' AS name, 'a text longer than this terminal is' AS text;`;
    expect(await enter(terminal, query)).toMatch(/-\[ 1 \]-*\nname \| Ada\ntext \| a text longer/);
    expect(await enter(terminal, 'SELECT 1 AS one;')).toContain('one\n---\n  1\n');
  });

  it('with Ctrl-C for the current line and for the running statement', async () => {
    const terminal = await shell();
    terminal.type("SELECT '\r");
    await terminal.until("shop'> ");
    terminal.type(`never${CTRL_C}`);
    await terminal.until(PROMPT);
    expect(await enter(terminal, 'SELECT 1 AS one;')).toContain('one\n');
    terminal.type('SELECT pg_sleep(50);\r');
    const sleeps = (n: number) => Promise.resolve(runningRequests(service) === n);
    await eventually('the statement runs', () => sleeps(1));
    terminal.type(`SELECT 'not this';\r${CTRL_C}`);
    const shown = await terminal.until(PROMPT);
    expect(shown).toContain('Canceled');
    expect(shown).not.toContain('row');
    await eventually('the statement is gone', () => sleeps(0));
    expect(await enter(terminal, 'SELECT 2 AS two;')).toContain('two\n');
  });

  it('with a note if rows are left out', async () => {
    const terminal = await shell({ args: ['sql', '--max-rows', '2'] });
    expect(await enter(terminal, 'SELECT generate_series(1, 5);')).toContain('(the first 2 rows; more with');
  });
});

describe('keeps a history', () => {
  it('of statements for its owner only, after the shell ends, without secrets', async () => {
    const who = await person();
    const first = await shell({ who });
    first.type('SELECT 1\r');
    await first.until('shop-> ');
    await enter(first, '+ 41 AS answer;');
    await enter(first, "ALTER ROLE someone PASSWORD 'hunter2';");
    first.type(UP);
    await first.until('hunter2');
    first.type(CTRL_C);
    await first.until(PROMPT);
    await enter(first, '\\d people');
    first.type(CTRL_D);
    await first.ended;
    const file = join(who.folder, 'state/cdp/sql-history');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readFile(file, 'utf8')).toBe('"SELECT 1 + 41 AS answer;"\n"\\\\d people"\n');

    const second = await shell({ who });
    second.type(`${UP}${UP}`);
    await second.until('SELECT 1 + 41 AS answer;');
    expect(await enter(second, '')).toContain('    42\n');
  });

  it('not with --no-history', async () => {
    const who = await person();
    const terminal = await shell({ who, args: ['sql', '--no-history'] });
    await enter(terminal, 'SELECT 1;');
    terminal.type('exit\r');
    expect(await terminal.ended).toBe(0);
    expect(await who.exists('state/cdp/sql-history')).toBe(false);
  });
});

describe('protects', () => {
  const evil = `U&'\\001b]0;title\\0007\\001b[2J\\009b2J\\202e'`;

  it('the terminal from the contents of values, names and messages', async () => {
    const terminal = await shell();
    const before = terminal.raw().length;
    await project.rows(`CREATE TABLE IF NOT EXISTS evil AS SELECT ${evil}::text AS t`);
    await project.rows(`COMMENT ON TABLE evil IS U&'\\001b[32m comment'`);
    await enter(terminal, 'SELECT t FROM evil;');
    await enter(terminal, 'SELECT t::int FROM evil;');
    await enter(terminal, '\\d evil');
    await enter(terminal, 'SELECT 1 AS U&"\\001b[2J";');
    const shown = terminal.raw().slice(before);
    expect(shown).toContain('\\u{1b}]0;title\\u{7}\\u{1b}[2J\\u{9b}2J\\u{202e}');
    expect(shown).toContain('\\u{1b}[32m comment');
    for (const bad of ['\u001b]', '\u001b[2J', '\u001b[32m', '\u009b', '\u202e', '\u0007'])
      expect(shown).not.toContain(bad);
  });

  it.each(['--csv', '--json', '--ndjson', '--table'])('the terminal from %s, too', async (form) => {
    const terminal = cdp(await person(), { args: ['sql', form, `SELECT ${evil} AS t`] });
    expect(await terminal.ended).toBe(0);
    for (const bad of ['\u001b', '\u009b', '\u202e', '\u0007']) expect(terminal.raw()).not.toContain(bad);
  });

  it('a user with a wrong token or address: there is no prompt, and the exit code says which is wrong', async () => {
    const who = await person();
    const refused = cdp(who, { token: 'cdp_wrong' });
    expect(await refused.ended).toBe(1);
    expect(refused.raw()).toContain('unauthorized');
    const lost = cdp(who, { env: { CDP_URL: `http://127.0.0.1:${await freePort()}` } });
    expect(await lost.ended).toBe(3);
    expect(lost.raw()).toContain('ECONNREFUSED');
    const wrong = cdp(who, { args: ['sql', '--param', '1'] });
    expect(await wrong.ended).toBe(2);
  });

  it('a reader: writes are refused, and tables need not be visible', async () => {
    const terminal = await shell({ token: await project.tokenWith('sql:read') });
    expect(await enter(terminal, 'DELETE FROM people;')).toMatch(/insufficient_scope|forbidden|read-only|sql_error/);
    expect(await enter(terminal, 'SELECT 1 AS one;')).toContain('one\n');
  });
});

describe('an export', () => {
  it('shows its progress on one line of the terminal, and then the result', async () => {
    const who = await person();
    const sql = 'SELECT n, pg_sleep(0.05)::text AS nothing FROM generate_series(1, 60) n';
    const terminal = cdp(who, { args: ['export', sql, '-o', 'rows.csv'] });
    expect(await terminal.ended).toBe(0);
    const raw = terminal.raw();
    // Written over itself, and gone before the result.
    expect(raw).toMatch(/\r[^\n]*rows/);
    expect(raw).toMatch(/60 rows in rows\.csv, \d+\.\d s, [\d,]+ rows\/s\r\n$/);
    expect(raw.split('\n')).toHaveLength(2);
  });
});
