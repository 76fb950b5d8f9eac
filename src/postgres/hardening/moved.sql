-- Moves the shared catalogs that stand-ins of views.sql and own-part.sql take the names of. They keep their numbers, by
-- which Postgres itself goes, so nothing inside Postgres changes; pg_class belongs to the database, so no other database
-- does either. Their new names begin with _cdp_ and are closed. Runs as a superuser with allow_system_table_mods and
-- search_path = pg_catalog, and may run again.

DO $do$
DECLARE
  moved record;
BEGIN
  FOR moved IN
    SELECT c.oid, c.relname FROM pg_class c
    WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.oid < 16384
      AND c.relname IN ('pg_database', 'pg_auth_members', 'pg_shdescription', 'pg_shdepend')
  LOOP
    EXECUTE format('ALTER TABLE %I RENAME TO %I', moved.relname, '_cdp_' || moved.relname);
    EXECUTE format('REVOKE ALL ON %I FROM PUBLIC', '_cdp_' || moved.relname);
    -- As if initdb had made it so: pg_dump then writes no line that a restored database would not understand.
    UPDATE pg_init_privs i SET initprivs = c.relacl FROM pg_class c
    WHERE i.objoid = moved.oid AND i.classoid = 'pg_class'::regclass AND i.objsubid = 0 AND c.oid = moved.oid;
  END LOOP;
END
$do$;
