-- What psql asks (psql -E), in our own words. "-- ask:" begins a question, "-- shows:" lists what the answer must contain.

-- ask: \d
-- shows: customers, orders, open_orders, order_counts, invoice_numbers, events
SELECT n.nspname AS "Schema", c.relname AS "Name", c.relkind AS "Type", pg_catalog.pg_get_userbyid(c.relowner) AS "Owner"
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f', '') AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast'
  AND n.nspname <> 'information_schema' AND pg_catalog.pg_table_is_visible(c.oid)
ORDER BY 1, 2;

-- ask: \d customers, which table
-- shows: customers
SELECT c.oid, n.nspname, c.relname
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname OPERATOR(pg_catalog.~) '^(customers)$' COLLATE pg_catalog.default AND pg_catalog.pg_table_is_visible(c.oid)
ORDER BY 2, 3;

-- ask: \d customers, the table
-- shows: heap
SELECT c.relchecks, c.relkind, c.relhasindex, c.relhasrules, c.relhastriggers, c.relrowsecurity, c.relforcerowsecurity,
  c.relispartition, pg_catalog.array_to_string(c.reloptions || array(
    SELECT 'toast.' || x FROM pg_catalog.unnest(tc.reloptions) x), ', ') AS options, c.reltablespace,
  CASE WHEN c.reloftype = 0 THEN '' ELSE c.reloftype::pg_catalog.regtype::pg_catalog.text END AS of_type, c.relpersistence,
  c.relreplident, am.amname
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_class tc ON c.reltoastrelid = tc.oid
LEFT JOIN pg_catalog.pg_am am ON c.relam = am.oid
WHERE c.oid = 'customers'::regclass;

-- ask: \d+ customers, the columns
-- shows: id, email, uuid_v7, where invoices go
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
  (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d
   WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef) AS default_value,
  a.attnotnull,
  (SELECT c.collname FROM pg_catalog.pg_collation c, pg_catalog.pg_type t
   WHERE c.oid = a.attcollation AND t.oid = a.atttypid AND a.attcollation <> t.typcollation) AS attcollation,
  a.attidentity, a.attgenerated, a.attstorage, a.attcompression, a.attstattarget,
  pg_catalog.col_description(a.attrelid, a.attnum)
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = 'customers'::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;

-- ask: \d customers, the indexes
-- shows: one_email, customers_pkey
SELECT c2.relname, i.indisprimary, i.indisunique, i.indisclustered, i.indisvalid,
  pg_catalog.pg_get_indexdef(i.indexrelid, 0, true), pg_catalog.pg_get_constraintdef(con.oid, true), contype, condeferrable,
  condeferred, i.indisreplident, c2.reltablespace
FROM pg_catalog.pg_class c, pg_catalog.pg_class c2, pg_catalog.pg_index i
LEFT JOIN pg_catalog.pg_constraint con ON conrelid = i.indrelid AND conindid = i.indexrelid AND contype IN ('p', 'u', 'x')
WHERE c.oid = 'customers'::regclass AND c.oid = i.indrelid AND i.indexrelid = c2.oid
ORDER BY i.indisprimary DESC, c2.relname;

-- ask: \d customers, the checks
-- shows: some_email
SELECT r.conname, pg_catalog.pg_get_constraintdef(r.oid, true)
FROM pg_catalog.pg_constraint r
WHERE r.conrelid = 'customers'::regclass AND r.contype = 'c'
ORDER BY 1;

-- ask: \d orders, the foreign keys
-- shows: orders_customer
SELECT true AS sametable, conname, pg_catalog.pg_get_constraintdef(r.oid, true) AS condef,
  conrelid::pg_catalog.regclass AS ontable
FROM pg_catalog.pg_constraint r
WHERE r.conrelid = 'orders'::regclass AND r.contype = 'f' AND conparentid = 0
ORDER BY conname;

-- ask: \d customers, referenced by
-- shows: orders_customer
SELECT conname, conrelid::pg_catalog.regclass AS ontable, pg_catalog.pg_get_constraintdef(oid, true) AS condef
FROM pg_catalog.pg_constraint c
WHERE confrelid IN (SELECT pg_catalog.pg_partition_ancestors('customers'::regclass) UNION ALL VALUES ('customers'::regclass))
  AND contype = 'f' AND conparentid = 0
