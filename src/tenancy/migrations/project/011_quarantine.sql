-- Records that an insert with on_error=quarantine refused, written in the insert's own transaction. Every role of the project
-- may read them; the writer may change them, as it may change its tables.
CREATE TABLE _cdp.quarantine (
  id uuid PRIMARY KEY DEFAULT _cdp.uuid_v7(),
  quarantined_at timestamptz NOT NULL DEFAULT now(),
  table_name text NOT NULL,
  -- The record as it was sent, as JSON.
  record text NOT NULL,
  -- What is wrong with it: objects with error, message, and optionally column and hint.
  errors jsonb NOT NULL,
  idempotency_key text
);
CREATE INDEX quarantine_quarantined_at ON _cdp.quarantine (quarantined_at);
GRANT SELECT ON _cdp.quarantine TO PUBLIC;
