/** Statements that set comments on tables and columns. */
import { ident, literal, sql, type Statement, trusted } from '../../pg/index.js';
import type { Table } from '../catalog/catalog.js';

/** The comments of a table, to restore after it is created again. */
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
