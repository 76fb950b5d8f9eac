/**
 * Splitting and refusing statements, compared with Postgres's own grammar. The threads run the built worker in `dist/`.
 */
import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Worker } from 'node:worker_threads';
import { afterAll, describe, expect, it } from 'vitest';
import { EngineError } from '../../../src/contract/errors.js';
import { WaitBudget } from '../../../src/db/wait-budget.js';
import { Splitter } from '../../../src/engine/parser/splitter.js';
import { startTestService } from '../../support/service.js';

const execute = promisify(execFile);
const BUILT = new URL('../../../dist/engine/parser/splitter.js', import.meta.url).href;

const MIB = 1024 * 1024;

const asker = (projectId = 'alpha', waitMs = 5_000, signal = new AbortController().signal) => ({
  projectId,
  waitBudget: new WaitBudget(waitMs),
  signal,
});
/** A machine with other work may take long for what waits before it. */
const PATIENT_MS = 40_000;
const splitter = new Splitter();
allowParsing(splitter, PATIENT_MS);
const split = (text: string, project = 'alpha') => splitter.split(text, asker(project, PATIENT_MS));
const texts = async (text: string) => (await split(text)).map((statement) => statement.text.trim());

/** For how long a text may be parsed. */
function allowParsing(own: Splitter, ms: number): void {
  (own as unknown as { parsers: { parseMs: number } }).parsers.parseMs = ms;
}

async function refusal(promise: Promise<unknown>): Promise<EngineError> {
  const error: unknown = await promise.then(
    () => new Error('was not refused'),
    (reason: unknown) => reason,
  );
  if (!(error instanceof EngineError)) throw error;
  return error;
}
const refused = (text: string) => refusal(split(text));

/** As many characters as fit into `length`, from a head and a repeated unit. */
const filled = (head: string, unit: string, length = MIB) =>
  head + unit.repeat(Math.floor((length - head.length) / unit.length));

/** Takes the parser much longer than a small text. */
const LONG = filled('SELECT 1; SELECT a', ',a^a');

afterAll(() => splitter.close());

