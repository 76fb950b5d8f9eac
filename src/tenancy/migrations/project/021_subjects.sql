-- Which erasures this database contains, each written in its own transaction: a restored database tells which it lacks.
CREATE TABLE _cdp.erasures (
  id uuid PRIMARY KEY,
  erased_at timestamptz NOT NULL DEFAULT now(),
  result jsonb
);

-- The first version of the normalisation of identifiers that ignores case. An index may use it.
CREATE FUNCTION _cdp.caseless_1(value text) RETURNS text
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN normalize(btrim(translate(value, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'), E' \t\n\r\f\v'), NFC);
