-- The names of what the service has prepared in a session stay its own: a trigger that knew them could put a statement of
-- the project's behind an insert (src/postgres/wire/prepared-statements.ts). Without the right to revoke, Postgres says so in
-- a warning; then a project can falsify the answers to its own inserts.
REVOKE ALL ON pg_catalog.pg_prepared_statements FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_catalog.pg_prepared_statement() FROM PUBLIC;