describe('works', () => {
  it('tells which statements free disk space, if asked', async () => {
    const freed = async (text: string) =>
      (await splitter.split(text, asker('alpha'), { tellsFreed: true })).map((found) => found.frees);
    expect(await freed('DELETE FROM a; TRUNCATE a; WITH d AS (DELETE FROM a RETURNING b) SELECT b FROM d')).toEqual(
      Array(3).fill('delete'),
    );
    expect(await freed('DROP VIEW a; DROP INDEX CONCURRENTLY a; ALTER TABLE a DROP b, DROP CONSTRAINT c')).toEqual(
      Array(3).fill('drop'),
    );
    expect(await freed('VACUUM (FULL) a; REINDEX TABLE a; CLUSTER a USING b')).toEqual(Array(3).fill('rewrite'));
    expect(
      await freed('SELECT 1; WITH d AS (INSERT INTO a VALUES (1)) DELETE FROM a; ALTER TABLE a ADD b int'),
    ).toEqual(Array(3).fill(null));
    expect(await freed('not SQL')).toEqual([null]);
    expect(await freed('DELETE FROM a')).toEqual(['delete']);
  });

  it('leaves a single statement unchanged, whatever surrounds it', async () => {
    for (const text of [
      'SELECT 1',
      'SELECT 1;',
      ' SELECT 1 ;;\n; ',
      '-- a\nSELECT 1; -- b',
      "SELECT 'a;b'",
      'SELECT $x$ a; b; $$ ; $x$;',
      'SELECT "a;b" /* c; /* d; */ ; */',
      ';;SELECT 1',
      '/*/ */SELECT 1',
    ]) {
      expect(await split(text)).toEqual([{ text, offset: 0, frees: null }]);
    }
  });

  it('drops empty statements', async () => {
    expect(await texts(';; SELECT 1 ;; /* nothing; */ ; SELECT 2; -- ;\n ; ')).toEqual(['SELECT 1', 'SELECT 2']);
  });

  it('does not split inside strings, dollar quotes, quoted names and comments', async () => {
    const pieces = [
      "SELECT 'a;''b;'",
      String.raw`SELECT E'a\';b;'`,
      String.raw`SELECT 'a\'`,
      String.raw`SELECT U&'\0061;', U&"d\0061t;"`,
      'SELECT "x;""y;"',
      'SELECT $$ a; b $$, $tag$ $$; $other$; $tag$',
      'SELECT 1 /* a; /* nested; */ b; */ + 2',
      'SELECT 1 -- a; b\r+ 2',
      'SELECT $1, a$b$c FROM t',
      "SELECT 'a'\n  ';b'",
      'DO $$ BEGIN PERFORM 1; COMMIT; END $$',
    ];
    expect(await texts(pieces.join(';\n'))).toEqual(pieces);
  });

  it('keeps SQL function bodies and rules whole', async () => {
    const pieces = [
      `CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql BEGIN ATOMIC
         SELECT 1; SELECT CASE WHEN a > 1 THEN 2 ELSE 3 END; SELECT a AS "end"; END`,
      'CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC INSERT INTO t VALUES (1); END',
      'CREATE RULE r AS ON INSERT TO t DO ALSO (INSERT INTO u VALUES (1); DELETE FROM v)',
      'CREATE TABLE begin_atomic (c int)',
      'SELECT 1',
    ];
    expect(await texts(pieces.join(';'))).toEqual(pieces);
    expect(await texts(pieces[0] as string)).toEqual([pieces[0]]);
  });

  it('counts offsets and positions in code points', async () => {
    const text = "SELECT 'é漢🦆'; /* 🦆 */ SELECT '🦆', wrong;\nSELECT 3";
    const statements = await split(text);
    expect(statements).toEqual([
      { text: "SELECT 'é漢🦆'", offset: 0, frees: null },
      { text: "SELECT '🦆', wrong", offset: 22, frees: null },
      { text: 'SELECT 3', offset: 41, frees: null },
    ]);
    for (const statement of statements) {
      expect([...text].slice(statement.offset).join('').startsWith(statement.text)).toBe(true);
    }
    // Postgres would point at "wrong" as the 13th character of the second statement.
    const position = (statements[1]?.offset ?? 0) + 13;
    expect([...text].slice(position - 1, position + 4).join('')).toBe('wrong');
  });

  it('leaves syntax errors to Postgres', async () => {
    for (const text of [
      'SELEC 1; SELECT 2',
      "SELECT 'a; SELECT 2",
      'SELECT $$a; SELECT 2',
      'SELECT "a; SELECT 2',
      '/* a; SELECT 2',
      'SELECT 1 /* a /* b; */',
      '\\d; SELECT 1',
      '\\copy t FROM x; SELECT 1',
      'SELECT 1;\u00a0',
      'COMMIT nonsense; SELECT 1',
      `SELECT ${'('.repeat(20_000)}; SELECT 1`,
    ]) {
      expect(await split(text)).toEqual([{ text, offset: 0, frees: null }]);
    }
  });

  it('accepts statements that only look like refused ones', async () => {
    const pieces = [
      'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE',
      'PREPARE x AS SELECT 1',
      'PREPARE transaction AS SELECT 1',
      "COPY t FROM '/a/file'",
      "COPY stdin TO PROGRAM 'cat'",
      'DECLARE c CURSOR FOR SELECT 1',
      'FETCH ALL FROM c',
      'SELECT begin, "commit" FROM "end"',
      'NOTIFY a',
      'EXPLAIN SELECT 1',
      '(SELECT 1)',
    ];
    for (const piece of pieces) expect(await split(piece)).toEqual([{ text: piece, offset: 0, frees: null }]);
    expect(await texts(pieces.join(';'))).toEqual(pieces);
  });

  it('accepts 100 statements', async () => {
    expect(await split('SELECT 1;'.repeat(100))).toHaveLength(100);
    expect(await split(`${'SELECT 1;'.repeat(99)}SELECT 2;;-- done`)).toHaveLength(100);
  });

  it('splits 1 MiB', async () => {
    const row = `(1,'${'abc'.repeat(50)}',null)`;
    const insert = filled(`SELECT 1; INSERT INTO t VALUES ${row}`, `,${row}`);
    expect(await texts(insert)).toEqual(['SELECT 1', insert.slice('SELECT 1; '.length)]);
    // Many more nodes, which take seconds for 1 MiB: a busy machine would reach the parser's time limit.
    expect(await texts(filled('SELECT 1; SELECT a', ',a', MIB / 8))).toHaveLength(2);
  });
});

