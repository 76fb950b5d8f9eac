-- The feed of a project's changes (docs/feed.md). Its publications list tables, and follow every change of the schema: a publication of
-- all tables would refuse UPDATE and DELETE on those without a key. What a change of the schema means to a reader is a row that is
-- published and deleted at once, so that it is in the feed at its place in the transaction, and nowhere else.

-- Which tables the feed has; no row: it is off. NULL: all tables.
CREATE TABLE _cdp.feed_settings (tables text[], old boolean NOT NULL);

-- The tables as the feed last described them.
CREATE TABLE _cdp.feed_tables (
  table_oid oid PRIMARY KEY,
  schema_name name NOT NULL,
  table_name name NOT NULL,
  root_oid oid, -- of a partition
  is_member boolean NOT NULL,
  columns jsonb NOT NULL,
  key jsonb
);

CREATE TABLE _cdp.feed_schema (
  change text NOT NULL,
  command text NOT NULL,
  table_oid oid,
  schema_name name,
  table_name name,
  was text,
  partition name,
  columns jsonb,
  key jsonb,
  snapshot boolean NOT NULL
);

-- The tables of the project now, in the shape of _cdp.feed_tables, and what may be published of each.
CREATE VIEW _cdp.feed_tables_now AS
  WITH tables AS (
    SELECT c.oid, n.nspname, c.relname, c.relkind, c.relispartition, c.relreplident,
      CASE WHEN c.relispartition THEN pg_partition_root(c.oid)::oid END AS root_oid
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
      AND n.nspname NOT IN ('_cdp', 'information_schema', 'extensions') AND n.nspname NOT LIKE 'pg\_%'
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
  ), leaves AS (
    SELECT coalesce(t.root_oid, t.oid) AS oid,
      bool_and(CASE t.relreplident
        WHEN 'f' THEN true
        WHEN 'n' THEN false
        ELSE EXISTS (SELECT FROM pg_index i WHERE i.indrelid = t.oid AND i.indimmediate
          AND CASE t.relreplident WHEN 'd' THEN i.indisprimary ELSE i.indisreplident END) END) AS has_identity,
      bool_and(t.relreplident = 'f') AS is_full
    FROM tables t WHERE t.relkind = 'r' GROUP BY 1
  )
  SELECT t.oid AS table_oid, t.nspname AS schema_name, t.relname AS table_name, t.root_oid,
    root.oid IS NOT NULL AS is_member,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
        'number', a.attnum, 'filled', a.atthasmissing) ORDER BY a.attnum), '[]')
      FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
    (SELECT jsonb_agg(a.attname ORDER BY k.position)
      FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k (number, position), pg_attribute a
      WHERE i.indrelid = t.oid AND i.indisprimary AND a.attrelid = t.oid AND a.attnum = k.number) AS key,
    t.relkind, t.relreplident, coalesce(l.has_identity, true) AS has_identity, coalesce(l.is_full, false) AS is_full,
    EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attgenerated = 'v' AND NOT a.attisdropped) AS has_virtual
  FROM tables t
  LEFT JOIN leaves l ON l.oid = t.oid
  CROSS JOIN _cdp.feed_settings s
  LEFT JOIN tables root ON root.oid = coalesce(t.root_oid, t.oid) AND (s.tables IS NULL
    OR (CASE root.nspname WHEN 'data' THEN root.relname ELSE root.nspname || '.' || root.relname END) = ANY (s.tables));