ORDER BY conname;

-- ask: \d orders, the policies
-- shows: own_orders
SELECT pol.polname, pol.polpermissive,
  CASE WHEN pol.polroles = '{0}' THEN NULL ELSE pg_catalog.array_to_string(ARRAY(
    SELECT rolname FROM pg_catalog.pg_roles WHERE oid = ANY (pol.polroles) ORDER BY 1), ',') END,
  pg_catalog.pg_get_expr(pol.polqual, pol.polrelid), pg_catalog.pg_get_expr(pol.polwithcheck, pol.polrelid), pol.polcmd
FROM pg_catalog.pg_policy pol
WHERE pol.polrelid = 'orders'::regclass
ORDER BY 1;

-- ask: \d orders, the statistics
-- shows: order_statistics
SELECT oid, stxrelid::pg_catalog.regclass, stxnamespace::pg_catalog.regnamespace::pg_catalog.text AS nsp, stxname,
  pg_catalog.pg_get_statisticsobjdef_columns(oid) AS columns, 'd' = ANY (stxkind) AS ndist_enabled
FROM pg_catalog.pg_statistic_ext
WHERE stxrelid = 'orders'::regclass
ORDER BY nsp, stxname;

-- ask: \d orders, the publications
SELECT pubname, NULL, NULL
FROM pg_catalog.pg_publication p
JOIN pg_catalog.pg_publication_namespace pn ON p.oid = pn.pnpubid
JOIN pg_catalog.pg_class pc ON pc.relnamespace = pn.pnnspid
WHERE pc.oid = 'orders'::regclass AND pg_catalog.pg_relation_is_publishable('orders'::regclass)
UNION
SELECT pubname, pg_get_expr(pr.prqual, c.oid), pr.prattrs::text
FROM pg_catalog.pg_publication p
JOIN pg_catalog.pg_publication_rel pr ON p.oid = pr.prpubid
JOIN pg_catalog.pg_class c ON c.oid = pr.prrelid
WHERE pr.prrelid = 'orders'::regclass;

-- ask: \d orders, the triggers
-- shows: check_order
SELECT t.tgname, pg_catalog.pg_get_triggerdef(t.oid, true), t.tgenabled, t.tgisinternal,
  CASE WHEN t.tgparentid <> 0 THEN
    (SELECT u.tgrelid::pg_catalog.regclass
     FROM pg_catalog.pg_trigger AS u, pg_catalog.pg_partition_ancestors(t.tgrelid) WITH ORDINALITY AS a (relid, depth)
     WHERE u.tgname = t.tgname AND u.tgrelid = a.relid AND u.tgparentid = 0
     ORDER BY a.depth LIMIT 1) END AS parent
FROM pg_catalog.pg_trigger t
WHERE t.tgrelid = 'orders'::regclass AND (NOT t.tgisinternal OR t.tgisinternal AND t.tgenabled = 'D')
ORDER BY 1;

-- ask: \d events, the partitions
-- shows: events_2026, 2027-01-01
SELECT c.oid::pg_catalog.regclass, c.relkind, inhdetachpending, pg_catalog.pg_get_expr(c.relpartbound, c.oid),
  pg_catalog.pg_get_partkeydef('events'::regclass)
FROM pg_catalog.pg_class c, pg_catalog.pg_inherits i
WHERE c.oid = i.inhrelid AND i.inhparent = 'events'::regclass
ORDER BY pg_catalog.pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT', c.oid::pg_catalog.regclass::pg_catalog.text;

-- ask: \dt+
-- shows: customers, orders, people who buy
SELECT n.nspname AS "Schema", c.relname AS "Name", c.relkind AS "Type", pg_catalog.pg_get_userbyid(c.relowner) AS "Owner",
  c.relpersistence AS "Persistence", am.amname AS "Access method",
  pg_catalog.pg_size_pretty(pg_catalog.pg_table_size(c.oid)) AS "Size",
  pg_catalog.obj_description(c.oid, 'pg_class') AS "Description"
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam
WHERE c.relkind IN ('r', 'p', '') AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast'
  AND n.nspname <> 'information_schema' AND pg_catalog.pg_table_is_visible(c.oid)
