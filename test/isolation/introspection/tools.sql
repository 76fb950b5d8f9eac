-- What drivers and desktop tools ask: JDBC (Hibernate, Metabase, DBeaver, DataGrip), pgAdmin, PostgREST. In our own words;
-- "-- ask:" begins a question, "-- shows:" lists what the answer must contain.

-- ask: JDBC getTables
-- shows: customers, people who buy, open_orders, {database}
SELECT current_database() AS "TABLE_CAT", n.nspname AS "TABLE_SCHEM", c.relname AS "TABLE_NAME",
  CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema' WHEN true THEN 'SYSTEM' ELSE c.relkind::text END AS "TABLE_TYPE",
  d.description AS "REMARKS"
FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE c.relnamespace = n.oid AND n.nspname LIKE 'data'
ORDER BY "TABLE_TYPE", "TABLE_SCHEM", "TABLE_NAME";

-- ask: JDBC getColumns
-- shows: email, where invoices go
SELECT * FROM (
  SELECT current_database(), n.nspname, c.relname, a.attname, a.atttypid, a.attnotnull OR t.typtype = 'd' AND t.typnotnull AS attnotnull,
    a.atttypmod, a.attlen, t.typtypmod, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum,
    nullif(a.attidentity, '') AS attidentity, nullif(a.attgenerated, '') AS attgenerated,
    pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc, dsc.description, t.typbasetype, t.typtype
  FROM pg_catalog.pg_namespace n
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
  JOIN pg_catalog.pg_type t ON a.atttypid = t.oid
  LEFT JOIN pg_catalog.pg_attrdef def ON a.attrelid = def.adrelid AND a.attnum = def.adnum
  LEFT JOIN pg_catalog.pg_description dsc ON c.oid = dsc.objoid AND a.attnum = dsc.objsubid
  LEFT JOIN pg_catalog.pg_class dc ON dc.oid = dsc.classoid AND dc.relname = 'pg_class'
  LEFT JOIN pg_catalog.pg_namespace dn ON dc.relnamespace = dn.oid AND dn.nspname = 'pg_catalog'
  WHERE c.relkind IN ('r', 'p', 'v', 'f', 'm') AND a.attnum > 0 AND NOT a.attisdropped AND n.nspname LIKE 'data') c
WHERE relname LIKE 'customers'
ORDER BY nspname, c.relname, attnum;

-- ask: JDBC getPrimaryKeys
-- shows: customers_pkey, id
SELECT result.table_cat, result.table_name, result.column_name, result.key_seq, result.pk_name
FROM (
  SELECT current_database() AS table_cat, n.nspname AS table_schem, ct.relname AS table_name, a.attname AS column_name,
    (information_schema._pg_expandarray(i.indkey)).n AS key_seq, ci.relname AS pk_name,
    information_schema._pg_expandarray(i.indkey) AS keys, a.attnum AS a_attnum
  FROM pg_catalog.pg_class ct
  JOIN pg_catalog.pg_attribute a ON ct.oid = a.attrelid
  JOIN pg_catalog.pg_namespace n ON ct.relnamespace = n.oid
  JOIN pg_catalog.pg_index i ON a.attrelid = i.indrelid
  JOIN pg_catalog.pg_class ci ON ci.oid = i.indexrelid
  WHERE n.nspname = 'data' AND ct.relname = 'customers' AND i.indisprimary) result
WHERE result.a_attnum = (result.keys).x
ORDER BY result.table_name, result.pk_name, result.key_seq;

-- ask: JDBC getImportedKeys
-- shows: orders_customer, customers
SELECT pkn.nspname AS pktable_schem, pkc.relname AS pktable_name, pka.attname AS pkcolumn_name, fkc.relname AS fktable_name,
  fka.attname AS fkcolumn_name, pos.n AS key_seq, con.conname AS fk_name, pkic.relname AS pk_name, con.confupdtype, con.confdeltype
