-- Databases are not hardened any more (docs/decisions/0021).
DROP TABLE IF EXISTS _cdp.preparation;
