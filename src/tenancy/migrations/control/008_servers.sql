-- Postgres servers that projects live on. `cdp.projects.server` is the name of one; for a project with a server of its own in
-- the data directory, it is the id of its folder, which counts as the server `default`.
CREATE TABLE cdp.servers (
  name text PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9-]{0,62}$'),
  -- Where each instance reads the URL with its password: env:NAME or file:PATH. NULL: the server that the installation started with.
  url_reference text CHECK (url_reference ~ '^(env|file):.'),
  engine text NOT NULL DEFAULT 'postgres' CHECK (engine IN ('postgres', 'citus')),
  tenancy text NOT NULL DEFAULT 'shared' CHECK (tenancy IN ('shared', 'dedicated')),
  labels jsonb NOT NULL DEFAULT '{}',
  -- A server with twice the weight gets twice as many projects.
  weight real NOT NULL DEFAULT 1 CHECK (weight > 0),
  -- NULL: no limit.
  max_projects integer CHECK (max_projects > 0),
  max_bytes bigint CHECK (max_bytes > 0),
  max_connections integer CHECK (max_connections > 0),
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'draining', 'closed')),
  -- What the last check found.
  facts jsonb,
  created_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO cdp.servers (name) VALUES ('default');

-- An instance notices a changed address when it next checks for changes of its projects.
CREATE TRIGGER count_change AFTER INSERT OR DELETE OR UPDATE OF url_reference, engine, max_connections ON cdp.servers
  FOR EACH STATEMENT EXECUTE FUNCTION cdp.count_change();
