/**
 * What a hostile token with `sql:write` may leave in its own project, as SQL, and what an honest caller of the same
 * project then requests.
 */
import { ADVISORY_LOCKS } from '../../src/tenancy/locks.js';
import type { TestResponse, TestProject } from '../support/service.js';

/** Runs in the session of whoever fires it: settings, a role and a lock that nothing rolls back. */
const DIRTY = `
  PERFORM set_config('search_path', 'pg_temp', false), set_config('default_transaction_read_only', 'on', false),
    set_config('standard_conforming_strings', 'off', false), set_config('my.trace', 'left', false);
  PERFORM pg_advisory_lock_shared(4711);`;

const dirtyFunction = (name: string, args: string, returns: string, result: string, volatility = 'VOLATILE'): string =>
  `CREATE FUNCTION ${name}(${args}) RETURNS ${returns} ${volatility} LANGUAGE plpgsql
   AS $$ BEGIN ${DIRTY} RETURN ${result}; END $$;`;

/** A trigger function on `kept` whose body is this. */
const trigger = (body: string, when = 'BEFORE INSERT ON kept FOR EACH ROW'): string =>
  `CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body} END $$;
   CREATE TRIGGER evil ${when} EXECUTE FUNCTION evil()`;

/** Code of the project that runs inside inserts into `kept`. None of it keeps an insert from working. */
export const RUN_BY_INSERTS: readonly [what: string, text: string][] = [
  ['a trigger', trigger(`${DIRTY} RETURN NEW;`)],
  ['a trigger of the statement', trigger(`${DIRTY} RETURN NULL;`, 'AFTER INSERT ON kept FOR EACH STATEMENT')],
  [
    'a trigger at the commit',
    `${dirtyFunction('evil', '', 'trigger', 'NULL')}
     CREATE CONSTRAINT TRIGGER evil AFTER INSERT ON kept DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION evil()`,
  ],
  ['a check', `${dirtyFunction('evil', 'text', 'bool', 'true')} ALTER TABLE kept ADD CHECK (evil(t)) NOT VALID`],
  ['a default', `${dirtyFunction('evil', '', 'text', `'x'`)} ALTER TABLE kept ADD z text DEFAULT evil()`],
  [
    'a generated column',
    `${dirtyFunction('evil', 'text', 'text', '$1', 'IMMUTABLE')}
     ALTER TABLE kept ADD z text GENERATED ALWAYS AS (evil(t)) STORED`,
  ],
  [
    'an index of an expression',
    `${dirtyFunction('evil', 'text', 'text', '$1', 'IMMUTABLE')} CREATE INDEX ON kept (evil(t))`,
  ],
  [
    'an index with a condition',
    `${dirtyFunction('evil', 'text', 'bool', 'true', 'IMMUTABLE')} CREATE INDEX ON kept (t) WHERE evil(t)`,
  ],
  [
    'a domain',
    `${dirtyFunction('evil', 'text', 'bool', 'true')} CREATE DOMAIN own AS text CHECK (evil(VALUE)); ALTER TABLE kept ADD z own`,
  ],
  [
    'row level security',
    `${dirtyFunction('evil', 'text', 'bool', 'true')} CREATE POLICY p ON kept USING (evil(t)) WITH CHECK (evil(t));
     ALTER TABLE kept ENABLE ROW LEVEL SECURITY; ALTER TABLE kept FORCE ROW LEVEL SECURITY`,
  ],
  ['a rule', `${dirtyFunction('evil', '', 'int', '1')} CREATE RULE evil AS ON INSERT TO kept DO ALSO SELECT evil()`],
  [
    'a partition by an expression',
    `${dirtyFunction('evil', 'text', 'int', '1', 'IMMUTABLE')} DROP TABLE kept;
     CREATE TABLE whole (LIKE watched INCLUDING DEFAULTS) PARTITION BY LIST (evil(t));
     CREATE TABLE kept PARTITION OF whole FOR VALUES IN (1)`,
  ],
];

