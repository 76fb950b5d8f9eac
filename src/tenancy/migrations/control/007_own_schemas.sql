-- Whether the project may create schemas besides its own one.
ALTER TABLE cdp.projects ADD COLUMN own_schemas boolean NOT NULL DEFAULT false;
ALTER TABLE cdp.projects ALTER COLUMN own_schemas DROP DEFAULT;

DROP TRIGGER count_change ON cdp.projects;
CREATE TRIGGER count_change AFTER INSERT OR DELETE
  OR UPDATE OF name, status, server, database_name, schema_name, writer_role, reader_role, schema_version, quota_bytes, own_schemas
  ON cdp.projects FOR EACH STATEMENT EXECUTE FUNCTION cdp.count_change();
