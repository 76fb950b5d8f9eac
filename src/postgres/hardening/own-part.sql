-- What else shows the whole server, replaced by the connected database's own part under the same names: shared catalogs
-- (moved.sql made room), statistics, and names of roles by their numbers. Functions that no restored dump could make,
-- because they stand on moved things, are in pg_catalog, which pg_dump leaves out. Runs after views.sql, as a superuser
-- with allow_system_table_mods and search_path = pg_catalog, and may run again.

-- A table with one row (own-database.sql) and no view: pg_dump reads pg_database and refuses views that are not Postgres's.
CREATE TABLE IF NOT EXISTS pg_database (LIKE _cdp_pg_database);
GRANT SELECT ON pg_database TO PUBLIC;

CREATE OR REPLACE VIEW pg_auth_members AS
  SELECT m.* FROM _cdp_pg_auth_members m
  WHERE m.roleid IN (SELECT r.oid FROM pg_roles r) AND m.member IN (SELECT r.oid FROM pg_roles r);

-- Comments on shared objects are the operator's; nobody else's business.
CREATE OR REPLACE VIEW pg_shdescription AS SELECT d.* FROM _cdp_pg_shdescription d WHERE false;

CREATE OR REPLACE FUNCTION shobj_description(oid, name) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE STRICT
  RETURN CAST(NULL AS text);

CREATE OR REPLACE VIEW pg_shdepend AS
  SELECT d.* FROM _cdp_pg_shdepend d WHERE d.dbid = (SELECT o.oid FROM _cdp_pg_database o WHERE o.datname = current_database());

-- Postgres's own reads pg_shseclabel, too.
CREATE OR REPLACE VIEW pg_seclabels AS
  SELECT l.objoid, l.classoid, l.objsubid, CAST(NULL AS text) AS objtype, CAST(NULL AS oid) AS objnamespace,
    CAST(NULL AS text) COLLATE "C" AS objname, l.provider, l.label
  FROM pg_seclabel l;

GRANT SELECT ON pg_auth_members, pg_shdescription, pg_shdepend, pg_seclabels TO PUBLIC;

-- Statistics come from functions, whose rights are the caller's; hence functions of the service's own in between, each with
-- the view's definition as Postgres has it.
DO $do$
DECLARE
  stock record;
BEGIN
  FOR stock IN
    SELECT c.relname AS view, replace(c.relname, 'pg_stat_', '_cdp_own_') AS function, rtrim(pg_get_viewdef(c.oid), ';') AS definition,
      CASE WHEN EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'pid')
        THEN 's.pid IN (SELECT a.pid FROM _cdp_own_activity() a)' ELSE 's.datname = current_database()' END AS own
    FROM pg_class c
    WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind = 'v' AND pg_get_viewdef(c.oid) !~ '\m_cdp_own_'
      AND (c.relname IN ('pg_stat_database', 'pg_stat_ssl', 'pg_stat_gssapi') OR c.relname LIKE 'pg\_stat\_progress\_%')
  LOOP
    EXECUTE format('CREATE OR REPLACE FUNCTION pg_catalog.%I() RETURNS SETOF pg_catalog.%I LANGUAGE sql STABLE SECURITY DEFINER
      SET search_path = pg_catalog, pg_temp BEGIN ATOMIC SELECT s.* FROM (%s) s WHERE %s; END',
      stock.function, stock.view, stock.definition, stock.own);
    EXECUTE format('CREATE OR REPLACE VIEW pg_catalog.%I AS SELECT * FROM pg_catalog.%I()', stock.view, stock.function);
    EXECUTE format('GRANT SELECT ON pg_catalog.%I TO PUBLIC', stock.view);
  END LOOP;
END
$do$;

-- Names of roles by their numbers. Views of Postgres that call a moved function call the new one of its name afterwards.
DO $do$
DECLARE
  views text[] := ARRAY(
    SELECT format('CREATE OR REPLACE VIEW %s %s AS %s', c.oid::regclass,
      CASE WHEN c.reloptions IS NULL THEN '' ELSE 'WITH (' || array_to_string(c.reloptions, ', ') || ')' END, pg_get_viewdef(c.oid))
    FROM pg_class c
    WHERE c.relkind = 'v' AND c.relnamespace IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
      AND pg_get_viewdef(c.oid) ~ '\m(pg_get_userbyid|acldefault)\(');
  moved record;
  view text;
