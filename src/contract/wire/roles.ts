/** Roles of a project on the wire. */
import { LIMITS } from '../limits.js';
import { ROLE_NAME_PATTERN } from '../names.js';
import { DOCUMENTED, STRICT, type Static, Type } from '../schema.js';
import { success } from './fields.js';
import { Token } from './tokens.js';

const Comment = Type.Nullable(Type.String({ maxLength: LIMITS.commentCharacters }));

export const CreateRoleBody = Type.Object(
  {
    name: Type.String({
      description: 'As GRANT names it: `GRANT SELECT ON customers TO intern`.',
      examples: ['intern'],
      [DOCUMENTED]: { pattern: ROLE_NAME_PATTERN },
    }),
    comment: Type.Optional(Comment),
  },
  STRICT,
);
export type CreateRoleBody = Static<typeof CreateRoleBody>;

const role = {
  name: Type.String(),
  postgres_name: Type.String({
    description: 'Its name in SQL. On a Postgres server that projects share, it begins with a prefix of the project.',
  }),
  comment: Type.Nullable(Type.String()),
  created_at: Type.String({ format: 'date-time' }),
};

export const Role = Type.Object(role);
export type Role = Static<typeof Role>;

export const RoleResponse = Type.Object({ ...success, role: Role });
export type RoleResponse = Static<typeof RoleResponse>;

export const RolesResponse = Type.Object({ ...success, roles: Type.Array(Role) });
export type RolesResponse = Static<typeof RolesResponse>;

const Columns = Type.Optional(Type.Array(Type.String()));

export const TablePrivileges = Type.Object({
  schema: Type.String(),
  table: Type.String(),
  privileges: Type.Array(Type.Enum(['SELECT', 'INSERT', 'UPDATE', 'DELETE'] as const), {
    description: 'Privileges to the whole table.',
  }),
  columns: Type.Object(
    { SELECT: Columns, INSERT: Columns, UPDATE: Columns },
    { description: 'Privileges to only some of its columns.' },
  ),
  row_security: Type.Boolean({ description: 'true: policies decide which rows it sees.' }),
});
export type TablePrivileges = Static<typeof TablePrivileges>;

/** Only on the admin socket. */
export interface TokenTablesResponse {
  tables: TablePrivileges[];
}

export const DetailedRole = Type.Object({
  ...role,
  tokens: Type.Array(Token, { description: 'Tokens that act as the role and are not revoked.' }),
  tables: Type.Array(TablePrivileges, {
    description: 'What it may do now, also by rights of PUBLIC; at most 1,000 tables.',
  }),
});
export type DetailedRole = Static<typeof DetailedRole>;

export const DetailedRoleResponse = Type.Object({ ...success, role: DetailedRole });
export type DetailedRoleResponse = Static<typeof DetailedRoleResponse>;

export const DropRoleResponse = Type.Object({
  ...success,
  role: Type.String(),
  revoked_tokens: Type.Integer(),
  dropped_large_objects: Type.Integer({ description: 'Large objects that it owned.' }),
});
export type DropRoleResponse = Static<typeof DropRoleResponse>;
