/**
 * The attacks of a hostile project: only through the HTTP API, with a valid token of its own project and any number of
 * connections.
 *
 * @typedef {object} Attack
 * @property {string} name
 * @property {string[]} [before] SQL that the project runs first, in its own time
 * @property {number} [connections]
 * @property {object[]} [requests] bodies for `POST /api/cdp/sql`, sent in turn and again and again
 * @property {(request: (path: string, body: unknown, options?: object) => Buffer) => Buffer[]} [raw] the requests as
 *   bytes, if they are not ordinary SQL
 * @property {'repeat' | 'unread' | 'unfinished'} [manner] send and read in a closed loop; never read the responses; send
 *   all except the last byte and wait. Default: repeat
 */
import { gzipSync } from 'node:zlib';

const MAX_TIMEOUT_MS = 60_000;

/** An SQL request with the maximum time limit. */
const sql = (text, rest = {}) => ({ sql: text, timeout_ms: MAX_TIMEOUT_MS, ...rest });

const INFINITE = 'SELECT count(*) FROM generate_series(1, 1000000000000)';

const RECURSION = `CREATE OR REPLACE FUNCTION down(n int) RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN RETURN down(n + 1); EXCEPTION WHEN statement_too_complex THEN RETURN n; END $$`;

const loop = (body, declare = '') => sql(`DO $$ ${declare} BEGIN LOOP ${body} END LOOP; END $$`);

/** The lines of a batch that is wrong in every cell. */
const WRONG_BATCH = Array.from({ length: 250 }, (_, i) => ({ n: 'x', email: { i }, nothing: i, other: 'y' }));

const DEEP = `${'[[1,"a",{"b":'.repeat(30)}1${'}]]'.repeat(30)}`;

/** 10 MiB of JSON with as many values as possible. */
const tenMiB = (item) =>
  Array.from({ length: Math.floor((10 * 1024 * 1024 - 64) / (item.length + 1)) }, () => item).join(',');

/** The members of an object with this many keys. */
const keys = (count) => Array.from({ length: count }, (_, i) => `"k${i}":1`).join(',');

/** A call of the tool `query` with more members. */
const mcp = (more) =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query","arguments":{"sql":"SELECT 1"${more}}}}`;

const ACCEPT = { headers: { Accept: 'application/json, text/event-stream' } };

/** More than a body may hold; and as much as it may hold within 1 MiB. */
const [MANY, MOST] = [keys(600_000), keys(65_000)];

const NAMES = Array.from({ length: 500 }, (_, i) => `column_${i}`);

const wideBatch = (name, value) =>
  `[${Array.from({ length: 250 }, () => `{${NAMES.map((column) => `"${name(column)}":${value}`).join(',')}}`).join(',')}]`;

