/** Tools that list and describe tables. */
import { STRICT, Type } from '../../contract/schema.js';
import { Index } from '../../contract/wire/indexes.js';
import { Table } from '../../contract/wire/tables.js';
import { readSchema, readTable } from '../../engine/schema/tables.js';
import { projectOf } from '../api/call.js';
import { schemaLimits, shownTable } from '../api/schema-operations.js';
import { ResultSchema, takeFitting, toolResult } from './tool-results.js';
import { tool } from './tool.js';

/** The size limit of the list of tables, and of the columns of a table. */
const MAX_BYTES = 128 * 1024;

export const TableName = Type.String({ description: 'Name of a table, as list_tables writes it.' });

const Listed = Type.Object({
  name: Type.String(),
  kind: Type.String(),
  comment: Type.Nullable(Type.String()),
  approximate_rows: Type.Nullable(Type.Integer()),
  columns: Type.Integer({ description: 'How many.' }),
});

export const LIST_TABLES = tool({
  name: 'list_tables',
  title: 'List tables',
  description: 'List the tables and views: kind, comment, approximate number of rows, number of columns.',
  scope: 'schema:read',
  audit: 'read_schema',
  annotations: { readOnlyHint: true },
  input: Type.Object({}, STRICT),
  output: ResultSchema(Type.Object({ tables: Type.Array(Listed), table_count: Type.Integer() })),
  async run(call) {
    const tables = (await readSchema(projectOf(call), schemaLimits(call))).map(shownTable);
    const listed = takeFitting(
      tables.map((table) => ({ ...table, columns: table.columns.length })),
      MAX_BYTES,
    );
    const json = JSON.stringify({ tables: listed, table_count: tables.length });
    return toolResult(json, ...cutRemark(listed.length, tables.length, 'tables', 'Query pg_tables for the others.'));
  },
});

export const DESCRIBE_TABLE = tool({
  name: 'describe_table',
  title: 'Describe a table',
  description:
    'Show one table or view: its columns with types, NOT NULL, defaults and comments, its approximate number of rows, its indexes.',
  scope: 'schema:read',
  audit: 'read_table',
  annotations: { readOnlyHint: true },
  input: Type.Object({ table: TableName }, STRICT),
  output: ResultSchema(
    Type.Object({
      table: Table,
      column_count: Type.Integer(),
      indexes: Type.Array(Index),
      index_count: Type.Integer(),
    }),
  ),
  async run(call, { table: name }) {
    const { indexes: all, ...read } = await readTable(projectOf(call), name, schemaLimits(call));
    const table = shownTable(read);
    const columns = takeFitting(table.columns, MAX_BYTES);
    const indexes = takeFitting(all, MAX_BYTES);
    const counts = { column_count: table.columns.length, index_count: all.length };
    return toolResult(
      JSON.stringify({ table: { ...table, columns }, indexes, ...counts }),
      ...cutRemark(columns.length, counts.column_count, 'columns', 'Query information_schema.columns for the others.'),
      ...cutRemark(indexes.length, counts.index_count, 'indexes', 'Query pg_indexes for the others.'),
    );
  },
});

const cutRemark = (shownOf: number, all: number, what: string, hint: string): string[] =>
  shownOf === all ? [] : [`Cut off: only ${shownOf} of ${all} ${what} are shown. ${hint}`];
