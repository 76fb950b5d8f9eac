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
