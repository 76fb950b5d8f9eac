-- What every project's database contains besides the project's own schema. Runs in the template database, and in the
-- databases of existing projects when the service is upgraded. The schemas belong to the service; the project's roles
-- get their rights in project-rights.ts, because they do not exist in the template.

DROP SCHEMA IF EXISTS public;
CREATE SCHEMA data;
CREATE SCHEMA _cdp;
GRANT USAGE ON SCHEMA _cdp TO PUBLIC;

-- The default of every table's id. Postgres 18 has uuidv7() in pg_catalog; older versions get a function
-- with the same layout (RFC 9562 section 5.7: 48 bits of milliseconds, 12 bits of their fraction, the rest random).
DO $do$
BEGIN
  IF current_setting('server_version_num')::integer >= 180000 THEN
    CREATE FUNCTION _cdp.uuid_v7() RETURNS uuid
      LANGUAGE sql VOLATILE PARALLEL SAFE
      RETURN pg_catalog.uuidv7();
  ELSE
    CREATE FUNCTION _cdp.uuid_v7() RETURNS uuid
      LANGUAGE plpgsql VOLATILE PARALLEL SAFE
      SET search_path = pg_catalog, pg_temp
    AS $body$
    DECLARE
      micros bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
      bytes bytea := uuid_send(gen_random_uuid());
      fraction integer := ((micros % 1000) * 4096 / 1000)::integer;
    BEGIN
      bytes := overlay(bytes PLACING substring(int8send(micros / 1000) FROM 3) FROM 1 FOR 6);
      bytes := set_byte(bytes, 6, 112 + (fraction >> 8)); -- version 7
      bytes := set_byte(bytes, 7, fraction & 255);
      RETURN encode(bytes, 'hex')::uuid; -- the variant bits are those of gen_random_uuid
    END
    $body$;
  END IF;
END
$do$;

-- Answers by Idempotency-Key, written in the transaction of their insert. The project's writer can write here by
-- free SQL: it could forge keys of its own project, which does not affect other projects.
CREATE TABLE _cdp.idempotency_keys (
  path text NOT NULL,
  key text NOT NULL,
  -- SHA-256 of the query string and the decoded body.
  fingerprint bytea NOT NULL,
  answer text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (path, key)
);
CREATE INDEX idempotency_keys_created_at ON _cdp.idempotency_keys (created_at);
