/** Comments of tables and columns, as statements. */
import { ident, literal, sql, type Statement, trusted } from '../../pg/index.js';
import type { Table } from '../catalog/catalog.js';

/** What is lost with a table that is made anew. */
export const commentsOf = ({ schema, name, comment, columns }: Table): Statement[] => [
  ...(comment === null ? [] : [commentOnTable(schema, name, comment)]),
  ...columns.flatMap((column) =>
    column.comment === null ? [] : [commentOn(schema, name, column.name, column.comment)],
  ),
];

export const commentOnTable = (schema: string, table: string, comment: string | null): Statement =>
  sql`COMMENT ON TABLE ${ident(schema, table)} IS ${comment ? literal(comment) : trusted('NULL')}`;

export const commentOn = (schema: string, table: string, column: string, comment: string | null): Statement =>
  sql`COMMENT ON COLUMN ${ident(schema, table, column)} IS ${comment ? literal(comment) : trusted('NULL')}`;
