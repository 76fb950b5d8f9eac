/** The contents of a project's schema, to check that a refused request changed nothing. */
import { expect } from 'vitest';
import type { ErrorBody } from '../../src/contract/wire/failure.js';
import { expectFailure, type TestProject } from './service.js';

const CATALOG = `
  SELECT c.relname, c.relkind, obj_description(c.oid, 'pg_class') AS comment, a.attname,
    format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull, col_description(c.oid, a.attnum) AS column_comment
  FROM pg_class c
  LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  WHERE c.relnamespace = 'data'::regnamespace
  ORDER BY c.relname, a.attnum`;

/** Rows as Postgres's text, of every table in one statement, which XML allows. */
const ROWS = `
  SELECT c.relname, query_to_xml(format('SELECT t::text AS row FROM data.%I t ORDER BY 1', c.relname), true, false, '')
  FROM pg_class c
  WHERE c.relnamespace = 'data'::regnamespace AND c.relkind = 'r'
  ORDER BY c.relname`;

export interface Snapshot {
  catalog: Record<string, unknown>[];
  rows: Record<string, unknown>[];
}

/** Every relation, column, comment and row of the project, asked of Postgres and not of the code under test. */
export async function snapshot(project: TestProject): Promise<Snapshot> {
  return { catalog: await project.rows(CATALOG), rows: await project.rows(ROWS) };
}

/** The call is refused with exactly this status and code, and the schema and its rows are what they were before. */
export async function expectRefused(
  project: TestProject,
  [method, path, body]: readonly [method: string, path: string, body?: unknown],
  status: number,
  code: string,
): Promise<ErrorBody> {
  const before = await snapshot(project);
  const error = expectFailure(await project.call(method, path, { body }), status, code);
  expect(await snapshot(project)).toEqual(before);
  return error;
}

/** The names of the tables that the API shows. */
export async function tableNames(project: TestProject): Promise<string[]> {
  const { body } = await project.call('GET', '/api/cdp/schema');
  return (body.tables as { name: string }[]).map(({ name }) => name);
}

/** The columns of a table as the API shows them: `{ email: 'TEXT' }`. */
export async function columnTypes(project: TestProject, table: string): Promise<Record<string, string>> {
  const { body } = await project.call('GET', `/api/cdp/schema/table/${table}`);
  const { columns } = body.table as { columns: { name: string; type: string }[] };
  return Object.fromEntries(columns.map(({ name, type }) => [name, type]));
}
