-- What a project tries, one attempt to a line, by theme. {writer}, {reader}, {database}: the neighbor's; {own}: the project's own
-- database; {mine}, {own_reader}: its roles; {superuser}, {control}, {socket}, {port}: the server's; {file}: a file that must not be written.

-- theme: files
SELECT pg_read_file('/etc/passwd')
SELECT pg_read_file('postgresql.conf', 0, 10)
SELECT pg_read_file('pg_hba.conf', true)
SELECT pg_read_binary_file('PG_VERSION')
SELECT pg_ls_dir('/')
SELECT pg_ls_dir('.')
SELECT * FROM pg_ls_logdir()
SELECT * FROM pg_ls_waldir()
SELECT * FROM pg_ls_tmpdir()
SELECT * FROM pg_ls_archive_statusdir()
SELECT * FROM pg_ls_logicalsnapdir()
SELECT * FROM pg_stat_file('/etc/passwd')
SELECT pg_stat_file('/etc/passwd')
SELECT * FROM pg_current_logfile()
SELECT lo_import('/etc/passwd')
SELECT lo_import('/etc/passwd', 4000000002)
SELECT lo_export(1, '{file}')
COPY mine FROM '/etc/passwd'
COPY mine TO '{file}'
COPY (SELECT 1) TO '{file}'
CREATE TABLESPACE s LOCATION '/tmp'
CREATE TABLE t (n int) TABLESPACE pg_global
LOAD '/tmp/nothing.so'
LOAD '/tmp/nothing'
SET dynamic_library_path = '/tmp'
SET local_preload_libraries = 'auto_explain'; SELECT pg_reload_conf()
SELECT pg_file_settings()
SELECT * FROM pg_file_settings
SELECT * FROM pg_hba_file_rules
SELECT * FROM pg_ident_file_mappings
SELECT pg_file_write('{file}', 'a', false)
CREATE FOREIGN TABLE f (t text) SERVER s OPTIONS (filename '/etc/passwd')
SELECT pg_walfile_name(pg_switch_wal())

-- theme: programs and code of its own
COPY mine FROM PROGRAM 'id'
COPY mine TO PROGRAM 'cat > {file}'
COPY mine TO PROGRAM 'cat'
COPY (SELECT 1) TO PROGRAM 'cat > {file}'
CREATE FUNCTION f() RETURNS int LANGUAGE c AS '$libdir/plpgsql', 'plpgsql_call_handler'
CREATE FUNCTION f(cstring) RETURNS int LANGUAGE c AS 'libc.so.6', 'system'
CREATE FUNCTION f() RETURNS int LANGUAGE internal AS 'pg_backend_pid'
CREATE LANGUAGE plperlu
CREATE LANGUAGE plpython3u
CREATE LANGUAGE l HANDLER plpgsql_call_handler
DO LANGUAGE plpython3u $$ 1 $$
DO LANGUAGE plperlu $$ 1 $$
ALTER FUNCTION pg_catalog.now() OWNER TO CURRENT_USER
CREATE OR REPLACE FUNCTION pg_catalog.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT NULL::timestamptz $$
CREATE FUNCTION pg_catalog.f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$
CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION f()
CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION e()
CREATE ACCESS METHOD m TYPE TABLE HANDLER heap_tableam_handler
CREATE CAST (text AS int) WITHOUT FUNCTION
CREATE OPERATOR CLASS c DEFAULT FOR TYPE int USING btree AS STORAGE int
CREATE TEXT SEARCH TEMPLATE t (LEXIZE = dsimple_lexize)
CREATE TEXT SEARCH PARSER p (START = prsd_start, GETTOKEN = prsd_nexttoken, END = prsd_end, LEXTYPES = prsd_lextype)

-- theme: extensions
CREATE EXTENSION dblink
CREATE EXTENSION postgres_fdw
CREATE EXTENSION file_fdw
CREATE EXTENSION adminpack
CREATE EXTENSION pageinspect
CREATE EXTENSION pg_buffercache
CREATE EXTENSION pg_stat_statements
CREATE EXTENSION hstore
CREATE EXTENSION pg_trgm
CREATE EXTENSION pgcrypto CASCADE
ALTER EXTENSION plpgsql UPDATE
ALTER EXTENSION plpgsql SET SCHEMA data
DROP EXTENSION plpgsql CASCADE

