-- What data loaders do in Postgres, in our own SQL. psql runs it as the writer and prints the rows of its SELECTs.

-- dlt (dlt/destinations/impl/postgres, and its merge jobs): a schema for a dataset and one for its staging area, rows by INSERT, a
-- merge with a temporary table of keys, then with MERGE; a replacement that moves the staging table into place.
SET search_path = shop_dlt, public;
SELECT 1 FROM information_schema.schemata WHERE catalog_name = current_database() AND schema_name = 'shop_dlt';
CREATE SCHEMA "shop_dlt";
CREATE SCHEMA "shop_dlt_staging";
SELECT table_name, column_name, ordinal_position, is_nullable, data_type, numeric_precision, numeric_scale
FROM information_schema.columns
WHERE table_catalog = current_database() AND table_schema = 'shop_dlt' AND table_name IN ('_dlt_version', 'orders')
ORDER BY 1, 3;
BEGIN;
CREATE TABLE "shop_dlt"."_dlt_version" ("version" bigint NOT NULL, "inserted_at" timestamp with time zone NOT NULL, "schema" varchar NOT NULL);
CREATE TABLE "shop_dlt"."_dlt_loads" ("load_id" varchar NOT NULL, "status" bigint NOT NULL, "inserted_at" timestamptz NOT NULL);
CREATE TABLE "shop_dlt"."orders" ("id" bigint NOT NULL, "note" varchar, "_dlt_load_id" varchar NOT NULL, "_dlt_id" varchar UNIQUE NOT NULL);
CREATE TABLE "shop_dlt_staging"."orders" (LIKE "shop_dlt"."orders" INCLUDING ALL);
INSERT INTO "shop_dlt"."_dlt_version" VALUES (1, now(), E'{"name": "shop"}');
COMMIT;
ALTER TABLE "shop_dlt"."orders" ADD COLUMN "paid" boolean;
ALTER TABLE "shop_dlt_staging"."orders" ADD COLUMN "paid" boolean;
INSERT INTO "shop_dlt"."orders" ("id", "note", "_dlt_load_id", "_dlt_id", "paid") VALUES (1, E'a\nb', '1.1', 'x1', NULL), (2, NULL, '1.1', 'x2', true);
TRUNCATE TABLE "shop_dlt_staging"."orders";
INSERT INTO "shop_dlt_staging"."orders" VALUES (2, 'changed', '1.2', 'x3', false), (3, 'new', '1.2', 'x4', true);
BEGIN;
CREATE TEMP TABLE "delete_orders" AS SELECT d."_dlt_id" FROM "shop_dlt"."orders" d
  WHERE EXISTS (SELECT 1 FROM "shop_dlt_staging"."orders" s WHERE d."id" = s."id");
DELETE FROM "shop_dlt"."orders" WHERE "_dlt_id" IN (SELECT "_dlt_id" FROM "delete_orders");
INSERT INTO "shop_dlt"."orders" SELECT * FROM "shop_dlt_staging"."orders";
COMMIT;
MERGE INTO "shop_dlt"."orders" d USING "shop_dlt_staging"."orders" s ON d."id" = s."id"
  WHEN MATCHED THEN UPDATE SET "note" = s."note" || '!'
  WHEN NOT MATCHED THEN INSERT ("id", "note", "_dlt_load_id", "_dlt_id") VALUES (s."id", s."note", s."_dlt_load_id", s."_dlt_id");
INSERT INTO "shop_dlt"."_dlt_loads" VALUES ('1.2', 0, now());
SELECT 'dlt', id, note, paid FROM "shop_dlt"."orders" ORDER BY id;
BEGIN;
DROP TABLE IF EXISTS "shop_dlt"."orders";
ALTER TABLE "shop_dlt_staging"."orders" SET SCHEMA "shop_dlt";
CREATE TABLE "shop_dlt_staging"."orders" (LIKE "shop_dlt"."orders" INCLUDING ALL);
COMMIT;
SELECT 'dlt', count(*) FROM "shop_dlt"."orders";
RESET ALL;
SET SESSION AUTHORIZATION DEFAULT;

