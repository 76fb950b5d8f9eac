-- What the neighbor is doing while it is probed: each block is one running request. {m} as in neighbour.sql; {lock} is the
-- key of an advisory lock.

-- request: holds everything that a session can hold
SET application_name = '{m}_application';
SET {m}_guc.name = '{m}_gucvalue';
CREATE TEMPORARY TABLE {m}_temporary AS SELECT '{m}_temporaryrow'::text AS t;
PREPARE {m}_prepared AS SELECT '{m}_preparedtext';
DECLARE {m}_cursor CURSOR FOR SELECT '{m}_cursortext';
SELECT pg_advisory_xact_lock({lock});
INSERT INTO {m}_table ({m}_column) VALUES ('{m}_uncommitted');
CREATE TABLE {m}_unborn ();
LOCK TABLE {m}_locked;
SELECT pg_sleep(59) /* {m}_statement */;

-- request: waits for a lock of the first
LOCK TABLE {m}_locked /* {m}_waiting */;

-- request: reports its progress, under an application name that it has set
SET application_name = '{m}_progressing';
CREATE FUNCTION {m}_slow(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN PERFORM pg_sleep(59 /* {m}_slowstatement */); RETURN 1; END $$;
CREATE INDEX {m}_slowindex ON {m}_matview ({m}_slow(length(t)));