FROM pg_catalog.pg_namespace pkn, pg_catalog.pg_class pkc, pg_catalog.pg_attribute pka, pg_catalog.pg_namespace fkn,
  pg_catalog.pg_class fkc, pg_catalog.pg_attribute fka, pg_catalog.pg_constraint con, pg_catalog.generate_series(1, 32) pos (n),
  pg_catalog.pg_class pkic
WHERE pkn.oid = pkc.relnamespace AND pkc.oid = pka.attrelid AND pka.attnum = con.confkey[pos.n] AND con.confrelid = pkc.oid
  AND fkn.oid = fkc.relnamespace AND fkc.oid = fka.attrelid AND fka.attnum = con.conkey[pos.n] AND con.conrelid = fkc.oid
  AND con.contype = 'f' AND (pkic.relkind = 'i' OR pkic.relkind = 'I') AND pkic.oid = con.conindid AND fkc.relname = 'orders'
ORDER BY pkn.nspname, pkc.relname, con.conname, pos.n;

-- ask: JDBC getIndexInfo
-- shows: one_email
SELECT tmp.table_name, tmp.index_name, trim(BOTH '"' FROM pg_catalog.pg_get_indexdef(tmp.ci_oid, tmp.ordinal_position, false)),
  tmp.pages, tmp.cardinality
FROM (
  SELECT ct.relname AS table_name, ci.relname AS index_name, ci.oid AS ci_oid, am.amname, i.indisunique,
    (information_schema._pg_expandarray(i.indkey)).n AS ordinal_position, ci.reltuples AS cardinality, ci.relpages AS pages,
    pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS filter_condition
  FROM pg_catalog.pg_class ct
  JOIN pg_catalog.pg_namespace n ON ct.relnamespace = n.oid
  JOIN pg_catalog.pg_index i ON ct.oid = i.indrelid
  JOIN pg_catalog.pg_class ci ON ci.oid = i.indexrelid
  JOIN pg_catalog.pg_am am ON ci.relam = am.oid
  WHERE n.nspname = 'data' AND ct.relname = 'customers') AS tmp;

-- ask: JDBC getSchemas and getCatalogs
-- shows: data, {database}
SELECT (SELECT json_agg(nspname) FROM pg_catalog.pg_namespace
    WHERE nspname <> 'pg_toast' AND (nspname !~ '^pg_temp_' OR nspname = (pg_catalog.current_schemas(true))[1])) AS schemas,
  (SELECT json_agg(datname ORDER BY datname) FROM pg_catalog.pg_database WHERE datallowconn) AS catalogs;

-- ask: JDBC getTablePrivileges
-- shows: customers, {writer}
SELECT n.nspname, c.relname, r.rolname, c.relacl
FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c, pg_catalog.pg_roles r
WHERE c.relnamespace = n.oid AND c.relowner = r.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname = 'data';

-- ask: JDBC getFunctions and getProcedures
-- shows: order_total
SELECT current_database(), n.nspname, p.proname, d.description, pg_catalog.pg_get_function_result(p.oid), p.proname || '_' || p.oid
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON p.pronamespace = n.oid
LEFT JOIN pg_catalog.pg_description d ON p.oid = d.objoid
LEFT JOIN pg_catalog.pg_class c ON d.classoid = c.oid AND c.relname = 'pg_proc'
LEFT JOIN pg_catalog.pg_namespace pn ON c.relnamespace = pn.oid AND pn.nspname = 'pg_catalog'
WHERE n.nspname = 'data';

-- ask: JDBC, the cache of types
-- shows: mood
SELECT typinput = 'pg_catalog.array_in'::regproc AS is_array, typtype, typname, pg_type.oid
FROM pg_catalog.pg_type
LEFT JOIN (
  SELECT ns.oid AS nspoid, ns.nspname, r.r FROM pg_namespace AS ns
  JOIN (SELECT s.r, (current_schemas(false))[s.r] AS nspname
        FROM generate_series(1, array_upper(current_schemas(false), 1)) AS s (r)) AS r USING (nspname)) AS sp
  ON sp.nspoid = typnamespace
ORDER BY sp.r, pg_type.oid DESC;

-- ask: Hibernate, sequences
-- shows: invoice_numbers
SELECT * FROM information_schema.sequences;

