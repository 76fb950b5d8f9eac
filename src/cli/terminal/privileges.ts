/** What a role may do with tables, as a table. */
import type { TablePrivileges } from '../../contract/wire/roles.js';
import { fitting } from './grid.js';

export const privilegeLines = (tables: readonly TablePrivileges[]): string[] =>
  tables.length === 0
    ? ['no table']
    : fitting([{ name: 'table' }, { name: 'privileges' }, { name: 'rows' }], tables.map(cellsOf));

const cellsOf = ({ schema, table, privileges, columns, row_security: hasPolicies }: TablePrivileges): string[] => [
  schema === 'data' ? table : `${schema}.${table}`,
  [...privileges, ...Object.entries(columns).map(([what, names]) => `${what} (${names.join(', ')})`)].join(', '),
  !privileges.includes('SELECT') && columns.SELECT === undefined ? '-' : hasPolicies ? 'by policies' : 'all',
];
