-- The audit log: who did what, when, and with which outcome. Rows outlive the projects and tokens that they name, so
-- they do not reference other tables.

CREATE TABLE cdp.audit (
  -- When it ended, by the clock of the instance that wrote it.
  at timestamptz(3) NOT NULL,
  -- Chosen by the writer, so that a group whose commit got no reply can be written again without duplicates.
  id bigint NOT NULL,
  request_id text,
  project_id uuid,
  -- Its name at that time.
  project text,
  actor text NOT NULL,
  -- The token's id, a JWT's subject, or the account that ran a command.
  actor_id text,
  actor_name text,
  address text,
  operation text NOT NULL,
  -- The table, `table.column`, or the id of a token that was created or revoked.
  object text,
  -- Lowercase hexadecimal SHA-256 of the SQL text in UTF-8; the text itself is stored only if a setting says so.
  statement_sha256 text,
  statement text,
  rows bigint,
  -- `ok`, a code of the table of errors, or `client_gone`.
  outcome text NOT NULL,
  -- NULL if no answer was started.
  status smallint,
  duration_ms double precision,
  -- More than 1 if an entry represents several of its kind.
  count bigint NOT NULL DEFAULT 1 CHECK (count > 0),
  PRIMARY KEY (at, id)
);

-- Append-only. Only the retention removes rows, and never those of the last day. The setting says how far the retention
-- may go; it is a guard against accidents, because the owner of the table could also drop the triggers.
CREATE FUNCTION cdp.audit_is_append_only() RETURNS trigger
  LANGUAGE plpgsql
AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    -- Where the setting was never set in the session it is NULL, behind a transaction that set it it is empty.
    IF OLD.at < pg_catalog.now() - pg_catalog.make_interval(days => 1)
      AND OLD.at < CAST(NULLIF(pg_catalog.current_setting('cdp.audit_remove_before', true), '') AS pg_catalog.timestamptz)
    THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION 'cdp.audit is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER audit_refuses_changes BEFORE UPDATE OR TRUNCATE ON cdp.audit
  FOR EACH STATEMENT EXECUTE FUNCTION cdp.audit_is_append_only();
CREATE TRIGGER audit_refuses_deletion BEFORE DELETE ON cdp.audit
  FOR EACH ROW EXECUTE FUNCTION cdp.audit_is_append_only();

-- Also in sessions that replay a replication stream.
ALTER TABLE cdp.audit ENABLE ALWAYS TRIGGER audit_refuses_changes;
ALTER TABLE cdp.audit ENABLE ALWAYS TRIGGER audit_refuses_deletion;