-- Describes what has changed, and makes publications, replica identities and triggers follow. @param command its tag
-- @param resets old rows are no longer wanted
CREATE FUNCTION _cdp.follow_schema(command text, resets boolean DEFAULT false) RETURNS void
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  t record;
BEGIN
  FOR t IN
    SELECT coalesce(n.table_oid, f.table_oid) AS table_oid, coalesce(n.schema_name, f.schema_name) AS schema_name,
      coalesce(n.table_name, f.table_name) AS table_name, n.root_oid, f.root_oid AS former_root, n.columns, n.key,
      n.table_oid IS NULL AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = f.table_oid) AS is_dropped, f.table_oid IS NULL AS is_new,
      coalesce(n.is_member, false) AND n.root_oid IS NULL AS is_own, coalesce(f.is_member, false) AND f.root_oid IS NULL AS was_own,
      CASE WHEN (f.schema_name, f.table_name) <> (n.schema_name, n.table_name)
        THEN CASE f.schema_name WHEN 'data' THEN f.table_name ELSE f.schema_name || '.' || f.table_name END END AS was,
      n.columns IS DISTINCT FROM f.columns OR n.key IS DISTINCT FROM f.key AS is_altered,
      EXISTS (SELECT FROM jsonb_array_elements(n.columns) c WHERE (c -> 'filled')::boolean
        AND NOT EXISTS (SELECT FROM jsonb_array_elements(f.columns) o WHERE o -> 'number' = c -> 'number')) AS is_filled
    FROM _cdp.feed_tables_now n FULL JOIN _cdp.feed_tables f ON f.table_oid = n.table_oid
    WHERE (n.schema_name, n.table_name, n.root_oid, n.is_member, n.columns, n.key)
      IS DISTINCT FROM (f.schema_name, f.table_name, f.root_oid, f.is_member, f.columns, f.key)
    ORDER BY 1
  LOOP
    IF t.former_root IS DISTINCT FROM t.root_oid AND NOT (t.is_new AND command = 'CREATE TABLE') THEN
      INSERT INTO _cdp.feed_schema (change, command, table_oid, schema_name, table_name, partition, columns, key, snapshot)
        SELECT CASE WHEN t.is_dropped THEN 'partition_dropped' WHEN t.root_oid IS NULL THEN 'partition_detached' ELSE 'partition_attached' END,
          command, r.table_oid, r.schema_name, r.table_name, t.table_name, r.columns, r.key, true
        FROM _cdp.feed_tables_now r WHERE r.table_oid = coalesce(t.root_oid, t.former_root) AND r.is_member;
    END IF;
    IF t.is_own OR t.was_own THEN
      INSERT INTO _cdp.feed_schema (change, command, table_oid, schema_name, table_name, was, columns, key, snapshot)
        VALUES (CASE WHEN t.is_dropped THEN 'dropped' WHEN NOT t.is_own THEN 'left' WHEN NOT t.was_own THEN 'created'
            WHEN t.was IS NOT NULL THEN 'renamed' ELSE 'altered' END,
          command, t.table_oid, t.schema_name, t.table_name, t.was, t.columns, t.key,
          t.is_own AND (t.is_filled OR NOT t.was_own) AND NOT (t.is_new AND command = 'CREATE TABLE'));
    END IF;
  END LOOP;
  DELETE FROM _cdp.feed_schema;
  DELETE FROM _cdp.feed_tables f WHERE NOT EXISTS (SELECT FROM _cdp.feed_tables_now n
    WHERE (n.table_oid, n.schema_name, n.table_name, n.root_oid, n.is_member, n.columns, n.key)
      IS NOT DISTINCT FROM (f.table_oid, f.schema_name, f.table_name, f.root_oid, f.is_member, f.columns, f.key));
  INSERT INTO _cdp.feed_tables (table_oid, schema_name, table_name, root_oid, is_member, columns, key)
    SELECT table_oid, schema_name, table_name, root_oid, is_member, columns, key FROM _cdp.feed_tables_now ON CONFLICT DO NOTHING;

  -- Replica identities: FULL where old rows are wanted and Postgres allows it, which it does not with virtual generated columns.
  FOR t IN
    SELECT n.schema_name, n.table_name, wants_full FROM _cdp.feed_tables_now n,
      LATERAL (SELECT (SELECT old FROM _cdp.feed_settings) AND n.is_member AND NOT n.has_virtual AS wants_full) w
    WHERE n.relkind = 'r' AND (n.relreplident = 'f') <> wants_full
      AND (wants_full OR (n.is_member AND n.has_virtual) OR resets)
  LOOP
    EXECUTE format('ALTER TABLE %I.%I REPLICA IDENTITY %s', t.schema_name, t.table_name, CASE WHEN t.wants_full THEN 'FULL' ELSE 'DEFAULT' END);
  END LOOP;

  -- Publications list roots, and tables that are no partition.
  FOR t IN
    SELECT n.table_oid, n.schema_name, n.table_name, p.pubname AS listed_in, w.pubname AS wanted
    FROM _cdp.feed_tables_now n
    LEFT JOIN (SELECT r.prrelid, p.pubname FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
      WHERE p.pubname IN ('cdp_feed', 'cdp_feed_inserts')) p ON p.prrelid = n.table_oid,
    LATERAL (SELECT CASE WHEN NOT n.is_member OR n.root_oid IS NOT NULL THEN NULL
      WHEN n.has_identity THEN 'cdp_feed' ELSE 'cdp_feed_inserts' END::name AS pubname) w
    WHERE p.pubname IS DISTINCT FROM w.pubname
  LOOP
    IF t.listed_in IS NOT NULL THEN
      EXECUTE format('ALTER PUBLICATION %I DROP TABLE ONLY %I.%I', t.listed_in, t.schema_name, t.table_name);
    END IF;
    IF t.wanted IS NOT NULL THEN
      EXECUTE format('ALTER PUBLICATION %I ADD TABLE ONLY %I.%I', t.wanted, t.schema_name, t.table_name);
    END IF;
  END LOOP;

  -- With publish_via_partition_root, nothing tells that a single partition was emptied.
  FOR t IN
    SELECT n.schema_name, n.table_name, g.oid IS NOT NULL AS has_trigger
    FROM _cdp.feed_tables_now n LEFT JOIN pg_trigger g ON g.tgrelid = n.table_oid AND g.tgname = 'cdp_feed_truncate'
    WHERE n.relkind = 'r' AND (n.root_oid IS NOT NULL AND n.is_member) <> (g.oid IS NOT NULL)
  LOOP
    IF t.has_trigger THEN
      EXECUTE format('DROP TRIGGER cdp_feed_truncate ON %I.%I', t.schema_name, t.table_name);
    ELSE
      EXECUTE format('CREATE TRIGGER cdp_feed_truncate AFTER TRUNCATE ON %I.%I EXECUTE FUNCTION _cdp.partition_truncated()', t.schema_name, t.table_name);
    END IF;
  END LOOP;
