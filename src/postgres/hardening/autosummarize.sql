-- BRIN's storage parameter `autosummarize` stays off: it has autovacuum run index functions of the project outside of VACUUM and
-- ANALYZE, where an ANALYZE that such a function runs ends the transaction under it, and Postgres with all its databases
-- crashes. No setting of the server turns these work items off. Event triggers are a superuser's to make, disable and
-- drop. Runs as a superuser, and may run again.

-- As whoever runs the statement: it needs no right that not everybody has.
CREATE OR REPLACE FUNCTION _cdp.refuse_autosummarize() RETURNS event_trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  refused boolean;
BEGIN
  IF TG_EVENT = 'ddl_command_start' THEN
    -- CREATE INDEX CONCURRENTLY has committed its index by its end. It is always the whole of what the client has sent, so
    -- its text tells; a name in escapes (U&"…") could be any. Case by "C": the capital of i is another letter in Turkish.
    refused := pg_catalog.current_query() COLLATE pg_catalog."C" ~* 'concurrently'
      AND pg_catalog.current_query() COLLATE pg_catalog."C" ~* 'autosummarize|u&"';
  ELSE
    refused := EXISTS (
      SELECT FROM pg_catalog.pg_event_trigger_ddl_commands() d
      JOIN pg_catalog.pg_class c ON c.oid = d.objid AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
      CROSS JOIN pg_catalog.unnest(c.reloptions) AS o (option)
      WHERE c.relkind IN ('i', 'I')
        AND CASE WHEN o.option LIKE 'autosummarize=%' THEN pg_catalog.split_part(o.option, '=', 2)::pg_catalog.bool END);
  END IF;
  IF refused THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'autosummarize is not offered here',
      HINT = 'Leave the parameter out. VACUUM summarizes new pages of the table, and brin_summarize_new_values() does at once.';
  END IF;
END
$function$;
REVOKE ALL ON FUNCTION _cdp.refuse_autosummarize() FROM PUBLIC;

-- Not CREATE TABLE: its indexes are copies, or have no such parameter.
DROP EVENT TRIGGER IF EXISTS cdp_autosummarize;
CREATE EVENT TRIGGER cdp_autosummarize ON ddl_command_end
  WHEN TAG IN ('CREATE INDEX', 'ALTER INDEX', 'ALTER TABLE', 'CREATE SCHEMA')
  EXECUTE FUNCTION _cdp.refuse_autosummarize();
ALTER EVENT TRIGGER cdp_autosummarize ENABLE ALWAYS;
DROP EVENT TRIGGER IF EXISTS cdp_autosummarize_concurrently;
CREATE EVENT TRIGGER cdp_autosummarize_concurrently ON ddl_command_start
  WHEN TAG IN ('CREATE INDEX')
  EXECUTE FUNCTION _cdp.refuse_autosummarize();
ALTER EVENT TRIGGER cdp_autosummarize_concurrently ENABLE ALWAYS;

-- Directly, not by ALTER INDEX: that refuses indexes of partitioned tables, and waits for whoever reads the table.
UPDATE pg_catalog.pg_class c
SET reloptions = NULLIF(ARRAY(SELECT o.option FROM pg_catalog.unnest(c.reloptions) AS o (option)
  WHERE o.option NOT LIKE 'autosummarize=%'), '{}')
WHERE c.relkind IN ('i', 'I') AND EXISTS (SELECT FROM pg_catalog.unnest(c.reloptions) AS o (option)
  WHERE o.option LIKE 'autosummarize=%');
