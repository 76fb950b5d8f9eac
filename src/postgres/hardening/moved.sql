-- Moves the shared catalogs that stand-ins of views.sql and own-part.sql take the names of. They keep their numbers, by
-- which Postgres itself goes, so nothing inside Postgres changes; pg_class belongs to the database, so no other database
-- does either. Their new names begin with _cdp_ and are closed. Runs as a superuser with allow_system_table_mods and
-- search_path = pg_catalog, and may run again.
--
-- Not by ALTER TABLE … RENAME: its ACCESS EXCLUSIVE lock is on the catalog that all databases share, and keeps out every
-- login, or makes a deadlock with whoever makes or drops a role or a database meanwhile. What it does to the rows is done
-- here, under the lock that keeps VACUUM out, which also changes a row of pg_class; always in the same order.

DO $do$
DECLARE
  moved record;
BEGIN
  FOR moved IN
    SELECT c.oid, c.relname, c.reltype, t.typarray FROM pg_class c JOIN pg_type t ON t.oid = c.reltype
    WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.oid < 16384
      AND c.relname IN ('pg_database', 'pg_auth_members', 'pg_shdescription', 'pg_shdepend')
    ORDER BY c.oid
  LOOP
    EXECUTE format('LOCK TABLE %I IN SHARE UPDATE EXCLUSIVE MODE', moved.relname);
    UPDATE pg_class SET relname = '_cdp_' || relname WHERE oid = moved.oid;
    UPDATE pg_type SET typname = '_cdp_' || moved.relname WHERE oid = moved.reltype;
    UPDATE pg_type SET typname = '__cdp_' || moved.relname WHERE oid = moved.typarray;
    EXECUTE format('REVOKE ALL ON %I FROM PUBLIC', '_cdp_' || moved.relname);
    -- As if initdb had made it so: pg_dump then writes no line that a restored database would not understand.
    UPDATE pg_init_privs i SET initprivs = c.relacl FROM pg_class c
    WHERE i.objoid = moved.oid AND i.classoid = 'pg_class'::regclass AND i.objsubid = 0 AND c.oid = moved.oid;
  END LOOP;
END
$do$;
