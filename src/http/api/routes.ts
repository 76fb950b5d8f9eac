/**
 * The API of the specification (sections 4.1 to 4.5) with the reads and drops of the contract, one row a route. What each
 * does, with its schemas and examples, is in the file that it is imported from.
 */
import { READ_AUDIT } from './audit-operation.js';
import { INSERT_RECORDS } from './insert-operation.js';
import {
  ACTIVATE_PROJECT,
  CREATE_PROJECT,
  DEACTIVATE_PROJECT,
  DELETE_PROJECT,
  LIST_PROJECTS,
  REPAIR_PROJECT,
  SET_QUOTA,
} from './project-operations.js';
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
import { CREATE_TOKEN, LIST_TOKENS, READ_TOKEN, REVOKE_TOKEN } from './token-operations.js';

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

/** What an admin token is for. */
// prettier-ignore
export const ADMIN_ROUTES: readonly Route[] = [
  { method: 'GET', url: '/api/cdp/admin/projects', access: 'admin', ...LIST_PROJECTS },
  { method: 'POST', url: '/api/cdp/admin/projects', access: 'admin', ...CREATE_PROJECT },
  { method: 'POST', url: '/api/cdp/admin/projects/:project/activate', access: 'admin', ...ACTIVATE_PROJECT },
  { method: 'POST', url: '/api/cdp/admin/projects/:project/deactivate', access: 'admin', ...DEACTIVATE_PROJECT },
  { method: 'POST', url: '/api/cdp/admin/projects/:project/repair', access: 'admin', ...REPAIR_PROJECT },
  { method: 'PUT', url: '/api/cdp/admin/projects/:project/quota', access: 'admin', ...SET_QUOTA },
  { method: 'DELETE', url: '/api/cdp/admin/projects/:project', access: 'admin', ...DELETE_PROJECT },
  { method: 'GET', url: '/api/cdp/admin/projects/:project/tokens', access: 'admin', ...LIST_TOKENS },
  { method: 'POST', url: '/api/cdp/admin/projects/:project/tokens', access: 'admin', ...CREATE_TOKEN },
  { method: 'DELETE', url: '/api/cdp/admin/projects/:project/tokens/:token_id', access: 'admin', ...REVOKE_TOKEN },
  { method: 'GET', url: '/api/cdp/admin/audit', access: 'admin', ...READ_AUDIT },
];
