-- Hides the names of the statements that the service has prepared in a session: a trigger that knew them could replace one
-- with a statement of the project (src/pg/prepared-statements.ts). Without the right to revoke, Postgres raises a
-- warning, and a project can falsify the answers to its own inserts.
REVOKE ALL ON pg_catalog.pg_prepared_statements FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_catalog.pg_prepared_statement() FROM PUBLIC;
