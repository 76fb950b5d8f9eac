-- The event trigger on the schemas that a project creates (src/tenancy/own-schemas.ts). Earlier versions took only names of
-- lower-case letters, digits and underscores. The service has `_cdp`, and `extensions` for those of the operator; pg_dump writes
-- "-" where there is no schema.
CREATE OR REPLACE FUNCTION _cdp.schema_names() RETURNS event_trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  name text;
BEGIN
  SELECT n.nspname INTO name FROM pg_event_trigger_ddl_commands() c JOIN pg_namespace n ON n.oid = c.objid
    WHERE c.classid = 'pg_namespace'::regclass AND (starts_with(n.nspname, '_cdp') OR n.nspname IN ('extensions', '-'));
  IF FOUND AND current_setting('is_superuser') = 'off' THEN
    RAISE EXCEPTION 'a schema cannot be called "%"', name USING ERRCODE = 'reserved_name',
      HINT = '"extensions", "-" and names that begin with "_cdp" are reserved.';
  END IF;
END
$function$;
