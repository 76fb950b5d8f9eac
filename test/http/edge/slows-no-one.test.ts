/**
 * How much one project can take of shared resources, with each project on a server of its own: CPU, memory, and memory
 * of the service.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { getPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LOW_PRIORITY_NICE, Niceness } from '../../../src/embedded/niceness.js';
import { parentOf } from '../../../src/embedded/proc.js';
import {
  expectFailure,
  inProject,
  startOwnService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

const onLinux = process.platform === 'linux';

let service: TestService;
const projects = new Map<string, TestProject>();

beforeAll(async () => {
  service = await startOwnService({ 'backend-memory-mib': '300', 'wait-ms': '8000' });
  for (const name of ['hostile', 'neighbour']) {
    const project = await service.project(name);
    // Its server runs from now on.
    await project.rows('SELECT 1');
    projects.set(name, project);
  }
});
afterAll(() => service.close());

function projectOf(name: string): TestProject {
  const project = projects.get(name);
  if (project === undefined) throw new Error(`There is no project ${name}`);
  return project;
}

const post = (project: string, path: string, body: unknown): Promise<TestResponse> =>
  projectOf(project).call('POST', `/api/cdp${path}`, { body });

const sql = (project: string, text: string, rest: object = {}): Promise<TestResponse> =>
  post(project, '/sql', { sql: text, ...rest });

/** As the superuser of the project's server. */
async function rowsIn<Row extends object>(name: string, text: string, params: unknown[] = []): Promise<Row[]> {
  const { placement } = await service.engine.projects.get(name);
  return inProject(service, placement, async (client) => (await client.query<Row>(text, params)).rows);
}