BEGIN
  FOR moved IN
    SELECT p.oid::regprocedure AS signature, p.proname AS name, pg_get_function_identity_arguments(p.oid) AS arguments
    FROM pg_proc p
    WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.oid < 16384
      AND p.proname IN ('pg_get_userbyid', 'acldefault', 'pg_database_size', 'pg_tablespace_location')
  LOOP
    EXECUTE format('ALTER FUNCTION %s RENAME TO %I', moved.signature, '_cdp_' || moved.name);
    EXECUTE format('REVOKE ALL ON FUNCTION %I(%s) FROM PUBLIC', '_cdp_' || moved.name, moved.arguments);
    DELETE FROM pg_init_privs WHERE objoid = moved.signature AND classoid = 'pg_proc'::regclass;
    INSERT INTO pg_init_privs (objoid, classoid, objsubid, privtype, initprivs)
    SELECT p.oid, 'pg_proc'::regclass, 0, 'i', p.proacl FROM pg_proc p WHERE p.oid = moved.signature;
  END LOOP;

  CREATE OR REPLACE FUNCTION pg_get_userbyid(oid) RETURNS name LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN coalesce((SELECT r.rolname FROM pg_roles r WHERE r.oid = $1), CAST('unknown (OID=' || $1 || ')' AS name));

  CREATE OR REPLACE FUNCTION acldefault("char", oid) RETURNS aclitem[] LANGUAGE sql STABLE STRICT PARALLEL SAFE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    RETURN CASE WHEN EXISTS (SELECT FROM pg_roles r WHERE r.oid = $2) THEN _cdp_acldefault($1, $2) END;

  CREATE OR REPLACE FUNCTION pg_database_size(name) RETURNS bigint LANGUAGE sql VOLATILE STRICT PARALLEL SAFE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    RETURN CASE WHEN $1 = current_database() THEN _cdp_pg_database_size($1) END;

  CREATE OR REPLACE FUNCTION pg_database_size(oid) RETURNS bigint LANGUAGE sql VOLATILE STRICT PARALLEL SAFE
    RETURN pg_database_size((SELECT d.datname FROM pg_database d WHERE d.oid = $1));

  CREATE OR REPLACE FUNCTION pg_tablespace_location(oid) RETURNS text LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN '';

  FOREACH view IN ARRAY views LOOP
    EXECUTE view;
  END LOOP;
END
$do$;

-- The output of a type is not asked for rights, so a regrole is written as its number; a cast to text still gives the name.
UPDATE pg_type SET typoutput = 'oidout'::regproc WHERE oid = 'regrole'::regtype AND typoutput <> 'oidout'::regproc;
CREATE OR REPLACE FUNCTION _cdp.role_name(regrole) RETURNS text LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN (SELECT coalesce((SELECT quote_ident(r.rolname) FROM pg_roles r WHERE r.oid = CAST($1 AS oid)), CAST(CAST($1 AS oid) AS text)));
DO $do$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_cast WHERE castsource = 'regrole'::regtype AND casttarget = 'text'::regtype) THEN
    CREATE CAST (regrole AS text) WITH FUNCTION _cdp.role_name(regrole) AS ASSIGNMENT;
  END IF;
END
$do$;

-- A condition of the caller that costs little is asked before a view's own, of rows that the view is about to leave out; and
-- operators of the caller see samples of them in statistics. Hence what reads shared catalogs, by whatever views, is a barrier.
DO $do$
DECLARE
  view regclass;
BEGIN
  FOR view IN
    WITH RECURSIVE reads (view, relation) AS MATERIALIZED (
      -- pg_depend has nothing of what initdb made.
      SELECT r.ev_class, m.numbers[1]::oid
      FROM pg_rewrite r, regexp_matches(r.ev_action::text, ':relid ([0-9]+)', 'g') AS m (numbers)
    ), shared (oid) AS (
      SELECT c.oid FROM pg_class c WHERE c.relisshared AND c.relkind = 'r'
      UNION
      SELECT r.view FROM shared s JOIN reads r ON r.relation = s.oid
    )
    SELECT c.oid FROM shared JOIN pg_class c USING (oid)
    WHERE c.relkind = 'v' AND c.relnamespace IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
      AND NOT coalesce(c.reloptions, '{}') @> '{security_barrier=true}'
  LOOP
    -- Postgres takes a UNION ALL apart, barrier or not, unless there is a query around it.
    IF pg_get_viewdef(view) ~ '\mUNION ALL\M' THEN
      EXECUTE format('CREATE OR REPLACE VIEW %s AS SELECT u.* FROM (%s) u', view, rtrim(pg_get_viewdef(view), ';'));
    END IF;
    EXECUTE format('ALTER VIEW %s SET (security_barrier = true)', view);
  END LOOP;
END
$do$;
