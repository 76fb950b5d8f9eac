-- The server that a project lives on: the id of its folder, or the one shared server. Names of databases and roles are unique on
-- a server.
ALTER TABLE cdp.projects ADD COLUMN server text NOT NULL DEFAULT 'default';
ALTER TABLE cdp.projects ALTER COLUMN server DROP DEFAULT;
ALTER TABLE cdp.projects DROP CONSTRAINT projects_database_name_key, DROP CONSTRAINT projects_writer_role_key,
  DROP CONSTRAINT projects_reader_role_key, ADD UNIQUE (server, database_name);

-- Bytes on disk when the project's own server was last stopped; NULL: unknown, or the server is asked.
ALTER TABLE cdp.projects ADD COLUMN size_bytes bigint;

-- The rights of a token do not depend on a size.
DROP TRIGGER count_change ON cdp.projects;
CREATE TRIGGER count_change AFTER INSERT OR DELETE
  OR UPDATE OF name, status, server, database_name, schema_name, writer_role, reader_role, schema_version, quota_bytes
  ON cdp.projects FOR EACH STATEMENT EXECUTE FUNCTION cdp.count_change();
