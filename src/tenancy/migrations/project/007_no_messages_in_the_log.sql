-- A transaction that may only read can write the server's log by it. The hardening closes it, too (exposed.sql); this is for
-- databases that are hardened already. Without the right to revoke it, Postgres says so in a warning.
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
