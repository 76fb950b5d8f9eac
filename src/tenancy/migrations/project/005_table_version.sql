-- Hashes the versions of the catalog rows that describe the shape of a table (xmin and ctid of each). Every change of a
-- column or a default writes a row of pg_attribute, and every change of triggers, rules, checks and row security writes
-- one of pg_class; an index is identified by its oid. A version never recurs while the table exists, so equal hashes
-- mean an equal shape. Maintenance that moves catalog rows only causes the shape to be read again.
--
-- IMMUTABLE so that Postgres evaluates it when it plans a statement, and not each time the statement runs: a prepared
-- statement that names the table in a constant is planned again once anything about the table has changed (manual,
-- PREPARE). Only such statements may rely on it (catalog.ts).
CREATE FUNCTION _cdp.table_version(relation regclass) RETURNS text
  LANGUAGE sql IMMUTABLE STRICT
  RETURN (SELECT encode(sha256(convert_to(concat_ws(' ', c.oid, c.xmin, c.ctid,
      (SELECT string_agg(concat(a.xmin, a.ctid), '' ORDER BY a.attnum)
       FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
      (SELECT string_agg(concat(i.indexrelid), ' ' ORDER BY i.indexrelid)
       FROM pg_index i WHERE i.indrelid = c.oid)), 'UTF8')), 'hex')
    FROM pg_class c WHERE c.oid = relation);
