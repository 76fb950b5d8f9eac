-- A dump holds a lock on this table, and another dump of the database waits for it. Projects have no privileges here, so they
-- cannot hold that lock.
CREATE TABLE _cdp.dump_lock ();
