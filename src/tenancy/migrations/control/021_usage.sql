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
