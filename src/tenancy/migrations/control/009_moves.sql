-- Moves of projects from one server to another, including those that have ended.
CREATE TABLE cdp.moves (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES cdp.projects ON DELETE CASCADE,
  state text NOT NULL CHECK (state IN
    ('preparing', 'fencing', 'copying', 'verifying', 'switched', 'done', 'undoing', 'undone')),
  -- The names of the servers.
  from_server text NOT NULL,
  to_server text NOT NULL,
  -- Where the project lived, and where its copy is: server, database, schema, writer, reader, ownSchemas.
  source jsonb NOT NULL,
  target jsonb NOT NULL,
  -- Rows and bytes copied so far.
  rows bigint NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0,
  -- A user has canceled it; the process that carries it out checks this every second.
  is_canceled boolean NOT NULL DEFAULT false,
  -- Why it was undone.
  reason text,
  started_at timestamptz NOT NULL DEFAULT now(),
  -- Writes were refused from then on …
  fenced_at timestamptz,
  -- … until then: the switch, or the end of the fence.
  opened_at timestamptz,
  -- NULL: it is not finished.
  ended_at timestamptz
);

CREATE UNIQUE INDEX ON cdp.moves (project_id) WHERE ended_at IS NULL;
CREATE INDEX ON cdp.moves (started_at);

-- Its writes are refused while it is copied.
ALTER TABLE cdp.projects ADD COLUMN is_fenced boolean NOT NULL DEFAULT false;

DROP TRIGGER count_change ON cdp.projects;
CREATE TRIGGER count_change AFTER INSERT OR DELETE
  OR UPDATE OF name, status, server, database_name, schema_name, writer_role, reader_role, schema_version, quota_bytes, own_schemas,
    is_fenced
  ON cdp.projects FOR EACH STATEMENT EXECUTE FUNCTION cdp.count_change();
