/**
 * The API of the specification (sections 4.1 to 4.5) with the reads and drops of the contract, one row per route. The
 * imported files define the operations, with schemas and examples.
 */
import { READ_AUDIT } from './audit-operation.js';
import { DELETE_RECORDS, INSERT_RECORDS } from './data-operations.js';
import { DISTRIBUTE_TABLE } from './distribution-operation.js';
import { CREATE_INDEX, DROP_INDEX, READ_INDEXES } from './index-operations.js';
import {
  ACTIVATE_PROJECT,
  CREATE_PROJECT,
  DEACTIVATE_PROJECT,
  DELETE_PROJECT,
  LIST_PROJECTS,
  RENAME_PROJECT,
  REPAIR_PROJECT,
  SET_OWN_SCHEMAS,
  SET_QUOTA,
} from './project-operations.js';
import { DROP_QUARANTINE, READ_QUARANTINE, REPLAY_QUARANTINE } from './quarantine-operations.js';
import { CANCEL_MOVE, LIST_MOVES, MOVE_PROJECT, PLAN_MOVE, PLAN_REBALANCE, READ_MOVE } from './move-operations.js';
import { READ_RECEIPT, READ_RECEIPTS } from './receipt-operations.js';
import { RUN_QUERIES } from './neon-operation.js';
import { CANCEL_REQUEST, LIST_REQUESTS } from './request-operations.js';
import type { Route } from './route.js';
import {
  ADD_SERVER,
  CHECK_SERVER,
  CLEAR_SERVER,
  LIST_SERVERS,
  READ_SERVER,
  REMOVE_SERVER,
  SET_SERVER,
} from './server-operations.js';
import {
  ADD_COLUMN,
  ALTER_COLUMN,
  ALTER_TABLE,
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
  { method: 'PUT', url: '/api/cdp/schema/table/:table_name', access: ['schema:write'], ...ALTER_TABLE },
  { method: 'POST', url: '/api/cdp/schema/table/:table_name/column', access: ['schema:write'], ...ADD_COLUMN },
  { method: 'PUT', url: '/api/cdp/schema/table/:table_name/column/:column_name', access: ['schema:write'], ...ALTER_COLUMN },
  { method: 'GET', url: '/api/cdp/schema', access: ['schema:read'], ...READ_SCHEMA },
  { method: 'GET', url: '/api/cdp/schema/table/:table_name', access: ['schema:read'], ...READ_TABLE },
  { method: 'DELETE', url: '/api/cdp/schema/table/:table_name', access: ['schema:write'], ...DROP_TABLE },
  { method: 'DELETE', url: '/api/cdp/schema/table/:table_name/column/:column_name', access: ['schema:write'], ...DROP_COLUMN },
  { method: 'PUT', url: '/api/cdp/schema/table/:table_name/distribution', access: ['schema:write'], ...DISTRIBUTE_TABLE },
  { method: 'POST', url: '/api/cdp/schema/table/:table_name/index', access: ['schema:write'], ...CREATE_INDEX },
  { method: 'GET', url: '/api/cdp/schema/table/:table_name/index', access: ['schema:read'], ...READ_INDEXES },
  { method: 'DELETE', url: '/api/cdp/schema/table/:table_name/index/:index_name', access: ['schema:write'], ...DROP_INDEX },
  { method: 'POST', url: '/api/cdp/data/:table_name', access: ['data:write'], ...INSERT_RECORDS },
  { method: 'DELETE', url: '/api/cdp/data/:table_name', access: ['data:write'], ...DELETE_RECORDS },
  { method: 'GET', url: '/api/cdp/quarantine', access: ['sql:read'], ...READ_QUARANTINE },
  { method: 'POST', url: '/api/cdp/quarantine/replay', access: ['data:write'], ...REPLAY_QUARANTINE },
  { method: 'DELETE', url: '/api/cdp/quarantine', access: ['data:write'], ...DROP_QUARANTINE },
  { method: 'GET', url: '/api/cdp/receipts/:key', access: ['data:write'], ...READ_RECEIPT },
  { method: 'POST', url: '/api/cdp/receipts/query', access: ['data:write'], ...READ_RECEIPTS },
  // Only the body shows which of the two scopes the request needs.
  { method: 'POST', url: '/api/cdp/sql', access: ['sql:read', 'sql:write'], ...RUN_SQL },
  { method: 'POST', url: '/sql', access: ['sql:read', 'sql:write'], ...RUN_QUERIES },
  { method: 'GET', url: '/api/cdp/token', access: 'any', ...READ_TOKEN },
];

