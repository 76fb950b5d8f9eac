-- What the neighbor owns, with every name and text marked: {m} is a stem that occurs nowhere else, and the word after it
-- says what kind of object it is. The neighbor runs it itself, through the API.

CREATE TABLE {m}_table (
  {m}_column text DEFAULT '{m}_default',
  n integer GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME {m}_identity),
  made text GENERATED ALWAYS AS ('{m}_generated') STORED,
  CONSTRAINT {m}_check CHECK ({m}_column <> '{m}_checked'),
  CONSTRAINT {m}_key PRIMARY KEY (n)
);
INSERT INTO {m}_table ({m}_column) SELECT '{m}_row' FROM generate_series(1, 50);
ANALYZE {m}_table;
CREATE TABLE {m}_child (n integer CONSTRAINT {m}_reference REFERENCES {m}_table, EXCLUDE USING btree (n WITH =));
CREATE TABLE {m}_partitioned (t text) PARTITION BY LIST (t);
CREATE TABLE {m}_partition PARTITION OF {m}_partitioned FOR VALUES IN ('{m}_bound');
CREATE UNIQUE INDEX {m}_index ON {m}_table (lower({m}_column), n) WHERE {m}_column <> '{m}_predicate';
CREATE TABLE {m}_locked ();
CREATE SEQUENCE {m}_sequence;
SELECT nextval('{m}_sequence');
CREATE VIEW {m}_view AS SELECT '{m}_viewbody'::text AS {m}_viewcolumn;
CREATE MATERIALIZED VIEW {m}_matview AS SELECT '{m}_matviewbody'::text AS t;
CREATE STATISTICS {m}_statistics ON n, {m}_column FROM {m}_table;

CREATE FUNCTION {m}_function({m}_argument integer DEFAULT 1) RETURNS integer LANGUAGE plpgsql
  SET application_name = '{m}_functionsetting'
  AS $$ BEGIN RETURN length('{m}_functionbody'); END $$;
CREATE FUNCTION {m}_newfunction() RETURNS text LANGUAGE sql RETURN '{m}_newbody'::text;
CREATE PROCEDURE {m}_procedure() LANGUAGE sql AS $$ SELECT '{m}_procedurebody' $$;
CREATE AGGREGATE {m}_aggregate (text) (SFUNC = textcat, STYPE = text, INITCOND = '{m}_initial');
CREATE FUNCTION {m}_triggerfunction() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER {m}_trigger BEFORE UPDATE ON {m}_table FOR EACH ROW
  EXECUTE FUNCTION {m}_triggerfunction('{m}_triggerargument');
CREATE RULE {m}_rule AS ON DELETE TO {m}_table DO ALSO SELECT '{m}_rulebody';
CREATE POLICY {m}_policy ON {m}_table USING ({m}_column <> '{m}_policybody');

CREATE TYPE {m}_enum AS ENUM ('{m}_label');
CREATE TYPE {m}_composite AS ({m}_attribute integer);
CREATE TYPE {m}_range AS RANGE (SUBTYPE = text, MULTIRANGE_TYPE_NAME = {m}_multirange);
CREATE DOMAIN {m}_domain AS text DEFAULT '{m}_domaindefault' CONSTRAINT {m}_domaincheck CHECK (VALUE <> '{m}_domainbody');
CREATE FUNCTION {m}_convert({m}_composite) RETURNS text LANGUAGE sql AS $$ SELECT '{m}_castbody' $$;
CREATE CAST ({m}_composite AS text) WITH FUNCTION {m}_convert({m}_composite);
CREATE OPERATOR <#~#> (LEFTARG = text, RIGHTARG = text, FUNCTION = textcat);
CREATE COLLATION {m}_collation FROM "C";
CREATE CONVERSION {m}_conversion FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8;
CREATE TEXT SEARCH DICTIONARY {m}_dictionary (TEMPLATE = simple);
CREATE TEXT SEARCH CONFIGURATION {m}_searchconfig (COPY = simple);

COMMENT ON TABLE {m}_table IS '{m}_tablecomment';
COMMENT ON COLUMN {m}_table.n IS '{m}_columncomment';
COMMENT ON VIEW {m}_view IS '{m}_viewcomment';
COMMENT ON INDEX {m}_index IS '{m}_indexcomment';
COMMENT ON SEQUENCE {m}_sequence IS '{m}_sequencecomment';
COMMENT ON FUNCTION {m}_function IS '{m}_functioncomment';
COMMENT ON TYPE {m}_enum IS '{m}_typecomment';
COMMENT ON DOMAIN {m}_domain IS '{m}_domaincomment';
COMMENT ON CONSTRAINT {m}_check ON {m}_table IS '{m}_constraintcomment';
COMMENT ON TRIGGER {m}_trigger ON {m}_table IS '{m}_triggercomment';
COMMENT ON RULE {m}_rule ON {m}_table IS '{m}_rulecomment';
COMMENT ON POLICY {m}_policy ON {m}_table IS '{m}_policycomment';
COMMENT ON OPERATOR <#~#> (text, text) IS '{m}_operatorcomment';
COMMENT ON COLLATION {m}_collation IS '{m}_collationcomment';
COMMENT ON STATISTICS {m}_statistics IS '{m}_statisticscomment';
COMMENT ON TEXT SEARCH CONFIGURATION {m}_searchconfig IS '{m}_searchcomment';

SELECT lo_from_bytea(4000000001, '{m}_largeobject');
COMMENT ON LARGE OBJECT 4000000001 IS '{m}_largeobjectcomment';
