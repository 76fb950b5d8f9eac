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

-- Stores a key of the role, and deletes some that have expired. Without a fingerprint it is settled, unless it is there.
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
    SELECT e.ctid FROM _cdp.idempotency_keys e WHERE e.expires_at <= now() LIMIT 100 FOR UPDATE SKIP LOCKED));
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

-- Whether the session's role may insert any row and column into a table of that name: a replay stores the record with all rights of
-- the writer.
CREATE FUNCTION _cdp.may_insert(table_name text) RETURNS boolean
  LANGUAGE sql STABLE
  RETURN EXISTS (
    SELECT FROM pg_class c
    WHERE c.relnamespace = 'data'::regnamespace AND c.relname = table_name AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND has_table_privilege(session_user, c.oid, 'INSERT')
      AND NOT (c.relrowsecurity AND (c.relforcerowsecurity OR NOT pg_has_role(session_user, c.relowner, 'USAGE'))));

-- Whoever may write to the table behind the view, as loads of dumps do, needs no right to the table that a record was meant for:
-- it may no longer exist. Others choose neither id nor time, and store what can be read again.
CREATE OR REPLACE FUNCTION _cdp.insert_quarantined() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT has_table_privilege(session_user, '_cdp.quarantined', 'INSERT') THEN
    IF NOT _cdp.may_insert(NEW.table_name) THEN
      RAISE EXCEPTION 'permission denied: the quarantine takes records of table % only from who may insert any row into it', NEW.table_name
        USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NOT coalesce(jsonb_typeof(NEW.errors) = 'array' AND json_typeof(NEW.record::json) IS NOT NULL
        AND NOT EXISTS (SELECT FROM jsonb_array_elements(NEW.errors) e
          WHERE jsonb_typeof(e -> 'error') IS DISTINCT FROM 'string' OR jsonb_typeof(e -> 'message') IS DISTINCT FROM 'string'), false) THEN
      RAISE EXCEPTION 'errors of a quarantined record must be objects with "error" and "message"' USING ERRCODE = 'check_violation';
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
