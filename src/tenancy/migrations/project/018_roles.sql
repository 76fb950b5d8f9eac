-- Roles that a project makes have no rights to the tables of the service, not even by a view: whoever may update a row of a view may
-- lock the table behind it, and the conflicting row of INSERT … ON CONFLICT need not be one that the view shows. They use these
-- functions, each role only for itself: no role can write another's key in advance, or put a record into the quarantine of a table
-- that it may not insert into.

-- The name by which the project knows the role of the session; on a server that projects share, the name there has a prefix.
CREATE FUNCTION _cdp.role_name() RETURNS text
  LANGUAGE sql STABLE PARALLEL SAFE
  RETURN regexp_replace(session_user::text, '^p_[0-9a-f]{20}_', '');

-- The role's own rows of these keys, locked until the end of the transaction: their paths begin with its name.
CREATE FUNCTION _cdp.keys_of_role(keys text[]) RETURNS SETOF _cdp.idempotency_keys
  LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT * FROM _cdp.idempotency_keys
  WHERE key = ANY (keys) AND starts_with(path, 'ROLE ' || _cdp.role_name() || ' ') FOR UPDATE
$$;

-- Stores a key of the role, and deletes some of its own that have expired; those of others it would lock until its transaction ends.
-- Without a fingerprint the key is settled, unless it is there.
CREATE FUNCTION _cdp.store_key_of_role(path text, key text, fingerprint bytea, answer text, body_sha256 bytea, row_count integer,
  kept interval) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  IF starts_with(path, 'ROLE ' || _cdp.role_name() || ' ') IS NOT TRUE OR length(path) > 500 OR length(key) > 255 THEN
    RAISE EXCEPTION 'permission denied for this key' USING ERRCODE = 'insufficient_privilege';
  END IF;
  DELETE FROM _cdp.idempotency_keys k WHERE k.ctid = ANY (ARRAY(
    SELECT e.ctid FROM _cdp.idempotency_keys e
    WHERE e.expires_at <= now() AND starts_with(e.path, 'ROLE ' || _cdp.role_name() || ' ') LIMIT 100 FOR UPDATE SKIP LOCKED));
  IF fingerprint IS NULL THEN
    INSERT INTO _cdp.idempotency_keys (path, key, expires_at) VALUES (path, key, NULL) ON CONFLICT DO NOTHING;
    RETURN;
  END IF;
  INSERT INTO _cdp.idempotency_keys AS stored (path, key, fingerprint, answer, body_sha256, row_count, transaction_id, expires_at)
    VALUES (path, key, fingerprint, answer, body_sha256, greatest(row_count, 0), pg_current_xact_id(), now() + least(kept, interval '10 years'))
    ON CONFLICT ON CONSTRAINT idempotency_keys_pkey DO UPDATE SET fingerprint = excluded.fingerprint, answer = excluded.answer,
      body_sha256 = excluded.body_sha256, row_count = excluded.row_count, transaction_id = excluded.transaction_id,
      created_at = now(), expires_at = excluded.expires_at;
END
$$;

-- Whether the session's role may insert any row and column into a table of that name, and what it inserts becomes what the writer
-- would insert: a replay runs with all rights, and the name, of the writer. Triggers and views may tell them apart.
CREATE FUNCTION _cdp.may_insert(table_name text) RETURNS boolean
  LANGUAGE sql STABLE
  RETURN EXISTS (
    SELECT FROM pg_class c
    WHERE c.relnamespace = 'data'::regnamespace AND c.relname = table_name AND c.relkind = 'r'
      AND has_table_privilege(session_user, c.oid, 'INSERT')
      AND NOT (c.relrowsecurity AND (c.relforcerowsecurity OR NOT pg_has_role(session_user, c.relowner, 'USAGE')))
      AND NOT c.relhasrules AND NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal));

-- Whether text is JSON that a replay can read: with the array around it, it has at most 100 levels. Of its brackets, without those in
-- strings, each step takes the innermost level away.
CREATE FUNCTION _cdp.is_record(value text) RETURNS boolean
  LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  brackets text;
BEGIN
  IF octet_length(value) > 10485760 OR json_typeof(value::json) IS NULL THEN
    RETURN false;
  END IF;
  brackets := regexp_replace(regexp_replace(value, '"(\\.|[^"\\])*"', '', 'g'), '[^][{}]', '', 'g');
  FOR level IN 1..99 LOOP
    EXIT WHEN brackets = '';
    brackets := replace(replace(brackets, '[]', ''), '{}', '');
  END LOOP;
  RETURN brackets = '';
END
$$;

-- Whether these can be the errors of a quarantined record, as responses show them.
CREATE FUNCTION _cdp.are_errors(value jsonb) RETURNS boolean
  LANGUAGE sql IMMUTABLE
  RETURN jsonb_typeof(value) = 'array' AND octet_length(value::text) <= 1048576 AND value <> '[]'
    AND NOT EXISTS (
      SELECT FROM jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE '[]' END) e
      WHERE jsonb_typeof(e) <> 'object' OR NOT e ?& '{error,message}' OR EXISTS (
        SELECT FROM jsonb_each(CASE jsonb_typeof(e) WHEN 'object' THEN e ELSE '{}' END) AS part (name, content)
        WHERE CASE
          WHEN name IN ('error', 'message', 'hint', 'column') THEN jsonb_typeof(content) <> 'string'
          WHEN name = 'columns' THEN jsonb_path_exists(content, 'strict $ ? (@.type() != "array" || @[*].type() != "string")')
          ELSE true END));

-- Whoever may write to the table behind the view, as loads of dumps do, needs no right to the table that a record was meant for:
-- it may no longer exist. Others choose neither id nor time, and store what can be read again.
CREATE OR REPLACE FUNCTION _cdp.insert_quarantined() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT has_table_privilege(session_user, '_cdp.quarantined', 'INSERT') THEN
    IF _cdp.may_insert(NEW.table_name) IS NOT TRUE THEN
      RAISE EXCEPTION 'permission denied: the quarantine takes records of table % only from who may insert any row into it', NEW.table_name
        USING ERRCODE = 'insufficient_privilege',
          HINT = 'Tables with row security, triggers or rules take only whole batches of a role.';
    END IF;
    IF (_cdp.is_record(NEW.record) AND _cdp.are_errors(NEW.errors) AND length(coalesce(NEW.idempotency_key, '')) <= 255) IS NOT TRUE THEN
      RAISE EXCEPTION 'a quarantined record must be JSON, with errors that have "error" and "message"' USING ERRCODE = 'check_violation';
    END IF;
    NEW.id := NULL;
    NEW.quarantined_at := NULL;
  END IF;
  INSERT INTO _cdp.quarantined VALUES (coalesce(NEW.id, _cdp.uuid_v7()), coalesce(NEW.quarantined_at, now()),
    NEW.table_name, NEW.record, NEW.errors, NEW.idempotency_key);
  RETURN NEW;
END
$$;
GRANT INSERT ON _cdp.quarantine TO PUBLIC;
