-- What the prober creates in its own schema to ask many questions in one request.

-- The numbers that a by-oid question tries, and the process IDs of the neighbor's sessions.
CREATE TABLE probe_oids (o oid);
CREATE TABLE probe_numbers (n integer);
CREATE TABLE probe_texts (t text);
INSERT INTO probe_texts VALUES ('a'), ('1'), ('data'), ('pg_class'), ('pg_catalog.pg_database'), ('postgres'), ('SELECT'),
  ('SELECT * FROM pg_catalog.pg_class'), ('USAGE'), ('/etc/passwd'), ('pg_monitor');

-- Every answer to a question for all rows of one of these tables, or the complete text of the error. If one row fails, each
-- row is tried separately.
CREATE FUNCTION probe(question text, source text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  answer text;
  collected text[] := '{}';
  given text;
  message text;
  detail text;
  hint text;
  context text;
BEGIN
  BEGIN
    EXECUTE format('SELECT string_agg(DISTINCT a::text, E''\n'') FROM %s LATERAL (SELECT %s) AS a',
      CASE source WHEN '' THEN '' ELSE source || ' AS x (x),' END, question) INTO answer;
    RETURN answer;
  EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT,
      context = PG_EXCEPTION_CONTEXT;
    collected := collected || concat_ws(E'\n', message, detail, hint, context);
  END;
  -- The function itself is closed, whatever it is asked.
  IF source = '' OR message LIKE 'permission denied for function %' THEN
    RETURN collected[1];
  END IF;
  FOR given IN EXECUTE 'SELECT * FROM ' || source LOOP
    BEGIN
      EXECUTE format('SELECT string_agg(a::text, E''\n'') FROM (VALUES (CAST($1 AS %s))) AS x (x), LATERAL (SELECT %s) AS a',
        CASE source WHEN 'data.probe_oids' THEN 'oid' WHEN 'data.probe_numbers' THEN 'integer' ELSE 'text' END, question)
        INTO answer USING given;
    EXCEPTION WHEN OTHERS THEN
      GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
      answer := concat_ws(E'\n', message, detail, hint);
    END;
    IF answer <> ALL (collected) THEN
      collected := collected || answer;
    END IF;
  END LOOP;
  RETURN array_to_string(collected, E'\n');
END
$$;