ORDER BY 1, 2;

-- ask: \di
-- shows: orders_by_customer, orders
SELECT n.nspname AS "Schema", c.relname AS "Name", c.relkind AS "Type", pg_catalog.pg_get_userbyid(c.relowner) AS "Owner",
  c2.relname AS "Table"
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
LEFT JOIN pg_catalog.pg_class c2 ON i.indrelid = c2.oid
WHERE c.relkind IN ('i', 'I', '') AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast'
  AND n.nspname <> 'information_schema' AND pg_catalog.pg_table_is_visible(c.oid)
ORDER BY 1, 2;

-- ask: \df+
-- shows: order_total, SELECT amount, before_order
SELECT n.nspname AS "Schema", p.proname AS "Name", pg_catalog.pg_get_function_result(p.oid) AS "Result data type",
  pg_catalog.pg_get_function_arguments(p.oid) AS "Argument data types", p.prokind, p.provolatile, p.proparallel,
  pg_catalog.pg_get_userbyid(p.proowner) AS "Owner", prosecdef, pg_catalog.array_to_string(p.proacl, E'\n') AS "Access privileges",
  l.lanname AS "Language", COALESCE(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc) AS "Source code",
  pg_catalog.obj_description(p.oid, 'pg_proc') AS "Description"
FROM pg_catalog.pg_proc p
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
LEFT JOIN pg_catalog.pg_language l ON l.oid = p.prolang
WHERE pg_catalog.pg_function_is_visible(p.oid) AND n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema'
ORDER BY 1, 2, 4;

-- ask: \sf order_total
-- shows: order_total, SELECT amount
SELECT pg_catalog.pg_get_functiondef('order_total'::pg_catalog.regproc::pg_catalog.oid);

-- ask: \sv open_orders
-- shows: open_orders, customer
SELECT nspname, relname, relkind, pg_catalog.pg_get_viewdef(c.oid, true), c.reloptions
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid
WHERE c.oid = 'open_orders'::pg_catalog.regclass;

-- ask: \dn+
-- shows: data
SELECT n.nspname AS "Name", pg_catalog.pg_get_userbyid(n.nspowner) AS "Owner",
  pg_catalog.array_to_string(n.nspacl, E'\n') AS "Access privileges",
  pg_catalog.obj_description(n.oid, 'pg_namespace') AS "Description"
FROM pg_catalog.pg_namespace n
WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY 1;

-- ask: \du
-- shows: {writer}, {reader}
SELECT r.rolname, r.rolsuper, r.rolinherit, r.rolcreaterole, r.rolcreatedb, r.rolcanlogin, r.rolconnlimit, r.rolvaliduntil,
  ARRAY(SELECT b.rolname FROM pg_catalog.pg_auth_members m JOIN pg_catalog.pg_roles b ON m.roleid = b.oid
        WHERE m.member = r.oid) AS memberof,
  r.rolreplication, r.rolbypassrls
FROM pg_catalog.pg_roles r
WHERE r.rolname !~ '^pg_'
ORDER BY 1;

-- ask: \du+
-- shows: {writer}
SELECT r.rolname, r.rolcanlogin, pg_catalog.shobj_description(r.oid, 'pg_authid') AS description
FROM pg_catalog.pg_roles r
WHERE r.rolname !~ '^pg_'
ORDER BY 1;

-- ask: \drg
-- shows: {writer}
SELECT m.rolname AS "Role name", r.rolname AS "Member of", pam.admin_option, g.rolname AS "Grantor"
FROM pg_catalog.pg_roles m
JOIN pg_catalog.pg_auth_members pam ON pam.member = m.oid
LEFT JOIN pg_catalog.pg_roles r ON pam.roleid = r.oid
LEFT JOIN pg_catalog.pg_roles g ON pam.grantor = g.oid
WHERE m.rolname !~ '^pg_'
ORDER BY 1, 2, 4;

