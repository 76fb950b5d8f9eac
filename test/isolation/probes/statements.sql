-- Statements that name the neighbor, its roles, its database or the control database, one to a line. The prober knows these
-- names; the answer must not reveal more. {m}: the neighbor's stem.

-- names of its own objects, from the wrong database
SELECT * FROM data.{m}_table
SELECT * FROM {m}_view
SELECT {m}_function()
CALL {m}_procedure()
SELECT nextval('{m}_sequence')
SELECT currval('{m}_sequence')
SELECT setval('{m}_sequence', 1)
SELECT lastval()
SELECT '{m}_table'::regclass
SELECT '{m}_enum'::regtype, NULL::{m}_composite
SELECT to_regclass('{m}_table'), to_regtype('{m}_enum'), to_regproc('{m}_function'), to_regrole('{writer}'), to_regnamespace('data')
SELECT to_regcollation('{m}_collation')
SELECT 'a' <#~#> 'b'
SELECT 'a' COLLATE {m}_collation
SELECT to_tsvector('{m}_searchconfig', 'a')
SELECT ts_lexize('{m}_dictionary', 'a')
SELECT has_table_privilege('{m}_table', 'SELECT')
SELECT has_column_privilege('{m}_table', '{m}_column', 'SELECT')
SELECT has_function_privilege('{m}_function(integer)', 'EXECUTE')
SELECT has_type_privilege('{m}_enum', 'USAGE')
SELECT has_sequence_privilege('{m}_sequence', 'USAGE')
SELECT pg_get_serial_sequence('{m}_table', 'n')
SELECT pg_get_viewdef('{m}_view')
SELECT table_to_xml('{m}_table', true, true, '')
SELECT query_to_xml('SELECT * FROM {m}_table', true, true, '')
SELECT schema_to_xml('data', true, true, '')
SELECT database_to_xml(true, true, '')
SELECT query_to_xml_and_xmlschema('SELECT rolname FROM pg_roles', true, true, '')
SELECT pg_relation_size('{m}_table'), pg_relation_filepath('{m}_table')
DROP TABLE {m}_table CASCADE
DROP SCHEMA data CASCADE
ALTER TABLE {m}_table RENAME TO a
COMMENT ON TABLE {m}_table IS 'a'
CREATE TABLE copy (LIKE {m}_table INCLUDING ALL)
CREATE TABLE heir () INHERITS ({m}_table)
CREATE VIEW window_on_it AS SELECT * FROM {m}_table
FETCH ALL FROM {m}_cursor
EXECUTE {m}_prepared
DEALLOCATE {m}_prepared
SELECT * FROM pg_temp.{m}_temporary
SHOW {m}_guc.name
SELECT current_setting('{m}_guc.name', true), current_setting('{m}_rolesetting.x', true), current_setting('{m}_dbsetting.x', true)
SHOW ALL
SELECT lo_get(4000000001)
SELECT loread(lo_open(4000000001, 262144), 1000)
SELECT lo_unlink(4000000001)
COMMENT ON LARGE OBJECT 4000000001 IS 'a'
GRANT SELECT ON LARGE OBJECT 4000000001 TO PUBLIC
SELECT obj_description(4000000001, 'pg_largeobject')

