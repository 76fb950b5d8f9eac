/**
 * Row security policies, read from the catalogs and created again. Their expressions are Postgres's own text, which
 * nothing here changes: only the roles get the names that they have on the target.
 */
import { type Static, Type } from '../../contract/schema.js';
import { ident, join, type Session, sql, trusted } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';
import { belongsToProject } from '../../tenancy/project-rights.js';
import { identityOf, roleNamed } from './roles.js';

const Optional = Type.Union([Type.String(), Type.Null()]);

export const Policy = Type.Object({
  /** Quoted, with its schema. */
  table: Type.String(),
  name: Type.String(),
  command: Type.Enum(['ALL', 'SELECT', 'INSERT', 'UPDATE', 'DELETE']),
  permissive: Type.Boolean(),
  /** Identities of roles, sorted; see `roles.ts`. */
  roles: Type.Array(Type.String()),
  using: Optional,
  check: Optional,
});
export type Policy = Static<typeof Policy>;

/** @param session with the search path pg_catalog, so that expressions name everything else with its schema */
export async function policiesOf(session: Session, placement: Placement): Promise<Policy[]> {
  const [row] = await session.row(sql`
    SELECT coalesce(json_agg(json_build_object(
        'table', polrelid::regclass::text,
        'name', polname,
        'command', CASE polcmd WHEN '*' THEN 'ALL' WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE'
          WHEN 'd' THEN 'DELETE' END,
        'permissive', polpermissive,
        'roles', ARRAY(SELECT ${identityOf(sql`role`, placement)} COLLATE "C" FROM unnest(polroles) role ORDER BY 1),
        'using', pg_get_expr(polqual, polrelid),
        'check', pg_get_expr(polwithcheck, polrelid)
      ) ORDER BY polrelid::regclass::text COLLATE "C", polname), '[]')
    FROM pg_policy JOIN pg_class c ON c.oid = polrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE ${belongsToProject(placement)}`);
  return JSON.parse(row ?? '[]') as Policy[];
}

/** Identities of the roles that policies name. Unlike {@link policiesOf}, it waits for no lock of a table. */
export async function rolesOfPolicies(session: Session, placement: Placement): Promise<string[]> {
  const rows = await session.query(sql`
    SELECT DISTINCT ${identityOf(sql`role`, placement)}
    FROM pg_policy JOIN pg_class c ON c.oid = polrelid JOIN pg_namespace n ON n.oid = c.relnamespace, unnest(polroles) role
    WHERE ${belongsToProject(placement)}`);
  return rows.map(([role]) => role ?? '');
}

/**
 * @param session of the owner of the tables, with the search path pg_catalog
 * @throws Error that names the policy, for instance because a role does not exist
 */
export async function createPolicies(
  session: Session,
  placement: Placement,
  policies: readonly Policy[],
): Promise<void> {
  for (const { table, name, command, permissive, roles, using, check } of policies) {
    const statement = sql`CREATE POLICY ${ident(name)} ON ${trusted(table)}
      AS ${trusted(permissive ? 'PERMISSIVE' : 'RESTRICTIVE')} FOR ${trusted(command)}
      TO ${join(roles.map((role) => roleNamed(role, placement)))}
      ${using === null ? sql`` : sql`USING (${trusted(using)})`}
      ${check === null ? sql`` : sql`WITH CHECK (${trusted(check)})`}`;
    try {
      await session.query(statement);
    } catch (error) {
      throw new Error(`${what({ table, name })} cannot be made: ${(error as Error).message}`, { cause: error });
    }
  }
}

/**
 * Names the policies that differ or are on one side only.
 * @param hasTexts compares the text of expressions, which another major version may write differently
 */
export function differentPolicies(before: readonly Policy[], after: readonly Policy[], hasTexts: boolean): string[] {
  const text = (expression: string | null) => (hasTexts || expression === null ? expression : '');
  const texts = (policies: readonly Policy[]) =>
    new Map(
      policies.map((policy) => [
        what(policy),
        JSON.stringify({ ...policy, using: text(policy.using), check: text(policy.check) }),
      ]),
    );
  const [old, copied] = [texts(before), texts(after)];
  return [...new Set([...old.keys(), ...copied.keys()])]
    .filter((name) => old.get(name) !== copied.get(name))
    .map((name) => `${name}: differs`);
}

const what = ({ table, name }: Pick<Policy, 'table' | 'name'>): string => `${table} ${ident(name).text} (POLICY)`;