-- ask: \dp
-- shows: customers, {reader}=r/{writer}, own_orders
SELECT n.nspname AS "Schema", c.relname AS "Name", c.relkind AS "Type",
  pg_catalog.array_to_string(c.relacl, E'\n') AS "Access privileges",
  pg_catalog.array_to_string(ARRAY(
    SELECT attname || E':\n  ' || pg_catalog.array_to_string(attacl, E'\n  ') FROM pg_catalog.pg_attribute a
    WHERE attrelid = c.oid AND NOT attisdropped AND attacl IS NOT NULL), E'\n') AS "Column privileges",
  pg_catalog.array_to_string(ARRAY(
    SELECT polname || CASE WHEN polroles <> '{0}' THEN E'\n  to: ' || pg_catalog.array_to_string(ARRAY(
      SELECT rolname FROM pg_catalog.pg_roles WHERE oid = ANY (polroles) ORDER BY 1), ', ') ELSE '' END
    FROM pg_catalog.pg_policy pol WHERE polrelid = c.oid), E'\n') AS "Policies"
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'S', 'f', 'p') AND n.nspname !~ '^pg_' AND pg_catalog.pg_table_is_visible(c.oid)
ORDER BY 1, 2;

-- ask: \ddp
-- shows: {writer}, {reader}=r/{writer}
SELECT pg_catalog.pg_get_userbyid(d.defaclrole) AS "Owner", n.nspname AS "Schema", d.defaclobjtype AS "Type",
  pg_catalog.array_to_string(d.defaclacl, E'\n') AS "Access privileges"
FROM pg_catalog.pg_default_acl d
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = d.defaclnamespace
ORDER BY 1, 2, 3;

-- ask: \dT+
-- shows: mood, merry, address
SELECT n.nspname AS "Schema", pg_catalog.format_type(t.oid, NULL) AS "Name", t.typname AS "Internal name", t.typlen AS "Size",
  pg_catalog.array_to_string(ARRAY(
    SELECT e.enumlabel FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder), E'\n') AS "Elements",
  pg_catalog.pg_get_userbyid(t.typowner) AS "Owner", pg_catalog.array_to_string(t.typacl, E'\n') AS "Access privileges",
  pg_catalog.obj_description(t.oid, 'pg_type') AS "Description"
FROM pg_catalog.pg_type t
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE (t.typrelid = 0 OR (SELECT c.relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid))
  AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_type el WHERE el.oid = t.typelem AND el.typarray = t.oid)
  AND n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema' AND pg_catalog.pg_type_is_visible(t.oid)
ORDER BY 1, 2;

-- ask: \dD
-- shows: positive, VALUE > 0
SELECT n.nspname AS "Schema", t.typname AS "Name", pg_catalog.format_type(t.typbasetype, t.typtypmod) AS "Type",
  t.typnotnull AS "Nullable", t.typdefault AS "Default",
  pg_catalog.array_to_string(ARRAY(
    SELECT pg_catalog.pg_get_constraintdef(r.oid, true) FROM pg_catalog.pg_constraint r WHERE t.oid = r.contypid), ' ') AS "Check"
FROM pg_catalog.pg_type t
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE t.typtype = 'd' AND n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema'
  AND pg_catalog.pg_type_is_visible(t.oid)
ORDER BY 1, 2;

-- ask: \do
-- shows: <+>
SELECT n.nspname AS "Schema", o.oprname AS "Name", pg_catalog.format_type(o.oprleft, NULL) AS "Left arg type",
  pg_catalog.format_type(o.oprright, NULL) AS "Right arg type", pg_catalog.format_type(o.oprresult, NULL) AS "Result type",
  coalesce(pg_catalog.obj_description(o.oid, 'pg_operator'), pg_catalog.obj_description(o.oprcode, 'pg_proc')) AS "Description"
FROM pg_catalog.pg_operator o
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
WHERE n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema' AND pg_catalog.pg_operator_is_visible(o.oid)
ORDER BY 1, 2, 3, 4;