-- Airbyte (destination-postgres): the tables of a stream in one transaction each, rows by COPY, then an upsert of the latest row of
-- each key, and a table that replaces another.
CREATE SCHEMA IF NOT EXISTS "shop_airbyte";
CREATE SCHEMA IF NOT EXISTS "airbyte_internal";
BEGIN TRANSACTION;
DROP TABLE IF EXISTS "airbyte_internal"."orders_tmp";
CREATE TABLE IF NOT EXISTS "airbyte_internal"."orders_tmp" (
  "_airbyte_raw_id" varchar NOT NULL, "_airbyte_extracted_at" timestamp with time zone NOT NULL, "_airbyte_meta" jsonb NOT NULL,
  "_airbyte_generation_id" bigint NOT NULL, "id" bigint, "total" numeric(38, 9));
CREATE INDEX ON "airbyte_internal"."orders_tmp" ("_airbyte_extracted_at");
COMMIT;
CREATE TABLE "shop_airbyte"."orders" (LIKE "airbyte_internal"."orders_tmp" INCLUDING ALL, UNIQUE ("id"));
COPY "airbyte_internal"."orders_tmp" FROM STDIN;
a1	2026-01-01T00:00:00Z	{"changes": []}	1	1	1.5
a2	2026-01-02T00:00:00Z	{}	1	1	2.5
a3	2026-01-02T00:00:00Z	{}	1	2	\N
\.
SELECT EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = 'shop_airbyte' AND table_name = 'orders');
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = '"shop_airbyte"."orders"'::regclass AND i.indisunique ORDER BY 1;
WITH latest AS (
  SELECT *, row_number() OVER (PARTITION BY "id" ORDER BY "_airbyte_extracted_at" DESC) AS n FROM "airbyte_internal"."orders_tmp")
INSERT INTO "shop_airbyte"."orders"
SELECT "_airbyte_raw_id", "_airbyte_extracted_at", "_airbyte_meta", "_airbyte_generation_id", "id", "total" FROM latest WHERE n = 1
ON CONFLICT ("id") DO UPDATE SET "total" = EXCLUDED."total", "_airbyte_extracted_at" = EXCLUDED."_airbyte_extracted_at";
BEGIN TRANSACTION;
ALTER TABLE "shop_airbyte"."orders" ADD COLUMN "total_tmp" varchar;
UPDATE "shop_airbyte"."orders" SET "total_tmp" = CAST("total" AS varchar);
ALTER TABLE "shop_airbyte"."orders" DROP COLUMN "total" CASCADE;
ALTER TABLE "shop_airbyte"."orders" RENAME COLUMN "total_tmp" TO "total";
COMMIT;
SELECT 'airbyte', id, total FROM "shop_airbyte"."orders" ORDER BY id;
BEGIN TRANSACTION;
DROP TABLE "shop_airbyte"."orders";
ALTER TABLE "airbyte_internal"."orders_tmp" SET SCHEMA "shop_airbyte";
ALTER TABLE "shop_airbyte"."orders_tmp" RENAME TO "orders";
COMMIT;
SELECT 'airbyte', count(*) FROM "shop_airbyte"."orders";
DROP SCHEMA "airbyte_internal" CASCADE;

-- Loaders that stage in temporary tables: they first query their privileges, then use COPY, DELETE USING, UPDATE FROM and INSERT under a lock.
SELECT 'may', has_database_privilege(current_database(), 'CREATE'), has_database_privilege(current_database(), 'TEMPORARY'),
  has_schema_privilege('data', 'CREATE, USAGE');
CREATE TABLE data.stock (id bigint PRIMARY KEY, pieces integer, _synced timestamptz DEFAULT now(), _deleted boolean DEFAULT false);
COMMENT ON TABLE data.stock IS 'synced';
BEGIN;
CREATE TEMPORARY TABLE staged (LIKE data.stock INCLUDING DEFAULTS) ON COMMIT DROP;
COPY staged (id, pieces) FROM STDIN;
1	10
2	\N
\.
LOCK TABLE data.stock IN SHARE ROW EXCLUSIVE MODE;
DELETE FROM data.stock USING staged WHERE stock.id = staged.id AND staged._deleted;
UPDATE data.stock SET pieces = staged.pieces FROM staged WHERE stock.id = staged.id;
INSERT INTO data.stock SELECT * FROM staged WHERE NOT EXISTS (SELECT FROM data.stock WHERE stock.id = staged.id);
COMMIT;
ANALYZE data.stock;
SELECT 'staged', id, pieces, _deleted FROM data.stock ORDER BY id;
