-- On a shared server: revokes access to what Postgres shows to everyone about the whole server (names of other databases and
-- roles, comments, sessions, running statements), and to the import of statistics. A role that is not a superuser may revoke
-- none of it, so nothing happens. If the service's role loses SUPERUSER later, it keeps what it reads itself. Runs in the
-- template, which CREATE DATABASE copies with its rights, and when a project is repaired. Objects that a version of Postgres
-- lacks are skipped. May run repeatedly.
DO $do$
DECLARE
  object text;
BEGIN
  IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
    RETURN;
  END IF;
  FOR object IN
    SELECT c.oid::regclass::text FROM pg_catalog.pg_class c
    WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v')
      AND (c.relname IN ('pg_database', 'pg_roles', 'pg_user', 'pg_group', 'pg_shadow', 'pg_auth_members',
        'pg_shdescription', 'pg_db_role_setting', 'pg_shdepend', 'pg_shseclabel', 'pg_seclabels', 'pg_locks',
        'pg_prepared_xacts', 'pg_tablespace', 'pg_parameter_acl', 'pg_replication_origin', 'pg_replication_slots',
        'pg_subscription', 'pg_stat_activity', 'pg_stat_replication', 'pg_stat_replication_slots',
        'pg_stat_wal_receiver', 'pg_stat_subscription', 'pg_stat_subscription_stats', 'pg_stat_ssl', 'pg_stat_gssapi',
        'pg_stat_database', 'pg_stat_database_conflicts', 'pg_stat_bgwriter', 'pg_stat_checkpointer',
        'pg_stat_archiver', 'pg_stat_io', 'pg_stat_wal', 'pg_stat_slru', 'pg_stat_recovery_prefetch')
        OR c.relname LIKE 'pg\_stat\_progress\_%')
    UNION ALL
    SELECT 'FUNCTION ' || p.oid::regprocedure FROM pg_catalog.pg_proc p
    WHERE p.pronamespace = 'pg_catalog'::regnamespace
      AND (p.proname ~ '^pg_stat_get_(activity|backend_|progress_info|wal_senders|wal_receiver|subscription|replication_slot|db_|io|slru|checkpointer|bgwriter|buf_alloc|archiver|wal$|recovery_prefetch)'
        OR p.proname ~ '^pg_(restore|clear)_(relation|attribute|extended)_stats$'
        OR p.proname IN ('pg_lock_status', 'pg_prepared_xact', 'shobj_description', 'pg_get_replication_slots',
          'pg_show_replication_origin_status', 'pg_database_size', 'pg_tablespace_size', 'pg_tablespace_databases',
          'pg_tablespace_location', 'pg_blocking_pids', 'pg_safe_snapshot_blocking_pids',
          'pg_isolation_test_session_is_blocked', 'pg_cancel_backend', 'pg_terminate_backend', 'pg_describe_object',
          'pg_identify_object', 'pg_identify_object_as_address', 'pg_get_acl', 'pg_notification_queue_usage',
          'pg_export_snapshot', 'pg_stat_have_stats', 'pg_get_multixact_members', 'pg_last_committed_xact',
          'pg_logical_emit_message'))
  LOOP
    EXECUTE format('REVOKE ALL ON %s FROM PUBLIC', object);
    EXECUTE format('GRANT %s ON %s TO CURRENT_USER',
      CASE WHEN object LIKE 'FUNCTION %' THEN 'EXECUTE' ELSE 'SELECT' END, object);
  END LOOP;

  -- pg_dump and pg_upgrade transfer all rights that differ from those of initdb, also of functions that another major version
  -- lacks. So these rights are recorded as those of initdb.
  PERFORM pg_catalog.set_config('allow_system_table_mods', 'on', true);
  DELETE FROM pg_catalog.pg_init_privs i USING pg_catalog.pg_class c
    WHERE i.classoid = 'pg_catalog.pg_class'::regclass AND i.objoid = c.oid AND c.relnamespace = 'pg_catalog'::regnamespace
      AND CASE WHEN i.objsubid = 0 THEN c.relacl <> i.initprivs ELSE NOT EXISTS (
        SELECT FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum = i.objsubid AND a.attacl = i.initprivs) END;
  INSERT INTO pg_catalog.pg_init_privs (objoid, classoid, objsubid, privtype, initprivs)
    SELECT c.oid, 'pg_catalog.pg_class'::regclass, 0, 'i', c.relacl FROM pg_catalog.pg_class c
    WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relacl IS NOT NULL AND NOT EXISTS (
      SELECT FROM pg_catalog.pg_init_privs i
      WHERE i.classoid = 'pg_catalog.pg_class'::regclass AND i.objoid = c.oid AND i.objsubid = 0);
  DELETE FROM pg_catalog.pg_init_privs i USING pg_catalog.pg_proc p
    WHERE i.classoid = 'pg_catalog.pg_proc'::regclass AND i.objoid = p.oid
      AND p.pronamespace = 'pg_catalog'::regnamespace AND p.proacl <> i.initprivs;
  INSERT INTO pg_catalog.pg_init_privs (objoid, classoid, objsubid, privtype, initprivs)
    SELECT p.oid, 'pg_catalog.pg_proc'::regclass, 0, 'i', p.proacl FROM pg_catalog.pg_proc p
    WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proacl IS NOT NULL AND NOT EXISTS (
      SELECT FROM pg_catalog.pg_init_privs i
      WHERE i.classoid = 'pg_catalog.pg_proc'::regclass AND i.objoid = p.oid);

  -- information_schema.columns reads pg_database as its invoker; this equivalent does not.
  CREATE OR REPLACE FUNCTION information_schema._pg_char_octet_length(typid oid, typmod int4) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURNS NULL ON NULL INPUT
    RETURN CASE WHEN $1 IN (25, 1042, 1043) THEN
      CASE WHEN $2 = -1 THEN CAST(2 ^ 30 AS integer)
      ELSE information_schema._pg_char_max_length($1, $2) * pg_catalog.pg_encoding_max_length(
        pg_catalog.pg_char_to_encoding(pg_catalog.getdatabaseencoding())) END
      ELSE null END;
END
$do$;
