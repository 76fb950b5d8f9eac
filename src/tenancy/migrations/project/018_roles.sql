-- Roles that a project makes use the service's tables by what follows, each role only for itself: no role can write another's key in
-- advance, or put a record into the quarantine of a table that it may not insert into.

-- The name by which the project knows the role of the session; on a server that projects share, the name there has a prefix.
CREATE FUNCTION _cdp.role_name() RETURNS text
  LANGUAGE sql STABLE PARALLEL SAFE
  RETURN regexp_replace(session_user::text, '^p_[0-9a-f]{20}_', '');

-- A role's own keys: their paths begin with its name.
CREATE VIEW _cdp.keys_of_role WITH (security_barrier) AS
  SELECT * FROM _cdp.idempotency_keys WHERE starts_with(path, 'ROLE ' || _cdp.role_name() || ' ')
  WITH CASCADED CHECK OPTION;
GRANT SELECT, INSERT, UPDATE, DELETE ON _cdp.keys_of_role TO PUBLIC;

-- Whether the session's role may insert into a table of that name.
CREATE FUNCTION _cdp.may_insert(table_name text) RETURNS boolean
  LANGUAGE sql STABLE
  RETURN EXISTS (
    SELECT FROM pg_class c
    WHERE c.relnamespace = 'data'::regnamespace AND c.relname = table_name AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND (has_table_privilege(session_user, c.oid, 'INSERT') OR has_any_column_privilege(session_user, c.oid, 'INSERT')));

-- Whoever may write to the table behind the view, as loads of dumps do, needs no right to the table that a record was meant for:
-- it may no longer exist.
CREATE OR REPLACE FUNCTION _cdp.insert_quarantined() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT (has_table_privilege(session_user, '_cdp.quarantined', 'INSERT') OR _cdp.may_insert(NEW.table_name)) THEN
    RAISE EXCEPTION 'permission denied for table %', NEW.table_name USING ERRCODE = 'insufficient_privilege';
  END IF;
  INSERT INTO _cdp.quarantined VALUES (coalesce(NEW.id, _cdp.uuid_v7()), coalesce(NEW.quarantined_at, now()),
    NEW.table_name, NEW.record, NEW.errors, NEW.idempotency_key);
  RETURN NEW;
END
$$;
GRANT INSERT ON _cdp.quarantine TO PUBLIC;
