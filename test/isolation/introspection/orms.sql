-- What ORMs ask before they generate or compare a schema: the catalogs that they read and how they join them, in our own
-- words. "-- ask:" begins a question, "-- shows:" lists what the answer must contain.

-- ask: Prisma db pull, tables
-- shows: customers, people who buy
SELECT tbl.relname AS table_name, namespace.nspname AS namespace, tbl.relhassubclass AND tbl.relkind = 'p' AS is_partition,
  tbl.relispartition, tbl.relrowsecurity, pg_catalog.obj_description(tbl.oid, 'pg_class') AS description, tbl.reloptions
FROM pg_class AS tbl
JOIN pg_namespace AS namespace ON namespace.oid = tbl.relnamespace
WHERE tbl.relkind IN ('r', 'p') AND namespace.nspname = ANY (ARRAY['data'])
ORDER BY namespace, table_name;

-- ask: Prisma db pull, columns
-- shows: email, where invoices go, uuid_v7
SELECT oid.namespace, info.table_name, info.column_name, format_type(att.atttypid, att.atttypmod) AS formatted_type,
  info.numeric_precision, info.numeric_scale, info.datetime_precision, info.data_type, info.udt_schema AS type_schema_name,
  info.udt_name AS full_data_type, pg_get_expr(attdef.adbin, attdef.adrelid) AS column_default, info.is_nullable,
  info.is_identity, info.character_maximum_length, col_description(att.attrelid, ordinal_position) AS description
FROM information_schema.columns info
JOIN pg_attribute att ON att.attname = info.column_name
JOIN (SELECT pg_class.oid, relname, pg_namespace.nspname AS namespace FROM pg_class
      JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace AND reltype > 0) AS oid
  ON oid.oid = att.attrelid AND relname = info.table_name AND namespace = info.table_schema
LEFT JOIN pg_attrdef attdef ON attdef.adrelid = att.attrelid AND attdef.adnum = att.attnum AND table_schema = namespace
WHERE namespace = ANY (ARRAY['data']) AND att.attnum > 0
ORDER BY namespace, table_name, ordinal_position;

-- ask: Prisma db pull, indexes
-- shows: orders_by_customer, one_email
WITH rawindex AS (
  SELECT indrelid, indexrelid, indisunique, indisprimary, unnest(indkey) AS indkeyid,
    generate_subscripts(indkey, 1) AS indkeyidx, unnest(indclass) AS indclass, unnest(indoption) AS indoption
  FROM pg_index WHERE indpred IS NULL OR true)
SELECT schemainfo.nspname AS namespace, indexinfo.relname AS index_name, tableinfo.relname AS table_name,
  columninfo.attname AS column_name, rawindex.indisunique, rawindex.indisprimary, rawindex.indkeyidx, indexaccess.amname,
  opclass.opcname, opcdefault, pc.condeferrable, pc.condeferred
FROM rawindex
JOIN pg_class AS tableinfo ON tableinfo.oid = rawindex.indrelid
JOIN pg_class AS indexinfo ON indexinfo.oid = rawindex.indexrelid
JOIN pg_namespace AS schemainfo ON schemainfo.oid = tableinfo.relnamespace
LEFT JOIN pg_attribute AS columninfo ON columninfo.attrelid = tableinfo.oid AND columninfo.attnum = rawindex.indkeyid
JOIN pg_am AS indexaccess ON indexaccess.oid = indexinfo.relam
LEFT JOIN pg_opclass AS opclass ON opclass.oid = rawindex.indclass
LEFT JOIN pg_constraint pc ON rawindex.indexrelid = pc.conindid AND pc.contype <> 'f'
WHERE schemainfo.nspname = ANY (ARRAY['data'])
ORDER BY 1, 2, 3, 7;

-- ask: Prisma db pull, foreign keys, checks and enums
-- shows: orders_customer, some_email, merry
SELECT con.conname, con.contype, rel.relname, pg_get_constraintdef(con.oid), con.conkey, con.confkey, con.confupdtype,
  con.confdeltype, (SELECT string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder) FROM pg_type t
    JOIN pg_enum e ON t.oid = e.enumtypid JOIN pg_namespace n ON n.oid = t.typnamespace WHERE n.nspname = 'data') AS labels
FROM pg_constraint con
JOIN pg_class rel ON rel.oid = con.conrelid
JOIN pg_namespace ns ON ns.oid = con.connamespace
WHERE ns.nspname = 'data' AND con.contype NOT IN ('t');