describe('refuses', () => {
  it('transaction control', async () => {
    const kinds = [
      ...[
        'BEGIN',
        'begin work',
        'START TRANSACTION READ ONLY',
        'COMMIT',
        'COMMIT AND CHAIN',
        'END',
        'ROLLBACK',
        'ABORT',
      ],
      ...['SAVEPOINT a', 'RELEASE a', 'RELEASE SAVEPOINT a', 'ROLLBACK TO a', 'ROLLBACK TO SAVEPOINT a'],
      ...["PREPARE TRANSACTION 'a'", "COMMIT PREPARED 'a'", "ROLLBACK PREPARED 'a'"],
    ];
    for (const kind of kinds) {
      for (const text of [kind, `-- a\n/* b /* c */ */\t${kind};`, `SELECT 1; ${kind}; SELECT 2`, `;${kind}`]) {
        const error = await refused(text);
        expect([text, error.code]).toEqual([text, 'statement_not_allowed']);
        expect(error.message).toMatch(/One request is one transaction/);
      }
    }
  });

  it('COPY to or from the client, and LISTEN', async () => {
    const kinds: [string, RegExp][] = [
      ['COPY t FROM STDIN', /FROM STDIN .* POST \/api\/cdp\/data/],
      ['copy t (a, b) from stdin with (format csv)', /FROM STDIN/],
      ['COPY t FROM STDOUT', /FROM STDIN/],
      ['COPY t TO STDOUT', /TO STDOUT .* text\/csv/],
      ['COPY t TO STDIN', /TO STDOUT/],
      ["COPY (SELECT ';') TO STDOUT", /TO STDOUT/],
      ['LISTEN a', /LISTEN/],
      ['UNLISTEN *', /LISTEN/],
    ];
    for (const [kind, message] of kinds) {
      for (const text of [kind, `/* a */${kind} ;`, `SELECT 1;${kind}`]) {
        const error = await refused(text);
        expect([text, error.code, error.status]).toEqual([text, 'statement_not_allowed', 400]);
        expect(error.message).toMatch(message);
      }
    }
  });

  it('one of several statements, and names it', async () => {
    expect((await refused('SELECT 1; COMMIT; SELECT 2')).message).toMatch(/^Statement 2 of 3: /);
    expect((await refused('COMMIT')).message).toMatch(/^One request/);
  });

  it('a text without a statement', async () => {
    for (const text of [
      '',
      ' \n\t\f\v\r',
      ';',
      ' ; ; ',
      '-- a',
      '-- a; b',
      '/* a; /* b */ */',
      '-- a\n;/**/;--',
      '/***/',
      '/*/*/**/*/**/',
    ]) {
      expect([text, (await refused(text)).code]).toEqual([text, 'invalid_request']);
      expect((await refused(text)).message).toMatch(/no statement/);
    }
  });

  it('101 statements, and 100,000 statements', async () => {
    expect(await refused('SELECT 1;'.repeat(101))).toMatchObject({
      code: 'invalid_request',
      message: 'The SQL text contains 101 statements; a request allows at most 100',
    });
    expect((await refused('SELECT 1;'.repeat(100_000))).message).toMatch(/100000 statements/);
  });

  it('a text of more than 1 MiB, counted in bytes', async () => {
    const longest = `SELECT '${'é'.repeat((MIB - 10) / 2)}' `;
    expect(await split(longest)).toHaveLength(1);
    expect(await refused(`${longest} `)).toMatchObject({
      code: 'payload_too_large',
      message: '"sql" is larger than 1048576 bytes',
    });
  });

  it('U+0000 and lone surrogates, but not surrogate pairs', async () => {
    for (const text of ['SELECT \0', "SELECT '\ud83e'", "SELECT '\udd86'; SELECT 1", "SELECT '\udd86\ud83e'"]) {
      expect((await refused(text)).code).toBe('invalid_request');
    }
    expect(await split("SELECT '🦆'")).toHaveLength(1);
  });

  it('a text that overflows the parser, and can split the next one', async () => {
    const deep = await refused(filled('SELECT 1; SELECT 1', '+1'));
    expect(deep.code).toBe('invalid_request');
    expect(deep.hint).toMatch(/separate requests/);
    expect(await split('SELECT 1; SELECT 2')).toHaveLength(2);
  });

  it('a text of comments that the parser would read for seconds', async () => {
    for (const text of [
      `SELECT 1;${'/*'.repeat(500_000)}`,
      `SELECT 1;${'/*'.repeat(250_000)}${'*/'.repeat(250_000)}`,
    ]) {
      expect(await refused(text)).toMatchObject({
        code: 'invalid_request',
        hint: 'Send its statements in separate requests.',
      });
    }
    expect(await split(`SELECT 1;/${'*'.repeat(500_000)}/SELECT 2`)).toHaveLength(2);
  });
});

