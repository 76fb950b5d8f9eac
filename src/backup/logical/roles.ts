/**
 * Roles as rights and policies name them, and roles in statements of a dump, which get other names. Postgres's own parser
 * finds those, so that only the names of roles change: no constant, no column, and no name of a table.
 */
import { madeRole, postgresRole, type ProjectRoleNames } from '../../tenancy/placement.js';
import { type Fragment, ident, sql, trusted } from '../../pg/index.js';
import { tokensOf } from '../../contract/sql-tokens.js';

/** Where a statement names a role, in bytes. */
interface RoleName {
  readonly name: string;
  readonly at: number;
}

/**
 * Splits the text into its statements, and renames the roles in each. Without SET SESSION AUTHORIZATION, by which
 * pg_dump has a grant made by the role that made it: here the owner makes it.
 * @param text GRANT, REVOKE, ALTER DEFAULT PRIVILEGES and CREATE POLICY, as pg_dump writes them
 * @throws Error if the parser does not understand the text
 */
export async function renameRoles(text: string, from: ProjectRoleNames, to: ProjectRoleNames): Promise<string[]> {
  // Only an old dump needs the parser: loading it takes memory and time.
  const { loadModule, parseSync } = await import('libpg-query');
  await loadModule();
  const bytes = Buffer.from(text);
  return (parseSync(text).stmts ?? []).flatMap(({ stmt = {}, stmt_location: start = 0, stmt_len: length = 0 }) => {
    if ('VariableSetStmt' in stmt && stmt.VariableSetStmt?.name === 'session_authorization') return [];
    const end = length > 0 ? start + length : bytes.length;
    let result = '';
    let consumed = start;
    for (const { name, at } of rolesIn(stmt).sort((a, b) => a.at - b.at)) {
      const role = name === from.writer ? to.writer : name === from.reader ? to.reader : null;
      if (role === null) continue;
      result += bytes.toString('utf8', consumed, at) + ident(role).text;
      consumed = at + lengthOfName(bytes.toString('utf8', at, end));
    }
    return [result + bytes.toString('utf8', consumed, end)];
  });
}

/** In bytes, with its quotes. */
function lengthOfName(text: string): number {
  const { value: token } = tokensOf(text).next();
  return Buffer.byteLength(text.slice(0, token?.to ?? 0));
}

/** All RoleSpec nodes of a parse tree that are names; expressions contain none. */
function rolesIn(node: unknown): RoleName[] {
  if (typeof node !== 'object' || node === null) return [];
  return Object.entries(node).flatMap(([key, value]: [string, unknown]) =>
    key === 'RoleSpec' ? nameOf(value) : rolesIn(value),
  );
}

function nameOf(spec: unknown): RoleName[] {
  const { roletype, rolename, location } = spec as { roletype?: string; rolename?: string; location?: number };
  return roletype === 'ROLESPEC_CSTRING' && rolename !== undefined && location !== undefined
    ? [{ name: rolename, at: location }]
    : [];
}

/**
 * Converts a role's oid to its identity: `@writer`, `@reader`, `@public`, `@role intern` for one that the project has
 * made, or the name of another role as Postgres quotes it, which never begins with `@`. Needs no right to read pg_roles,
 * which the writer may lack.
 */
export const identityOf = (oid: Fragment, { writer, reader }: ProjectRoleNames): Fragment =>
  sql`CASE ${oid} WHEN 0 THEN '@public' WHEN ${writer}::regrole THEN '@writer' WHEN ${reader}::regrole THEN '@reader'
    ELSE coalesce(${MADE} || ${madeRole({ writer }, sql`btrim(${oid}::regrole::text, '"')`)}, ${oid}::regrole::text) END`;

/** Begins the identity of a role that the project has made. */
const MADE = '@role ';

/** The name by which the project knows the role of an identity; null: it has not made it. */
export const madeRoleOf = (identity: string): string | null =>
  identity.startsWith(MADE) ? identity.slice(MADE.length) : null;

/** The name on the server of a role of the project; null: it is none. */
export function ownRoleNamed(identity: string, { writer, reader }: ProjectRoleNames): string | null {
  if (identity === '@writer') return writer;
  if (identity === '@reader') return reader;
  const made = madeRoleOf(identity);
  return made === null ? null : postgresRole({ writer }, made);
}

/** The name of a role in a statement for a server with these roles. */
export function roleNamed(identity: string, roles: ProjectRoleNames): Fragment {
  const own = ownRoleNamed(identity, roles);
  if (own !== null) return sql`${ident(own)}`;
  if (identity === '@public') return sql`PUBLIC`;
  return sql`${trusted(identity)}`;
}