-- its database
CREATE DATABASE {database}
CREATE DATABASE a TEMPLATE {database}
ALTER DATABASE {database} OWNER TO CURRENT_USER
ALTER DATABASE {database} RENAME TO a
ALTER DATABASE {database} SET work_mem = '1MB'
ALTER DATABASE {database} REFRESH COLLATION VERSION
DROP DATABASE {database}
DROP DATABASE {database} WITH (FORCE)
COMMENT ON DATABASE {database} IS 'a'
GRANT ALL ON DATABASE {database} TO CURRENT_USER
REVOKE ALL ON DATABASE {database} FROM {writer}
SELECT has_database_privilege('{database}', 'CONNECT')
SELECT has_database_privilege('{writer}', '{database}', 'CREATE')
SELECT pg_database_size('{database}')
SELECT * FROM {database}.data.{m}_table
SELECT '{database}.data.{m}_table'::regclass
SELECT {database}.pg_catalog.version()
SECURITY LABEL ON DATABASE {database} IS 'a'
SELECT pg_stat_get_db_numbackends(oid) FROM pg_database
SELECT datname, pg_encoding_to_char(encoding), shobj_description(oid, 'pg_database') FROM pg_database
SELECT * FROM pg_stat_database
SELECT pg_tablespace_databases(1663)
SELECT pg_ls_dir('base')

-- its roles
CREATE ROLE {writer}
CREATE USER {reader}
CREATE GROUP {database}
CREATE SCHEMA AUTHORIZATION {writer}
SET ROLE {writer}
SET ROLE {database}
SET LOCAL ROLE {reader}
SET SESSION AUTHORIZATION {writer}
SELECT set_config('role', '{writer}', true)
SELECT set_config('session_authorization', '{writer}', true)
DO $$ BEGIN EXECUTE 'SET ROLE {writer}'; END $$
GRANT {writer} TO CURRENT_USER
GRANT {database} TO CURRENT_USER
GRANT CURRENT_USER TO {writer}
GRANT ALL ON ALL TABLES IN SCHEMA data TO {writer}
REVOKE {database} FROM {writer}
ALTER ROLE {writer} SET work_mem = '1MB'
ALTER ROLE {writer} IN DATABASE {database} RESET ALL
ALTER ROLE {writer} PASSWORD 'a'
ALTER ROLE {writer} RENAME TO a
ALTER ROLE {reader} VALID UNTIL 'infinity'
DROP ROLE {writer}
DROP ROLE {database}
DROP OWNED BY {writer}
REASSIGN OWNED BY {writer} TO CURRENT_USER
REASSIGN OWNED BY CURRENT_USER TO {writer}
ALTER DEFAULT PRIVILEGES FOR ROLE {writer} GRANT SELECT ON TABLES TO PUBLIC
ALTER DEFAULT PRIVILEGES IN SCHEMA data GRANT SELECT ON TABLES TO {writer}
COMMENT ON ROLE {writer} IS 'a'
SECURITY LABEL ON ROLE {writer} IS 'a'
ALTER TABLE probe_texts OWNER TO {writer}
CREATE POLICY a ON probe_texts TO {writer} USING (true)
CREATE USER MAPPING FOR {writer} SERVER a
SELECT pg_has_role('{writer}', 'MEMBER')
SELECT pg_has_role('{writer}', '{database}', 'USAGE')
SELECT has_table_privilege('{writer}', 'pg_class', 'SELECT')
SELECT has_schema_privilege('{writer}', 'data', 'CREATE')
SELECT '{writer}'::regrole::oid, '{database}'::regrole::oid
SELECT '{=r/{writer}}'::aclitem[]
SELECT rolname FROM pg_roles
SELECT rolname, shobj_description(oid, 'pg_authid') FROM pg_roles
SELECT usename, useconfig FROM pg_user
SELECT groname, grolist FROM pg_group
SELECT * FROM pg_shadow
SELECT * FROM pg_authid
SELECT m.roleid::regrole, m.member::regrole FROM pg_auth_members m
SELECT setrole::regrole, setdatabase, setconfig FROM pg_db_role_setting
SELECT grantee, role_name FROM information_schema.applicable_roles
SELECT * FROM information_schema.enabled_roles
SELECT * FROM information_schema.administrable_role_authorizations
SELECT refobjid::regrole::text, classid::regclass, dbid FROM pg_shdepend
SELECT description FROM pg_shdescription

