/** What a project has set for its roles by `ALTER ROLE … SET`. */
import { type Static, Type } from '../../contract/schema.js';
import { ident, join, literal, PostgresError, type Session, sql, withSession } from '../../pg/index.js';
import { isMadeRole, type Placement } from '../../tenancy/placement.js';
import { roleLogin } from '../../tenancy/role-login.js';
import type { Tenancy } from '../../tenancy/tenancy.js';
import { identityOf, ownRoleNamed } from './roles.js';

export const RoleSetting = Type.Object({
  /** Its identity without the `@`; see `roles.ts`. */
  role: Type.String({ pattern: '^(writer|reader|role [a-z][a-z0-9_]*)$' }),
  /** Set for the project's database only, not for all databases. */
  in_database: Type.Boolean(),
  name: Type.String(),
  /** As Postgres stores it. */
  value: Type.String(),
});
export type RoleSetting = Static<typeof RoleSetting>;

/** Settings that name roles: a login as the project's role does not keep them. */
const NAMES_ROLE = ['role', 'session_authorization'];

/** @param session that may read pg_db_role_setting, with the search path pg_catalog */
export async function roleSettingsOf(session: Session, placement: Placement): Promise<RoleSetting[]> {
  const { writer, reader } = placement;
  const name = sql`setrole::regrole::text`;
  const [row] = await session.row(sql`
    SELECT coalesce(json_agg(json_build_object(
        'role', substr(${identityOf(sql`setrole`, placement)}, 2),
        'in_database', setdatabase <> 0,
        'name', split_part(setting, '=', 1),
        'value', substr(setting, strpos(setting, '=') + 1)
      ) ORDER BY setrole <> ${writer}::regrole, setrole <> ${reader}::regrole, setrole::regrole::text, setdatabase, place), '[]')
    FROM pg_db_role_setting, unnest(setconfig) WITH ORDINALITY AS settings (setting, place)
    WHERE (setrole IN (${writer}::regrole, ${reader}::regrole) OR setrole <> 0 AND ${isMadeRole(placement, name)})
      AND split_part(setting, '=', 1) <> ALL (${NAMES_ROLE})
      AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))`);
  return JSON.parse(row ?? '[]') as RoleSetting[];
}

/**
 * Sets them in sessions of the roles themselves, so that a role gets nothing that it could not set itself.
 * @returns messages about settings that this server refuses
 * @throws PostgresError, ConnectionLost
 */
export async function setRoleSettings(
  tenancy: Tenancy,
  placement: Placement,
  settings: readonly RoleSetting[],
  signal: AbortSignal,
): Promise<string[]> {
  const refusedSettings: string[] = [];
  for (const role of new Set(settings.map((setting) => setting.role))) {
    const own = settings.filter((setting) => setting.role === role);
    const login = await roleLogin(tenancy, placement, ownRoleNamed(`@${role}`, placement) ?? '', SESSION, 'cdp copy');
    const set = async (session: Session): Promise<void> => {
      for (const { in_database: inDatabase, name, value } of own) {
        const where = inDatabase ? sql`IN DATABASE ${ident(placement.database)}` : sql``;
        try {
          await session.query(sql`ALTER ROLE CURRENT_USER ${where} SET ${ident(name)} TO ${valueOf(name, value)}`);
        } catch (error) {
          if (!(error instanceof PostgresError)) throw error;
          refusedSettings.push(`the setting ${name} of the ${role}: ${error.message}`);
        }
      }
    };
    await withSession(login, set, signal);
  }
  return refusedSettings;
}

const SESSION = { search_path: 'pg_catalog', default_transaction_read_only: 'off' };

/** Settings that Postgres keeps as a list of quoted names (GUC_LIST_QUOTE in guc_tables.c). */
const LISTS = new Set(['search_path', 'temp_tablespaces', 'local_preload_libraries', 'session_preload_libraries']);

/** As one constant, the names of a list would be one name. */
const valueOf = (name: string, value: string) =>
  LISTS.has(name.toLowerCase())
    ? join(Array.from(value.matchAll(/"(?:[^"]|"")*"|[^\s,]+/g), ([one]) => literal(unquoted(one))))
    : sql`${literal(value)}`;

const unquoted = (name: string): string =>
  name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name.toLowerCase();