-- ask: Prisma db pull, views, procedures, sequences, extensions, size
-- shows: open_orders, order_total, invoice_numbers, plpgsql
SELECT (SELECT json_agg(v) FROM (SELECT viewname, definition FROM pg_catalog.pg_views WHERE schemaname = 'data') v) AS views,
  (SELECT json_agg(p) FROM (SELECT proname, CASE WHEN l.lanname = 'internal' THEN p.prosrc ELSE pg_get_functiondef(p.oid) END
     FROM pg_proc p LEFT JOIN pg_namespace n ON p.pronamespace = n.oid LEFT JOIN pg_language l ON p.prolang = l.oid
     WHERE n.nspname = 'data' AND p.prokind = 'f') p) AS procedures,
  (SELECT json_agg(s) FROM (SELECT sequence_name, start_value, minimum_value, maximum_value, increment, cycle_option
     FROM information_schema.sequences WHERE sequence_schema = 'data') s) AS sequences,
  (SELECT json_agg(e) FROM (SELECT ext.extname, ext.extversion, ext.extrelocatable, pn.nspname
     FROM pg_extension ext JOIN pg_namespace pn ON ext.extnamespace = pn.oid) e) AS extensions,
  (SELECT SUM(pg_total_relation_size(quote_ident(schemaname) || '.' || quote_ident(tablename)))::bigint
     FROM pg_tables WHERE schemaname = 'data') AS size,
  (SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'data')) AS found;

-- ask: Prisma migrate, whether the database is there
-- shows: true
SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = current_database()) AS found, current_setting('server_version_num');

-- ask: Drizzle-kit, tables, views and sequences
-- shows: customers, open_orders, order_counts, invoice_numbers
SELECT table_schema, table_name, table_type,
  (SELECT count(*) FROM pg_matviews) AS matviews,
  (SELECT json_agg(s) FROM pg_sequences s WHERE s.schemaname = 'data') AS sequences
FROM information_schema.tables
WHERE table_schema NOT IN ('pg_catalog', 'information_schema')
UNION ALL
SELECT schemaname, matviewname, 'MATERIALIZED', 0, NULL FROM pg_matviews;

