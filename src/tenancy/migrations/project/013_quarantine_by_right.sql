-- Each role sees the quarantined records of those tables of which it may read every row. The rows move to a table of the
-- writer, and the name that SQL knows becomes a view of it. Row security on the table itself would not do: with it, the
-- writer could not fill the table by COPY, as restores and moves do.
ALTER TABLE _cdp.quarantine RENAME TO quarantined;
REVOKE SELECT ON _cdp.quarantined FROM PUBLIC;

-- False for a table that does not exist: nobody can tell who might read it. Row security may hide rows, and a right to some
-- columns hides the others.
CREATE FUNCTION _cdp.may_read(role name, table_name text) RETURNS boolean
  LANGUAGE sql STABLE
  RETURN EXISTS (
    SELECT FROM pg_class c
    WHERE c.relnamespace = 'data'::regnamespace AND c.relname = table_name AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND has_table_privilege(role, c.oid, 'SELECT')
      AND NOT (c.relrowsecurity AND (c.relforcerowsecurity OR NOT pg_has_role(role, c.relowner, 'USAGE'))));

-- The writer, who may store records here, sees them all.
CREATE VIEW _cdp.quarantine WITH (security_barrier) AS
  SELECT id, quarantined_at, table_name, record, errors, idempotency_key FROM _cdp.quarantined
  WHERE has_table_privilege('_cdp.quarantined'::regclass, 'INSERT') OR _cdp.may_read(current_user, table_name);
GRANT SELECT ON _cdp.quarantine TO PUBLIC;

-- COPY into a view, for dumps of earlier versions, needs this trigger; then INSERT uses it, too.
CREATE FUNCTION _cdp.insert_quarantined() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  INSERT INTO _cdp.quarantined VALUES (coalesce(NEW.id, _cdp.uuid_v7()), coalesce(NEW.quarantined_at, now()),
    NEW.table_name, NEW.record, NEW.errors, NEW.idempotency_key);
  RETURN NEW;
END
$$;
CREATE TRIGGER insert_quarantined INSTEAD OF INSERT ON _cdp.quarantine
  FOR EACH ROW EXECUTE FUNCTION _cdp.insert_quarantined();