END
$$;
REVOKE EXECUTE ON FUNCTION _cdp.follow_schema FROM PUBLIC;

CREATE FUNCTION _cdp.partition_truncated() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  INSERT INTO _cdp.feed_schema (change, command, table_oid, schema_name, table_name, partition, columns, key, snapshot)
    SELECT 'partition_truncated', 'TRUNCATE TABLE', r.table_oid, r.schema_name, r.table_name, TG_TABLE_NAME, r.columns, r.key, true
    FROM _cdp.feed_tables_now r WHERE r.table_oid = pg_partition_root(TG_RELID)::oid AND r.is_member AND r.table_oid <> TG_RELID;
  DELETE FROM _cdp.feed_schema;
  RETURN NULL;
END
$$;

CREATE FUNCTION _cdp.schema_changed() RETURNS event_trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF TG_TAG IN ('GRANT', 'REVOKE', 'ALTER DEFAULT PRIVILEGES', 'CREATE POLICY', 'ALTER POLICY', 'DROP POLICY') THEN
    INSERT INTO _cdp.feed_schema (change, command, snapshot) VALUES ('rights', TG_TAG, false);
    DELETE FROM _cdp.feed_schema;
  ELSE
    PERFORM _cdp.follow_schema(TG_TAG);
  END IF;
END
$$;

CREATE FUNCTION _cdp.table_rewritten() RETURNS event_trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  INSERT INTO _cdp.feed_schema (change, command, table_oid, schema_name, table_name, columns, key, snapshot)
    SELECT 'rewritten', TG_TAG, r.table_oid, r.schema_name, r.table_name, r.columns, r.key, true
    FROM _cdp.feed_tables_now t JOIN _cdp.feed_tables_now r ON r.table_oid = coalesce(t.root_oid, t.table_oid)
    WHERE t.table_oid = pg_event_trigger_table_rewrite_oid() AND r.is_member;
  DELETE FROM _cdp.feed_schema;
END
$$;