-- what it is doing
SELECT * FROM pg_stat_activity
SELECT pid, query, application_name, usename, datname FROM pg_stat_get_activity(NULL), pg_database, pg_user
SELECT * FROM pg_stat_get_activity(NULL)
SELECT pg_stat_get_backend_activity(i), pg_stat_get_backend_pid(i), pg_stat_get_backend_dbid(i), pg_stat_get_backend_userid(i)::regrole FROM generate_series(1, 200) i
SELECT pg_stat_get_backend_activity(i) FROM pg_stat_get_backend_idset() i
SELECT * FROM pg_locks
SELECT * FROM pg_lock_status()
SELECT pg_blocking_pids(i) FROM generate_series(1, 1000) i
SELECT pg_try_advisory_lock_shared(i) FROM generate_series(1, 100) i
SELECT * FROM pg_prepared_statements
SELECT * FROM pg_cursors
SELECT * FROM pg_prepared_xacts
SELECT * FROM pg_stat_progress_create_index
SELECT * FROM pg_stat_progress_copy
SELECT * FROM pg_stat_progress_vacuum
SELECT * FROM pg_stat_get_progress_info('CREATE INDEX')
SELECT * FROM pg_stat_xact_user_tables
SELECT * FROM pg_stat_user_functions
SELECT * FROM pg_statio_all_tables
SELECT * FROM pg_stat_ssl
SELECT * FROM pg_stat_replication
SELECT * FROM pg_replication_slots
SELECT * FROM pg_stat_subscription
SELECT * FROM pg_subscription
SELECT * FROM pg_listening_channels()
DO $$ BEGIN EXECUTE 'LISTEN {m}_channel'; PERFORM pg_sleep(0.1); END $$
SELECT pg_notify('{m}_channel', 'a')
SELECT pg_notification_queue_usage()
SELECT pg_export_snapshot()
SET TRANSACTION SNAPSHOT '00000003-00000001-1'
SELECT pg_snapshot_xip(pg_current_snapshot()), txid_current_if_assigned()
SELECT pg_get_backend_memory_contexts()
SELECT * FROM pg_shmem_allocations
SELECT * FROM pg_show_all_file_settings()
SELECT * FROM pg_hba_file_rules
SELECT * FROM pg_ident_file_mappings
SELECT * FROM pg_stat_statements
SELECT * FROM pg_buffercache
SELECT heap_page_items(get_raw_page('pg_authid', 0))

-- the control database and the service's own things
CREATE DATABASE {control}
ALTER DATABASE {control} OWNER TO CURRENT_USER
SELECT * FROM {control}.cdp.projects
SELECT * FROM {control}.cdp.tokens
SELECT * FROM cdp.projects
SELECT * FROM cdp.tokens
SELECT has_database_privilege('{control}', 'CONNECT')
SELECT * FROM _cdp.idempotency_keys
SELECT * FROM _cdp.migrations
SELECT * FROM _cdp.instance
SELECT current_setting('data_directory')
SELECT current_setting('hba_file'), current_setting('config_file')
SELECT current_setting('unix_socket_directories'), current_setting('cluster_name'), current_setting('primary_conninfo')
SELECT name, setting, reset_val, boot_val, sourcefile FROM pg_settings
SELECT inet_server_addr(), inet_client_addr(), pg_conf_load_time(), pg_postmaster_start_time()

-- plans
EXPLAIN (ANALYZE, VERBOSE, BUFFERS, SETTINGS, FORMAT JSON) SELECT * FROM pg_stats
EXPLAIN (VERBOSE, GENERIC_PLAN) SELECT * FROM pg_class WHERE oid = $1
EXPLAIN (ANALYZE, FORMAT XML) SELECT count(*) FROM pg_class, pg_attribute WHERE attrelid = pg_class.oid
EXPLAIN (VERBOSE) SELECT * FROM pg_tables
EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM information_schema.columns
EXPLAIN ANALYZE SELECT pg_get_viewdef(oid), obj_description(oid) FROM pg_class
