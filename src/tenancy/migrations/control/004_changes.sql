-- Counts changes of what tokens may do, in the transaction of each change, from any client, so that an instance can check
-- with one query whether its cache of all tokens is still valid. The use of a token is not a change.

ALTER TABLE cdp.instance ADD COLUMN changes bigint NOT NULL DEFAULT 0;

CREATE FUNCTION cdp.count_change() RETURNS trigger
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
  UPDATE cdp.instance SET changes = changes + 1;
  RETURN NULL;
END
$body$;

CREATE TRIGGER count_change AFTER INSERT OR DELETE OR UPDATE ON cdp.projects
  FOR EACH STATEMENT EXECUTE FUNCTION cdp.count_change();
CREATE TRIGGER count_change AFTER INSERT OR DELETE OR UPDATE OF project_id, name, scopes, expires_at, revoked_at ON cdp.tokens
  FOR EACH STATEMENT EXECUTE FUNCTION cdp.count_change();
