-- What was done to this database besides its migrations, and may have to be done again: the hardening writes the row and
-- checks whether it is current. (Migration 3 was the hardening itself; older databases may have it.)
CREATE TABLE _cdp.preparation (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Version of the hardening; 0 if the service's role may not harden.
  hardening integer NOT NULL,
  -- Postgres's major version at that time: other versions have other catalogs.
  server integer NOT NULL,
  -- The database's name at that time: a dump restored elsewhere contains this row, but not what it describes.
  database name NOT NULL,
  -- Extensions installed for the operator.
  extensions text[] NOT NULL
);
GRANT SELECT ON _cdp.preparation TO PUBLIC;
