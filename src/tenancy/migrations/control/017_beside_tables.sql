-- What is beside a project's tables: its feed and webhooks, its people, what runs by itself, and what it uses.

-- The project's feed of changes; NULL: it has none.
ALTER TABLE cdp.projects ADD COLUMN feed jsonb;

DROP TRIGGER count_change ON cdp.projects;
CREATE TRIGGER count_change AFTER INSERT OR DELETE
  OR UPDATE OF name, status, server, database_name, schema_name, writer_role, reader_role, schema_version, quota_bytes, own_schemas,
    is_fenced, events, feed
  ON cdp.projects FOR EACH STATEMENT EXECUTE FUNCTION cdp.count_change();

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

-- What identifies people in the tables of a project, and what erasing them means there.
CREATE TABLE cdp.subjects (
  project_id uuid PRIMARY KEY REFERENCES cdp.projects ON DELETE CASCADE,
  -- Not jsonb, which would change the order of its keys.
  declaration json NOT NULL,
  declared_at timestamptz NOT NULL DEFAULT now()
);

-- A restored project continues another: erasures there hold for its backups, too. NULL: its own id.
ALTER TABLE cdp.projects ADD COLUMN lineage uuid;

-- Erasures, which outlive their project: its backups may be restored later.
CREATE TABLE cdp.erasures (
  id uuid PRIMARY KEY,
  lineage uuid NOT NULL,
  project_id uuid NOT NULL,
  -- As they were: backups of earlier versions know no lineage.
  project text NOT NULL,
  server text NOT NULL,
  kind text NOT NULL,
  deep boolean NOT NULL,
  state text NOT NULL CHECK (state IN ('running', 'cleaning', 'done', 'failed')),
  -- What it looks for, encrypted under the secret; NULL once it has ended.
  sealed bytea,
  -- Keyed hashes of every identifier that was found, and the declaration; their key is in cdp.keys. NULL: none yet.
  ledger jsonb,
  commitments jsonb NOT NULL,
  result jsonb,
  receipt text,
  error text,
  actor text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  erased_at timestamptz,
  ended_at timestamptz
);
CREATE INDEX erasures_lineage ON cdp.erasures (lineage);
CREATE INDEX erasures_unended ON cdp.erasures (created_at) WHERE ended_at IS NULL;

-- Keys, encrypted under the secret. A receipt is signed by the newest of its purpose, and public keys stay.
CREATE TABLE cdp.keys (
  id text PRIMARY KEY,
  purpose text NOT NULL CHECK (purpose IN ('ledger', 'receipts')),
  wrapped bytea NOT NULL,
  public_key jsonb,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- What a project runs by itself: SQL at times that it names, and queries that its members have saved.
CREATE TABLE cdp.schedules (
  project_id uuid NOT NULL REFERENCES cdp.projects ON UPDATE CASCADE ON DELETE CASCADE,
  -- `segment`: the result is kept as the members of a segment.
  kind text NOT NULL CHECK (kind IN ('schedule', 'segment')),
  name text NOT NULL,
  -- The SQL, when and as which role it runs, and for how long.
  declaration jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  created_by text NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  updated_by text NOT NULL,
  -- NULL: it is paused.
  next_at timestamptz,
  -- Scheduled times that have passed without a run.
  missed bigint NOT NULL DEFAULT 0,
  -- The run that has not ended, and the instance that runs it. If that does not say in time that it is alive, another one takes over.
  run_id uuid,
  claimed_by uuid,
  claimed_until timestamptz,
  PRIMARY KEY (project_id, kind, name)
);
CREATE INDEX schedules_next ON cdp.schedules (next_at) WHERE run_id IS NULL;
CREATE INDEX schedules_claimed ON cdp.schedules (claimed_until) WHERE run_id IS NOT NULL;

-- The last runs of each schedule.
CREATE TABLE cdp.schedule_runs (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL,
  kind text NOT NULL,
  schedule text NOT NULL,
  -- When it was to begin; NULL: somebody asked for it.
  due_at timestamptz,
  started_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz,
  -- How often an instance has begun it: again if the one before died.
  attempts integer NOT NULL DEFAULT 1,
  -- Scheduled times that it stands for, besides its own.
  missed integer NOT NULL DEFAULT 0,
  -- `ok`, or the code of its error; NULL: it runs.
  outcome text,
  error text,
  rows bigint,
  warnings jsonb,
  FOREIGN KEY (project_id, kind, schedule) REFERENCES cdp.schedules ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE INDEX schedule_runs_last ON cdp.schedule_runs (project_id, kind, schedule, started_at DESC);

CREATE TABLE cdp.queries (
  project_id uuid NOT NULL REFERENCES cdp.projects ON UPDATE CASCADE ON DELETE CASCADE,
  name text NOT NULL,
  -- The SQL, its parameters, its chart, what it is for, and whether it may write.
  declaration jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  created_by text NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  updated_by text NOT NULL,
  PRIMARY KEY (project_id, name)
);

-- What each project has used on a day (UTC). Projects that are gone keep theirs, under their last name.
CREATE TABLE cdp.usage (
  day date NOT NULL,
  project_id uuid NOT NULL,
  project text NOT NULL,
  -- The largest size that was measured; NULL: none was.
  bytes_stored bigint,
  -- How long a server of its own ran.
  awake_ms bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (day, project_id)
);

-- The same by the way in.
CREATE TABLE cdp.usage_by_way (
  day date NOT NULL,
  project_id uuid NOT NULL,
  way text NOT NULL,
  requests bigint NOT NULL,
  rows_in bigint NOT NULL,
  rows_out bigint NOT NULL,
  bytes_in bigint NOT NULL,
  bytes_out bigint NOT NULL,
  statement_ms bigint NOT NULL,
  PRIMARY KEY (day, project_id, way)
);
