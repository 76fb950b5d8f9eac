-- The one row of the stand-in for pg_database, as it is now. Run where the database was hardened, and in every new clone.
DELETE FROM pg_catalog.pg_database;
INSERT INTO pg_catalog.pg_database
  SELECT d.* FROM pg_catalog._cdp_pg_database d WHERE d.datname = pg_catalog.current_database();