-- theme: the network
SELECT dblink_connect('host={socket} port={port} dbname={database}')
SELECT * FROM dblink('dbname={control}', 'SELECT 1') AS t (n int)
CREATE FOREIGN DATA WRAPPER w
CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{socket}', dbname '{database}')
CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw
CREATE USER MAPPING FOR CURRENT_USER SERVER s
IMPORT FOREIGN SCHEMA data FROM SERVER s INTO data
CREATE SUBSCRIPTION s CONNECTION 'host={socket} dbname={database}' PUBLICATION p
CREATE SUBSCRIPTION s CONNECTION 'dbname=postgres' PUBLICATION p
CREATE PUBLICATION p FOR ALL TABLES
CREATE PUBLICATION p FOR TABLE mine
SELECT pg_create_physical_replication_slot('s')
SELECT pg_create_logical_replication_slot('s', 'pgoutput')
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL)
SELECT pg_replication_origin_create('o')
SELECT pg_replication_origin_session_setup('o')

-- theme: other databases
CREATE DATABASE d
CREATE DATABASE d TEMPLATE {database}
CREATE DATABASE {database}
DROP DATABASE {database}
DROP DATABASE {database} WITH (FORCE)
DROP DATABASE {control}
ALTER DATABASE {database} RENAME TO d
ALTER DATABASE {database} OWNER TO CURRENT_USER
ALTER DATABASE {database} CONNECTION LIMIT 0
ALTER DATABASE {database} SET search_path = pg_temp
ALTER DATABASE {own} SET search_path = pg_temp
ALTER DATABASE {own} CONNECTION LIMIT -1
ALTER DATABASE {own} OWNER TO CURRENT_USER
ALTER DATABASE {own} RENAME TO d
ALTER DATABASE {own} SET TABLESPACE pg_default
COMMENT ON DATABASE {own} IS 'a'
SELECT * FROM {database}.data.mine
SELECT * FROM {control}.cdp.projects
SELECT * FROM {control}.cdp.tokens
SELECT pg_terminate_backend(1)
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
SELECT pg_cancel_backend(pid) FROM pg_stat_activity
SELECT pg_cancel_backend(pg_backend_pid())
CREATE SCHEMA _cdp_s
CREATE SCHEMA "_cdp S"
CREATE SCHEMA "-"
CREATE EXTENSION hstore
CREATE PUBLICATION p

-- theme: other roles
SET ROLE {writer}
SET ROLE {superuser}
SET SESSION AUTHORIZATION {writer}
SET SESSION AUTHORIZATION {superuser}
SELECT set_config('role', '{writer}', false)
SELECT set_config('session_authorization', '{superuser}', false)
DO $$ BEGIN EXECUTE 'SET ROLE {superuser}'; END $$
DO $$ BEGIN EXECUTE 'SET SESSION AUTHORIZATION {superuser}'; END $$
CREATE FUNCTION f() RETURNS int LANGUAGE sql SET role = '{superuser}' AS $$ SELECT 1 $$
CREATE ROLE r
CREATE ROLE r SUPERUSER
CREATE USER u IN ROLE {writer}
ALTER ROLE CURRENT_USER SUPERUSER
ALTER ROLE CURRENT_USER CREATEROLE
ALTER ROLE CURRENT_USER BYPASSRLS
ALTER ROLE CURRENT_USER REPLICATION
ALTER ROLE CURRENT_USER CONNECTION LIMIT -1
ALTER ROLE CURRENT_USER RENAME TO r
ALTER ROLE {writer} PASSWORD 'a'
ALTER ROLE {writer} SET search_path = pg_temp
ALTER ROLE {writer} NOLOGIN
ALTER ROLE {superuser} PASSWORD 'a'
ALTER ROLE {own_reader} PASSWORD 'a'
ALTER ROLE {own_reader} SET work_mem = '64kB'
ALTER ROLE ALL SET work_mem = '1MB'
DROP ROLE {writer}
GRANT {writer} TO CURRENT_USER
GRANT {superuser} TO CURRENT_USER
GRANT {mine} TO {writer}
GRANT pg_read_server_files TO CURRENT_USER
GRANT pg_execute_server_program TO CURRENT_USER
GRANT pg_monitor TO CURRENT_USER
GRANT pg_signal_backend TO CURRENT_USER
DROP OWNED BY {writer}
REASSIGN OWNED BY {writer} TO CURRENT_USER
REASSIGN OWNED BY CURRENT_USER TO {writer}
ALTER TABLE mine OWNER TO {writer}
ALTER DEFAULT PRIVILEGES FOR ROLE {writer} GRANT SELECT ON TABLES TO PUBLIC

