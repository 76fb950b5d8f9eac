-- Autovacuum's sessions ask for nothing and are read-only from here on: functions of a project's indexes, which they run,
-- could write past its quota. What makes a database does the same (provisioning.ts).
DO $$
BEGIN
  EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database());
END
$$;