/** Routes for an admin token. */
// prettier-ignore
export const ADMIN_ROUTES: readonly Route[] = [
  { method: 'GET', url: '/api/cdp/admin/projects', access: 'admin', ...LIST_PROJECTS },
  { method: 'POST', url: '/api/cdp/admin/projects', access: 'admin', ...CREATE_PROJECT },
  { method: 'PUT', url: '/api/cdp/admin/projects/:project/name', access: 'admin', ...RENAME_PROJECT },
  { method: 'POST', url: '/api/cdp/admin/projects/:project/activate', access: 'admin', ...ACTIVATE_PROJECT },
  { method: 'POST', url: '/api/cdp/admin/projects/:project/deactivate', access: 'admin', ...DEACTIVATE_PROJECT },
  { method: 'POST', url: '/api/cdp/admin/projects/:project/repair', access: 'admin', ...REPAIR_PROJECT },
  { method: 'PUT', url: '/api/cdp/admin/projects/:project/quota', access: 'admin', ...SET_QUOTA },
  { method: 'PUT', url: '/api/cdp/admin/projects/:project/own-schemas', access: 'admin', ...SET_OWN_SCHEMAS },
  { method: 'DELETE', url: '/api/cdp/admin/projects/:project', access: 'admin', ...DELETE_PROJECT },
  { method: 'GET', url: '/api/cdp/admin/projects/:project/tokens', access: 'admin', ...LIST_TOKENS },
  { method: 'POST', url: '/api/cdp/admin/projects/:project/tokens', access: 'admin', ...CREATE_TOKEN },
  { method: 'DELETE', url: '/api/cdp/admin/projects/:project/tokens/:token_id', access: 'admin', ...REVOKE_TOKEN },
  { method: 'GET', url: '/api/cdp/admin/projects/:project/move', access: 'admin', ...PLAN_MOVE },
  { method: 'POST', url: '/api/cdp/admin/projects/:project/move', access: 'admin', ...MOVE_PROJECT },
  { method: 'GET', url: '/api/cdp/admin/rebalance', access: 'admin', ...PLAN_REBALANCE },
  { method: 'GET', url: '/api/cdp/admin/moves', access: 'admin', ...LIST_MOVES },
  { method: 'GET', url: '/api/cdp/admin/moves/:move', access: 'admin', ...READ_MOVE },
  { method: 'DELETE', url: '/api/cdp/admin/moves/:move', access: 'admin', ...CANCEL_MOVE },
  { method: 'GET', url: '/api/cdp/admin/servers', access: 'admin', ...LIST_SERVERS },
  { method: 'POST', url: '/api/cdp/admin/servers', access: 'admin', ...ADD_SERVER },
  { method: 'GET', url: '/api/cdp/admin/servers/:server', access: 'admin', ...READ_SERVER },
  { method: 'PUT', url: '/api/cdp/admin/servers/:server', access: 'admin', ...SET_SERVER },
  { method: 'DELETE', url: '/api/cdp/admin/servers/:server', access: 'admin', ...REMOVE_SERVER },
  { method: 'POST', url: '/api/cdp/admin/servers/:server/check', access: 'admin', ...CHECK_SERVER },
  { method: 'POST', url: '/api/cdp/admin/servers/:server/clear', access: 'admin', ...CLEAR_SERVER },
  { method: 'GET', url: '/api/cdp/admin/requests', access: 'admin', ...LIST_REQUESTS },
  { method: 'DELETE', url: '/api/cdp/admin/projects/:project/requests/:request_id', access: 'admin', ...CANCEL_REQUEST },
  { method: 'GET', url: '/api/cdp/admin/audit', access: 'admin', ...READ_AUDIT },
];
