-- A stream under an Idempotency-Key is one row of the keys, which each chunk changes in its own transaction, and a row for each
-- chunk, by which a repeat finds what is already stored.
ALTER TABLE _cdp.idempotency_keys
  -- Rows inserted and updated, bytes of the decoded body, and whether that was all of it; NULL for requests that are no streams.
  ADD COLUMN stream_rows bigint,
  ADD COLUMN stream_bytes bigint,
  ADD COLUMN is_complete boolean;

CREATE TABLE _cdp.stream_chunks (
  path text NOT NULL,
  key text NOT NULL,
  -- A range of the decoded body, and its SHA-256.
  start_byte bigint NOT NULL,
  end_byte bigint NOT NULL,
  sha256 bytea NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (key, path, start_byte)
);
CREATE INDEX stream_chunks_expires_at ON _cdp.stream_chunks (expires_at);

-- For roles that the project has made, as 018 explains: each has only its own.
CREATE FUNCTION _cdp.chunks_of_role(path text, key text, from_byte bigint, most integer) RETURNS SETOF _cdp.stream_chunks
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT * FROM _cdp.stream_chunks c
  WHERE c.key = $2 AND c.path = $1 AND starts_with($1, 'ROLE ' || _cdp.role_name() || ' ') AND c.start_byte >= $3
  ORDER BY c.start_byte LIMIT $4
$$;

CREATE FUNCTION _cdp.store_chunk_of_role(path text, key text, fingerprint bytea, answer text, stream_rows bigint, start_byte bigint,
  end_byte bigint, is_complete boolean, sha256 bytea, kept interval) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  until timestamptz := now() + least(kept, interval '10 years');
BEGIN
  IF starts_with(path, 'ROLE ' || _cdp.role_name() || ' ') IS NOT TRUE OR length(path) > 500 OR length(key) > 255 THEN
    RAISE EXCEPTION 'permission denied for this key' USING ERRCODE = 'insufficient_privilege';
  END IF;
  DELETE FROM _cdp.stream_chunks c WHERE c.ctid = ANY (ARRAY(
    SELECT e.ctid FROM _cdp.stream_chunks e
    WHERE e.expires_at <= now() AND starts_with(e.path, 'ROLE ' || _cdp.role_name() || ' ') LIMIT 100 FOR UPDATE SKIP LOCKED));
  IF start_byte = 0 THEN
    DELETE FROM _cdp.stream_chunks c WHERE c.key = key AND c.path = path;
  END IF;
  INSERT INTO _cdp.idempotency_keys AS stored
      (path, key, fingerprint, answer, transaction_id, expires_at, stream_rows, stream_bytes, is_complete)
    VALUES (path, key, fingerprint, answer, pg_current_xact_id(), until, stream_rows, end_byte, is_complete)
    ON CONFLICT ON CONSTRAINT idempotency_keys_pkey DO UPDATE SET fingerprint = excluded.fingerprint, answer = excluded.answer,
      transaction_id = excluded.transaction_id, created_at = now(), expires_at = excluded.expires_at,
      stream_rows = excluded.stream_rows, stream_bytes = excluded.stream_bytes, is_complete = excluded.is_complete;
  IF end_byte > start_byte THEN
    INSERT INTO _cdp.stream_chunks VALUES (path, key, start_byte, end_byte, sha256, until);
  END IF;
END
$$;
