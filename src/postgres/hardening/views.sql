-- Views of the catalog that show the whole server, replaced by ones that show the connected database's own part, so that
-- whatever reads them goes on working: psql, ORMs, people. Same columns as Postgres's own, which is why each begins
-- with the one that it replaces. Runs as a superuser with allow_system_table_mods, and again whenever it has changed.

-- The project's roles: the group named like the database and its members; and what every server has: the superuser that
-- initdb made and Postgres's predefined roles (numbers below 16384), and the owner of the database.
CREATE OR REPLACE VIEW pg_catalog.pg_roles AS
  SELECT r.rolname, r.rolsuper, r.rolinherit, r.rolcreaterole, r.rolcreatedb, r.rolcanlogin, r.rolreplication,
    r.rolconnlimit, '********'::text AS rolpassword, r.rolvaliduntil, r.rolbypassrls, s.setconfig AS rolconfig, r.oid
  FROM pg_catalog.pg_authid r
  LEFT JOIN pg_catalog.pg_db_role_setting s ON s.setrole = r.oid AND s.setdatabase = 0::oid
  WHERE r.oid < 16384
    OR r.rolname = pg_catalog.current_database()
    OR r.oid = (SELECT d.datdba FROM pg_catalog._cdp_pg_database d WHERE d.datname = pg_catalog.current_database())
    OR r.oid IN (SELECT m.member FROM pg_catalog._cdp_pg_auth_members m JOIN pg_catalog.pg_authid g ON g.oid = m.roleid
                 WHERE g.rolname = pg_catalog.current_database());

CREATE OR REPLACE VIEW pg_catalog.pg_user AS
  SELECT u.usename, u.usesysid, u.usecreatedb, u.usesuper, u.userepl, u.usebypassrls, '********'::text AS passwd,
    u.valuntil, u.useconfig
  FROM pg_catalog.pg_shadow u
  WHERE u.usesysid IN (SELECT r.oid FROM pg_catalog.pg_roles r);

CREATE OR REPLACE VIEW pg_catalog.pg_group AS
  SELECT g.rolname AS groname, g.oid AS grosysid,
    ARRAY(SELECT m.member FROM pg_catalog._cdp_pg_auth_members m JOIN pg_catalog.pg_roles r ON r.oid = m.member
          WHERE m.roleid = g.oid) AS grolist
  FROM pg_catalog.pg_authid g
  WHERE NOT g.rolcanlogin AND g.oid IN (SELECT r.oid FROM pg_catalog.pg_roles r);

GRANT SELECT ON pg_catalog.pg_roles, pg_catalog.pg_user, pg_catalog.pg_group TO PUBLIC;

-- What runs, and what it has locked. The functions behind these views show the whole server and are closed to the
-- project (exposed.sql), hence some that run as their owner. Only the project's own sessions: the service's, in the same
-- database, may be setting a password.
CREATE OR REPLACE FUNCTION pg_catalog._cdp_own_activity() RETURNS SETOF pg_catalog.pg_stat_activity
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT s.datid, d.datname, s.pid, s.leader_pid, s.usesysid, u.rolname, s.application_name, s.client_addr,
    s.client_hostname, s.client_port, s.backend_start, s.xact_start, s.query_start, s.state_change, s.wait_event_type,
    s.wait_event, s.state, s.backend_xid, s.backend_xmin, s.query_id, s.query, s.backend_type
  FROM pg_stat_get_activity(NULL) s
  JOIN _cdp_pg_database d ON d.oid = s.datid
  JOIN pg_authid u ON u.oid = s.usesysid
  WHERE d.datname = current_database()
    AND s.usesysid IN (SELECT m.member FROM _cdp_pg_auth_members m JOIN pg_authid g ON g.oid = m.roleid
                       WHERE g.rolname = current_database())
    AND NOT u.rolsuper;
END;

CREATE OR REPLACE FUNCTION pg_catalog._cdp_own_locks() RETURNS SETOF pg_catalog.pg_locks
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT l.*
  FROM pg_lock_status() l
  WHERE l.pid IN (SELECT a.pid FROM pg_catalog._cdp_own_activity() a);
END;

-- What SQL has prepared. The service's own go by names that a trigger must not learn: it could replace them.
CREATE OR REPLACE FUNCTION pg_catalog._cdp_own_prepared() RETURNS SETOF pg_catalog.pg_prepared_statements
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT p.* FROM pg_prepared_statement() p WHERE p.from_sql;
END;

CREATE OR REPLACE VIEW pg_catalog.pg_stat_activity AS SELECT * FROM pg_catalog._cdp_own_activity();
CREATE OR REPLACE VIEW pg_catalog.pg_locks AS SELECT * FROM pg_catalog._cdp_own_locks();
CREATE OR REPLACE VIEW pg_catalog.pg_prepared_statements AS SELECT * FROM pg_catalog._cdp_own_prepared();
GRANT SELECT ON pg_catalog.pg_stat_activity, pg_catalog.pg_locks, pg_catalog.pg_prepared_statements TO PUBLIC;

-- It reads pg_database as its invoker; this equivalent does not, so information_schema.columns goes on working.
CREATE OR REPLACE FUNCTION information_schema._pg_char_octet_length(typid oid, typmod int4) RETURNS integer
  LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURNS NULL ON NULL INPUT
  RETURN CASE WHEN $1 IN (25, 1042, 1043) THEN
    CASE WHEN $2 = -1 THEN CAST(2 ^ 30 AS integer)
    ELSE information_schema._pg_char_max_length($1, $2)
      * pg_catalog.pg_encoding_max_length(pg_catalog.pg_char_to_encoding(pg_catalog.getdatabaseencoding())) END
    ELSE null END;
