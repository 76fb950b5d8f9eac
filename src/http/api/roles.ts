/** Roles of a project: creating, listing, describing and dropping them. Only a token that acts as none may. */
import { counted } from '../../contract/message-text.js';
import { ROLE_NAME_PATTERN } from '../../contract/names.js';
import { DOCUMENTED, Type } from '../../contract/schema.js';
import * as wire from '../../contract/wire/roles.js';
import type { Project } from '../../db/project.js';
import { auditOriginOf } from '../observability/audit-request.js';
import type { Call } from '../route.js';
import { projectOfOwner } from './call-inputs.js';
import { type Operation, succeeds } from './operation.js';

const RoleInPath = Type.Object({ role_name: Type.String({ [DOCUMENTED]: { pattern: ROLE_NAME_PATTERN } }) });

const roleInPath = ({ request }: Call): string => (request.params as { role_name: string }).role_name;

/** @throws EngineError insufficient_scope */
const ownProject = (call: Call): Project => projectOfOwner(call, ', and roles do not manage roles');

const EXAMPLE: wire.Role = {
  name: 'intern',
  postgres_name: 'intern',
  comment: 'Reads two tables',
  created_at: '2026-01-31T09:30:00.000Z',
};

const CHANGE_ERRORS = ['request_in_flight', 'outcome_unknown'] as const;

const CREATE_ROLE: Operation = {
  method: 'POST',
  url: '/api/cdp/schema/role',
  access: ['schema:write'],
  operationId: 'createRole',
  summary: 'Create a role',
  description:
    'A Postgres role that logs in through this service only. It has no rights to tables until SQL grants them; a token acts as it if it was created for it.',
  tag: 'schema',
  audit: { operation: 'create_role', isChange: true, object: 'name' },
  writesEntry: true,
  slot: null,
  body: wire.CreateRoleBody,
  example: { name: 'intern', comment: 'Reads two tables' },
  success: succeeds(201, wire.RoleResponse, 'role created', { role: EXAMPLE }),
  errors: ['invalid_name', 'reserved_name', 'unique_violation', 'not_found', ...CHANGE_ERRORS],
  async handle(call) {
    const { name, comment = null } = call.request.body as wire.CreateRoleBody;
    const { row } = ownProject(call);
    const role = await call.engine.roles.create(row, name, comment, auditOriginOf(call.request));
    return { body: { success: true, message: 'role created', role } };
  },
};

const LIST_ROLES: Operation = {
  method: 'GET',
  url: '/api/cdp/schema/role',
  access: ['schema:read'],
  operationId: 'listRoles',
  summary: 'List the roles that the project has made',
  tag: 'schema',
  audit: { operation: 'list_roles', isChange: false },
  slot: null,
  success: succeeds(200, wire.RolesResponse, '1 role', { roles: [EXAMPLE] }),
  errors: [],
  async handle(call) {
    const roles = await call.engine.roles.list(ownProject(call).row);
    return { body: { success: true, message: counted(roles.length, 'role'), roles } };
  },
};

const READ_ROLE: Operation = {
  method: 'GET',
  url: '/api/cdp/schema/role/:role_name',
  access: ['schema:write'],
  operationId: 'readRole',
  summary: 'Show what a role may do now, and its tokens',
  tag: 'schema',
  audit: { operation: 'read_role', isChange: false },
  slot: 'typed',
  command: 'SELECT',
  params: RoleInPath,
  success: succeeds(200, wire.DetailedRoleResponse, 'role found', {
    role: {
      ...EXAMPLE,
      tokens: [],
      tables: [
        {
          schema: 'data',
          table: 'customers',
          privileges: [],
          columns: { SELECT: ['id', 'country'] },
          row_security: false,
        },
      ],
    },
  }),
  errors: ['not_found'],
  async handle(call) {
    const role = await call.engine.roles.show(ownProject(call), roleInPath(call), call.signal);
    return { body: { success: true, message: 'role found', role } };
  },
};

const DROP_ROLE: Operation = {
  method: 'DELETE',
  url: '/api/cdp/schema/role/:role_name',
  access: ['schema:write'],
  operationId: 'dropRole',
  summary: 'Drop a role',
  description:
    'Revokes its tokens, ends its requests and sessions, and drops its rights, its large objects, and policies that are only for it.',
  tag: 'schema',
  audit: { operation: 'drop_role', isChange: true },
  writesEntry: true,
  slot: null,
  params: RoleInPath,
  success: succeeds(200, wire.DropRoleResponse, 'role dropped', {
    role: 'intern',
    revoked_tokens: 1,
    dropped_large_objects: 0,
  }),
  errors: ['not_found', ...CHANGE_ERRORS],
  async handle(call) {
    const name = roleInPath(call);
    const dropped = await call.engine.roles.drop(ownProject(call).row, name, auditOriginOf(call.request));
    const counts = { revoked_tokens: dropped.revokedTokens, dropped_large_objects: dropped.largeObjects };
    return { body: { success: true, message: 'role dropped', role: name, ...counts } };
  },
};

export const ROLES: readonly Operation[] = [CREATE_ROLE, LIST_ROLES, READ_ROLE, DROP_ROLE];
