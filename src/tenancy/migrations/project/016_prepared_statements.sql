-- Opens pg_prepared_statements again, which 009 has closed, for the clients of the Postgres port: it shows what the session has
-- prepared, without the statements of the service (src/pg/prepared-statements.ts). The function behind it stays closed. A role
-- that is not a superuser could not close the view, so for it nothing is to be done. On Citus the view stays closed: the
-- database outlives the project, and Postgres's own view would not come back.
DO $do$
DECLARE
  columns text := (
    SELECT string_agg(format('%I %s', attname, format_type(atttypid, NULL)), ', ' ORDER BY attnum)
    FROM pg_attribute WHERE attrelid = 'pg_prepared_statements'::regclass AND attnum > 0);
BEGIN
  IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
    OR EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
    RETURN;
  END IF;
  PERFORM set_config('allow_system_table_mods', 'on', true);
  EXECUTE format($sql$
    CREATE FUNCTION _cdp.prepared_statements() RETURNS TABLE (%s)
      LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT * FROM pg_prepared_statement() AS p WHERE NOT starts_with(p.name, '_cdp.') $$
  $sql$, columns);
  CREATE OR REPLACE VIEW pg_catalog.pg_prepared_statements AS SELECT * FROM _cdp.prepared_statements();
  GRANT SELECT ON pg_catalog.pg_prepared_statements TO PUBLIC;
END
$do$;
