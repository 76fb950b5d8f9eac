-- Names the versions of the catalog rows that the shape of a table is read from (transaction and place of each). Every
-- change of a column or a default writes a row of pg_attribute, of triggers, rules, checks and row security one of
-- pg_class; an index is told by its oid. A version is never used again while the table exists, so equal hashes mean an
-- equal shape; maintenance that moves catalog rows costs a look at the table and no more.
--
-- IMMUTABLE so that Postgres asks it when it plans a statement, and not each time the statement runs: a prepared
-- statement that names the table in a constant is planned anew once anything about the table has changed (manual,
-- PREPARE). Only such statements may rely on it (catalog.ts).
CREATE FUNCTION _cdp.table_version(relation regclass) RETURNS text
  LANGUAGE sql IMMUTABLE STRICT
  RETURN (SELECT encode(sha256(convert_to(concat_ws(' ', c.oid, c.xmin, c.ctid,
      (SELECT string_agg(concat(a.xmin, a.ctid), '' ORDER BY a.attnum)
       FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
      (SELECT string_agg(concat(i.indexrelid), ' ' ORDER BY i.indexrelid)
       FROM pg_index i WHERE i.indrelid = c.oid)), 'UTF8')), 'hex')
    FROM pg_class c WHERE c.oid = relation);
