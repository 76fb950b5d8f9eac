-- As before, plus the triggers: if a table already has one (those of foreign keys count), another one writes no row of
-- pg_class.
CREATE OR REPLACE FUNCTION _cdp.table_version(relation regclass) RETURNS text
  LANGUAGE sql IMMUTABLE STRICT
  RETURN (SELECT encode(sha256(convert_to(concat_ws(' ', c.oid, c.xmin, c.ctid,
      (SELECT string_agg(concat(a.xmin, a.ctid), '' ORDER BY a.attnum)
       FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
      (SELECT string_agg(concat(i.indexrelid), ' ' ORDER BY i.indexrelid)
       FROM pg_index i WHERE i.indrelid = c.oid),
      (SELECT string_agg(concat(g.oid, g.xmin, g.ctid), '' ORDER BY g.oid)
       FROM pg_trigger g WHERE g.tgrelid = c.oid)), 'UTF8')), 'hex')
    FROM pg_class c WHERE c.oid = relation);