/** @type {Attack[]} */
export const ATTACKS = [
  {
    name: 'bodies of 600,000 keys',
    connections: 12,
    raw: (request) => [
      request('/mcp', mcp(`,${MANY}`), ACCEPT),
      request('/sql', `{"sql":"SELECT 1",${MANY}}`),
      request('/data/any', `[{${MANY}}]`),
      request('/data/any', `[{"a":{${MANY}}}]`),
    ],
  },
  {
    name: 'bodies of 65,000 keys',
    connections: 12,
    before: ['CREATE TABLE keyed (a jsonb)'],
    raw: (request) => [
      request('/mcp', mcp(`,"params":[{${MOST}}]`), ACCEPT),
      request('/mcp', `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{${MOST}}}}`, ACCEPT),
      request('/sql', `{"sql":"SELECT $1::jsonb","params":[{${MOST}}]}`),
      request('/data/keyed', `[{"a":{${MOST}}}]`),
    ],
  },
  {
    name: 'arrays in cells',
    connections: 12,
    requests: [
      sql('SELECT array_agg(g) AS a FROM generate_series(1, 1700000) g'),
      sql(`SELECT array_agg('\\"' || g) AS a FROM generate_series(1, 1000000) g`),
      sql('SELECT array_agg(g / 4.0::float8) AS a FROM generate_series(1, 1200000) g'),
    ],
  },
  {
    name: 'unknown columns',
    connections: 12,
    before: [`CREATE TABLE wide_text (${NAMES.map((name) => `${name} text`).join()})`],
    raw: (request) => [
      request(
        '/data/wide_text',
        wideBatch((name) => `${name}x`, 1),
      ),
      request(
        '/data/wide_text?on_error=quarantine',
        wideBatch((name) => `${name}x`, 1),
      ),
    ],
  },
  {
    name: 'cells that only Postgres refuses',
    connections: 4,
    before: [`CREATE TABLE wide_int (${NAMES.map((name) => `${name} int`).join()})`],
    raw: (request) => [
      request(
        '/data/wide_int',
        wideBatch((name) => name, '"x"'),
      ),
    ],
  },
  {
    name: 'comments in SQL',
    connections: 12,
    requests: [
      sql(`SELECT 1;${'/*'.repeat(500_000)}`),
      sql(`SELECT 1;${'/*'.repeat(250_000)}${'*/'.repeat(250_000)}`),
      sql(`SELECT 1;SELECT ${'+'.repeat(1_000_000)}1`),
    ],
  },
  { name: 'infinite queries', requests: [sql(INFINITE)] },
  {
    name: 'infinite typed triggers',
    before: TRIGGER(INFINITE),
    connections: 16,
    raw: (request) => [request('/data/endless', [{ n: 1 }])],
  },
  { name: 'short busy queries', requests: [sql('SELECT count(*) FROM generate_series(1, 1500000)')] },
  {
    name: '1 GB strings',
    requests: [sql(`SELECT length(repeat('x', 1000000000))`), sql(`SELECT md5(repeat('x', 900000000))`)],
  },
  {
    name: 'work_mem 100 GB',
    requests: [
      sql(
        `SET work_mem = '100GB'; SELECT count(*) FROM (SELECT g, repeat('x', 500) FROM generate_series(1, 100000000) g ORDER BY g % 1009, 2 OFFSET 0) s`,
      ),
      sql(
        `SET work_mem = '100GB'; SET enable_mergejoin = off; SELECT count(*) FROM generate_series(1, 50000000) a JOIN generate_series(1, 50000000) b ON a = b`,
      ),
    ],
  },
  {
    name: 'temporary files',
    requests: [
      sql(
        `SET work_mem = '64kB'; SELECT count(*) FROM (SELECT repeat(md5(g::text), 30) x FROM generate_series(1, 100000000) g ORDER BY 1 OFFSET 0) s`,
      ),
    ],
  },
  {
    name: 'temporary tables',
    requests: [
      sql(
        `DO $$ BEGIN FOR i IN 1..5000 LOOP EXECUTE format('CREATE TEMP TABLE t%s (a int primary key, b text) ON COMMIT DROP', i); END LOOP; END $$`,
      ),
    ],
  },
  {
    name: '10,000 tables at once',
    requests: [
      sql(
        `DO $$ BEGIN FOR i IN 1..10000 LOOP EXECUTE format('CREATE TABLE x%s_%s (a int primary key, b text)', pg_backend_pid(), i); END LOOP; END $$; SELECT pg_sleep(2); SELECT 1/0`,
      ),
    ],
  },
  {
    name: 'advisory locks',
    requests: [
      sql(
        `DO $$ BEGIN PERFORM pg_advisory_lock(g) FROM generate_series(1, 10000000) g; EXCEPTION WHEN OTHERS THEN PERFORM pg_sleep(60); END $$; SELECT pg_sleep(60)`,
      ),
      sql(
        `DO $$ DECLARE n bigint := pg_backend_pid()::bigint << 32; BEGIN LOOP BEGIN LOOP n := n + 1; PERFORM pg_advisory_xact_lock(n); END LOOP; EXCEPTION WHEN OTHERS THEN PERFORM pg_advisory_lock(n); PERFORM pg_sleep(1); END; END LOOP; END $$`,
      ),
    ],
  },
  {
    name: 'table locks held',
    before: Array.from(
      { length: 20 },
      (_, i) => `DO $$ BEGIN FOR i IN 1..250 LOOP EXECUTE format('CREATE TABLE l${i}_%s (a int)', i); END LOOP; END $$`,
    ),
    requests: [
      sql(
        `DO $$ DECLARE r record; BEGIN FOR r IN SELECT relname FROM pg_class WHERE relname ~ '^l[0-9]' LOOP EXECUTE 'LOCK TABLE ' || r.relname || ' IN ACCESS SHARE MODE'; END LOOP; EXCEPTION WHEN OTHERS THEN NULL; END $$; SELECT pg_sleep(60)`,
      ),
    ],
  },
  {
    name: 'lock pile-up',
    before: ['CREATE TABLE pile (a int); INSERT INTO pile VALUES (1)'],
    requests: [
      sql('BEGIN_LOCK'.replace('BEGIN_LOCK', 'LOCK TABLE pile IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(60)')),
      sql('UPDATE pile SET a = a + 1'),
    ],
  },
  {
    name: 'subtransaction storm',
    before: ['CREATE TABLE subs (a int)'],
    requests: [loop(`BEGIN INSERT INTO subs VALUES (1); PERFORM 1/0; EXCEPTION WHEN division_by_zero THEN NULL; END;`)],
  },
  {
    name: 'subtransactions held',
    before: [
      'CREATE TABLE held (a int)',
      `CREATE FUNCTION nest(n int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO held VALUES (n);
         IF n > 0 THEN PERFORM nest(n - 1); ELSE PERFORM pg_sleep(50); END IF; EXCEPTION WHEN division_by_zero THEN NULL; END $$`,
    ],
    requests: [sql('SELECT nest(150)')],
  },
  {
    name: 'NOTIFY flood',
    requests: [sql(`SELECT count(pg_notify('c', g || repeat('x', 7000))) FROM generate_series(1, 20000) g`)],
  },
  {
    name: 'LISTEN in DO',
    requests: [
      sql(`DO $$ BEGIN EXECUTE 'LISTEN c'; END $$`),
      sql(`SELECT count(pg_notify('c', g || repeat('x', 7000))) FROM generate_series(1, 2000) g`),
      sql(`DO $$ BEGIN EXECUTE 'LISTEN c'; PERFORM pg_sleep(5); END $$`),
    ],
  },
  { name: 'connections opened', connections: 1500, manner: 'unfinished', raw: () => [Buffer.from('GET')] },
  {
    name: 'requests left half sent',
    connections: 400,
    manner: 'unfinished',
    raw: (request) => [request('/sql', { sql: `SELECT 1 /* ${'x'.repeat(1_000_000)} */` })],
  },
  {
    name: 'cancellation caught',
    requests: [
      {
        ...loop(
          `BEGIN PERFORM count(*) FROM generate_series(1, 100000000); EXCEPTION WHEN query_canceled THEN NULL; END;`,
        ),
        timeout_ms: 300,
      },
    ],
  },
  {
    name: '16 MiB responses',
    requests: [sql(`SELECT repeat('x', 1000) AS a FROM generate_series(1, 100000)`, { max_rows: 100_000 })],
  },
  { name: 'responses of one row', requests: [sql(`SELECT repeat('x', 16000000) AS a`)] },
  {
    name: 'responses never read',
    connections: 200,
    manner: 'unread',
    requests: [sql(`SELECT repeat('x', 1000) AS a FROM generate_series(1, 100000)`, { max_rows: 100_000 })],
  },
  { name: '100 statements', requests: [sql(Array.from({ length: 100 }, (_, i) => `SELECT ${i}`).join(';'))] },
  {
    name: 'parse-heavy texts',
    requests: [
      sql(`SELECT 1;SELECT ${'1+'.repeat(500_000)}1`),
      sql(`SELECT 1;${'SELECT 1;'.repeat(110_000)}`),
      sql(`SELECT 1; SELECT ARRAY[${'1,'.repeat(500_000)}1]`),
    ],
  },
  {
    name: 'lone heavy texts',
    requests: [
      sql(`SELECT 1 WHERE 1 IN (${'1,'.repeat(500_000)}1)`),
      sql(`SELECT 1 WHERE ${'1=1 OR '.repeat(140_000)} 1=1`),
    ],
  },
  {
    name: '10 MiB bodies of SQL',
    raw: (request) => [
      request(
        '/sql',
        `{"sql":"SELECT $1","params":[${DEEP},${Array.from({ length: 60_000 }, () => `"${'\\u00e9'.repeat(24)}"`).join(',')}]}`,
      ),
      request('/sql', `{"sql":"SELECT 1","params":[[${tenMiB('[]')}]]}`),
    ],
  },
  {
    name: '10 MiB batches',
    before: ['CREATE TABLE wide (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n bigint, email text, doc jsonb)'],
    raw: (request) => [
      request(
        '/data/wide',
        `[${Array.from({ length: 250 }, (_, i) => `{"n":${i},"doc":[${Array.from({ length: 8_000 }, () => '1,{}').join(',')}]}`).join(',')}]`,
      ),
      request(
        '/data/wide',
        `[${Array.from({ length: 250 }, (_, i) => `{"n":${i},"email":"${'\\u00e9'.repeat(6_000)}"}`).join(',')}]`,
      ),
      request('/data/wide', `[{"n":1,"doc":[${tenMiB('{"a":[]}')}]}]`),
    ],
  },
  {
    name: 'gzip bombs',
    connections: 128,
    raw: (request) => [
      request('/data/wide', gzipSync(Buffer.alloc(10 * 1024 * 1024, ' ')), { headers: { 'Content-Encoding': 'gzip' } }),
      request('/sql', gzipSync(Buffer.alloc(100 * 1024 * 1024, ' ')), { headers: { 'Content-Encoding': 'gzip' } }),
    ],
  },
  {
    name: 'refused batches',
    before: ['CREATE TABLE strict (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n bigint, email text)'],
    raw: (request) => [request('/data/strict', WRONG_BATCH)],
  },
  {
    name: 'deep recursion',
    before: [RECURSION],
    requests: [sql('SELECT down(0)'), sql(`SELECT ('${'['.repeat(90_000)}')::jsonb`)],
  },
  {
    name: 'giant regexes',
    requests: [
      sql(`SELECT repeat('a', 3000) ~ '(((((a*)*)*)*)*)*b'`),
      sql(`SELECT 'x' ~ ('(' || repeat('x{1,200}', 10) || '){1,50}')`),
      sql(`SELECT regexp_count(repeat('ab', 100000), '(a|b|ab)*\\1c')`),
    ],
  },
  {
    name: 'WAL flood',
    before: ['CREATE TABLE flood (a bigint, b text)'],
    requests: [
      sql(`INSERT INTO flood SELECT g, repeat(md5(g::text), 8) FROM generate_series(1, 2000000) g; TRUNCATE flood`),
    ],
  },
  {
    name: 'unlogged tables',
    before: ['CREATE UNLOGGED TABLE big (a bigint, b text)'],
    requests: [
      sql(`INSERT INTO big SELECT g, repeat(md5(g::text), 8) FROM generate_series(1, 1000000) g; TRUNCATE big`),
    ],
  },
  {
    name: 'CREATE INDEX loop',
    before: ['CREATE TABLE idx AS SELECT g AS a, md5(g::text) AS b FROM generate_series(1, 1000000) g'],
    requests: [
      sql(
        `SET maintenance_work_mem = '2GB'; SET max_parallel_maintenance_workers = 8; CREATE INDEX idx_b ON idx (b); DROP INDEX idx_b`,
      ),
    ],
  },
  {
    name: 'parallel queries',
    before: [
      'CREATE TABLE para AS SELECT g AS a, repeat(md5(g::text), 3) AS b FROM generate_series(1, 1500000) g',
      'ANALYZE para',
      'ALTER TABLE para SET (parallel_workers = 8)',
    ],
    requests: [
      sql(
        `SET max_parallel_workers_per_gather = 8; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SELECT count(*) FROM para a JOIN para b ON a.b < b.b`,
      ),
    ],
  },
  {
    name: 'ANALYZE and VACUUM',
    before: ['CREATE TABLE vac AS SELECT g AS a, md5(g::text) AS b FROM generate_series(1, 1000000) g'],
    requests: [sql('VACUUM FULL vac'), sql('ANALYZE vac'), sql('VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) vac')],
  },
  {
    name: 'invalidation storm',
    before: ['CREATE TABLE inval (a int)'],
    requests: [
      sql(`CREATE TABLE inval_x (a int, b int); DROP TABLE inval_x`),
      sql(Array.from({ length: 99 }, (_, i) => `CREATE TEMP TABLE inval${i} (a int) ON COMMIT DROP`).join(';')),
      sql(`ALTER TABLE inval ADD COLUMN b int; ALTER TABLE inval DROP COLUMN b`),
    ],
  },
  {
    name: 'checkpoints',
    before: ['CREATE TABLE chk AS SELECT g AS a, repeat(md5(g::text), 10) AS b FROM generate_series(1, 300000) g'],
    requests: [sql('UPDATE chk SET a = a + 1')],
  },
  {
    name: 'streams never read',
    connections: 64,
    manner: 'unread',
    raw: (request) => [
      request('/sql', sql('SELECT g, md5(g::text) FROM generate_series(1, 100000000) g'), {
        headers: { Accept: 'application/x-ndjson' },
      }),
    ],
  },
  {
    name: 'streams read fast',
    raw: (request) => [
      request('/sql', sql('SELECT g, md5(g::text) FROM generate_series(1, 100000000) g'), {
        headers: { Accept: 'application/x-ndjson' },
      }),
    ],
  },
  {
    name: 'large objects',
    requests: [sql('SELECT count(lo_create(0)) FROM generate_series(1, 20000); SELECT pg_sleep(1); SELECT 1/0')],
  },
  {
    name: 'refused at once',
    connections: 128,
    requests: [sql('SELECT 1'), sql('SELEC 1'), { sql: 'SELECT 1', no: 1 }],
  },
];