/** What stands in the way of nothing: afterward everything works as before. */
export const HARMLESS: readonly [what: string, text: string][] = [
  [
    'functions of its own under the names of the catalog',
    `DO $$ DECLARE p record; BEGIN
        FOR p IN SELECT proname, pg_get_function_identity_arguments(oid) AS args FROM pg_proc
          WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind IN ('f', 'a') AND proname IN ('count', 'lower',
            'left', 'concat', 'concat_ws', 'string_agg', 'obj_description', 'col_description', 'format_type',
            'starts_with', 'has_schema_privilege', 'aclexplode', 'now', 'decode', 'encode', 'unnest', 'setseed',
            'generate_series', 'pg_stat_get_live_tuples', 'pg_try_advisory_xact_lock', 'set_config', 'int8', 'text')
        LOOP
          BEGIN
            EXECUTE format('CREATE FUNCTION data.%I(%s) RETURNS int LANGUAGE plpgsql
              AS ''BEGIN RAISE EXCEPTION ''''shadow''''; END''', p.proname, p.args);
          EXCEPTION WHEN OTHERS THEN NULL;
          END;
        END LOOP;
      END $$`,
  ],
  [
    'relations under the names of the catalog',
    `CREATE TABLE pg_class (a int); CREATE TABLE pg_attribute (a int); CREATE TABLE pg_settings (a int);
     CREATE TABLE pg_default_acl (a int); CREATE VIEW pg_namespace AS SELECT 1; CREATE TABLE idempotency_keys (a int)`,
  ],
  [
    'types under the names of the catalog',
    `CREATE DOMAIN text AS pg_catalog.text CHECK (VALUE IS NULL); CREATE TYPE int8 AS ENUM ('x');
     CREATE TYPE uuid AS (a int); CREATE DOMAIN timestamptz AS int; CREATE DOMAIN jsonb AS int; CREATE TYPE oid AS ENUM ()`,
  ],
  [
    'a collation of its own',
    `CREATE COLLATION data."default" (LOCALE = 'C'); CREATE COLLATION data."C" (LOCALE = 'C')`,
  ],
  [
    'names that nobody would choose',
    `CREATE TABLE "a\nb""'\\" ("x\ny""" int, "'" text, "\${1}" text, "é漢" text); CREATE TABLE "__proto__" ("__proto__" int);
     CREATE TABLE nothing (); COMMENT ON TABLE nothing IS E'\\'\\\\\\n'`,
  ],
  [
    'a table of 1,600 columns',
    `DO $$ BEGIN EXECUTE (SELECT 'CREATE TABLE wide (' || string_agg(format('c%s int', i), ',') || ')'
      FROM generate_series(1, 1600) i); END $$`,
  ],
  [
    'a comment as large as memory',
    `DO $$ BEGIN EXECUTE format('COMMENT ON TABLE kept IS %L', repeat('x', 30000000)); END $$`,
  ],
  ['views of the service’s tables', 'CREATE VIEW keys AS SELECT * FROM _cdp.idempotency_keys'],
  ['temporary relations', 'CREATE TEMP TABLE kept (a int); CREATE TEMP VIEW pg_class AS SELECT 1'],
  ['a held cursor, a prepared statement', 'DECLARE c CURSOR WITH HOLD FOR SELECT 1; PREPARE p AS SELECT 1'],
  [
    'locks that the service uses',
    `SELECT pg_advisory_lock(${ADVISORY_LOCKS.newTable}), pg_advisory_lock(${ADVISORY_LOCKS.template});
     PREPARE locking AS SELECT FROM _cdp.migrations`,
  ],
  [
    'a held cursor that fails at the commit',
    'DECLARE c CURSOR WITH HOLD FOR SELECT 1 / (g - 5) FROM generate_series(1, 9) g',
  ],
  [
    'a view instead of nothing',
    'CREATE VIEW a_view AS SELECT * FROM kept; CREATE RULE r AS ON DELETE TO a_view DO INSTEAD NOTHING',
  ],
  [
    'more rights for the reader',
    `DO $$ DECLARE r text := (SELECT DISTINCT a.grantee::regrole::text FROM pg_default_acl d, aclexplode(d.defaclacl) a
        WHERE a.grantee <> current_user::regrole); BEGIN
        EXECUTE format('ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO %s', r);
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA data GRANT ALL ON TABLES TO %s WITH GRANT OPTION', r);
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA data GRANT ALL ON FUNCTIONS TO %s', r);
      END $$`,
  ],
  [
    'rights for everybody',
    'GRANT ALL ON ALL TABLES IN SCHEMA data TO PUBLIC; ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC',
  ],
  [
    'another owner',
    'DO $$ BEGIN EXECUTE format($f$REASSIGN OWNED BY CURRENT_USER TO %I$f$, current_database()); END $$',
  ],
  // Last: it stands in the way of the project's own SQL.
  [
    'operators of its own for every two types',
    `DO $$ DECLARE l regtype; r regtype; o text;
      kinds regtype[] := '{name,text,oid,"char",int2,int4,int8,bool,regclass,regnamespace,regproc,regrole,xid,tid,varchar,
        timestamptz,interval,float8,numeric,jsonb,int2vector,oidvector,uuid,bytea}';
      BEGIN
        FOREACH l IN ARRAY kinds LOOP FOREACH r IN ARRAY kinds LOOP
          EXECUTE format('CREATE FUNCTION shadow(%s, %s) RETURNS bool LANGUAGE plpgsql
            AS ''BEGIN RAISE EXCEPTION ''''shadow''''; END''', l, r);
          FOREACH o IN ARRAY ARRAY['=', '<>', '<', '>', '>=', '||', '-', '~'] LOOP
            EXECUTE format('CREATE OPERATOR data.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = shadow)', o, l, r);
          END LOOP;
        END LOOP; END LOOP;
      END $$`,
  ],
];