-- ask: Metabase, what the user may do
-- shows: customers, order_counts
WITH objects AS (
  SELECT schemaname, tablename AS name, 'table' AS kind FROM pg_catalog.pg_tables
  UNION SELECT schemaname, viewname, 'view' FROM pg_catalog.pg_views
  UNION SELECT schemaname, matviewname, 'matview' FROM pg_catalog.pg_matviews)
SELECT NULL AS role, o.schemaname AS schema, o.name AS "table",
  pg_catalog.has_table_privilege(current_user, format('%I.%I', o.schemaname, o.name), 'SELECT') AS "select",
  pg_catalog.has_any_column_privilege(current_user, format('%I.%I', o.schemaname, o.name), 'UPDATE') AS "update",
  pg_catalog.has_table_privilege(current_user, format('%I.%I', o.schemaname, o.name), 'DELETE') AS "delete"
FROM objects o
WHERE o.schemaname !~ '^pg_' AND o.schemaname <> 'information_schema' AND o.schemaname <> '_cdp'
  AND pg_catalog.has_schema_privilege(current_user, o.schemaname, 'USAGE');

-- ask: Metabase, tables with row estimates and comments
-- shows: customers, people who buy
SELECT n.nspname AS schema, c.relname AS name, c.relkind, d.description, stat.n_live_tup AS estimated_row_count
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid
LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND d.objsubid = 0
LEFT JOIN pg_stat_user_tables stat ON n.nspname = stat.schemaname AND c.relname = stat.relname
WHERE c.relnamespace = n.oid AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND c.relkind IN ('r', 'p', 'v', 'f', 'm');

-- ask: DBeaver, databases
-- shows: {database}
SELECT db.oid, db.* FROM pg_catalog.pg_database db
WHERE datallowconn AND NOT datistemplate OR db.datname = current_database()
ORDER BY db.datname;

-- ask: DBeaver, schemas
-- shows: data
SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n
LEFT JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass
ORDER BY nspname;

-- ask: DBeaver, roles
-- shows: {writer}
SELECT a.oid, a.*, pd.description FROM pg_catalog.pg_roles a
LEFT JOIN pg_catalog.pg_shdescription pd ON a.oid = pd.objoid
ORDER BY a.rolname;

-- ask: DBeaver, tablespaces
-- shows: pg_default
SELECT t.oid, t.*, pg_tablespace_location(t.oid) AS loc FROM pg_catalog.pg_tablespace t ORDER BY t.oid;

-- ask: DBeaver, tables
-- shows: customers, people who buy
SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr,
  pg_catalog.pg_get_partkeydef(c.oid) AS partition_key, pg_catalog.pg_total_relation_size(c.oid) AS total_rel_size
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE c.relnamespace = 'data'::regnamespace AND c.relkind NOT IN ('i', 'I', 'c');

-- ask: DBeaver, sessions
-- shows: {role}
SELECT sa.* FROM pg_catalog.pg_stat_activity sa;

-- ask: DBeaver, locks
-- shows: AccessShareLock
SELECT blocked.pid AS blocked_pid, blocked.mode, activity.usename, activity.query, other.pid AS other_pid
FROM pg_catalog.pg_locks blocked
LEFT JOIN pg_catalog.pg_stat_activity activity ON blocked.pid = activity.pid
LEFT JOIN pg_catalog.pg_locks other ON other.transactionid = blocked.transactionid AND other.pid <> blocked.pid;

-- ask: DBeaver, privileges of a table
-- shows: {writer}
SELECT * FROM information_schema.table_privileges WHERE table_schema = 'data' AND table_name = 'customers';

-- ask: DataGrip, databases
-- shows: {database}
SELECT n.oid::bigint AS id, datname AS name, d.description, datistemplate AS is_template, datallowconn AS allow_connections,
  pg_catalog.pg_get_userbyid(n.datdba) AS owner
FROM pg_catalog.pg_database n
LEFT JOIN pg_catalog.pg_shdescription d ON n.oid = d.objoid
ORDER BY CASE WHEN datname = pg_catalog.current_database() THEN -1::bigint ELSE n.oid::bigint END;

