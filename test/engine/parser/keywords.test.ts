/**
 * The command name of a statement that is cut off before Postgres reports one, compared with Postgres's command tags.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isSlowToRead, mainKeyword } from '../../../src/engine/parser/keywords.js';
import { createDatabase, type TestDatabase } from '../../support/postgres.js';

/** Statements that return rows; `t` has the columns `n` and `s`. */
const STATEMENTS = [
  'SELECT 1',
  ' \n-- INSERT\n/* DELETE */ select 1',
  '(SELECT 1)',
  '((VALUES (1)))',
  'VALUES (1)',
  'TABLE t',
  'INSERT INTO t VALUES (1) RETURNING n',
  'update t SET n = 1 RETURNING n',
  'DELETE FROM t RETURNING n',
  'MERGE INTO t USING (SELECT 1 AS g) s ON false WHEN NOT MATCHED THEN INSERT VALUES (g) RETURNING n',
  'WITH x AS (SELECT 1) SELECT * FROM x',
  'WITH x AS (SELECT 1) VALUES (2)',
  'WITH x AS (SELECT 1) TABLE x',
  'WITH x AS (SELECT 1) (SELECT * FROM x)',
  'WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x RETURNING n',
  'WITH x AS (SELECT 1) UPDATE t SET n = 2 FROM x RETURNING n',
  'WITH x AS (SELECT 1) DELETE FROM t USING x RETURNING n',
  'WITH x AS (SELECT 1 AS g) MERGE INTO t USING x ON false WHEN NOT MATCHED THEN INSERT VALUES (g) RETURNING n',
  'WITH x AS (INSERT INTO t VALUES (1) RETURNING n) SELECT * FROM x',
  'WITH x AS (DELETE FROM t RETURNING n), y AS (UPDATE t SET n = 1 RETURNING n) INSERT INTO t SELECT n FROM x RETURNING n',
  'WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 3) INSERT INTO t SELECT n FROM x RETURNING n',
  'WITH x AS MATERIALIZED (SELECT 1), y AS NOT MATERIALIZED (SELECT 2) SELECT * FROM x, y',
  // Names that read like statements.
  'WITH insert AS (SELECT 1) SELECT * FROM insert',
  'WITH RECURSIVE update AS (SELECT 1), delete AS (SELECT 2) SELECT * FROM update, delete',
  'WITH x(insert, update) AS (SELECT 1, 2) SELECT * FROM x',
  'WITH "INSERT" AS (SELECT 1) SELECT * FROM "INSERT"',
  'WITH "a "" INSERT" AS (SELECT 1) SELECT 1',
  'WITH éINSERT AS (SELECT 1) SELECT * FROM éINSERT',
  'WITH a$INSERT AS (SELECT 1) SELECT * FROM a$INSERT',
  `WITH RECURSIVE x(insert) AS (SELECT 1 UNION ALL SELECT insert + 1 FROM x WHERE insert < 3)
    SEARCH DEPTH FIRST BY insert SET update SELECT * FROM x`,
  `WITH RECURSIVE x(delete) AS (SELECT 1 UNION ALL SELECT delete + 1 FROM x WHERE delete < 3)
    CYCLE delete SET insert USING update DELETE FROM t RETURNING n`,
  // What hides the structure.
  "WITH x AS (SELECT ')') INSERT INTO t SELECT 1 FROM x RETURNING n",
  "WITH x AS (SELECT ' '' ) INSERT ') SELECT * FROM x",
  String.raw`WITH x AS (SELECT E'\' ) INSERT ''') SELECT * FROM x`,
  String.raw`WITH x AS (SELECT '\') INSERT INTO t SELECT 1 FROM x RETURNING n`,
  'WITH x AS (SELECT $$ ) INSERT $$) SELECT * FROM x',
  'WITH x AS (SELECT $a$ $$ ) INSERT $b$ $a$) SELECT * FROM x',
  'WITH x AS (SELECT 1 AS a$b$c) SELECT * FROM x /* $b$ */',
  'WITH x AS (SELECT 1) /* /* INSERT */ INSERT */ SELECT * FROM x',
  'WITH x AS (SELECT 1 -- ) INSERT\n) SELECT * FROM x',
  "WITH x AS (SELECT U&'\\0061)', B'1', X'1F', N')') SELECT * FROM x",
  'WITH x AS (SELECT 1 AS "a)") UPDATE t SET n = 1 RETURNING n',
];

describe('equals the command tag of Postgres', () => {
  let database: TestDatabase;
  let client: pg.Client;

  beforeAll(async () => {
    database = await createDatabase();
    client = new pg.Client(database.connection);
    await client.connect();
    await client.query('CREATE TABLE t (n int, s text)');
  });
  afterAll(async () => {
    await client.end();
    await database.drop();
  });

  it.each(STATEMENTS)('%s', async (text) => {
    expect(mainKeyword(text)).toBe((await client.query(text)).command);
  });
});

describe('returns', () => {
  it('the first word of other statements', () => {
    expect(mainKeyword('EXPLAIN WITH x AS (SELECT 1) INSERT INTO t VALUES (1)')).toBe('EXPLAIN');
    expect(mainKeyword('fetch 5 FROM c')).toBe('FETCH');
    expect(mainKeyword('EXECUTE p')).toBe('EXECUTE');
    expect(mainKeyword('SHOW ALL')).toBe('SHOW');
  });

  it('SELECT if nothing else is certain', () => {
    for (const text of ['WITH', 'WITH x AS (', "WITH x AS ('", 'WITH x AS ($$', 'WITH x /*', '', ';']) {
      expect(mainKeyword(text)).toBe('SELECT');
    }
  });

  it('in time proportional to the length of the text', () => {
    const hostile = [
      // Openings without an end: none of them may be searched for again and again.
      (i: number) => `$a${i}$ `,
      (i: number) => `x$a${i}$y `,
      () => `'' `,
      () => `E'\\' `,
      () => '/* ',
      () => '"" ',
      () => '(((',
      () => 'WITH ',
    ];
    for (const piece of hostile) {
      const text = `WITH x AS (${Array.from({ length: 100_000 }, (_, i) => piece(i)).join('')}`;
      const started = performance.now();
      mainKeyword(text);
      expect(performance.now() - started).toBeLessThan(5_000);
    }
  });
});

describe('a text that Postgres reads slowly', () => {
  it.each([
    ['comments in comments', '/*'.repeat(500_000)],
    ['comments in comments, all closed', `${'/*'.repeat(250_000)}${'*/'.repeat(250_000)} SELECT 1`],
    ['comments side by side', `SELECT 1 ${'/**/'.repeat(250_000)}`],
    ['signs', `SELECT ${'+'.repeat(1_000_000)}1`],
    ['signs in several runs', `SELECT ${`${'-+'.repeat(5_000)}1,`.repeat(100)}1`],
  ])('is recognized: %s', (_, text) => {
    expect(isSlowToRead(text)).toBe(true);
  });

  it.each([
    ['rulers', `/${'*'.repeat(1_000_000)}/ SELECT 1`],
    ['lines', `SELECT 1 ${'-'.repeat(1_000_000)}`],
    ['strings', `SELECT '${'/*'.repeat(300_000)}', $$${'+'.repeat(300_000)}$$, "${'*'.repeat(300_000)}"`],
    ['comments apart', `SELECT 1 ${'/* a */ '.repeat(100_000)}`],
    ['two long runs', `SELECT ${'+'.repeat(4_000)}1`],
  ])('is not mistaken for one with %s', (_, text) => {
    expect(isSlowToRead(text)).toBe(false);
  });
});