/** What the project did to itself and has to undo: what an insert into `kept` is told from then on. */
export const TOLD: readonly [what: string, text: string, status: number, code: string][] = [
  ['its rights on the table', 'REVOKE ALL ON kept FROM CURRENT_USER', 403, 'permission_denied'],
  [
    'every row',
    'ALTER TABLE kept ENABLE ROW LEVEL SECURITY; ALTER TABLE kept FORCE ROW LEVEL SECURITY',
    403,
    'permission_denied',
  ],
  ['the default of id', 'ALTER TABLE kept ALTER id DROP DEFAULT', 400, 'constraint_violation'],
  [
    'a rule that never ends',
    'CREATE RULE r AS ON INSERT TO kept DO INSTEAD INSERT INTO kept SELECT NEW.*',
    400,
    'constraint_violation',
  ],
  ['the table itself', 'DROP TABLE kept', 404, 'table_not_found'],
  ['a sequence of its name', 'DROP TABLE kept; CREATE SEQUENCE kept', 404, 'table_not_found'],
  ['a type of its name', 'DROP TABLE kept; CREATE TYPE kept AS (t text)', 404, 'table_not_found'],
  [
    'a materialised view of its name',
    `DROP TABLE kept; CREATE MATERIALIZED VIEW kept AS SELECT 'x' AS t`,
    404,
    'table_not_found',
  ],
  ['a column less', 'ALTER TABLE kept RENAME t TO u', 400, 'unknown_column'],
  ['another type', 'ALTER TABLE kept ALTER t TYPE bigint USING 1', 400, 'invalid_value'],
  ['a trigger that drops it', trigger(`EXECUTE 'DROP TABLE kept'; RETURN NEW;`), 400, 'constraint_violation'],
  [
    'a trigger that drops everything',
    trigger(`EXECUTE 'DROP OWNED BY CURRENT_USER'; RETURN NEW;`),
    400,
    'constraint_violation',
  ],
  [
    'a trigger of a strange state',
    trigger(`RAISE EXCEPTION 'x' USING ERRCODE = 'XX000';`),
    400,
    'constraint_violation',
  ],
  [
    'a trigger that lies about a login',
    trigger(`RAISE EXCEPTION 'x' USING ERRCODE = '28P01';`),
    400,
    'constraint_violation',
  ],
  [
    'a trigger that lies about a shutdown',
    trigger(`RAISE EXCEPTION 'x' USING ERRCODE = '57P01';`),
    503,
    'database_unavailable',
  ],
];

/** A new project in the state that the lists above start from. */
export async function furnish(project: TestProject): Promise<void> {
  const columns = { t: 'TEXT', i: 'INTEGER', f: 'FLOAT', b: 'BOOLEAN', d: 'TIMESTAMP', j: 'JSONB' };
  await project.table('kept', columns);
  await project.table('watched', columns);
  // Twice: the second one goes by the remembered shape of the table.
  for (const table of ['kept', 'kept', 'watched'])
    await project.call('POST', `/api/cdp/data/${table}`, { body: [RECORD] });
}

export const RECORD = { t: 'x', i: 1, f: 1.5, b: true, d: '2024-01-02', j: { a: [1] } };

let counter = 0;

/** What an honest caller asks, by the name of the request. Each request must succeed in a project that is in order. */
export async function* honestRequests(
  project: TestProject,
  readToken: string,
): AsyncGenerator<[name: string, response: TestResponse]> {
  const made = `made_${++counter}`;
  const key = { 'idempotency-key': made };
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    project.call('POST', `/api/cdp/${path}`, { body, headers });
  const sql = (text: string, token = project.token) =>
    project.call('POST', '/api/cdp/sql', { token, body: { sql: text } });
  const column = `/api/cdp/schema/table/${made}/column`;
  yield ['schema', await project.call('GET', '/api/cdp/schema')];
  yield ['table', await project.call('GET', '/api/cdp/schema/table/kept')];
  yield ['insert', await post('data/kept', [RECORD])];
  yield ['insert again', await post('data/kept', [RECORD])];
  yield ['insert for ids', await post('data/kept?return=ids', [RECORD])];
  yield ['insert with a key', await post('data/kept', [RECORD], key)];
  yield ['repeat', await post('data/kept', [RECORD], key)];
  yield [
    'create',
    await post('schema/table', {
      table_name: made,
      comment: `it's \\`,
      columns: [{ name: 'a', type: 'TEXT', comment: '\\' }],
    }),
  ];
  yield ['insert into it', await post(`data/${made}`, [{ a: '1' }])];
  yield ['add', await post(`schema/table/${made}/column`, { name: 'b', type: 'FLOAT', comment: '\\' })];
  yield [
    'alter',
    await project.call('PUT', `${column}/a`, { body: { new_type: 'INTEGER', new_name: 'c', comment: `\\'` } }),
  ];
  yield ['drop column', await project.call('DELETE', `${column}/b`)];
  yield ['select', await sql(`SELECT c FROM ${made}`)];
  yield ['select as reader', await sql(`SELECT c FROM ${made}`, readToken)];
  yield ['make', await sql(`CREATE TABLE by_sql_${made} AS SELECT 1 AS n; SELECT n FROM by_sql_${made}`)];
  yield ['select what was made', await sql(`SELECT n FROM by_sql_${made}`, readToken)];
  yield ['drop', await project.call('DELETE', `/api/cdp/schema/table/${made}`)];
}
