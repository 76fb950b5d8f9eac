CREATE SCHEMA cdp;

-- The control schema: which projects exist, where they live, and which tokens give access.

CREATE TABLE cdp.instance (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Random; part of the template database's name, so that several installations can share a server.
  id text NOT NULL,
  -- HMAC of a constant under the instance secret: an instance with another secret must not start.
  secret_fingerprint text NOT NULL,
  -- Newest migration of migrations/project that the template database has.
  template_version integer NOT NULL DEFAULT 0,
  -- When the first project and its token were shown, on an embedded database.
  welcomed_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE cdp.projects (
  id uuid PRIMARY KEY,
  name text NOT NULL UNIQUE CHECK (name ~ '^[a-z][a-z0-9-]{0,62}$'),
  -- creating and deleting are temporary, and are completed or undone after a crash.
  status text NOT NULL CHECK (status IN ('creating', 'active', 'inactive', 'deleting')),
  database_name text NOT NULL UNIQUE,
  schema_name text NOT NULL,
  writer_role text NOT NULL UNIQUE,
  reader_role text NOT NULL UNIQUE,
  -- Newest migration of migrations/project that the project's database has.
  schema_version integer NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE cdp.tokens (
  id uuid PRIMARY KEY,
  -- NULL: an admin token, which manages projects and tokens and opens no project.
  project_id uuid REFERENCES cdp.projects ON DELETE CASCADE,
  name text NOT NULL,
  sha256 bytea NOT NULL UNIQUE CHECK (octet_length(sha256) = 32),
  scopes text[] NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
);

CREATE INDEX tokens_project_id ON cdp.tokens (project_id);
