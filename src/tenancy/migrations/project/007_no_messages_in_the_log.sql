-- pg_logical_emit_message lets a read-only transaction write to the server's WAL. shared-tenancy.sql revokes it too; this is
-- for databases that are hardened already. Without the right to revoke it, Postgres raises a warning.
DO $$
DECLARE
  function regprocedure;
BEGIN
  FOR function IN SELECT oid FROM pg_proc
    WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = 'pg_logical_emit_message'
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
  END LOOP;
END
$$;
