/**
 * Lets a project create schemas besides `data`, as migration tools do. Postgres has one privilege for schemas,
 * publications and trusted extensions; event triggers take the other two away again
 * (docs/decisions/0039-own-schemas.md).
 */
import { ident, inTransaction, type Session, sql, trusted } from '../pg/index.js';
import type { Placement } from './placement.js';

const TRIGGERS = ['cdp_schema_names', 'cdp_before_extension', 'cdp_after_extension'].map((name) => ident(name));

/** Only a superuser may create event triggers. */
export const isSuperuser = async (session: Session): Promise<boolean> =>
  (await session.query(sql`SELECT rolsuper FROM pg_roles WHERE rolname = current_user`))[0]?.[0] === 't';

/**
 * Grants the right with its limits, or revokes it. A service that is not a superuser revokes it, since it cannot limit
 * it.
 */
export async function grantOwnSchemas(session: Session, placement: Placement): Promise<void> {
  const allowed = placement.ownSchemas && (await isSuperuser(session));
  // In one transaction: the right must not exist without the triggers, which would also grant it again.
  await inTransaction(session, async () => {
    for (const trigger of TRIGGERS) await session.query(sql`DROP EVENT TRIGGER IF EXISTS ${trigger}`);
    if (allowed) await session.script(limits(placement));
    const [database, writer] = [ident(placement.database), ident(placement.writer)];
    await session.query(
      allowed
        ? sql`GRANT CREATE ON DATABASE ${database} TO ${writer}`
        : sql`REVOKE CREATE ON DATABASE ${database} FROM ${writer}`,
    );
  });
}

/**
 * Some names belong to the service (migration 017 of projects). For extensions and publications, the right is revoked
 * while such a statement runs; `IF NOT EXISTS` of an existing extension still succeeds. A lock serializes that. It is on
 * a table that a reader cannot lock; a reader could hold any advisory lock.
 */
function limits({ database, writer }: Placement): string {
  const created = (verb: string, role: string): string =>
    sql`${trusted(verb)} CREATE ON DATABASE ${ident(database)} ${trusted(role)} ${ident(writer)}`.text;
  const [names, before, after] = TRIGGERS.map(({ text }) => text);
  return `
    CREATE OR REPLACE FUNCTION _cdp.before_extension() RETURNS event_trigger
      LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $function$
    BEGIN
      IF current_setting('is_superuser') = 'off' THEN
        LOCK TABLE _cdp.idempotency_keys IN SHARE UPDATE EXCLUSIVE MODE;
        ${created('REVOKE', 'FROM')};
      END IF;
    END
    $function$;
    CREATE OR REPLACE FUNCTION _cdp.after_extension() RETURNS event_trigger
      LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $function$
    BEGIN
      IF current_setting('is_superuser') = 'off' THEN
        ${created('GRANT', 'TO')};
      END IF;
    END
    $function$;
    CREATE EVENT TRIGGER ${names} ON ddl_command_end
      WHEN TAG IN ('CREATE SCHEMA', 'ALTER SCHEMA') EXECUTE FUNCTION _cdp.schema_names();
    CREATE EVENT TRIGGER ${before} ON ddl_command_start
      WHEN TAG IN ('CREATE EXTENSION', 'CREATE PUBLICATION') EXECUTE FUNCTION _cdp.before_extension();
    CREATE EVENT TRIGGER ${after} ON ddl_command_end
      WHEN TAG IN ('CREATE EXTENSION', 'CREATE PUBLICATION') EXECUTE FUNCTION _cdp.after_extension()`;
}
