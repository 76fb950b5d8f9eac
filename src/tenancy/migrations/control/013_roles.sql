-- Roles that projects have made. What they may do, the project's database knows; here is which ones there are, so that a token
-- can act as one of them, and as no other.
CREATE TABLE cdp.roles (
  project_id uuid NOT NULL REFERENCES cdp.projects ON DELETE CASCADE,
  name text NOT NULL,
  comment text,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (project_id, name)
);

-- The role that a token acts as; NULL: its scopes decide between writer and reader. A token outlives its role as a revoked one.
ALTER TABLE cdp.tokens ADD COLUMN role text;
