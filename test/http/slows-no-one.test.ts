/**
 * What one project takes of what all share: processors, memory, the lock table, the service's own memory. On an embedded
 * server of its own, since some of it is held by how that is started.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { loadConfig } from '../../src/config.js';
import { instanceSecret } from '../../src/instance-secret.js';
import { Credentials } from '../../src/postgres/credentials.js';
import { PORT, SUPERUSER } from '../../src/postgres/embedded/config.js';
import { findHome } from '../../src/postgres/embedded/home.js';
import { LOW_PRIORITY_NICE, Niceness } from '../../src/postgres/embedded/niceness.js';
import { parentOf } from '../../src/postgres/embedded/processes.js';
import { type Service, startService } from '../../src/service.js';
import { call, failure, type TestAnswer } from '../support/service.js';

const onLinux = process.platform === 'linux';

let folder: string;
let service: Service;
let superuser: pg.Client;
let postmaster: number;
const tokens: Record<string, string> = {};

beforeAll(async () => {
  folder = await mkdtemp('/tmp/cdp-slows-');
  await chmod(folder, 0o711);
  const dataDir = join(folder, 'data');
  const { config } = loadConfig(
    { port: '0', 'log-level': 'silent', 'data-dir': dataDir, 'backend-memory-mib': '300', 'wait-ms': '8000' },
    {},
    null,
  );
  service = await startService(config, pino({ level: 'silent' }));
  const { socketDir, data } = await findHome(dataDir, () => {});
  postmaster = Number.parseInt(readFileSync(join(data, 'postmaster.pid'), 'utf8'));
  const password = new Credentials(await instanceSecret(dataDir)).password('superuser');
  superuser = new pg.Client({ host: socketDir, port: PORT, user: SUPERUSER, password, database: 'postgres' });
  await superuser.connect();
  for (const name of ['hostile', 'neighbour']) {
    const { id } = await service.engine.projects.create(name);
    tokens[name] = (await service.engine.tokens.create(id)).token;
  }
});

afterAll(async () => {
  await superuser.end();
  await service.close();
  await rm(folder, { recursive: true, force: true });
});

const post = (project: string, path: string, body: unknown): Promise<TestAnswer> =>
  call(service.url, 'POST', `/api/cdp${path}`, { body, token: tokens[project] ?? null });

const sql = (project: string, text: string, rest: object = {}): Promise<TestAnswer> =>
  post(project, '/sql', { sql: text, ...rest });

/** Of the statement with this mark, as soon as it runs. */
async function backendOf(mark: string): Promise<number> {
  for (let i = 0; i < 1_000; i++) {
    const { rows } = await superuser.query<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE $1 AND pid <> pg_backend_pid()`,
      [`%${mark}%`],
    );
    if (rows[0] !== undefined) return rows[0].pid;
    await sleep(20);
  }
  throw new Error(`No statement with ${mark} runs`);
}

async function until(what: () => boolean | Promise<boolean>): Promise<boolean> {
  for (let i = 0; i < 1_000; i++) {
    if (await what()) return true;
    await sleep(20);
  }
  return false;
}

// What gives way is starved by much other work on the machine, and the seconds that are meant here go by: then it is asked again.
describe.runIf(onLinux)('processors', { retry: 2 }, () => {
  it('are left to others by a statement that has taken much of them, and its connection is not kept', async () => {
    const before = (await sql('hostile', 'SELECT pg_backend_pid() AS pid')).body.rows as { pid: number }[];
    const busy = sql('hostile', `SELECT count(*), 'mark_busy' FROM generate_series(1, 1000000000000)`, {
      timeout_ms: 3_000,
    });
    const pid = await backendOf('mark_busy');
    expect(pid).toBe(before[0]?.pid);
    expect(await until(() => getPriority(pid) === LOW_PRIORITY_NICE)).toBe(true);
    if (existsSync(`/proc/${pid}/autogroup`)) {
      expect(await until(() => readFileSync(`/proc/${pid}/autogroup`, 'utf8').trim().endsWith('nice 10'))).toBe(true);
    }
    failure(await busy, 504, 'query_timeout');
    const [next] = (await sql('hostile', 'SELECT pg_backend_pid() AS pid')).body.rows as { pid: number }[];
    expect(next?.pid).not.toBe(pid);
    expect(getPriority(next?.pid)).toBe(0);
  });

  it('are left to others by a trigger of an insert as well', async () => {
    await sql(
      'hostile',
      `CREATE TABLE busy (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n bigint);
       CREATE FUNCTION spin() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         PERFORM count(*), 'mark_trigger' FROM generate_series(1, 8000000); RETURN NEW; END $$;
       CREATE TRIGGER spin BEFORE INSERT ON busy FOR EACH ROW EXECUTE FUNCTION spin()`,
    );
    const insert = post('hostile', '/data/busy', [{ n: 1 }]);
    const pid = await backendOf('busy');
    expect(await until(() => getPriority(pid) === LOW_PRIORITY_NICE)).toBe(true);
    expect((await insert).status).toBe(201);
  });

  it('are left to others by what follows a greedy statement, and no longer than for some seconds', async () => {
    // Over well before the seconds for which it counts, also on a machine with other work.
    await sql('hostile', `SELECT count(*), 'greedy' FROM generate_series(1, 5000000)`);
    const pidNow = async () =>
      ((await sql('hostile', 'SELECT pg_backend_pid() AS pid')).body.rows as { pid: number }[])[0]?.pid;
    const lowered = await pidNow();
    expect(getPriority(lowered)).toBe(LOW_PRIORITY_NICE);
    expect(await pidNow()).toBe(lowered);
    await sleep(5_100);
    expect(await pidNow()).toBe(lowered);
    expect(getPriority(await pidNow())).toBe(0);
  });

  it('are not taken from a statement that only waits', async () => {
    const waiting = sql('neighbour', `SELECT pg_sleep(1), 'mark_waiting'`);
    const pid = await backendOf('mark_waiting');
    await sleep(600);
    expect(getPriority(pid)).toBe(0);
    expect((await waiting).status).toBe(200);
  });

  it('are not taken from a process that is none of our server', async () => {
    const stranger = spawn('sleep', ['30']);
    await once(stranger, 'spawn');
    const pid = stranger.pid as number;
    try {
      expect(await new Niceness(async (of) => (await parentOf(of)) === postmaster).lower(pid)).toBe(false);
      expect(getPriority(pid)).toBe(getPriority());
    } finally {
      stranger.kill();
    }
  });

  it('are one for a statement: it gets no parallel workers, whatever it sets', async () => {
    await sql('hostile', 'CREATE TABLE many AS SELECT g FROM generate_series(1, 100000) g; ANALYZE many');
    const answer = await sql(
      'hostile',
      `SET max_parallel_workers_per_gather = 8; SET max_parallel_workers = 8; SET parallel_setup_cost = 0;
       SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
       EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT count(*) FROM many`,
    );
    expect(answer.text).toContain('Workers Launched: 0');
  });
});

describe.runIf(onLinux)('memory', () => {
  it.each([
    [
      'a sort',
      `SELECT count(*) FROM (SELECT g || repeat('x', 500) FROM generate_series(1, 1500000) g ORDER BY 1 OFFSET 0) s`,
    ],
    ['a string', `SELECT length(repeat('x', 1000000000))`],
  ])('is refused to %s beyond its bound, and nobody else notices', async (_what, text) => {
    const started = await superuser.query('SELECT pg_postmaster_start_time(), pg_stat_get_db_sessions_killed(0)');
    const answer = await sql('hostile', `SET work_mem = '100GB'; ${text}`);
    const body = failure(answer, 400, 'sql_error');
    expect(body.message).toBe('The statement needed more memory than one may take');
    expect(body.postgres?.sqlstate).toBe('53200');
    expect(body.hint).toBeUndefined();
    const now = await superuser.query('SELECT pg_postmaster_start_time(), pg_stat_get_db_sessions_killed(0)');
    expect(now.rows).toEqual(started.rows);
    expect((await sql('hostile', 'SELECT 1 AS one')).body.rows).toEqual([{ one: 1 }]);
  });

  it('is used up to the brim without taking the stack along', async () => {
    const started = await superuser.query('SELECT pg_postmaster_start_time(), pg_stat_get_db_sessions_killed(0)');
    const answer = await sql(
      'hostile',
      `DO $$ DECLARE n int := 32 * 1024 * 1024; a text[] := '{}'; r text[] := '{}'; t text := repeat('[', 200000);
         u text := repeat('x', 65536); BEGIN
       FOR i IN 1..200 LOOP r := r || repeat('z', 60000); END LOOP;
       WHILE n >= 4000 LOOP
         BEGIN IF n >= 65536 THEN a := a || repeat(u, n / 65536); ELSE a := a || repeat('x', n); END IF;
         EXCEPTION WHEN out_of_memory THEN n := n / 2; END;
       END LOOP;
       r := NULL; PERFORM t::json; END $$`,
    );
    expect(failure(answer, 400, 'sql_error').postgres?.sqlstate).toBe('54001'); // stack depth limit exceeded
    const now = await superuser.query('SELECT pg_postmaster_start_time(), pg_stat_get_db_sessions_killed(0)');
    expect(now.rows).toEqual(started.rows);
  });

  it('is enough for an answer of 16 MiB and an index over a large table', async () => {
    const answer = await sql('neighbour', `SELECT repeat('x', 1000) AS a FROM generate_series(1, 20000)`, {
      max_rows: 100_000,
    });
    expect(answer.status).toBe(200);
    expect(answer.body.truncated).toBe(true);
    const index = await sql(
      'neighbour',
      'CREATE TABLE large AS SELECT g, md5(g::text) AS h FROM generate_series(1, 200000) g; CREATE INDEX ON large (h)',
    );
    expect(index.status).toBe(200);
  });
});

describe('the lock table', () => {
  const HOLD = `DO $$ BEGIN PERFORM pg_advisory_lock(g) FROM generate_series(1, 10000000) g;
    EXCEPTION WHEN OTHERS THEN NULL; END $$; SELECT pg_sleep(20), 'mark_hold'`;

  it('is taken back from a project that fills it, which is told so, while its neighbour goes on', async () => {
    await post('neighbour', '/schema/table', { table_name: 'calm', columns: [{ name: 'n', type: 'INTEGER' }] });
    const holding = Promise.all(Array.from({ length: 6 }, () => sql('hostile', HOLD)));
    let over = false;
    void holding.then(() => (over = true));
    const statuses: number[] = [];
    let rows = 0;
    for (let i = 0; !over; i++) {
      const insert = await post('neighbour', '/data/calm', [{ n: i }]);
      if (insert.status === 201) rows++;
      const table = await post('neighbour', '/schema/table', {
        table_name: `calm_${i}`,
        columns: [{ name: 'n', type: 'INTEGER' }],
      });
      statuses.push(insert.status, table.status);
      await sleep(20);
    }
    expect(new Set(statuses)).toEqual(new Set([201]));
    const count = await sql('neighbour', 'SELECT count(*) AS n FROM calm');
    expect(count.body.rows).toEqual([{ n: rows }]);
    const ended = (await holding).filter(({ status }) => status === 400);
    expect(ended.length).toBeGreaterThan(0);
    for (const answer of ended) {
      const held = Number(/may hold (\d+) now/.exec(failure(answer, 400, 'sql_error').hint ?? '')?.[1]);
      // A quarter of the table, or a sixteenth; its size is that of a whole number of locks for each connection.
      expect([20_480, 5_120].some((share) => held >= share && held < share * 1.01)).toBe(true);
    }
    const locks = async () =>
      (await superuser.query<{ held: number }>('SELECT count(*)::integer AS held FROM pg_locks')).rows[0]?.held ?? 0;
    expect(await until(async () => (await locks()) < 1_000)).toBe(true);
  });

  it('is waited for where there is nobody to end, by requests that may be repeated', async () => {
    await post('neighbour', '/schema/table', { table_name: 'patient', columns: [{ name: 'n', type: 'INTEGER' }] });
    const insert = () => post('neighbour', '/data/patient', [{ n: 1 }]);
    expect((await insert()).status).toBe(201);
    // More than there is room for: what was taken until then is kept.
    const fill = superuser.query('SELECT count(pg_advisory_lock(g)) FROM generate_series(1, 1000000) g');
    await expect(fill).rejects.toThrow('out of shared memory');
    const waiting = [
      insert(),
      post('neighbour', '/schema/table', { table_name: 'patient_too', columns: [{ name: 'n', type: 'INTEGER' }] }),
    ];
    await sleep(300);
    await superuser.query('SELECT pg_advisory_unlock_all()');
    for (const answer of await Promise.all(waiting)) expect(answer.status, answer.text).toBe(201);
    expect((await sql('neighbour', 'SELECT n FROM patient')).body.rows).toEqual([{ n: 1 }, { n: 1 }]);
  });

  it('takes 1,000 tables in one request', async () => {
    const make = `DO $$ BEGIN FOR i IN 1..1000 LOOP EXECUTE format('CREATE TABLE made_%s (a int)', i); END LOOP; END $$`;
    const made = await sql('neighbour', make);
    expect(made.text).toContain('"success":true');
    expect(
      (await sql('neighbour', "SELECT count(*) AS n FROM pg_tables WHERE tablename LIKE 'made%'")).body.rows,
    ).toEqual([{ n: 1_000 }]);
  });

  it('is not taken back from a project because somebody else fills it', async () => {
    await superuser.query('SELECT count(pg_advisory_lock(g)) FROM generate_series(1, 70000) g');
    try {
      const long = await sql('neighbour', 'SELECT pg_sleep(1.6), 1 AS one');
      expect(long.body.rows).toMatchObject([{ one: 1 }]);
    } finally {
      await superuser.query('SELECT pg_advisory_unlock_all()');
    }
  });

  it('is not believed to be full because a project says so', async () => {
    const some = sql(
      'neighbour',
      `SELECT count(pg_advisory_xact_lock(g)) FROM generate_series(1, 5000) g; SELECT pg_sleep(1.5), 'mark_some'`,
    );
    await backendOf('mark_some');
    const lie = await sql('hostile', `DO $$ BEGIN RAISE 'out of shared memory' USING ERRCODE = '53200'; END $$`);
    failure(lie, 503, 'overloaded');
    expect((await some).status).toBe(200);
  });
});

describe('autovacuum', () => {
  /** A table that autovacuum analyzes, with an index that calls a function; names with qualifiers, as autovacuum needs them. */
  const indexed = (name: string, body: string) => `CREATE TABLE ${name}_written (id integer);
    CREATE FUNCTION ${name}_writes() RETURNS void LANGUAGE sql AS 'INSERT INTO data.${name}_written VALUES (1)';
    CREATE FUNCTION ${name}_f(n integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS
      $f$ BEGIN IF session_user <> current_user THEN ${body} END IF; RETURN n; END $f$;
    CREATE TABLE ${name} (n integer) WITH (autovacuum_analyze_threshold = 1, autovacuum_analyze_scale_factor = 0);
    CREATE INDEX ON ${name} (${name}_f(n));
    INSERT INTO ${name} VALUES (1), (2), (3)`;

  const CATCHING = 'EXCEPTION WHEN OTHERS OR QUERY_CANCELED THEN NULL;';

  /** The process of autovacuum that is computing statistics of a table of {@link indexed}. */
  const workerAt = (table: string) =>
    vi.waitUntil(
      async () => {
        const { rows } = await superuser.query<{ pid: number }>(
          `SELECT pid FROM pg_stat_progress_analyze JOIN pg_stat_activity USING (pid)
           WHERE phase = 'computing statistics' AND backend_type = 'autovacuum worker' AND query LIKE '% data.' || $1`,
          [table],
        );
        return rows[0];
      },
      { timeout: 60_000, interval: 50 },
    );

  /** Functions that catch what they are told keep their tables from being dropped as well. */
  const drop = async (tables: string) => {
    const end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'";
    const timer = setInterval(() => void superuser.query(end), 200);
    const dropped = await sql('hostile', `DROP TABLE ${tables}`).finally(() => clearInterval(timer));
    expect(dropped.status, dropped.text).toBe(200);
  };

  const isAnalyzed = async (project: string, table: string) => {
    const text = `SELECT count(last_autoanalyze) AS times FROM pg_stat_user_tables WHERE relname = '${table}'`;
    return (await sql(project, text)).text.includes('"times":1');
  };

  beforeAll(async () => {
    await superuser.query("ALTER SYSTEM SET autovacuum_naptime = '1s'");
    await superuser.query('SELECT pg_reload_conf()');
  });

  afterAll(async () => {
    await superuser.query('ALTER SYSTEM RESET autovacuum_naptime');
    await superuser.query('SELECT pg_reload_conf()');
  });

  it('writes nothing by the functions of an index, and vacuums and analyzes all the same', async () => {
    const body = `BEGIN PERFORM set_config('transaction_read_only', 'off', false); ${CATCHING} END;
      BEGIN PERFORM data.writing_writes(); ${CATCHING} END;`;
    const made = await sql('hostile', `${indexed('writing', body)}; DELETE FROM writing WHERE n = 1`);
    expect(made.status, made.text).toBe(200);
    const seen = () =>
      sql(
        'hostile',
        `SELECT count(last_autoanalyze) AS analyzed, (SELECT count(*) FROM pg_stats WHERE tablename LIKE 'writing%idx') AS stats,
           (SELECT count(*) FROM writing_written) AS written
         FROM pg_stat_user_tables WHERE relid = 'writing'::regclass`,
      );
    await vi.waitUntil(async () => (await seen()).text.includes('"analyzed":1'), { timeout: 60_000, interval: 200 });
    expect((await seen()).body.rows).toEqual([{ analyzed: 1, stats: 1, written: 0 }]);
    await drop('writing');
  });

  it('gives way where a table takes it long, and is let be where nobody waits', async () => {
    expect((await sql('hostile', indexed('slow', 'IF n = 1 THEN PERFORM pg_sleep(40); END IF;'))).status).toBe(200);
    const { pid } = await workerAt('slow');
    if (onLinux) expect(await until(() => getPriority(pid) === LOW_PRIORITY_NICE)).toBe(true);
    await vi.waitUntil(() => isAnalyzed('hostile', 'slow'), { timeout: 120_000, interval: 200 });
    await drop('slow');
  });

  it('has its turn with the neighbour where a project keeps all of it, however it does', async () => {
    const hold = (name: string) => `CREATE FUNCTION ${name}(n integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS $f$
      BEGIN
        LOOP
          EXIT WHEN session_user = current_user;
          BEGIN PERFORM pg_sleep(600); ${CATCHING} END;
        END LOOP;
        RETURN n;
      END $f$`;
    const due = '(autovacuum_analyze_threshold = 1)';
    const vacuumed = 'fillfactor = 10, autovacuum_enabled = on, autovacuum_vacuum_insert_threshold = 1';
    const slowed = 'autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1';
    const made = await sql(
      'hostile',
      `${hold('held')}; ${hold('held_once')}; ${hold('held_by_summary')};
       CREATE TABLE kept1 (n integer) WITH ${due}; CREATE INDEX ON kept1 (held(n));
       CREATE TABLE kept2 (n integer) WITH ${due}; CREATE INDEX ON kept2 ((n + held_once(1)));
       CREATE TABLE kept3 (n integer, m integer) WITH ${due}; CREATE STATISTICS kept3_s ON (n + held_once(1)), m FROM kept3;
       CREATE TABLE kept4 (n integer) WITH (${vacuumed});
       CREATE INDEX ON kept4 USING brin (held_by_summary(n)) WITH (pages_per_range = 1);
       CREATE TABLE kept5 (n integer) WITH (${vacuumed}, ${slowed});
       CREATE TABLE kept6 (n integer) WITH ${due}; CREATE INDEX ON kept6 (held(n));
       INSERT INTO kept1 VALUES (1), (2); INSERT INTO kept2 VALUES (1), (2); INSERT INTO kept3 VALUES (1, 1), (2, 2);
       INSERT INTO kept4 SELECT generate_series(1, 300); INSERT INTO kept5 SELECT generate_series(1, 200000);
       INSERT INTO kept6 VALUES (1), (2)`,
    );
    expect(made.status, made.text).toBe(200);
    const kept = async () => {
      const { rows } = await superuser.query<{ table: string }>(
        `SELECT substring(query FROM 'data\.(kept\d)') AS table FROM pg_stat_activity
         WHERE backend_type = 'autovacuum worker' AND query ~ 'data\.kept'`,
      );
      return rows;
    };
    const [{ most }] = (
      await superuser.query<{ most: number }>(`SELECT current_setting('autovacuum_max_workers')::int AS most`)
    ).rows as [{ most: number }];
    await vi.waitUntil(async () => (await kept()).length === most, { timeout: 60_000, interval: 50 });
    expect(
      (await sql('neighbour', `CREATE TABLE due (n integer) WITH ${due}; INSERT INTO due VALUES (1), (2)`)).status,
    ).toBe(200);
    await vi.waitUntil(() => isAnalyzed('neighbour', 'due'), { timeout: 120_000, interval: 200 });
    await drop('kept1, kept2, kept3, kept4, kept5, kept6');
    await sql('neighbour', 'DROP TABLE due');
  });

  it('is ended where functions write files, as REINDEX does although it is read-only', async () => {
    const made = await sql(
      'hostile',
      `CREATE TABLE large (n integer); INSERT INTO large SELECT generate_series(1, 500000); CREATE INDEX large_i ON large (n);
       CREATE FUNCTION reindexes() RETURNS void LANGUAGE plpgsql AS
         $f$ BEGIN LOOP EXECUTE 'REINDEX INDEX data.large_i'; END LOOP; END $f$;
       ${indexed('growing', 'PERFORM data.reindexes();')}`,
    );
    expect(made.status, made.text).toBe(200);
    // REINDEX has wiped out the progress of ANALYZE.
    const atGrowing = async () => {
      const { rows } = await superuser.query<{ pid: number; since: string }>(
        "SELECT pid, query_start::text AS since FROM pg_stat_activity WHERE query = 'autovacuum: ANALYZE data.growing'",
      );
      return rows[0];
    };
    const { pid, since } = await vi.waitUntil(atGrowing, { timeout: 60_000, interval: 50 });
    const hasLeft = async () => {
      const now = await atGrowing();
      return now?.pid !== pid || now.since !== since;
    };
    const startedAt = performance.now();
    await vi.waitUntil(hasLeft, { timeout: 120_000, interval: 200 });
    // It was at its REINDEX, and did not fail.
    expect(performance.now() - startedAt).toBeGreaterThan(5_000);
    await drop('growing, large');
  });

  it('is ended where such functions fill the lock table, while the neighbour goes on', async () => {
    const body = `BEGIN PERFORM pg_advisory_lock(g) FROM generate_series(1, 10000000) g; ${CATCHING} END;
      LOOP BEGIN PERFORM pg_sleep(600); ${CATCHING} END; END LOOP;`;
    expect((await sql('hostile', indexed('locking', body))).status).toBe(200);
    // By functions alone: what the views look at needs entries of the full table.
    const filling = async () => {
      const { rows } = await superuser.query<{ pid: number }>(
        `SELECT a.pid FROM pg_stat_get_activity(NULL) a, pg_lock_status() l
         WHERE a.backend_type = 'autovacuum worker' AND l.pid = a.pid GROUP BY 1 HAVING count(*) > 100000`,
      );
      return rows[0]?.pid;
    };
    const first = await vi.waitUntil(filling, { timeout: 60_000, interval: 20 });
    for (let i = 0; (await filling()) === first || i < 5; i++) {
      const table = { table_name: `beside_autovacuum_${i}`, columns: [{ name: 'n', type: 'INTEGER' }] };
      const made = await post('neighbour', '/schema/table', table);
      expect(made.status, made.text).toBe(201);
    }
    await drop('locking');
  });
});

describe("the service's memory", () => {
  it('is not filled by bodies of values: they are kept as the text they are', async () => {
    const values = `[${Array.from({ length: 2_000_000 }, () => '[]').join(',')}]`;
    const before = process.memoryUsage().heapUsed;
    const answers = await Promise.all(
      Array.from({ length: 6 }, () =>
        post('hostile', '/sql', `{"sql":"SELECT pg_sleep(0.2), length($1::text) AS n","params":[${values}]}`),
      ),
    );
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(600 * 1024 * 1024);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });

  it('is bounded for a project that leaves its bodies half sent, which then waits for itself alone', async () => {
    const { port } = new URL(service.url);
    const sockets = Array.from({ length: 40 }, () => connect(Number(port), '127.0.0.1'));
    for (const socket of sockets) {
      socket.on('error', () => {});
      socket.write(
        `POST /api/cdp/sql HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tokens.hostile}\r\n` +
          'Content-Type: application/json\r\nContent-Length: 9000000\r\n\r\n',
      );
      socket.write(Buffer.alloc(1_000_000, ' '));
    }
    try {
      await sleep(500);
      expect((await sql('neighbour', 'SELECT 1 AS one')).status).toBe(200);
      const large = JSON.stringify({ sql: 'SELECT length($1::text) AS n', params: ['x'.repeat(8_000_000)] });
      expect((await post('neighbour', '/sql', large)).body.rows).toEqual([{ n: 8_000_000 }]);
      failure(await post('hostile', '/sql', large), 503, 'overloaded');
    } finally {
      for (const socket of sockets) socket.destroy();
    }
    expect(await until(async () => (await sql('hostile', 'SELECT 1 AS one')).status === 200)).toBe(true);
  });
});
