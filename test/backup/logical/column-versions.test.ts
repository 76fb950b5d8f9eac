/** What newer minor versions of Postgres record about a column does not belong to the project. */
import { expect, it } from 'vitest';
import { entriesOf } from '../../../src/backup/logical/dump-entries.js';

const dump = (kind: string, text: string) =>
  `--\n-- Name: t; Type: ${kind}; Schema: data; Owner: -\n--\n\n${text}\n\n\n--\n-- PostgreSQL database dump complete\n--\n`;
const textOf = (kind: string, text: string) => entriesOf(dump(kind, text))[0]?.text;

const TABLE = 'CREATE TABLE data.t (\n    id bigint,\n    "a SET (" text\n);';
const CONSTANT = "'\nALTER TABLE ONLY data.t ALTER COLUMN id SET (pg_attver=1);\n'";

it('removes the version of a column from a table', () => {
  const versions =
    'ALTER TABLE ONLY data.t ALTER COLUMN id SET (pg_attver=22158952);\nALTER TABLE ONLY data.t ALTER COLUMN "a SET (" SET (pg_attver=1);';
  expect(textOf('TABLE', `${TABLE}\n${versions}`)).toBe(TABLE);
});

it('keeps the options that a user has set', () => {
  const set = (options: string) => `${TABLE}\nALTER TABLE ONLY data.t ALTER COLUMN id SET (${options});`;
  expect(textOf('TABLE', set('pg_attver=7, n_distinct=5'))).toBe(set('n_distinct=5'));
  expect(textOf('TABLE', set('n_distinct=5'))).toBe(set('n_distinct=5'));
});

it('removes it from a table whose name has two lines, and leaves a constant alone', () => {
  const table = (version: string) => `CREATE TABLE data."t\n;" (\n    id text DEFAULT ${CONSTANT}::text\n);${version}`;
  const version = '\nALTER TABLE ONLY data."t\n;" ALTER COLUMN id SET (pg_attver=1);';
  expect(textOf('TABLE', table(version))).toBe(table(''));
});

it('leaves the body of a function alone', () => {
  const body = `CREATE FUNCTION data.f() AS ${CONSTANT};`;
  expect(textOf('FUNCTION', body)).toBe(body);
});