/** A table whose inserts run this query in a trigger. */
function TRIGGER(query) {
  return [
    'CREATE TABLE endless (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n bigint)',
    `CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM * FROM (${query}) q; RETURN NEW; END $$`,
    'CREATE TRIGGER endless BEFORE INSERT ON endless FOR EACH ROW EXECUTE FUNCTION never()',
  ];
}

/** The table for {@link TURNS}. */
export const COLUMNS = `CREATE TABLE turns (${NAMES.map((name) => `${name} text`).join()}); CREATE TABLE docs (a jsonb, b int[])`;

const MCP_TYPES = ACCEPT.headers.Accept;
const INSERT = '/api/cdp/data/turns';
const SQL = '/api/cdp/sql';

/** Single requests, for the longest turn of the event loop that each takes. */
export const TURNS = [
  { name: 'MCP, 65,000 keys', path: '/mcp', body: mcp(`,"params":[{${MOST}}]`), accept: MCP_TYPES },
  {
    name: 'MCP, 65,000 keys in _meta',
    path: '/mcp',
    body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{${MOST}}}}`,
    accept: MCP_TYPES,
  },
  { name: 'MCP, 600,000 keys', path: '/mcp', body: mcp(`,${MANY}`), accept: MCP_TYPES },
  { name: 'SQL, 65,000 keys', path: SQL, body: `{"sql":"SELECT $1::jsonb IS NULL","params":[{${MOST}}]}` },
  { name: 'SQL, 600,000 keys', path: SQL, body: `{"sql":"SELECT 1",${MANY}}` },
  { name: 'SQL, 65,000 keys in an unknown field', path: SQL, body: `{"sql":"SELECT 1","x":{${MOST}}}` },
  {
    name: 'SQL, escapes, 9 MiB',
    path: SQL,
    body: `{"sql":"SELECT length($1)","params":["${'\\u00e9'.repeat(1_600_000)}"]}`,
  },
  { name: 'type change, map of 65,000', path: '/api/cdp/schema/table/docs/column/a', body: `{"map":{${MOST}}}` },
  { name: 'record of 600,000 keys', path: INSERT, body: `[{${MANY}}]` },
  { name: 'cell of 600,000 keys', path: '/api/cdp/data/docs', body: `[{"a":{${MANY}}}]` },
  {
    name: 'replay, rename of 65,000',
    path: '/api/cdp/quarantine/replay',
    body: `{"table":"turns","rename":{${MOST.replaceAll(':1', ':"x"')}}}`,
  },
  { name: '125,000 unknown columns', path: INSERT, body: wideBatch((name) => `${name}x`, 1) },
  {
    name: '125,000 unknown columns, quarantine',
    path: `${INSERT}?on_error=quarantine`,
    body: wideBatch((name) => `${name}x`, 1),
  },
  { name: '125,000 cells', path: INSERT, body: wideBatch((name) => name, '"x"') },
  { name: '125,000 cells with ids', path: `${INSERT}?return=ids`, body: wideBatch((name) => name, '"x"') },
  {
    name: 'JSONB, 9 MiB, checked path',
    path: '/api/cdp/data/docs?on_error=quarantine',
    body: `[${Array.from({ length: 250 }, () => `{"a":[${Array.from({ length: 8_000 }, () => '1,{}').join()}],"b":[1e5]}`).join()}]`,
  },
  {
    name: 'array of integers, 1 MiB',
    path: SQL,
    body: { sql: 'SELECT array_agg(g) AS a FROM generate_series(1, 140000) g' },
  },
  {
    name: 'array of integers, 12 MiB',
    path: SQL,
    body: { sql: 'SELECT array_agg(g) AS a FROM generate_series(1, 1700000) g' },
  },
  {
    name: 'array of texts, 12 MiB',
    path: SQL,
    body: { sql: `SELECT array_agg('\\"' || g) AS a FROM generate_series(1, 1000000) g` },
  },
  {
    name: 'array of timestamps, 12 MiB',
    path: SQL,
    body: { sql: `SELECT array_agg(now() + g * '1s'::interval) AS a FROM generate_series(1, 400000) g` },
  },
  {
    name: 'array of floats, 1 MiB',
    path: SQL,
    body: { sql: 'SELECT array_agg(random()) AS a FROM generate_series(1, 50000) g' },
  },
  {
    name: 'array of floats, 14 MiB',
    path: SQL,
    body: { sql: 'SELECT array_agg(random()) AS a FROM generate_series(1, 750000) g' },
  },
  {
    name: 'array of points, 10 MiB',
    path: SQL,
    body: { sql: 'SELECT array_agg(point(g, g / 3.0)) AS a FROM generate_series(1, 400000) g' },
  },
  {
    name: 'array of integers through MCP',
    path: '/mcp',
    body: mcp('').replace('SELECT 1', 'SELECT array_agg(g) AS a FROM generate_series(1, 1700000) g'),
    accept: MCP_TYPES,
  },
  {
    name: '16 MiB of rows',
    path: SQL,
    body: { sql: `SELECT repeat('x', 1000) AS a FROM generate_series(1, 100000)`, max_rows: 100_000 },
  },
  { name: 'a row of 16 MB', path: SQL, body: { sql: `SELECT repeat('x', 16000000) AS a` } },
  { name: 'comments in SQL', path: SQL, body: { sql: `SELECT 1;${'/*'.repeat(500_000)}` } },
];