-- ask: \dO
-- shows: own_collation
SELECT n.nspname AS "Schema", c.collname AS "Name", c.collprovider AS "Provider", c.collisdeterministic
FROM pg_catalog.pg_collation c, pg_catalog.pg_namespace n
WHERE n.oid = c.collnamespace AND n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema'
  AND c.collencoding IN (-1, pg_catalog.pg_char_to_encoding(pg_catalog.getdatabaseencoding()))
  AND pg_catalog.pg_collation_is_visible(c.oid);

-- ask: \dF
-- shows: own_search
SELECT n.nspname AS "Schema", c.cfgname AS "Name", pg_catalog.obj_description(c.oid, 'pg_ts_config') AS "Description"
FROM pg_catalog.pg_ts_config c
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.cfgnamespace
WHERE pg_catalog.pg_ts_config_is_visible(c.oid)
ORDER BY 1, 2;

-- ask: \dX
-- shows: order_statistics
SELECT es.stxnamespace::pg_catalog.regnamespace::pg_catalog.text AS "Schema", es.stxname AS "Name",
  pg_catalog.format('%s FROM %s', pg_catalog.pg_get_statisticsobjdef_columns(es.oid), es.stxrelid::pg_catalog.regclass) AS "Definition"
FROM pg_catalog.pg_statistic_ext es
WHERE pg_catalog.pg_statistics_obj_is_visible(es.oid)
ORDER BY 1, 2;

-- ask: \dx
-- shows: plpgsql
SELECT e.extname AS "Name", e.extversion AS "Version", n.nspname AS "Schema", c.description AS "Description"
FROM pg_catalog.pg_extension e
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
LEFT JOIN pg_catalog.pg_description c ON c.objoid = e.oid AND c.classoid = 'pg_catalog.pg_extension'::pg_catalog.regclass
ORDER BY 1;

-- ask: \l
-- shows: {database}, UTF8
SELECT d.datname AS "Name", pg_catalog.pg_get_userbyid(d.datdba) AS "Owner", pg_catalog.pg_encoding_to_char(d.encoding) AS "Encoding",
  d.datcollate AS "Collate", d.datctype AS "Ctype", d.datlocprovider, pg_catalog.array_to_string(d.datacl, E'\n') AS "Access privileges"
FROM pg_catalog.pg_database d
ORDER BY 1;

-- ask: \l+
-- shows: {database}
SELECT d.datname AS "Name",
  CASE WHEN pg_catalog.has_database_privilege(d.datname, 'CONNECT')
    THEN pg_catalog.pg_size_pretty(pg_catalog.pg_database_size(d.datname)) ELSE 'No Access' END AS "Size",
  t.spcname AS "Tablespace", pg_catalog.shobj_description(d.oid, 'pg_database') AS "Description"
FROM pg_catalog.pg_database d
JOIN pg_catalog.pg_tablespace t ON d.dattablespace = t.oid
ORDER BY 1;

-- ask: \dRp and \dRs
SELECT pubname AS "Name", pg_catalog.pg_get_userbyid(pubowner) AS "Owner", puballtables AS "All tables"
FROM pg_catalog.pg_publication
ORDER BY 1;

-- ask: \dl
SELECT oid AS "ID", pg_catalog.pg_get_userbyid(lomowner) AS "Owner", pg_catalog.obj_description(oid, 'pg_largeobject') AS "Description"
FROM pg_catalog.pg_largeobject_metadata
ORDER BY 1;

-- ask: \des+ and \dew+ and \dy and \dL
-- shows: plpgsql
SELECT l.lanname AS "Name", pg_catalog.pg_get_userbyid(l.lanowner) AS "Owner", l.lanpltrusted AS "Trusted",
  (SELECT pg_catalog.count(*) FROM pg_catalog.pg_foreign_server) AS servers,
  (SELECT pg_catalog.count(*) FROM pg_catalog.pg_foreign_data_wrapper) AS wrappers,
  (SELECT pg_catalog.count(*) FROM pg_catalog.pg_event_trigger) AS event_triggers
FROM pg_catalog.pg_language l
WHERE l.lanplcallfoid <> 0
ORDER BY 1;

-- ask: \conninfo and the prompt
-- shows: {database}, {role}
SELECT current_user, session_user, current_database(), current_schema(), version(), pg_catalog.pg_is_in_recovery(),
  current_setting('is_superuser'), current_setting('server_version_num');
