-- The locks that the session itself holds, for dry runs: projects that share a server may not read pg_locks.
CREATE FUNCTION _cdp.session_locks() RETURNS TABLE (relation oid, mode text)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT l.relation, l.mode FROM pg_catalog.pg_locks l
  WHERE l.pid = pg_catalog.pg_backend_pid() AND l.granted AND l.relation IS NOT NULL
$$;
