/** Words of SQL: those that may follow a Tab, and those that are no names without quotes (Postgres manual, appendix C). */

/** Reserved, some of them but for functions and types. */
export const RESERVED: ReadonlySet<string> = new Set(
  (
    'all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation ' +
    'column concurrently constraint create cross current_catalog current_date current_role current_schema current_time ' +
    'current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze ' +
    'from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit ' +
    'localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary ' +
    'references returning right select session_user similar some symmetric system_user table tablesample then to ' +
    'trailing true union unique user using variadic verbose when where window with'
  ).split(' '),
);

/** What people type, more than what the grammar has. */
export const KEYWORDS: readonly string[] = (
  'ADD ALL ALTER ANALYZE AND ANY ARRAY AS ASC BETWEEN BIGINT BOOLEAN BY CASCADE CASE CAST CHECK COALESCE COLUMN COMMENT ' +
  'CONFLICT CONSTRAINT COUNT CREATE CROSS CURRENT_DATE CURRENT_TIMESTAMP DATE DEFAULT DELETE DESC DISTINCT DO DROP ELSE ' +
  'END EXCEPT EXISTS EXPLAIN EXTENSION EXTRACT FALSE FILTER FIRST FOREIGN FROM FULL FUNCTION GENERATED GREATEST GROUP ' +
  'HAVING IDENTITY IF ILIKE IN INDEX INNER INSERT INTEGER INTERSECT INTERVAL INTO IS JOIN JSONB KEY LANGUAGE LAST LATERAL ' +
  'LEAST LEFT LIKE LIMIT MATERIALIZED MAX MERGE MIN NOT NOTHING NOW NULL NULLIF NULLS NUMERIC OFFSET ON OR ORDER OUTER ' +
  'OVER PARTITION PRIMARY REFERENCES REFRESH RENAME REPLACE RETURNING RETURNS RIGHT SCHEMA SELECT SEQUENCE SET SUM TABLE ' +
  'TEMPORARY TEXT THEN TIMESTAMP TIMESTAMPTZ TO TRIGGER TRUE TRUNCATE TYPE UNION UNIQUE UPDATE USING UUID VACUUM VALUES ' +
  'VARCHAR VIEW WHEN WHERE WINDOW WITH'
).split(' ');