/** Of the statement with this mark, as soon as it runs. */
async function backendOf(project: string, mark: string): Promise<number> {
  for (let i = 0; i < 1_000; i++) {
    const [found] = await rowsIn<{ pid: number }>(
      project,
      `SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE $1 AND pid <> pg_backend_pid()`,
      [`%${mark}%`],
    );
    if (found !== undefined) return found.pid;
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

/** Busy for two seconds by the clock, however busy the machine is. */
const BUSY = `FROM generate_series(1, 1000000) n WHERE clock_timestamp() < statement_timestamp() + interval '2 s'
  AND (SELECT count(*) FROM generate_series(1, 100 + n % 2)) > 0`;

describe.runIf(onLinux)('CPU', () => {
  it('goes to others before a statement that has used much of it, whose connection is then closed', async () => {
    const before = (await sql('hostile', 'SELECT pg_backend_pid() AS pid')).body.rows as { pid: number }[];
    const busy = sql('hostile', `SELECT count(*), 'mark_busy' FROM generate_series(1, 1000000000000)`, {
      timeout_ms: 3_000,
    });
    const pid = await backendOf('hostile', 'mark_busy');
    expect(pid).toBe(before[0]?.pid);
    expect(await until(() => getPriority(pid) === LOW_PRIORITY_NICE)).toBe(true);
    if (existsSync(`/proc/${pid}/autogroup`)) {
      expect(await until(() => readFileSync(`/proc/${pid}/autogroup`, 'utf8').trim().endsWith('nice 10'))).toBe(true);
    }
    expectFailure(await busy, 504, 'query_timeout');
    const [next] = (await sql('hostile', 'SELECT pg_backend_pid() AS pid')).body.rows as { pid: number }[];
    expect(next?.pid).not.toBe(pid);
    expect(getPriority(next?.pid)).toBe(0);
  });

  it('also goes to others before a trigger of an insert', async () => {
    await sql(
      'hostile',
      `CREATE TABLE busy (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n bigint);
       CREATE FUNCTION spin() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         PERFORM count(*) ${BUSY}; RETURN NEW; END $$;
       CREATE TRIGGER spin BEFORE INSERT ON busy FOR EACH ROW EXECUTE FUNCTION spin()`,
    );
    const insert = post('hostile', '/data/busy', [{ n: 1 }]);
    const pid = await backendOf('hostile', 'busy');
    expect(await until(() => getPriority(pid) === LOW_PRIORITY_NICE)).toBe(true);
    expect((await insert).status).toBe(201);
  });

  it('goes to others before statements that follow a greedy one, but only for a few seconds', async () => {
    await sql('hostile', `SELECT count(*) ${BUSY}`);
    const pidNow = async () =>
      ((await sql('hostile', 'SELECT pg_backend_pid() AS pid')).body.rows as { pid: number }[])[0]?.pid;
    const lowered = await pidNow();
    expect(getPriority(lowered)).toBe(LOW_PRIORITY_NICE);
    expect(await pidNow()).toBe(lowered);
    await sleep(5_100);
    expect(await pidNow()).toBe(lowered);
    expect(getPriority(await pidNow())).toBe(0);
  });

  it('is not taken from a statement that only waits', async () => {
    const waiting = sql('neighbour', `SELECT pg_sleep(1), 'mark_waiting'`);
    const pid = await backendOf('neighbour', 'mark_waiting');
    await sleep(600);
    expect(getPriority(pid)).toBe(0);
    expect((await waiting).status).toBe(200);
  });

  it('is not taken from a process that is not of our server', async () => {
    const stranger = spawn('sleep', ['30']);
    await once(stranger, 'spawn');
    const pid = stranger.pid as number;
    const [own] = (await sql('hostile', 'SELECT pg_backend_pid() AS pid')).body.rows as [{ pid: number }];
    const postmaster = await parentOf(own.pid);
    try {
      expect(await new Niceness(async (of) => (await parentOf(of)) === postmaster).lower(pid)).toBe(false);
      expect(getPriority(pid)).toBe(getPriority());
    } finally {
      stranger.kill();
    }
  });

  it('is limited to one core for a statement: it gets no parallel workers, whatever it sets', async () => {
    await sql('hostile', 'CREATE TABLE many AS SELECT g FROM generate_series(1, 100000) g; ANALYZE many');
    const response = await sql(
      'hostile',
      `SET max_parallel_workers_per_gather = 8; SET max_parallel_workers = 8; SET parallel_setup_cost = 0;
       SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
       EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT count(*) FROM many`,
    );
    expect(response.text).toContain('Workers Launched: 0');
  });
});

describe.runIf(onLinux)('memory', () => {
  const lives = () => rowsIn('hostile', 'SELECT pg_postmaster_start_time(), pg_stat_get_db_sessions_killed(0)');

  it.each([
    [
      'a sort',
      `SELECT count(*) FROM (SELECT g || repeat('x', 500) FROM generate_series(1, 1500000) g ORDER BY 1 OFFSET 0) s`,
    ],
    ['a string', `SELECT length(repeat('x', 1000000000))`],
  ])('is refused to %s beyond its limit, and nobody else is affected', async (_what, text) => {
    const started = await lives();
    const response = await sql('hostile', `SET work_mem = '100GB'; ${text}`);
    const body = expectFailure(response, 400, 'sql_error');
    expect(body.message).toBe('The statement needed more memory than the limit allows');
    expect(body.postgres?.sqlstate).toBe('53200');
    expect(body.hint).toBeUndefined();
    expect(await lives()).toEqual(started);
    for (const project of ['hostile', 'neighbour']) {
      expect((await sql(project, 'SELECT 1 AS one')).body.rows).toEqual([{ one: 1 }]);
    }
  });

  it('can be used up without exhausting the stack', async () => {
    const started = await lives();
    const response = await sql(
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
    expect(expectFailure(response, 400, 'sql_error').postgres?.sqlstate).toBe('54001'); // stack depth limit exceeded
    expect(await lives()).toEqual(started);
  });

  it('is enough for a response of 16 MiB and an index on a large table', async () => {
    const response = await sql('neighbour', `SELECT repeat('x', 1000) AS a FROM generate_series(1, 20000)`, {
      max_rows: 100_000,
    });
    expect(response.status).toBe(200);
    expect(response.body.truncated).toBe(true);
    const index = await sql(
      'neighbour',
      'CREATE TABLE large AS SELECT g, md5(g::text) AS h FROM generate_series(1, 200000) g; CREATE INDEX ON large (h)',
    );
    expect(index.status).toBe(200);
  });
});

describe('the locks of a server', () => {
  it('can all be taken by one project without affecting others', async () => {
    await post('neighbour', '/schema/table', { table_name: 'calm', columns: [{ name: 'n', type: 'INTEGER' }] });
    let over = false;
    const hold = `DO $$ BEGIN PERFORM pg_advisory_lock(g) FROM generate_series(1, 10000000) g;
      EXCEPTION WHEN OTHERS THEN NULL; END $$; SELECT pg_sleep(60)`;
    const holding = sql('hostile', hold, { timeout_ms: 10_000 }).finally(() => (over = true));
    const isFull = async () => (await sql('hostile', 'CREATE TABLE one_more ()')).body.error === 'overloaded';
    expect(await until(isFull)).toBe(true);
    for (let i = 0; i < 5 || !over; i++) {
      const table = { table_name: `calm_${i}`, columns: [{ name: 'n', type: 'INTEGER' }] };
      const made = await post('neighbour', '/schema/table', table);
      expect(made.status, made.text).toBe(201);
      expect((await post('neighbour', '/data/calm', [{ n: 1 }])).status).toBe(201);
    }
    expectFailure(await holding, 504, 'query_timeout');
    expect(await until(async () => (await sql('hostile', 'CREATE TABLE after ()')).status === 200)).toBe(true);
  });

  it('are enough for 1,000 tables in one request', async () => {
    const make = `DO $$ BEGIN FOR i IN 1..1000 LOOP EXECUTE format('CREATE TABLE made_%s (a int)', i); END LOOP; END $$`;
    const made = await sql('neighbour', make);
    expect(made.text).toContain('"success":true');
    expect(
      (await sql('neighbour', "SELECT count(*) AS n FROM pg_tables WHERE tablename LIKE 'made%'")).body.rows,
    ).toEqual([{ n: 1_000 }]);
  });
});

describe('the memory of the service', () => {
  it('is not filled by bodies of values, which are counted while they are read', async () => {
    const values = `[${Array.from({ length: 2_000_000 }, () => '[]').join(',')}]`;
    const before = process.memoryUsage().heapUsed;
    const responses = await Promise.all(
      Array.from({ length: 6 }, () =>
        post('hostile', '/sql', `{"sql":"SELECT pg_sleep(0.2), length($1::json::text) AS n","params":[${values}]}`),
      ),
    );
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(600 * 1024 * 1024);
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([400]));
  });

  it('is limited for a project that leaves its bodies half sent, and only that project then waits', async () => {
    const { port } = new URL(service.url);
    const sockets = Array.from({ length: 40 }, () => connect(Number(port), '127.0.0.1'));
    for (const socket of sockets) {
      socket.on('error', () => {});
      socket.write(
        `POST /api/cdp/sql HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${projectOf('hostile').token}\r\n` +
          'Content-Type: application/json\r\nContent-Length: 9000000\r\n\r\n',
      );
      socket.write(Buffer.alloc(1_000_000, ' '));
    }
    try {
      await sleep(500);
      expect((await sql('neighbour', 'SELECT 1 AS one')).status).toBe(200);
      const large = JSON.stringify({ sql: 'SELECT length($1::text) AS n', params: ['x'.repeat(8_000_000)] });
      expect((await post('neighbour', '/sql', large)).body.rows).toEqual([{ n: 8_000_000 }]);
      expectFailure(await post('hostile', '/sql', large), 503, 'overloaded');
    } finally {
      for (const socket of sockets) socket.destroy();
    }
    expect(await until(async () => (await sql('hostile', 'SELECT 1 AS one')).status === 200)).toBe(true);
  });
});
