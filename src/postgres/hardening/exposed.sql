-- What the connected database still shows of the whole server to everybody: names of other databases and roles, who is
-- connected, what runs; of its own sessions the names of what the service has prepared in them; and what writes the
-- server's log although the transaction may only read (pg_logical_emit_message). One row for each relation and function
-- that PUBLIC may use and should not, as it is written after REVOKE ALL ON. Nothing here that a project needs to inspect
-- its own objects; what views.sql replaces by a filtered view is left out. Names that a version of Postgres does not have
-- are simply not found.
SELECT c.oid::regclass::text AS object
FROM pg_class c
WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v')
  AND has_table_privilege('public', c.oid, 'SELECT, INSERT, UPDATE, DELETE, REFERENCES, TRIGGER')
  AND (c.relname IN (
    'pg_db_role_setting', 'pg_parameter_acl', 'pg_prepared_xacts', 'pg_replication_origin', 'pg_replication_slots',
    'pg_shadow', 'pg_shseclabel', 'pg_stat_archiver', 'pg_stat_bgwriter', 'pg_stat_checkpointer',
    'pg_stat_database_conflicts', 'pg_stat_io', 'pg_stat_recovery_prefetch', 'pg_stat_replication',
    'pg_stat_replication_slots', 'pg_stat_slru', 'pg_stat_subscription', 'pg_stat_subscription_stats', 'pg_stat_wal',
    'pg_stat_wal_receiver', 'pg_subscription')
    -- Those of Postgres itself, moved or not; a stand-in has a higher number.
    OR c.oid < 16384
      AND replace(c.relname, '_cdp_', '') IN ('pg_auth_members', 'pg_database', 'pg_shdepend', 'pg_shdescription'))
UNION ALL
SELECT 'FUNCTION ' || p.oid::regprocedure
FROM pg_proc p
WHERE p.pronamespace = 'pg_catalog'::regnamespace AND has_function_privilege('public', p.oid, 'EXECUTE')
  AND (p.proname ~ '^pg_stat_get_(activity|archiver|backend_|bgwriter|buf_alloc|checkpointer|db_|io|progress_info|recovery_prefetch|replication_slot|slru|subscription|wal$|wal_receiver|wal_senders)'
    OR p.proname IN (
      'makeaclitem', 'pg_blocking_pids', 'pg_cancel_backend', 'pg_describe_object', 'pg_export_snapshot', 'pg_get_acl',
      'pg_get_multixact_members', 'pg_get_replication_slots', 'pg_identify_object', 'pg_identify_object_as_address',
      'pg_isolation_test_session_is_blocked', 'pg_last_committed_xact', 'pg_lock_status', 'pg_logical_emit_message',
      'pg_notification_queue_usage', 'pg_prepared_statement', 'pg_prepared_xact', 'pg_safe_snapshot_blocking_pids',
      'pg_show_replication_origin_status', 'pg_stat_have_stats', 'pg_tablespace_databases', 'pg_tablespace_size',
      'pg_terminate_backend', 'regroleout')
    OR p.oid < 16384 AND replace(p.proname, '_cdp_', '') IN (
      'acldefault', 'pg_database_size', 'pg_get_userbyid', 'pg_tablespace_location'))
ORDER BY object
