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