-- ask: DataGrip, roles and their groups
-- shows: {writer}
SELECT r.oid::bigint AS role_id, rolname AS role_name, rolsuper AS is_super, rolconfig AS config,
  (SELECT json_agg(json_build_array(m.roleid::bigint, g.rolname, m.admin_option)) FROM pg_catalog.pg_auth_members m
   JOIN pg_catalog.pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid) AS groups
FROM pg_catalog.pg_roles r
ORDER BY rolname;

-- ask: pgAdmin, at the connection
-- shows: {database}, UTF8
SELECT db.oid AS did, db.datname, db.datallowconn, pg_encoding_to_char(db.encoding) AS serverencoding,
  has_database_privilege(db.oid, 'CREATE') AS cancreate, datistemplate
FROM pg_catalog.pg_database db
WHERE db.datname = current_database();

-- ask: pgAdmin, who I am
-- shows: {role}
SELECT roles.oid AS id, roles.rolname AS name, roles.rolsuper AS is_superuser,
  CASE WHEN roles.rolsuper THEN true ELSE roles.rolcreaterole END AS can_create_role,
  'pg_signal_backend' = ANY (ARRAY(
    WITH RECURSIVE groups AS (
      SELECT pg_roles.oid, pg_roles.rolname FROM pg_roles WHERE pg_roles.oid = roles.oid
      UNION ALL
      SELECT m.roleid, g.rolname FROM groups JOIN pg_auth_members m ON m.member = groups.oid JOIN pg_roles g ON g.oid = m.roleid)
    SELECT rolname FROM groups)) AS can_signal_backend
FROM pg_catalog.pg_roles AS roles
WHERE rolname = current_user;

-- ask: pgAdmin, how the connection is protected
SELECT gss_authenticated, encrypted FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid();

-- ask: pgAdmin, the tree of databases
-- shows: {database}
SELECT db.oid AS did, db.datname AS name, ta.spcname AS spcname, db.datallowconn, db.datistemplate AS is_template,
  pg_catalog.has_database_privilege(db.oid, 'CREATE') AS cancreate, datdba AS owner, descr.description
FROM pg_catalog.pg_database db
LEFT JOIN pg_catalog.pg_tablespace ta ON db.dattablespace = ta.oid
LEFT JOIN pg_catalog.pg_shdescription descr ON db.oid = descr.objoid AND descr.classoid = 'pg_database'::regclass
ORDER BY datname;

-- ask: pgAdmin, tables
-- shows: customers, people who buy, {writer}
SELECT rel.oid, rel.relname AS name, (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid = rel.oid AND NOT tgisinternal) AS triggers,
  pg_catalog.pg_get_userbyid(rel.relowner) AS relowner, spc.spcname, rel.relacl, des.description, rel.reloptions,
  (SELECT pg_catalog.array_agg(provider || '=' || label) FROM pg_catalog.pg_seclabels sl1 WHERE sl1.objoid = rel.oid AND sl1.objsubid = 0) AS seclabels
FROM pg_catalog.pg_class rel
LEFT JOIN pg_catalog.pg_tablespace spc ON spc.oid = rel.reltablespace
LEFT JOIN pg_catalog.pg_description des ON des.objoid = rel.oid AND des.objsubid = 0 AND des.classoid = 'pg_class'::regclass
WHERE rel.relkind IN ('r', 's', 't', 'p') AND rel.relnamespace = 'data'::regnamespace
ORDER BY rel.relname;

-- ask: pgAdmin, who depends on a table
SELECT dep.deptype, dep.refclassid::regclass, ad.adrelid, cl.relkind, cl.relname
FROM pg_catalog.pg_depend dep
LEFT JOIN pg_catalog.pg_class cl ON dep.objid = cl.oid
LEFT JOIN pg_catalog.pg_attrdef ad ON ad.oid = dep.objid
WHERE dep.refobjid = 'customers'::regclass
UNION ALL
SELECT dep.deptype, dep.classid::regclass, NULL, NULL, r.rolname
FROM pg_catalog.pg_shdepend dep
LEFT JOIN pg_catalog.pg_roles r ON dep.refclassid = 'pg_authid'::regclass AND dep.refobjid = r.oid
WHERE dep.objid = 'customers'::regclass;

