/**
 * The API of the specification (sections 4.1 to 4.5) with the reads and drops of the contract, one row a route. What each
 * does, with its schemas and examples, stands in the file that it is imported from.
 */
import { INSERT_RECORDS } from './insert-operation.js';
import type { Route } from './route.js';
import {
  ADD_COLUMN,
  ALTER_COLUMN,
  CREATE_TABLE,
  DROP_COLUMN,
  DROP_TABLE,
  READ_SCHEMA,
  READ_TABLE,
} from './schema-operations.js';
import { RUN_SQL } from './sql-operation.js';
import { READ_TOKEN } from './token-operation.js';

// prettier-ignore
export const ROUTES: readonly Route[] = [
  { method: 'POST', url: '/api/cdp/schema/table', access: ['schema:write'], ...CREATE_TABLE },
  { method: 'POST', url: '/api/cdp/schema/table/:table_name/column', access: ['schema:write'], ...ADD_COLUMN },
  { method: 'PUT', url: '/api/cdp/schema/table/:table_name/column/:column_name', access: ['schema:write'], ...ALTER_COLUMN },
  { method: 'GET', url: '/api/cdp/schema', access: ['schema:read'], ...READ_SCHEMA },
  { method: 'GET', url: '/api/cdp/schema/table/:table_name', access: ['schema:read'], ...READ_TABLE },
  { method: 'DELETE', url: '/api/cdp/schema/table/:table_name', access: ['schema:write'], ...DROP_TABLE },
  { method: 'DELETE', url: '/api/cdp/schema/table/:table_name/column/:column_name', access: ['schema:write'], ...DROP_COLUMN },
  { method: 'POST', url: '/api/cdp/data/:table_name', access: ['data:write'], ...INSERT_RECORDS },
  // Which of the two the request needs shows only in its body.
  { method: 'POST', url: '/api/cdp/sql', access: ['sql:read', 'sql:write'], ...RUN_SQL },
  { method: 'GET', url: '/api/cdp/token', access: 'project', ...READ_TOKEN },
];
