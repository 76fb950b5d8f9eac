-- The project's feed of changes; NULL: it has none.
ALTER TABLE cdp.projects ADD COLUMN feed jsonb;

DROP TRIGGER count_change ON cdp.projects;
CREATE TRIGGER count_change AFTER INSERT OR DELETE
  OR UPDATE OF name, status, server, database_name, schema_name, writer_role, reader_role, schema_version, quota_bytes, own_schemas,
    is_fenced, events, feed
  ON cdp.projects FOR EACH STATEMENT EXECUTE FUNCTION cdp.count_change();
