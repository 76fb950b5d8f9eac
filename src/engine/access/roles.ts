/**
 * Roles that a project makes besides its writer and reader: Postgres roles, which log in through this service only. What
 * one may do is decided by GRANT and policies alone. The control database knows which ones there are; a token acts as one
 * of them.
 */
import type { AuditOrigin } from '../../contract/audit.js';
import { checkAll } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import { isRoleName, isServiceRole, ROLE_NAME_IN_WORDS } from '../../contract/names.js';
import { RESERVED_WORDS } from '../../contract/reserved-words.js';
import type { DetailedRole, Role, TablePrivileges } from '../../contract/wire/roles.js';
import { shownToken } from '../../contract/wire/tokens.js';
import type { Project } from '../../db/project.js';
import { BEGIN, ROLLBACK, type Row, sql, type Statement } from '../../pg/index.js';
import { IN_PG_CATALOG } from '../../tenancy/connections/project-session.js';
import type { ProjectRow, TokenRow } from '../../tenancy/control/control-rows.js';
import { withProjectLock } from '../../tenancy/control/project-lock.js';
import type { RoleRow } from '../../tenancy/control/role-rows.js';
import { type Placement, postgresRole } from '../../tenancy/placement.js';
import { serviceWork } from '../../tenancy/postgres-errors.js';
import { belongsToProject } from '../../tenancy/project-rights.js';
import type { ProjectServices } from '../projects/create-project.js';
import { checkComment } from '../schema/definition.js';

type RoleServices = Pick<ProjectServices, 'control' | 'servers' | 'databaseSetup' | 'audit' | 'moveRows'>;

export class Roles {
  constructor(private readonly services: RoleServices) {}

  /** By name. @throws EngineError database_unavailable */
  async list(project: ProjectRow): Promise<Role[]> {
    const roles = await this.services.control.roles.list(project.id);
    return roles.map((role) => shownRole(project.placement, role));
  }

  /**
   * Creates a role that can log in, and name the project's tables, and has no other right.
   * @throws EngineError invalid_name, reserved_name, invalid_request, unique_violation, request_in_flight,
   * database_unavailable, outcome_unknown
   */
  create(project: ProjectRow, name: string, comment: string | null, by: AuditOrigin): Promise<Role> {
    checkAll(
      () => checkRoleName(name),
      () => checkComment(comment),
    );
    const { control, databaseSetup, audit } = this.services;
    return this.atRest(project, async (row) => {
      const roles = await control.roles.list(row.id);
      if (roles.some((role) => role.name === name))
        throw new EngineError('unique_violation', `The role ${quoted(name)} already exists`);
      if (roles.length >= LIMITS.rolesPerProject)
        throw new EngineError('invalid_request', `The project has ${roles.length} roles, which is the maximum`);
      const tenancy = this.services.servers.tenancyOf(row.placement);
      // A role that a crash has left would bring its rights along.
      await databaseSetup.dropRole(tenancy, row.placement, name);
      await databaseSetup.createRoles(tenancy, row.placement, [name]);
      const entry = audit.entryOfChange(by, { operation: 'create_role', object: name });
      const role = await control.roles.insert(row.id, { name, comment }, entry);
      if (role === null) throw gone();
      return shownRole(row.placement, role);
    });
  }

  /**
   * Revokes the tokens of a role, ends its requests and sessions, and drops what it owns, its rights, and itself.
   * @throws EngineError not_found, request_in_flight, database_unavailable, outcome_unknown
   */
  async drop(
    project: ProjectRow,
    name: string,
    by: AuditOrigin,
  ): Promise<{ revokedTokens: number; largeObjects: number }> {
    await this.find(project, name);
    const { control, databaseSetup, audit } = this.services;
    return this.atRest(project, async (row) => {
      const tenancy = this.services.servers.tenancyOf(row.placement);
      const entry = audit.entryOfChange(by, { operation: 'drop_role', object: name });
      // First, so that nobody logs in again as a role that is being dropped.
      const revoked = await control.roles.revokeTokens(row.id, name);
      const largeObjects = await databaseSetup.dropRole(tenancy, row.placement, name);
      // Last, so that a failed drop can be repeated.
      const revokedSince = await control.roles.delete(row.id, name, entry);
      return { revokedTokens: revoked + revokedSince, largeObjects };
    });
  }

