/** `cdp serve --workers 2`: one service from the outside, whichever of its processes is asked. */
import { Agent, request } from 'node:http';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { text } from 'node:stream/consumers';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { processes } from '../../src/embedded/processes.js';
import {
  endEverything,
  eventually,
  firstToken,
  freePort,
  newDataDir,
  postmasterOf,
  runProgram,
  type RunningService,
  startServe,
  superuserOf,
} from '../support/program.js';
import { connect, rawAnswer, received } from '../support/raw.js';
import { stillThere, workersOf } from '../support/workers.js';

/** One client of one worker: a kept connection. */
interface Client {
  /** The worker at its other end. */
  readonly worker: number;
  call(method: string, path: string, given?: { token?: string; body?: unknown }): Promise<Answer>;
}

interface Answer {
  status: number | undefined;
  text: string;
  body: Record<string, unknown>;
}

let dataDir: string;
let service: RunningService;
let token: string;
let one: Client;
let two: Client;
const agents: Agent[] = [];

beforeAll(async () => {
  dataDir = await newDataDir();
  const settings = ['--rate-limit', '400/1m', '--request-timeout-ms', '1500', '--metrics-by-project', 'true'];
  service = await startServe(['--data-dir', dataDir, '--workers', '2', ...settings], { env: { CDP_NPM_START: '1' } });
  token = /\bcdp_[0-9A-Za-z]{49}\b/.exec(service.output())?.[0] ?? '';
  // The first connections go to both in turn.
  [one, two] = [await client(), await client()];
});
afterAll(async () => {
  for (const agent of agents) agent.destroy();
  await endEverything();
});