-- ask: pgAdmin, privileges of a table
-- shows: {reader}, SELECT
SELECT a.privilege_type, pg_catalog.pg_get_userbyid(a.grantee) AS grantee, pg_catalog.pg_get_userbyid(a.grantor) AS grantor, a.is_grantable
FROM pg_catalog.pg_class c, pg_catalog.aclexplode(coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))) a
WHERE c.oid = 'customers'::regclass;

-- ask: pgAdmin, the dashboard
-- shows: {database}
SELECT datname, numbackends, xact_commit, xact_rollback, tup_returned
FROM pg_catalog.pg_stat_database
WHERE datname = current_database();

-- ask: PostgREST, settings of roles
WITH role_setting AS (
  SELECT r.rolname, unnest(r.rolconfig) AS setting FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid
  WHERE member = current_user::regrole::oid)
SELECT rolname, array_agg(setting) FROM role_setting GROUP BY rolname;

-- ask: PostgREST, tables and views
-- shows: customers, people who buy, open_orders
SELECT n.nspname AS table_schema, c.relname AS table_name, d.description, c.relkind IN ('v', 'm') AS is_view,
  c.relkind IN ('r', 'p') OR (pg_relation_is_updatable(c.oid::regclass, true) & 8) = 8 AS insertable,
  (SELECT json_agg(json_build_array(a.attname, des.description, NOT a.attnotnull, format_type(a.atttypid, a.atttypmod),
     pg_get_expr(ad.adbin, ad.adrelid)) ORDER BY a.attnum)
   FROM pg_attribute a LEFT JOIN pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum
   LEFT JOIN pg_description des ON des.objoid = a.attrelid AND des.objsubid = a.attnum
   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE c.relkind IN ('v', 'r', 'm', 'f', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND NOT c.relispartition;

-- ask: PostgREST, functions
-- shows: order_total
SELECT pn.nspname AS proc_schema, p.proname, d.description AS proc_description, pg_get_function_arguments(p.oid), p.provariadic, p.provolatile,
  (SELECT unnest(p.proconfig) LIMIT 1) AS settings
FROM pg_proc p
JOIN pg_namespace pn ON pn.oid = p.pronamespace
JOIN pg_type t ON t.oid = p.prorettype
LEFT JOIN pg_class comp ON comp.oid = t.typrelid
LEFT JOIN pg_description d ON d.objoid = p.oid AND d.classoid = 'pg_proc'::regclass
WHERE t.oid <> 'trigger'::regtype AND pn.nspname = ANY (ARRAY['data']) AND p.prokind IN ('f', 'p');

-- ask: PostgREST, relationships and representations
-- shows: orders_customer
SELECT c.conname, ns1.nspname, tab.relname, ns2.nspname AS foreign_schema, other.relname AS foreign_table,
  (SELECT count(*) FROM pg_timezone_names) > 0 AS zones, (SELECT count(*) FROM pg_cast) > 0 AS casts
FROM pg_constraint c
JOIN pg_class tab ON tab.oid = c.conrelid JOIN pg_namespace ns1 ON ns1.oid = tab.relnamespace
JOIN pg_class other ON other.oid = c.confrelid JOIN pg_namespace ns2 ON ns2.oid = other.relnamespace
WHERE c.contype = 'f' AND c.conparentid = 0;

-- ask: Npgsql (Power BI), the types
-- shows: mood, positive, int4range
SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid
FROM (
  SELECT typ.oid, typ.typnamespace, typ.typname, typ.typnotnull, typ.typrelid,
    CASE WHEN typ.typinput = 'array_in'::regproc THEN 'a' ELSE typ.typtype END AS typtype,
    CASE WHEN typ.typinput = 'array_in'::regproc THEN typ.typelem WHEN typ.typtype = 'r' THEN r.rngsubtype
      WHEN typ.typtype = 'm' THEN (SELECT x.rngtypid FROM pg_catalog.pg_range x WHERE x.rngmultitypid = typ.oid)
      WHEN typ.typtype = 'd' THEN typ.typbasetype END AS elemtypoid
  FROM pg_catalog.pg_type typ LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = typ.oid) t
JOIN pg_catalog.pg_namespace ns ON ns.oid = t.typnamespace
LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
WHERE t.typtype IN ('b', 'r', 'm', 'e', 'd') OR t.typtype = 'c' AND c.relkind = 'c' OR t.typtype = 'a'
ORDER BY t.typtype, t.oid;

-- ask: Npgsql (Power BI), fields of composite types and labels of enums
-- shows: street, merry
SELECT t.oid, a.attname AS part, a.atttypid::text AS detail FROM pg_catalog.pg_type t
JOIN pg_catalog.pg_class c ON c.oid = t.typrelid AND c.relkind = 'c'
JOIN pg_catalog.pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT enumtypid, enumlabel, enumsortorder::text FROM pg_catalog.pg_enum;

-- ask: Power BI, tables and columns
-- shows: customers, email
SELECT t.table_schema, t.table_name, t.table_type, c.column_name, c.ordinal_position, c.is_nullable,
  CASE WHEN c.udt_schema NOT IN ('pg_catalog', 'information_schema') THEN c.udt_name ELSE c.data_type END AS data_type
FROM information_schema.tables t JOIN information_schema.columns c USING (table_schema, table_name)
WHERE t.table_schema NOT IN ('information_schema', 'pg_catalog');

-- ask: Grafana, the version, and tables of the search path
-- shows: customers, orders
SELECT current_setting('server_version_num')::int / 100 AS version, quote_ident(t.table_name) AS "table"
FROM information_schema.tables t
WHERE quote_ident(t.table_schema) IN (
  SELECT CASE WHEN trim(part) = '"$user"' THEN "current_user"()::text ELSE trim(part) END
  FROM unnest(string_to_array(current_setting('search_path'), ',')) AS part)
ORDER BY 2;

-- ask: Grafana, columns that are times
-- shows: day
SELECT quote_ident(column_name) AS "column", data_type FROM information_schema.columns
WHERE table_name = 'events' AND data_type IN ('timestamp without time zone', 'timestamp with time zone', 'date');

-- ask: Grafana, the schemas (its postgresMetaQuery.ts)
-- shows: data
SELECT current_setting('server_version_num')::int / 100 AS version, schema_name AS name,
  (SELECT extversion FROM pg_extension WHERE extname = 'timescaledb') AS timescaledb
FROM information_schema.schemata
WHERE schema_name NOT IN ('information_schema', 'pg_catalog', 'pg_toast', '_timescaledb_cache', '_timescaledb_catalog')
ORDER BY schema_name;

-- ask: Grafana, the columns of a table of the search path (its postgresMetaQuery.ts)
-- shows: email, text
SELECT quote_ident(column_name) AS "column", data_type AS type
FROM information_schema.columns
WHERE CASE
  WHEN array_length(parse_ident('customers'), 1) = 2
  THEN quote_ident(table_schema) = (parse_ident('customers'))[1] AND quote_ident(table_name) = (parse_ident('customers'))[2]
  ELSE quote_ident(table_name) = 'customers' AND quote_ident(table_schema) IN (
    SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
    FROM generate_series(1, array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
      string_to_array(current_setting('search_path'), ',') AS s) END;

-- ask: Metabase, fields with comments (its driver/postgres.clj)
-- shows: email, where invoices go, order_counts
SELECT c.column_name AS name, CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN format('%s', c.udt_name)
    ELSE format('"%s"."%s"', c.udt_schema, c.udt_name) END AS database_type, c.ordinal_position - 1 AS database_position,
  c.table_schema, c.table_name, pk.column_name IS NOT NULL AS is_pk,
  col_description(CAST(CAST(format('%I.%I', CAST(c.table_schema AS text), CAST(c.table_name AS text)) AS regclass) AS oid),
    c.ordinal_position) AS field_comment,
  (column_default IS NULL OR lower(column_default) = 'null') AND is_nullable = 'NO' AND is_identity = 'NO' AS database_required
FROM information_schema.columns c
LEFT JOIN (
  SELECT tc.table_schema, tc.table_name, kc.column_name FROM information_schema.table_constraints tc
  JOIN information_schema.key_column_usage kc
    ON tc.constraint_name = kc.constraint_name AND tc.table_schema = kc.table_schema AND tc.table_name = kc.table_name
  WHERE tc.constraint_type = 'PRIMARY KEY') pk
  ON c.table_schema = pk.table_schema AND c.table_name = pk.table_name AND c.column_name = pk.column_name
WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND c.table_schema = 'data'
UNION ALL
SELECT pa.attname, format('%s', pt.typname), pa.attnum - 1, pn.nspname, pc.relname, false, NULL, false
FROM pg_catalog.pg_class pc
JOIN pg_catalog.pg_namespace pn ON pn.oid = pc.relnamespace
JOIN pg_catalog.pg_attribute pa ON pa.attrelid = pc.oid
JOIN pg_catalog.pg_type pt ON pt.oid = pa.atttypid
WHERE pc.relkind = 'm' AND pa.attnum >= 1 AND pn.nspname = 'data'
ORDER BY table_schema, table_name, database_position;

-- ask: Metabase, foreign keys (its driver/postgres.clj)
-- shows: orders, customers, customer
SELECT fk_ns.nspname, fk_table.relname, fk_column.attname, pk_ns.nspname, pk_table.relname, pk_column.attname
FROM pg_constraint c
JOIN pg_class fk_table ON c.conrelid = fk_table.oid
JOIN pg_namespace fk_ns ON c.connamespace = fk_ns.oid
JOIN pg_attribute fk_column ON c.conrelid = fk_column.attrelid
JOIN pg_class pk_table ON c.confrelid = pk_table.oid
JOIN pg_namespace pk_ns ON pk_table.relnamespace = pk_ns.oid
JOIN pg_attribute pk_column ON c.confrelid = pk_column.attrelid
WHERE fk_ns.nspname !~ '^information_schema|catalog_history|pg_' AND c.contype = 'f'::char
  AND fk_column.attnum = ANY (c.conkey) AND pk_column.attnum = ANY (c.confkey)
ORDER BY 1, 2;

-- ask: Metabase, indexes that begin with a column, and enums (its driver/postgres.clj)
-- shows: email, mood
SELECT tmp.nspname, tmp.relname, trim(BOTH '"' FROM pg_catalog.pg_get_indexdef(tmp.oid, tmp.pos, false)),
  (SELECT json_agg(t.typname) FROM pg_type t WHERE t.oid IN (SELECT DISTINCT enumtypid FROM pg_enum)) AS enums
FROM (
  SELECT n.nspname, ct.relname, ci.oid, (information_schema._pg_expandarray(i.indkey)).n AS pos
  FROM pg_catalog.pg_class ct
  JOIN pg_catalog.pg_namespace n ON ct.relnamespace = n.oid
  JOIN pg_catalog.pg_index i ON ct.oid = i.indrelid
  JOIN pg_catalog.pg_class ci ON ci.oid = i.indexrelid
  WHERE pg_catalog.pg_get_expr(i.indpred, i.indrelid) IS NULL AND n.nspname = 'data') tmp
WHERE tmp.pos = 1;

-- ask: dlt and Airbyte, what is there
-- shows: customers, email
SELECT table_name, column_name, ordinal_position, is_nullable, data_type, numeric_precision, numeric_scale, udt_name,
  (SELECT count(*) FROM information_schema.schemata WHERE catalog_name = current_database() AND schema_name = 'data') AS schemas,
  EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = 'data' AND table_name = 'orders') AS has_orders
FROM information_schema.columns
WHERE table_catalog = current_database() AND table_schema = 'data' AND table_name IN ('customers', 'orders')
ORDER BY table_name, ordinal_position;