  /** What a role may do now, and its tokens. @throws EngineError not_found, database_unavailable, query_timeout */
  async show(project: Project, name: string, signal: AbortSignal): Promise<DetailedRole> {
    const { id, placement } = project.row;
    const role = await this.find(project.row, name);
    const tokens = await this.services.control.tokens.list(id);
    return {
      ...shownRole(placement, role),
      tokens: tokens.filter((token) => token.role === name && token.revokedAt === null).map(shownToken),
      tables: await tablesFor(project, postgresRole(placement, name), signal),
    };
  }

  /**
   * What SQL with a token may do now, by the role as which it runs; none without a scope for SQL.
   * @param project that of the token
   * @throws EngineError database_unavailable, query_timeout
   */
  async tablesOf({ role, scopes }: TokenRow, project: Project, signal: AbortSignal): Promise<TablePrivileges[]> {
    const { placement } = project.row;
    if (role !== null) return tablesFor(project, postgresRole(placement, role), signal);
    if (scopes.includes('sql:write')) return tablesFor(project, placement.writer, signal);
    return scopes.includes('sql:read') ? tablesFor(project, placement.reader, signal) : [];
  }

  private async find({ id }: ProjectRow, name: string): Promise<RoleRow> {
    const role = (await this.services.control.roles.list(id)).find((one) => one.name === name);
    if (role === undefined) throw new EngineError('not_found', `The project has no role ${quoted(name)}`);
    return role;
  }

  /** Runs `work` while nobody moves, repairs or deletes the project. */
  private atRest<T>(project: ProjectRow, work: (row: ProjectRow) => Promise<T>): Promise<T> {
    return withProjectLock(this.services.control.address, project, async () => {
      const row = await this.services.control.projects.find('id', project.id);
      if (row === null) throw gone();
      return serviceWork(() => work(row));
    });
  }
}

/** @throws EngineError invalid_name, reserved_name */
function checkRoleName(name: string): void {
  if (!isRoleName(name)) {
    const message = `${quoted(name)} is not a valid role name: it must be ${ROLE_NAME_IN_WORDS}`;
    throw new EngineError('invalid_name', message);
  }
  if (isServiceRole(name) || RESERVED_WORDS.has(name))
    throw new EngineError(
      'reserved_name',
      `"${name}" is reserved for the service or for Postgres, and cannot name a role`,
    );
}

const gone = () => new EngineError('not_found', 'The project was deleted');

const shownRole = (placement: Placement, { name, comment, createdAt }: RoleRow): Role => ({
  name,
  postgres_name: postgresRole(placement, name),
  comment,
  created_at: createdAt.toISOString(),
});

/** The tables to which a role has any privilege, by name. @param name on the server */
async function tablesFor(project: Project, name: string, signal: AbortSignal): Promise<TablePrivileges[]> {
  const query = privilegesOf(project.row.placement, name);
  const rows = await project.read({ signal, connection: 'write-unless-fenced' }, async (db) => {
    const results = await db.run([BEGIN, IN_PG_CATALOG, query, ROLLBACK]);
    return results[2]?.rows ?? [];
  });
  return rows.map(readPrivileges);
}

/** For a session with the search path pg_catalog. */
function privilegesOf(placement: Placement, name: string): Statement {
  const role = sql`${name}::name`;
  return sql`
    SELECT n.nspname, c.relname,
      to_json(ARRAY(SELECT p FROM unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p WHERE has_table_privilege(${role}, c.oid, p))),
      (SELECT json_object_agg(p, columns) FROM (
        SELECT p, json_agg(a.attname ORDER BY a.attnum) AS columns
        FROM unnest('{SELECT,INSERT,UPDATE}'::text[]) p
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE NOT has_table_privilege(${role}, c.oid, p) AND has_column_privilege(${role}, c.oid, a.attnum, p)
        GROUP BY p) AS by_privilege),
      c.relrowsecurity AND (c.relforcerowsecurity OR NOT pg_has_role(${role}, c.relowner, 'USAGE'))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND ${belongsToProject(placement)} AND has_schema_privilege(${role}, n.oid, 'USAGE')
      AND (has_table_privilege(${role}, c.oid, 'SELECT, INSERT, UPDATE, DELETE')
        OR has_any_column_privilege(${role}, c.oid, 'SELECT, INSERT, UPDATE'))
    ORDER BY 1, 2 LIMIT ${LIMITS.tablesOfRole}`;
}

const readPrivileges = ([schema, table, privileges, columns, rowSecurity]: Row): TablePrivileges => ({
  schema: schema ?? '',
  table: table ?? '',
  privileges: JSON.parse(privileges ?? '[]') as TablePrivileges['privileges'],
  columns: JSON.parse(columns ?? '{}') as TablePrivileges['columns'],
  row_security: rowSecurity === 't',
});
