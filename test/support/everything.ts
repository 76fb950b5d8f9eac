/**
 * A project with one of everything that a project can create by SQL, and a description of it by which two projects can
 * be compared.
 */
import type pg from 'pg';

export const ROWS = 100_000;

/** In this order, each a request of its own. */
export const EVERYTHING: readonly string[] = [
  `CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')`,
  `CREATE TYPE point3 AS (x float8, y float8, z text)`,
  `CREATE TYPE floats AS RANGE (subtype = float8)`,
  `CREATE DOMAIN short AS text CHECK (length(VALUE) < 100)`,
  `CREATE SEQUENCE tickets START 7 INCREMENT 3; SELECT nextval('tickets'), nextval('tickets')`,
  `CREATE TABLE allowed (word text PRIMARY KEY); INSERT INTO allowed VALUES ('yes'), ('no')`,
  // Names its table without the schema, as free SQL lets it.
  `CREATE FUNCTION is_allowed(word text) RETURNS boolean LANGUAGE plpgsql STABLE
     AS $$ BEGIN RETURN EXISTS (SELECT FROM allowed a WHERE a.word = is_allowed.word); END $$`,
  `CREATE TABLE "Odd ""name"" ; -- é
     of two lines" ("a b" integer, "select" text, "Ünï" jsonb)`,
  `INSERT INTO "Odd ""name"" ; -- é
     of two lines" VALUES (1, E'tab\\t line\\n back\\\\slash \\\\. end', '{"n": 12345678901234567890.123}')`,
  `CREATE TABLE "COPY data.x FROM stdin;" (a integer)`,
  `CREATE TABLE empty (a integer, b text)`,
  `CREATE TABLE people (
     n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
     ticket integer DEFAULT nextval('tickets') UNIQUE,
     mood mood NOT NULL DEFAULT 'ok', place point3, span floats, nick short,
     word text CHECK (is_allowed(word)),
     upper_nick text GENERATED ALWAYS AS (upper(nick)) STORED,
     tags text[], bytes bytea, at timestamptz, f double precision,
     boss bigint REFERENCES people)`,
  `COMMENT ON TABLE people IS 'with a '' and a "'; COMMENT ON COLUMN people.n IS 'number'`,
  `INSERT INTO people (mood, place, span, nick, word, tags, bytes, at, f, boss) VALUES
     ('happy', ROW(1.5, 'NaN', 'z'), '[1,2)', 'ada', 'yes', '{a,"b c",NULL}', '\\x00ff', 'infinity', 0.1, 1),
     ('sad', NULL, 'empty', NULL, 'no', '{}', '', '2026-01-01T00:00:00.123456Z', '-Infinity', NULL)`,
  `CREATE INDEX people_nick ON people (lower(nick)) WHERE nick IS NOT NULL`,
  `CREATE STATISTICS people_stats (dependencies) ON mood, nick FROM people`,
  `CREATE TABLE big (id integer PRIMARY KEY, payload text); INSERT INTO big
     SELECT i, md5(i::text) || repeat('x', i % 50) FROM generate_series(1, ${ROWS}) i`,
  `CREATE TABLE events (day date NOT NULL, what text) PARTITION BY RANGE (day);
   CREATE TABLE events_25 PARTITION OF events FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
   CREATE TABLE events_rest PARTITION OF events DEFAULT;
   CREATE INDEX ON events (what);
   INSERT INTO events VALUES ('2025-05-05', 'a'), ('2026-06-06', 'b')`,
  `CREATE TABLE parent (a integer); CREATE TABLE child (b integer) INHERITS (parent); INSERT INTO child VALUES (1, 2)`,
  `CREATE VIEW grown AS SELECT nick, mood FROM people WHERE mood > 'sad'`,
  `CREATE FUNCTION log_change() RETURNS trigger LANGUAGE plpgsql
     AS $$ BEGIN INSERT INTO empty VALUES (1, TG_OP); RETURN NEW; END $$`,
  `CREATE TRIGGER people_change AFTER UPDATE ON people FOR EACH ROW EXECUTE FUNCTION log_change()`,
  `CREATE RULE no_delete AS ON DELETE TO allowed DO INSTEAD NOTHING`,
  `CREATE PROCEDURE nothing() LANGUAGE sql AS $$ SELECT 1 $$`,
  `CREATE FUNCTION hidden() RETURNS integer LANGUAGE sql SECURITY DEFINER AS $$ SELECT 42 $$;
   REVOKE ALL ON FUNCTION hidden() FROM PUBLIC`,
  `CREATE FUNCTION to_mood(integer) RETURNS mood LANGUAGE sql IMMUTABLE AS $$ SELECT 'ok'::mood $$;
   CREATE CAST (integer AS mood) WITH FUNCTION to_mood(integer);
   COMMENT ON CAST (integer AS mood) IS 'all is well'`,
  `CREATE FUNCTION point_eq(point3, point3) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT ($1).z = ($2).z $$;
   CREATE OPERATOR === (LEFTARG = point3, RIGHTARG = point3, FUNCTION = point_eq)`,
  `CREATE AGGREGATE total(integer) (SFUNC = int4pl, STYPE = integer, INITCOND = '0')`,
  `CREATE COLLATION german (provider = icu, locale = 'de')`,
  `CREATE TEXT SEARCH CONFIGURATION simpler (COPY = simple)`,
  `CREATE TABLE guarded (owner text, secret text); INSERT INTO guarded VALUES ('a', 'x'), ('b', 'y');
   ALTER TABLE guarded ENABLE ROW LEVEL SECURITY; ALTER TABLE guarded FORCE ROW LEVEL SECURITY;
   CREATE POLICY own ON guarded TO CURRENT_USER USING (owner = 'a') WITH CHECK (true);
   CREATE POLICY everybody ON guarded FOR SELECT USING (owner = 'b');
   COMMENT ON POLICY own ON guarded IS 'mine'`,
  `DO $$ BEGIN EXECUTE format('CREATE POLICY readers ON guarded FOR SELECT TO %I USING (true)',
     (SELECT DISTINCT pg_get_userbyid(a.grantee) FROM pg_default_acl d, aclexplode(d.defaclacl) a
      WHERE a.grantee <> d.defaclrole)); END $$`,
  // Filled under the policies: the owner sees both rows by now.
  `CREATE MATERIALIZED VIEW summary AS SELECT count(*) AS n FROM guarded; CREATE UNIQUE INDEX ON summary (n)`,
  `CREATE MATERIALIZED VIEW unfilled AS SELECT 1 AS one WITH NO DATA`,
  `SELECT lo_from_bytea(4711, 'a large object')`,
  `CREATE SCHEMA drizzle; COMMENT ON SCHEMA drizzle IS 'of migrations'; REVOKE ALL ON SCHEMA drizzle FROM PUBLIC;
   CREATE TABLE drizzle.migrations (id serial PRIMARY KEY, hash text); COMMENT ON TABLE drizzle.migrations IS 'done';
   INSERT INTO drizzle.migrations (hash) VALUES ('a'), ('b');
   CREATE TYPE drizzle.state AS ENUM ('new', 'old');
   CREATE FUNCTION drizzle.to_state(integer) RETURNS drizzle.state LANGUAGE sql IMMUTABLE AS $$ SELECT 'new'::drizzle.state $$;
   CREATE CAST (integer AS drizzle.state) WITH FUNCTION drizzle.to_state(integer)`,
  // It looks like a part of a dump, and the tables of both have the same name if quotes are left out.
  `CREATE SCHEMA "a""; Type: ACL; Schema: _cdp; Owner: -\nü.b"; COMMENT ON SCHEMA "a""; Type: ACL; Schema: _cdp; Owner: -\nü.b" IS 'odd';
   CREATE SCHEMA "a""; Type: ACL; Schema: _cdp; Owner: -\nü"; SET search_path = "a""; Type: ACL; Schema: _cdp; Owner: -\nü.b";
   CREATE TABLE c (id serial PRIMARY KEY, a integer CHECK (a > 0)); INSERT INTO c (a) VALUES (1), (2); COMMENT ON TABLE c IS 'here';
   CREATE TYPE state AS ENUM ('new', 'old'); CREATE CAST (state AS xml) WITH INOUT;
   CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'SELECT 1'; REVOKE ALL ON FUNCTION f() FROM PUBLIC;
   ALTER DEFAULT PRIVILEGES IN SCHEMA "a""; Type: ACL; Schema: _cdp; Owner: -\nü.b" GRANT INSERT ON TABLES TO PUBLIC;
   CREATE TABLE "a""; Type: ACL; Schema: _cdp; Owner: -\nü"."b.c" (id serial PRIMARY KEY)`,
  // pg_dump does not make a schema of this name.
  `CREATE SCHEMA public CREATE TABLE people (a integer) CREATE VIEW grown AS SELECT a FROM people; INSERT INTO public.people VALUES (1)`,
];