describe('protects', () => {
  it('parses on if a thread dies while it is idle', async () => {
    const own = new Splitter();
    const two = 'SELECT 1; SELECT 2';
    expect(await own.split(two, asker())).toHaveLength(2);
    const { parsers } = own as unknown as { parsers: { threads: Set<Worker> } };
    for (const thread of parsers.threads) await thread.terminate();
    expect(await own.split(two, asker())).toHaveLength(2);
    await own.close();
  });

  it('the event loop while it parses', async () => {
    let ticks = 0;
    const timer = setInterval(() => ticks++, 5);
    // Far from the 10 s after which a text is given up, also on a busy machine.
    await split(filled('SELECT 1; SELECT a', ',a^a', 300_000));
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(10);
  });

  it('other projects from a text that takes long', async () => {
    expect(await split('SELECT 1; SELECT 2', 'beta')).toHaveLength(2);
    let ended = false;
    const long = split(LONG, 'alpha').finally(() => (ended = true));
    for (let i = 0; i < 3; i++) expect(await split(`SELECT ${i}; SELECT 2`, 'beta')).toHaveLength(2);
    expect(ended).toBe(false);
    expect(await long).toHaveLength(2);
  });

  it('the parser from a text that takes too long, which it stops', async () => {
    const own = new Splitter();
    allowParsing(own, 1);
    expect(await refusal(own.split(LONG, asker()))).toMatchObject({
      code: 'invalid_request',
      hint: 'Send its statements in separate requests.',
    });
    allowParsing(own, PATIENT_MS);
    expect(await own.split('SELECT 1; SELECT 2', asker())).toHaveLength(2);
    await own.close();
  });

  it("a request's time limit: a text waits no longer than it, nor after its client has left", async () => {
    let ended = false;
    const running = split(LONG, 'gamma').finally(() => (ended = true));
    const impatient = refusal(splitter.split('SELECT 1; SELECT 2', asker('gamma', 50)));
    const leaving = new AbortController();
    const left = refusal(splitter.split('SELECT 1; SELECT 2', asker('gamma', 5_000, leaving.signal)));
    leaving.abort();
    expect((await left).code).toBe('overloaded');
    expect((await impatient).code).toBe('overloaded');
    expect(ended, 'what they would have waited for').toBe(false);
    expect(await running).toHaveLength(2);
  });

  it('the turns of projects, however many texts one of them has waiting', async () => {
    const order: string[] = [];
    const run = async (project: string) => {
      await split(filled('SELECT 1; SELECT a', ',a', 40_000), project);
      order.push(project);
    };
    await Promise.all([...'aaaaaaaacccccccc'].map(run).concat([...'bb'].map(run)));
    expect(order.lastIndexOf('b')).toBeLessThan(10);
  });

  it('a service that closes with texts waiting and running: it accepts no more', async () => {
    const closing = new Splitter();
    const running = refusal(closing.split(LONG, asker()));
    const waiting = refusal(closing.split('SELECT 1; SELECT 2', asker()));
    await sleep(100);
    await closing.close();
    expect((await running).code).toBe('overloaded');
    expect((await waiting).code).toBe('overloaded');
    expect((await refusal(closing.split('SELECT 1; SELECT 2', asker()))).code).toBe('overloaded');
    await closing.close();
  });

  it('a closed service from threads that stay behind', async () => {
    const threads: Worker[] = [];
    const hear = (thread: Worker) => void threads.push(thread);
    process.on('worker', hear);
    const service = await startTestService();
    try {
      const project = await service.project();
      const { status } = await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT 1; SELECT 2' } });
      expect(status).toBe(200);
    } finally {
      await service.close();
      process.off('worker', hear);
    }
    expect(threads.length).toBeGreaterThan(0);
    // One that has ended has no number any more.
    expect(threads.filter(({ threadId }) => threadId !== -1)).toEqual([]);
  });

  it('the end of the process from an idle thread, in the built program', async () => {
    const program = `
      const { Splitter } = await import(${JSON.stringify(BUILT)});
      console.log((await new Splitter().split('SELECT 1; SELECT 2', { projectId: 'alpha', waitBudget: { start: () => () => {}, ms: 5000 }, signal: new AbortController().signal })).length);`;
    const { stdout } = await execute(process.execPath, ['--input-type=module', '--eval', program], { timeout: 20_000 });
    expect(stdout).toBe('2\n');
  });
});