function ask(
  agent: Agent | false,
  method: string,
  path: string,
  given: { token?: string; body?: unknown; id?: string },
) {
  return new Promise<Answer>((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${given.token ?? token}`,
      ...(given.id === undefined ? {} : { 'x-request-id': given.id }),
      ...(given.body === undefined ? {} : { 'content-type': 'application/json' }),
    };
    const sent = request(service.url + path, { method, agent, headers }, (response) => {
      text(response).then((answer) => {
        const body = answer.startsWith('{') ? (JSON.parse(answer) as Record<string, unknown>) : {};
        resolve({ status: response.statusCode, text: answer, body });
      }, reject);
    });
    sent.on('error', reject).end(given.body === undefined ? undefined : JSON.stringify(given.body));
  });
}

let asked = 0;

async function client(): Promise<Client> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  agents.push(agent);
  const id = `client-${++asked}`;
  expect((await ask(agent, 'GET', '/healthz', { id })).status).toBe(200);
  const line = await eventually('its line is in the log', () =>
    Promise.resolve(service.log().find((entry) => entry.request_id === id)),
  );
  return {
    worker: Number(line.worker),
    call: (method, path, given = {}) => ask(agent, method, path, given),
  };
}

/** The sum over the series of a metric, as Prometheus would have it. */
async function metric(name: string, from: Client | null = null): Promise<number> {
  const answer = await (from === null ? ask(false, 'GET', '/metrics', {}) : from.call('GET', '/metrics'));
  expect(answer.status, answer.text).toBe(200);
  const values = Array.from(answer.text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, 'gm')), ([, n]) =>
    Number(n),
  );
  return values.reduce((sum, value) => sum + value, 0);
}

const table = (name: string) => ({ table_name: name, columns: [{ name: 'n', type: 'INTEGER' }] });

describe('works', () => {
  it('greets once, listens once, and has one Postgres and two workers that say who they are', async () => {
    expect(service.output().match(/\bcdp_[0-9A-Za-z]{49}\b/g)).not.toBeNull();
    expect(new Set(service.output().match(/\bcdp_[0-9A-Za-z]{49}\b/g)).size).toBe(1);
    const listening = service.log().filter(({ msg }) => msg === 'listening');
    expect(listening).toEqual([expect.objectContaining({ url: service.url, workers: 2, embedded: true })]);
    expect(await workersOf(service)).toHaveLength(2);
    const started = `postgres -D ${join(dataDir, 'postgres/data')} -c config_file=`;
    const postmasters = (await processes()).filter(({ command }) => command.includes(started));
    expect(postmasters.map(({ pid }) => pid)).toEqual([await postmasterOf(dataDir)]);
    expect([one.worker, two.worker].sort()).toEqual([1, 2]);
  });

  it('gives connections to both in turn', async () => {
    const clients = await Promise.all(Array.from({ length: 8 }, client));
    const byOne = clients.filter(({ worker }) => worker === 1).length;
    expect(byOne).toBeGreaterThanOrEqual(3);
    expect(byOne).toBeLessThanOrEqual(5);
  });

  it('adds the metrics of both up, whichever is asked, and forgets none when one is killed', async () => {
    expect((await one.call('POST', '/api/cdp/schema/table', { body: table('counted') })).status).toBe(201);
    for (const from of [one, two, one]) {
      const answer = await from.call('POST', '/api/cdp/data/counted', { body: [{ n: 1 }, { n: 2 }] });
      expect(answer.status, answer.text).toBe(201);
    }
    expect(await metric('cdp_inserted_rows_total', one)).toBe(6);
    expect(await metric('cdp_inserted_rows_total', two)).toBe(6);
    expect(await metric('cdp_project_inserted_rows_total{project="default"}')).toBe(6);
    const { stdout } = await runProgram(['token', 'create', '--admin', '--data-dir', dataDir]);
    const admin = stdout.trim();
    const projects = '/api/cdp/admin/projects';
    const made = await one.call('POST', projects, { token: admin, body: { name: 'passing' } });
    expect(made.status, made.text).toBe(201);
    const given = await one.call('POST', `${projects}/passing/tokens`, { token: admin, body: { name: 'its' } });
    for (const from of [one, two]) {
      const answer = await from.call('GET', '/api/cdp/schema', { token: String(given.body.token) });
      expect(answer.status, answer.text).toBe(200);
    }
    const ofPassing = 'cdp_project_requests_total{project="passing",code=""}';
    await eventually('both are counted', async () => (await metric(ofPassing)) === 2);
    expect(await metric('cdp_postgres_up', one)).toBe(1);
    expect(await metric('cdp_http_request_duration_seconds_count', one)).toBeGreaterThan(3);
    const before = await workersOf(service);
    process.kill(before[0] as number, 'SIGKILL');
    await eventually('another takes its place', async () => {
      const now = await workersOf(service);
      return now.length === 2 && !now.includes(before[0] as number);
    });
    await eventually('both can be asked', async () => (await metric('cdp_postgres_up')) === 1);
    expect(await metric('cdp_inserted_rows_total')).toBe(6);
    expect(await metric(ofPassing)).toBe(2);
    const deleted = await ask(false, 'DELETE', `${projects}/passing?confirm=passing`, { token: admin });
    expect(deleted.status, deleted.text).toBe(200);
    expect((await ask(false, 'GET', '/metrics', {})).text).not.toContain('passing');
    one = await client();
    two = await eventually('the new one serves', async () => {
      // Those that are kept count: the new worker is given all that come, until it has as many as the other.
      const next = await client();
      return next.worker !== one.worker && next;
    });
    expect([one.worker, two.worker].sort()).toEqual([1, 2]);
  });

  it('what one of them does, the other knows: a table at once, a revoked token within a second', async () => {
    expect((await one.call('POST', '/api/cdp/schema/table', { body: table('moving') })).status).toBe(201);
    expect((await two.call('POST', '/api/cdp/data/moving', { body: [{ n: 1 }] })).status).toBe(201);
    const change = await one.call('POST', '/api/cdp/sql', {
      body: { sql: 'DELETE FROM moving; ALTER TABLE moving ADD COLUMN more text NOT NULL' },
    });
    expect(change.status, change.text).toBe(200);
    const refused = await two.call('POST', '/api/cdp/data/moving', { body: [{ n: 1 }] });
    expect([refused.status, refused.body.error]).toEqual([400, 'constraint_violation']);

    const { code, stdout, stderr } = await runProgram(['token', 'create', '--admin', '--data-dir', dataDir]);
    expect(code, stderr).toBe(0);
    const admin = stdout.trim();
    const path = '/api/cdp/admin/projects/default/tokens';
    const made = await one.call('POST', path, { token: admin, body: { name: 'short' } });
    const { token: short, details } = made.body as { token: string; details: { id: string } };
    for (const from of [one, two]) {
      expect((await from.call('GET', '/api/cdp/schema', { token: short })).status, made.text).toBe(200);
    }
    const revoked = await one.call('DELETE', `${path}/${details.id}`, { token: admin });
    expect(revoked.status, revoked.text).toBe(200);
    const before = performance.now();
    await eventually('the other refuses it', async () => {
      return (await two.call('GET', '/api/cdp/schema', { token: short })).status === 401;
    });
    expect(performance.now() - before).toBeLessThan(1_000);
  });

  it('answers a client that has said that it sends no more', async () => {
    const socket = await connect(service.url);
    socket.end('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(await received(socket, 5_000)).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe('protects', () => {
  it('a project runs no more at once than in one process', async () => {
    const asleep = Array.from({ length: 20 }, () =>
      ask(false, 'POST', '/api/cdp/sql', { body: { sql: 'SELECT pg_sleep(25)' } }),
    );
    const answered = Promise.all(asleep).then(() => true);
    const superuser = new pg.Client(await superuserOf(dataDir));
    await superuser.connect();
    try {
      const sleeping = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
      let most = 0;
      const look = async () => {
        const { rows } = await superuser.query<{ n: number }>(`SELECT count(*)::int AS n ${sleeping}`);
        return (most = Math.max(most, rows[0]?.n ?? 0)) >= 6;
      };
      await eventually('six of them run, three in each', look);
      for (let more = 0; more < 10; more++) await look();
      expect(most).toBe(6);
      await eventually('all are over', async () => {
        await superuser.query(`SELECT pg_cancel_backend(pid) ${sleeping}`);
        return Promise.race([answered, sleep(20).then(() => false)]);
      });
    } finally {
      await superuser.end();
    }
  });

  it('breaks off heads that do not arrive', async () => {
    const answer = await rawAnswer(service.url, 'GET /healthz HTTP/1.1\r\nHost:', 20_000);
    expect([answer.status, answer.body.error]).toEqual([408, 'request_timeout']);
  });

  it('counts the requests of a token over both: as many pass as are set', async () => {
    const { stdout } = await runProgram(['token', 'create', '--project', 'default', '--json', '--data-dir', dataDir]);
    const { token: limited } = JSON.parse(stdout) as { token: string };
    const codes: (number | undefined)[] = [];
    for (let n = 0; n < 42; n++) {
      const some = Array.from({ length: 10 }, (_, i) =>
        (i % 2 === 0 ? one : two).call('GET', '/api/cdp/token', { token: limited }),
      );
      codes.push(...(await Promise.all(some)).map(({ status }) => status));
    }
    expect(codes.filter((status) => status === 200)).toHaveLength(400);
    expect(codes.filter((status) => status === 429)).toHaveLength(20);
  });
});

describe('refuses', () => {
  it('a second service on the same data folder, with and without workers', async () => {
    for (const more of [[], ['--workers', '2']]) {
      const { code, stderr } = await runProgram(['serve', '--port', '0', '--data-dir', dataDir, ...more]);
      expect([code, stderr]).toEqual([1, expect.stringContaining('Another service is running on this data folder')]);
    }
  });

  it('a port that is taken, and leaves nothing behind', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as { port: number };
    const folder = await newDataDir();
    const { code, stderr } = await runProgram([
      'serve',
      '--port',
      String(port),
      '--data-dir',
      folder,
      '--workers',
      '2',
    ]);
    taken.close();
    expect([code, stderr]).toEqual([1, expect.stringContaining('EADDRINUSE')]);
    expect(await postmasterOf(folder)).toBeUndefined();
  });

  it('more workers than the limits can be divided by', async () => {
    const { code, stderr } = await runProgram(['serve', '--workers', '8', '--data-dir', dataDir]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('twice workers')]);
  });
});

describe('ends', () => {
  it('with 0 once what is running is answered, and leaves no process', async () => {
    const workers = await workersOf(service);
    const running = Promise.all(
      [one, two].map((from) => from.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT pg_sleep(2), 7 AS n' } })),
    );
    await sleep(500);
    const ended = service.end();
    for (const { status } of await running) expect(status).toBe(200);
    expect(await ended).toMatchObject({ code: 0, signal: null });
    expect(await stillThere(workers)).toEqual([]);
    expect(await postmasterOf(dataDir)).toBeUndefined();
  });

  it('at a second signal without waiting', async () => {
    const port = await freePort();
    service = await startServe(['--data-dir', dataDir, '--workers', '2', '--metrics-port', String(port)]);
    const broken = expect(
      ask(false, 'POST', '/api/cdp/sql', { body: { sql: 'SELECT pg_sleep(50)' } }),
    ).rejects.toThrow();
    await eventually('the listener for metrics says that it runs', async () => {
      const answer = await fetch(`http://127.0.0.1:${port}/metrics`);
      return (await answer.text()).includes('cdp_requests_running{class="sql"} 1');
    });
    service.process.kill('SIGTERM');
    await sleep(1_200);
    expect(service.process.exitCode).toBe(null);
    expect(await service.end()).toMatchObject({ code: 0, signal: null });
    await broken;
  });

  it('with its workers when it is killed, and the next start works', async () => {
    service = await startServe(['--data-dir', dataDir, '--workers', '2']);
    const workers = await workersOf(service);
    expect(workers).toHaveLength(2);
    await service.end('SIGKILL');
    await eventually('no worker is left', async () => (await stillThere(workers)).length === 0);
    service = await startServe(['--data-dir', dataDir, '--workers', '2']);
    expect((await ask(false, 'POST', '/api/cdp/sql', { body: { sql: 'SELECT 1' } })).status).toBe(200);
    expect(await service.end()).toMatchObject({ code: 0, signal: null });
  });
});

it('with a token in a file where there is no terminal', async () => {
  const folder = await newDataDir();
  const other = await startServe(['--data-dir', folder, '--workers', '2']);
  expect(await firstToken(folder)).toMatch(/^cdp_/);
  expect(await other.end()).toMatchObject({ code: 0, signal: null });
});
