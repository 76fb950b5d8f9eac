-- Databases are no longer hardened (docs/decisions/0008).
DROP TABLE IF EXISTS _cdp.preparation;
