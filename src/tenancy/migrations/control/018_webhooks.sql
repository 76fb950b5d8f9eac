-- Endpoints that the service calls with the changes of a project's feed, in order.
CREATE TABLE cdp.webhooks (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES cdp.projects ON DELETE CASCADE,
  url text NOT NULL,
  -- What it gets; NULL: everything.
  tables text[],
  ops text[],
  columns text[],
  -- Whose rights it reads with: those of whoever changed it last.
  reads_as text NOT NULL CHECK (reads_as IN ('writer', 'reader')),
  -- Sealed with the secret of the installation. The previous one also signs until its time.
  secret text NOT NULL,
  previous_secret text,
  previous_until timestamptz,
  is_paused boolean NOT NULL DEFAULT false,
  -- Why the service has paused it; NULL: a person has.
  reason text,
  -- The cursor after the last change that was confirmed, and that of the last change of the delivery that is tried.
  cursor text NOT NULL,
  pending text,
  attempts integer NOT NULL DEFAULT 0,
  failing_since timestamptz,
  retry_at timestamptz,
  error text,
  delivered_at timestamptz,
  -- Counts attempts, and changes by people: what was sent before such a change confirms nothing after it.
  deliveries bigint NOT NULL DEFAULT 0,
  generation integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX webhooks_project ON cdp.webhooks (project_id);

-- The last attempts of each webhook: a new one takes the place of the oldest.
CREATE TABLE cdp.webhook_deliveries (
  webhook_id uuid NOT NULL REFERENCES cdp.webhooks ON DELETE CASCADE,
  place integer NOT NULL,
  number bigint NOT NULL,
  at timestamptz NOT NULL,
  message_id text NOT NULL,
  attempt integer NOT NULL,
  changes integer NOT NULL,
  status integer,
  error text,
  duration_ms integer NOT NULL,
  PRIMARY KEY (webhook_id, place)
);
