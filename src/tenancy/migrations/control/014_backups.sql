-- Backups into folders, and how often the installation was restored from one: an older number must not write to the folder.
ALTER TABLE cdp.instance ADD COLUMN epoch integer NOT NULL DEFAULT 1;

-- When the project was last saved into a folder, or found unchanged since.
ALTER TABLE cdp.projects ADD COLUMN saved_at timestamptz;

CREATE TABLE cdp.backups (
  folder text PRIMARY KEY,
  -- The last run. It has not ended, or was killed, while ended_at is NULL.
  started_at timestamptz NOT NULL,
  ended_at timestamptz,
  -- Why the last run that has ended failed; NULL: it did not.
  error text,
  -- The last run that succeeded.
  succeeded_at timestamptz,
  bytes bigint
);