/** The namespaces of a project. */
const OF_PROJECT = `IN (SELECT oid FROM pg_namespace WHERE nspname = 'data' OR pg_get_userbyid(nspowner) ~ '^w_')`;

/**
 * Everything that can be compared of a project's database, by the catalogs and by the contents. Names of its roles are
 * replaced.
 * @param client of a superuser
 */
export async function description(client: pg.Client): Promise<Record<string, unknown>> {
  const names = await client.query<{ name: string }>(
    `SELECT rolname AS name FROM pg_authid WHERE rolname ~ '^[wr]_[0-9a-f]{20}$'`,
  );
  await client.query('SET search_path = pg_catalog; SET TimeZone = UTC');
  const lists: Record<string, string> = {
    schemas: `SELECT nspname, pg_get_userbyid(nspowner) <> current_user AS is_own, obj_description(oid) AS comment,
       (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(nspacl) a) AS acl
     FROM pg_namespace WHERE oid ${OF_PROJECT} ORDER BY 1`,
    relations: `SELECT relname, relkind, relpersistence, relrowsecurity, relforcerowsecurity, relispopulated, reloptions,
       pg_get_userbyid(relowner) AS owner, pg_get_partkeydef(oid) AS partition_key, pg_get_expr(relpartbound, oid) AS bound,
       CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(oid) END AS view,
       obj_description(oid, 'pg_class') AS comment,
       (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(coalesce(relacl, acldefault('r', relowner))) a) AS acl
     FROM pg_class WHERE relnamespace ${OF_PROJECT} ORDER BY relnamespace::regnamespace::text, relname`,
    columns: `SELECT attrelid::regclass::text AS relation, attname, format_type(atttypid, atttypmod) AS type, attnotnull, attidentity,
       attgenerated, pg_get_expr(adbin, adrelid) AS preset, col_description(attrelid, attnum) AS comment, attcollation::regcollation::text
     FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
     WHERE attnum > 0 AND NOT attisdropped AND attrelid IN (SELECT oid FROM pg_class WHERE relnamespace ${OF_PROJECT})
     ORDER BY 1, attnum`,
    constraints: `SELECT conrelid::regclass::text AS relation, conname, convalidated, pg_get_constraintdef(oid) AS def
     FROM pg_constraint WHERE connamespace ${OF_PROJECT} ORDER BY 1, 2`,
    indexes: `SELECT pg_get_indexdef(indexrelid) AS def, indisvalid FROM pg_index
     JOIN pg_class c ON c.oid = indexrelid AND relnamespace ${OF_PROJECT} ORDER BY 1`,
    functions: `SELECT CASE WHEN prokind = 'a' THEN oid::regprocedure::text ELSE pg_get_functiondef(oid) END AS def,
       (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(coalesce(proacl, acldefault('f', proowner))) a) AS acl
     FROM pg_proc WHERE pronamespace ${OF_PROJECT} ORDER BY 1`,
    types: `SELECT typname, typtype, pg_get_userbyid(typowner) AS owner,
       (SELECT array_agg(enumlabel ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid) AS labels
     FROM pg_type t WHERE typnamespace ${OF_PROJECT} ORDER BY 1`,
    triggers: `SELECT pg_get_triggerdef(oid) AS def, tgenabled FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1`,
    rules: `SELECT pg_get_ruledef(r.oid) AS def FROM pg_rewrite r JOIN pg_class c ON c.oid = ev_class
     WHERE relnamespace ${OF_PROJECT} ORDER BY 1`,
    policies: `SELECT tablename, policyname, permissive, roles::text, cmd, qual, with_check, obj_description(p.oid, 'pg_policy') AS comment
     FROM pg_policies JOIN pg_policy p ON polname = policyname ORDER BY 1, 2`,
    sequences: `SELECT sequencename, last_value, start_value, increment_by, data_type::text FROM pg_sequences
     WHERE quote_ident(schemaname)::regnamespace ${OF_PROJECT} ORDER BY 1`,
    casts: `SELECT castsource::regtype::text, casttarget::regtype::text, castcontext, obj_description(oid, 'pg_cast') AS comment
     FROM pg_cast WHERE oid >= 16384 ORDER BY 1, 2`,
    statistics: `SELECT pg_get_statisticsobjdef(oid) AS def FROM pg_statistic_ext ORDER BY 1`,
    operators: `SELECT oid::regoperator::text AS name, oprcode::text FROM pg_operator WHERE oprnamespace ${OF_PROJECT}`,
    collations: `SELECT collname, collprovider FROM pg_collation WHERE collnamespace ${OF_PROJECT}`,
    search: `SELECT cfgname FROM pg_ts_config WHERE cfgnamespace ${OF_PROJECT}`,
    large: `SELECT oid, encode(lo_get(oid), 'hex') AS content, pg_get_userbyid(lomowner) AS owner FROM pg_largeobject_metadata ORDER BY oid`,
    keys: 'SELECT path, key, encode(fingerprint, $$hex$$) AS fingerprint, answer, created_at::text FROM _cdp.idempotency_keys ORDER BY 1, 2',
  };
  const result: Record<string, unknown> = {};
  for (const [what, text] of Object.entries(lists)) result[what] = (await client.query(text)).rows;
  const relations = await client.query<{ name: string }>(
    `SELECT format('%s.%I', relnamespace::regnamespace, relname) AS name FROM pg_class
     WHERE relnamespace ${OF_PROJECT} AND relkind IN ('r', 'm') AND relispopulated ORDER BY 1`,
  );
  for (const { name } of relations.rows) {
    const content = await client.query(
      `SELECT count(*)::integer AS n, md5(string_agg(row, E'\\n' ORDER BY row COLLATE "C")) AS sum
       FROM (SELECT t::text AS row FROM ONLY ${name} t) rows`,
    );
    result[name] = content.rows[0];
  }
  const text = names.rows.reduce(
    (shown, { name }) => shown.replaceAll(name, name.startsWith('w') ? 'writer' : 'reader'),
    JSON.stringify(result),
  );
  return JSON.parse(text) as Record<string, unknown>;
}
