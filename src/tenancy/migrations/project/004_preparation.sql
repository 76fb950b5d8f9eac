-- What was done to this database beside its migrations, and may have to be done again: hardening.ts writes the row and
-- says when it holds. (Migration 3 was the hardening itself; databases made before may have it.)
CREATE TABLE _cdp.preparation (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Version of the hardening; 0 where the service's role may not harden.
  hardening integer NOT NULL,
  -- Postgres's major version then: another one has other catalogs.
  server integer NOT NULL,
  -- The database's name then: a dump that is restored elsewhere brings this row, but not what it tells of.
  database name NOT NULL,
  -- Extensions installed for the operator.
  extensions text[] NOT NULL
);
GRANT SELECT ON _cdp.preparation TO PUBLIC;