-- ask: Drizzle-kit, columns
-- shows: email
SELECT a.attrelid::regclass::text, a.attname, c.is_nullable, a.attndims AS array_dimensions,
  CASE WHEN a.atttypid = ANY ('{int,int8,int2}'::regtype[]) AND EXISTS (
    SELECT FROM pg_attrdef ad WHERE ad.adrelid = a.attrelid AND ad.adnum = a.attnum
      AND pg_get_expr(ad.adbin, ad.adrelid) = 'nextval(''' || pg_get_serial_sequence(a.attrelid::regclass::text, a.attname)::regclass
        || '''::regclass)') THEN 'serial' ELSE format_type(a.atttypid, a.atttypmod) END AS data_type,
  INFORMATION_SCHEMA.COLUMNS.table_name, ns.nspname AS type_schema, c.column_default, c.udt_schema, c.udt_name
FROM pg_attribute a
JOIN INFORMATION_SCHEMA.COLUMNS ON INFORMATION_SCHEMA.COLUMNS.column_name = a.attname
JOIN information_schema.columns c ON c.column_name = a.attname AND c.table_name = 'customers'
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_namespace ns ON ns.oid = t.typnamespace
WHERE a.attrelid = 'data.customers'::regclass AND INFORMATION_SCHEMA.COLUMNS.table_name = 'customers'
  AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;

-- ask: Drizzle-kit, policies
-- shows: own_orders
SELECT schemaname, tablename, policyname AS name, permissive AS "as", roles AS "to", cmd AS "for", qual AS "using", with_check
FROM pg_policies;

-- ask: Drizzle-kit, roles
-- shows: {writer}
SELECT rolname, rolinherit, rolcreatedb, rolcreaterole FROM pg_roles;

-- ask: Drizzle-kit, enums and constraints
-- shows: mood, merry
SELECT n.nspname AS enum_schema, t.typname AS enum_name, e.enumlabel AS enum_value, e.enumsortorder AS sort_order,
  (SELECT count(*) FROM information_schema.table_constraints tc
   JOIN information_schema.constraint_column_usage AS ccu USING (constraint_schema, constraint_name)
   WHERE tc.table_schema = 'data') AS constraints
FROM pg_type t
JOIN pg_enum e ON t.oid = e.enumtypid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
ORDER BY 1, 2, 4;

-- ask: Sequelize, all tables
-- shows: customers
SELECT table_name, table_schema FROM information_schema.tables
WHERE table_schema NOT IN ('pg_catalog', 'information_schema', 'tiger', 'topology') AND table_type = 'BASE TABLE'
  AND table_name <> 'spatial_ref_sys';

-- ask: Sequelize, describe a table
-- shows: email, where invoices go
-- shows the owner: PRIMARY KEY
SELECT pk.constraint_type AS "Constraint", c.column_name AS "Field", c.column_default AS "Default", c.is_nullable AS "Null",
  CASE WHEN c.udt_name = 'hstore' THEN c.udt_name ELSE c.data_type END AS "Type",
  (SELECT array_agg(e.enumlabel) FROM pg_catalog.pg_type t JOIN pg_catalog.pg_enum e ON t.oid = e.enumtypid
   WHERE t.typname = c.udt_name) AS special,
  (SELECT pgd.description FROM pg_catalog.pg_statio_all_tables AS st
   JOIN pg_catalog.pg_description pgd ON pgd.objoid = st.relid
   WHERE c.ordinal_position = pgd.objsubid AND c.table_name = st.relname) AS "Comment"
FROM information_schema.columns c
LEFT JOIN (
  SELECT tc.table_schema, tc.table_name, cu.column_name, tc.constraint_type
  FROM information_schema.table_constraints tc
  JOIN information_schema.key_column_usage cu ON tc.table_schema = cu.table_schema AND tc.table_name = cu.table_name
    AND tc.constraint_name = cu.constraint_name AND tc.constraint_type = 'PRIMARY KEY') pk
  ON pk.table_schema = c.table_schema AND pk.table_name = c.table_name AND pk.column_name = c.column_name
WHERE c.table_name = 'customers' AND c.table_schema = 'data';

-- ask: Sequelize, indexes
-- shows: one_email
SELECT i.relname AS name, ix.indisprimary AS primary, ix.indisunique AS unique, ix.indkey AS indkey,
  array_agg(a.attnum) AS column_indexes, array_agg(a.attname) AS column_names, pg_get_indexdef(ix.indexrelid) AS definition
FROM pg_class t, pg_class i, pg_index ix, pg_attribute a, pg_namespace s
WHERE t.oid = ix.indrelid AND i.oid = ix.indexrelid AND a.attrelid = t.oid AND t.relkind = 'r' AND t.relname = 'customers'
  AND s.oid = t.relnamespace AND s.nspname = 'data'
GROUP BY i.relname, ix.indexrelid, ix.indisprimary, ix.indisunique, ix.indkey
ORDER BY i.relname;

-- ask: Sequelize, foreign keys
-- shows the owner: orders_customer, customers
SELECT DISTINCT tc.constraint_name, tc.constraint_schema, tc.constraint_catalog, tc.table_name, kcu.column_name,
  ccu.table_schema AS referenced_schema, ccu.table_name AS referenced_table, ccu.column_name AS referenced_column
FROM information_schema.table_constraints AS tc
JOIN information_schema.key_column_usage AS kcu ON tc.constraint_name = kcu.constraint_name
JOIN information_schema.constraint_column_usage AS ccu ON ccu.constraint_name = tc.constraint_name
WHERE constraint_type = 'FOREIGN KEY' AND tc.table_name = 'orders' AND tc.table_schema = 'data';

-- ask: TypeORM, columns
-- shows: email, where invoices go
SELECT columns.*,
  pg_catalog.col_description(('"' || table_catalog || '"."' || table_schema || '"."' || table_name || '"')::regclass::oid,
    ordinal_position) AS description,
  ('"' || udt_schema || '"."' || udt_name || '"')::regtype::text AS regtype,
  pg_catalog.format_type(col_attr.atttypid, col_attr.atttypmod) AS format_type
FROM information_schema.columns
LEFT JOIN pg_catalog.pg_attribute AS col_attr ON col_attr.attname = columns.column_name AND col_attr.attrelid = (
  SELECT cls.oid FROM pg_catalog.pg_class AS cls LEFT JOIN pg_catalog.pg_namespace AS ns ON ns.oid = cls.relnamespace
  WHERE cls.relname = columns.table_name AND ns.nspname = columns.table_schema)
WHERE table_schema = 'data' AND table_name = 'customers';

-- ask: TypeORM, the current schema and database, and what there is
-- shows: data, {database}, customers
SELECT * FROM current_schema() AS schema, current_database() AS database,
  (SELECT json_agg(table_name) FROM information_schema.tables WHERE table_catalog = current_database()) AS tables;

-- ask: TypeORM, constraints and indexes
-- shows: one_email, some_email
SELECT ns.nspname AS table_schema, t.relname AS table_name, cnst.conname AS constraint_name,
  pg_get_constraintdef(cnst.oid) AS expression,
  CASE cnst.contype WHEN 'p' THEN 'PRIMARY' WHEN 'u' THEN 'UNIQUE' WHEN 'c' THEN 'CHECK' WHEN 'x' THEN 'EXCLUDE' END,
  a.attname AS column_name
FROM pg_constraint cnst
JOIN pg_class t ON t.oid = cnst.conrelid
JOIN pg_namespace ns ON ns.oid = cnst.connamespace
LEFT JOIN pg_attribute a ON a.attrelid = cnst.conrelid AND a.attnum = ANY (cnst.conkey)
WHERE t.relkind IN ('r', 'p') AND ns.nspname = 'data' AND t.relname = 'customers';

-- ask: Knex and Objection, whether a table is there and its columns
-- shows: customers, email
SELECT t.table_name, c.column_name, c.* FROM information_schema.tables t
JOIN information_schema.columns c USING (table_schema, table_name)
WHERE t.table_schema = current_schema() AND c.table_catalog = current_database() AND t.table_name = 'customers';

-- ask: Django inspectdb, tables
-- shows: customers, people who buy, open_orders
SELECT c.relname,
  CASE WHEN c.relispartition THEN 'p' WHEN c.relkind IN ('m', 'v') THEN 'v' ELSE 't' END,
  obj_description(c.oid, 'pg_class')
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND n.nspname NOT IN ('pg_catalog', 'pg_toast')
  AND pg_catalog.pg_table_is_visible(c.oid);

-- ask: Django inspectdb, columns
-- shows: email, where invoices go
SELECT a.attname AS column_name, NOT (a.attnotnull OR (t.typtype = 'd' AND t.typnotnull)) AS is_nullable,
  pg_get_expr(ad.adbin, ad.adrelid) AS column_default, CASE WHEN collname = 'default' THEN NULL ELSE collname END AS collation,
  a.attidentity <> '' AS is_autofield, col_description(a.attrelid, a.attnum) AS column_comment
FROM pg_attribute a
LEFT JOIN pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum
LEFT JOIN pg_collation co ON a.attcollation = co.oid
JOIN pg_type t ON a.atttypid = t.oid
JOIN pg_class c ON a.attrelid = c.oid
JOIN pg_namespace n ON c.relnamespace = n.oid
WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND c.relname = 'customers' AND n.nspname NOT IN ('pg_catalog', 'pg_toast')
  AND pg_catalog.pg_table_is_visible(c.oid);

-- ask: Django inspectdb, constraints, indexes and sequences
-- shows: orders_customer, orders_by_customer
SELECT c.conname,
  ARRAY(SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols (colid, arridx)
    JOIN pg_attribute AS ca ON cols.colid = ca.attnum WHERE ca.attrelid = c.conrelid ORDER BY cols.arridx),
  c.contype, (SELECT fkc.relname || '.' || fka.attname FROM pg_attribute AS fka JOIN pg_class AS fkc ON fka.attrelid = fkc.oid
    WHERE fka.attrelid = c.confrelid AND fka.attnum = c.confkey[1]), cl.reloptions,
  (SELECT json_agg(json_build_array(c2.relname, idx.indisunique, am.amname, pg_get_indexdef(idx.indexrelid)))
   FROM pg_index idx JOIN pg_class c2 ON idx.indexrelid = c2.oid JOIN pg_am am ON c2.relam = am.oid
   WHERE idx.indrelid = c.conrelid) AS indexes,
  (SELECT json_agg(s.relname) FROM pg_class s JOIN pg_depend d ON d.objid = s.oid AND d.classid = 'pg_class'::regclass
   WHERE d.refobjid = c.conrelid AND s.relkind = 'S') AS sequences
FROM pg_constraint AS c
JOIN pg_class AS cl ON c.conrelid = cl.oid
WHERE cl.relname = 'orders' AND pg_catalog.pg_table_is_visible(cl.oid);

-- ask: SQLAlchemy, tables and views
-- shows: customers
SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class
JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f']) AND pg_catalog.pg_class.relpersistence <> 't'
  AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname <> 'pg_catalog';

-- ask: SQLAlchemy, columns with identity options
-- shows: email, uuid_v7
SELECT a.attname AS name, pg_catalog.format_type(a.atttypid, a.atttypmod) AS format_type,
  (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d
   WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef) AS "default",
  a.attnotnull AS not_null, c.relname AS table_name, des.description AS comment, a.attgenerated AS generated,
  (SELECT json_build_object('always', a.attidentity = 'a', 'start', s.seqstart, 'increment', s.seqincrement, 'cycle', s.seqcycle)
   FROM pg_catalog.pg_sequence s
   WHERE a.attidentity <> '' AND s.seqrelid = CAST(CAST(pg_catalog.pg_get_serial_sequence(
     CAST(CAST(a.attrelid AS regclass) AS text), a.attname) AS regclass) AS oid)) AS identity_options,
  co.collname
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_attribute a ON c.oid = a.attrelid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_catalog.pg_description des ON des.objoid = a.attrelid AND des.objsubid = a.attnum
LEFT JOIN pg_catalog.pg_collation co ON a.attcollation = co.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_table_is_visible(c.oid) AND n.nspname <> 'pg_catalog'
ORDER BY c.relname, a.attnum;

-- ask: SQLAlchemy, domains and enums
-- shows: positive, above_zero, merry
SELECT t.typname AS name, pg_catalog.format_type(t.typbasetype, t.typtypmod) AS attype, NOT t.typnotnull AS nullable,
  t.typdefault, pg_catalog.pg_type_is_visible(t.oid) AS visible, n.nspname AS schema,
  (SELECT array_agg(pg_catalog.pg_get_constraintdef(con.oid, true) || con.conname) FROM pg_catalog.pg_constraint con
   WHERE con.contypid = t.oid) AS constraint_defs,
  (SELECT array_agg(CAST(e.enumlabel AS text) ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid) AS labels
FROM pg_catalog.pg_type t
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE t.typtype IN ('d', 'e') AND n.nspname = 'data';

-- ask: Rails, the schema dumper's encoding, collation and settings
-- shows: UTF8
SELECT pg_encoding_to_char(d.encoding), d.datcollate, d.datctype, current_setting('max_identifier_length')
FROM pg_database d
WHERE d.datname = current_database();

-- ask: Rails, data sources and columns
-- shows: customers, email, where invoices go
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid), a.attnotnull, a.atttypid,
  a.atttypmod, co.collname, col_description(a.attrelid, a.attnum) AS comment, attidentity AS identity, attgenerated
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attrdef d ON a.attrelid = d.adrelid AND a.attnum = d.adnum
LEFT JOIN pg_type t ON a.atttypid = t.oid
LEFT JOIN pg_collation co ON a.attcollation = co.oid AND a.attcollation <> t.typcollation
WHERE n.nspname = ANY (current_schemas(false)) AND c.relkind IN ('r', 'v', 'm', 'p', 'f') AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY c.relname, a.attnum;

-- ask: Rails, indexes, foreign keys and the type map
-- shows: one_email, orders_customer, mood
SELECT (SELECT json_agg(json_build_array(i.relname, d.indisunique, d.indkey::text, pg_get_indexdef(d.indexrelid),
    obj_description(i.oid, 'pg_class'), d.indisvalid))
  FROM pg_class t JOIN pg_index d ON t.oid = d.indrelid JOIN pg_class i ON d.indexrelid = i.oid
  LEFT JOIN pg_namespace n ON n.oid = t.relnamespace
  WHERE i.relkind IN ('i', 'I') AND t.relname = 'customers' AND n.nspname = ANY (current_schemas(false))) AS indexes,
  (SELECT json_agg(json_build_array(t2.oid::regclass::text, c.conname, c.confupdtype, c.condeferrable, c.conkey, c.convalidated))
   FROM pg_constraint c JOIN pg_class t1 ON c.conrelid = t1.oid JOIN pg_class t2 ON c.confrelid = t2.oid
   WHERE c.contype = 'f' AND t1.relname = 'orders') AS foreign_keys,
  (SELECT json_agg(json_build_array(t.oid, t.typname, t.typelem, t.typdelim, t.typinput, r.rngsubtype, t.typtype, t.typbasetype))
   FROM pg_type AS t LEFT JOIN pg_range AS r ON t.oid = r.rngtypid WHERE t.typtype IN ('r', 'e', 'd')) AS types;