-- theme: the configuration of the server
ALTER SYSTEM SET work_mem = '1GB'
ALTER SYSTEM RESET ALL
SELECT pg_reload_conf()
SELECT pg_rotate_logfile()
SELECT pg_promote()
SELECT pg_switch_wal()
SELECT pg_create_restore_point('p')
SELECT pg_backup_start('b')
CHECKPOINT
SET session_replication_role = replica
SET log_statement = 'none'
SET log_min_duration_statement = 0
SET temp_file_limit = '-1'
SET max_connections = 1
SET shared_buffers = '1MB'
SET session_preload_libraries = 'auto_explain'
SET allow_system_table_mods = on
SET zero_damaged_pages = on
SELECT set_config('allow_system_table_mods', 'on', true)
SELECT pg_stat_reset()
SELECT pg_stat_reset_shared('bgwriter')
SELECT pg_log_backend_memory_contexts(1)
SELECT pg_export_snapshot()
GRANT SET ON PARAMETER session_replication_role TO CURRENT_USER

-- theme: the catalogs
SELECT * FROM pg_authid
SELECT * FROM pg_shadow
SELECT * FROM pg_largeobject
SELECT * FROM pg_statistic
SELECT * FROM pg_user_mapping
SELECT * FROM pg_subscription
SELECT * FROM pg_database
SELECT * FROM pg_roles
SELECT * FROM pg_auth_members
SELECT * FROM pg_shdepend
SELECT * FROM pg_shdescription
SELECT * FROM pg_stat_activity
SELECT * FROM pg_locks
SELECT pg_database_size('{database}')
UPDATE pg_class SET relowner = relowner
UPDATE pg_catalog.pg_database SET datname = 'a'
DELETE FROM pg_catalog.pg_database
INSERT INTO pg_proc SELECT * FROM pg_proc
CREATE TABLE pg_catalog.t (n int)
CREATE TABLE information_schema.t (n int)
CREATE TABLE pg_toast.t (n int)
CREATE RULE r AS ON SELECT TO pg_catalog.pg_database DO INSTEAD NOTHING
CREATE TRIGGER t BEFORE INSERT ON pg_catalog.pg_database EXECUTE FUNCTION suppress_redundant_updates_trigger()
CREATE POLICY p ON pg_catalog.pg_database USING (true)
CREATE INDEX ON pg_catalog.pg_database (datname)
CREATE TABLE child () INHERITS (pg_catalog.pg_database)
ALTER TABLE pg_catalog.pg_database OWNER TO CURRENT_USER
CREATE OR REPLACE VIEW pg_catalog.pg_roles AS SELECT 1
DROP VIEW pg_catalog.pg_roles CASCADE
DROP TABLE pg_catalog.pg_database CASCADE

-- theme: the service's own schema
CREATE TABLE _cdp.mine (n int)
CREATE FUNCTION _cdp.mine() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$
CREATE OR REPLACE FUNCTION _cdp.uuid_v7() RETURNS uuid LANGUAGE sql AS $$ SELECT NULL::uuid $$
ALTER FUNCTION _cdp.uuid_v7() RENAME TO other
ALTER FUNCTION _cdp.uuid_v7() OWNER TO CURRENT_USER
ALTER FUNCTION _cdp.uuid_v7() SET search_path = data
DROP FUNCTION _cdp.uuid_v7() CASCADE
SELECT * FROM _cdp.migrations
INSERT INTO _cdp.migrations VALUES (1000, 'a', now())
DELETE FROM _cdp.migrations
TRUNCATE _cdp.idempotency_keys
DROP TABLE _cdp.idempotency_keys
ALTER TABLE _cdp.idempotency_keys ADD COLUMN x int
ALTER TABLE _cdp.idempotency_keys DISABLE TRIGGER ALL
CREATE INDEX ON _cdp.idempotency_keys (answer)
CREATE TABLE child () INHERITS (_cdp.idempotency_keys)
CREATE TABLE t (path text, key text, FOREIGN KEY (path, key) REFERENCES _cdp.idempotency_keys)
CREATE TRIGGER t BEFORE INSERT ON _cdp.idempotency_keys EXECUTE FUNCTION suppress_redundant_updates_trigger()
CREATE RULE r AS ON INSERT TO _cdp.idempotency_keys DO INSTEAD NOTHING
CREATE POLICY p ON _cdp.idempotency_keys USING (true)
DROP SCHEMA _cdp CASCADE
ALTER SCHEMA _cdp RENAME TO other
ALTER SCHEMA _cdp OWNER TO CURRENT_USER
DROP SCHEMA data CASCADE
ALTER SCHEMA data OWNER TO CURRENT_USER
