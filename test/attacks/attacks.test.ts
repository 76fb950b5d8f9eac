/**
 * A hostile project next to a neighbor, on an embedded data folder: whatever `alice` does, every request of `bob`
 * succeeds, all his rows are stored, and alice's own project answers again afterward. `bench/neighbour.mjs` measures
 * how fast bob is served meanwhile.
 */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  endEverything,
  freePort,
  newDataDir,
  type RunningService,
  runProgram,
  startServe,
} from '../support/program.js';
import { call, type TestResponse } from '../support/service.js';
import { type Attack, type Attacker, ATTACKS, BACKEND_MIB, STATEMENT_MS } from './attacks.js';

/** Log files of all servers together, a moment after something wrote as much as it could. */
const LOG_BYTES = 128 * 1024 * 1024;

/** Within which a project answers again whose server has crashed, several times in a row. */
const BACK_MS = 30_000;

let dataDir: string;
let service: RunningService;
let pgPort: number;
const tokens = new Map<string, string>();

/** A command that must succeed, with its response. */
async function command(...args: string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await runProgram([...args, '--data-dir', dataDir, '--json']);
  if (code !== 0) throw new Error(`cdp ${args.join(' ')}: ${stderr}`);
  return JSON.parse(stdout) as Record<string, unknown>;
}

const request = (project: string, method: string, path: string, body?: unknown): Promise<TestResponse> =>
  call(service.url, method, path, { token: tokens.get(project) ?? null, ...(body === undefined ? {} : { body }) });

const sql = (project: string, text: string, rest: object = {}): Promise<TestResponse> =>
  request(project, 'POST', '/api/cdp/sql', { sql: text, ...rest });

const alice: Attacker = {
  sql: (text, options) => sql('alice', text, options).catch(() => null),
  call: (method, path, body) => request('alice', method, path, body).catch(() => null),
};

const login = (user: string): pg.ClientConfig => ({
  ...{ host: '127.0.0.1', port: pgPort, user, database: 'alice', password: tokens.get('alice') ?? '' },
});

/** Each statement in a session of the Postgres port; `call` is not for it. */
const aliceInSessions: Attacker = {
  ...alice,
  sql: async (text, { timeout_ms = STATEMENT_MS, read_only = false } = {}) => {
    const client = new pg.Client({ ...login(read_only ? 'reader' : 'writer'), statement_timeout: timeout_ms });
    client.on('error', () => {});
    try {
      await client.connect();
      return await client.query(text);
    } catch {
      return null;
    } finally {
      await client.end().catch(() => {});
    }
  },
};

/** Those that take what others need, or end a process. */
const IN_SESSIONS = [
  ...['nested XPath', 'XMLTABLE with nested XPath, as a reader', 'a stack that grows when memory is used up'],
  ...['infinite queries', 'temporary files', 'write-ahead log', 'memory', 'idle sessions with much memory'],
];

/** What bob was told is stored: one number after the other. */
let stored = 0;

/** Inserts, and counts what is there, until it is told to stop. @returns what went wrong */
async function bobAtWork(signal: AbortSignal): Promise<string[]> {
  const failures: string[] = [];
  const expectStatus = async (status: number, asked: Promise<TestResponse>): Promise<TestResponse | null> => {
    const response = await asked.catch((error: unknown) => String(error));
    if (typeof response !== 'string' && response.status === status) return response;
    failures.push(typeof response === 'string' ? response : `${response.status} ${response.text.slice(0, 300)}`);
    return null;
  };
  while (!signal.aborted) {
    if ((await expectStatus(201, request('bob', 'POST', '/api/cdp/data/kept', [{ n: stored }]))) !== null) stored++;
    const counted = await expectStatus(200, sql('bob', 'SELECT count(*) AS n FROM kept'));
    const [row] = (counted?.body.rows ?? []) as { n: number }[];
    if (row !== undefined && row.n !== stored) failures.push(`${row.n} rows of ${stored}`);
    await sleep(10);
  }
  return failures;
}

/** Of a project that may have crashed. */
async function answersAgain(project: string): Promise<TestResponse> {
  for (const end = Date.now() + BACK_MS; ; await sleep(50)) {
    const response = await sql(project, 'SELECT 1 AS one');
    if (response.status === 200 || Date.now() > end) return response;
  }
}

beforeAll(async () => {
  dataDir = await newDataDir();
  pgPort = await freePort();
  const settings = { 'data-dir': dataDir, 'pg-port': pgPort, 'backend-memory-mib': BACKEND_MIB };
  service = await startServe(Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]));
  for (const project of ['alice', 'bob']) {
    await command('project', 'create', project);
    tokens.set(project, String((await command('token', 'create', '--project', project)).token));
  }
  const columns = [{ name: 'n', type: 'INTEGER' }];
  expect((await request('bob', 'POST', '/api/cdp/schema/table', { table_name: 'kept', columns })).status).toBe(201);
  // Recovery from a crash empties it.
  const unlogged = await sql('bob', 'CREATE UNLOGGED TABLE unlogged AS SELECT generate_series(1, 1000) AS n');
  expect(unlogged.status).toBe(200);
});
afterAll(endEverything);

describe.sequential('bob is served as usual under attack', () => {
  const attack = async ({ run, after }: Attack, attacker: Attacker) => {
    const over = new AbortController();
    const bob = bobAtWork(over.signal);
    try {
      await run(attacker);
    } finally {
      // A crash shows a moment later.
      await sleep(150);
      over.abort();
    }
    expect(await bob).toEqual([]);
    expect(await answersAgain('alice')).toMatchObject({ status: 200, body: { rows: [{ one: 1 }] } });
    if (after !== undefined) await alice.sql(after);
  };

  it.each(ATTACKS)('$name', (one) => attack(one, alice));

  const inSessions = ATTACKS.filter(({ name }) => IN_SESSIONS.includes(name));

  it('has sessions of the Postgres port for the following attacks', async () => {
    expect(inSessions).toHaveLength(IN_SESSIONS.length);
    for (const user of ['writer', 'reader']) {
      const client = new pg.Client(login(user));
      await client.connect();
      await client.end();
    }
  });

  it.each(inSessions)('$name, in sessions', (one) => attack(one, aliceInSessions));
});

describe.sequential('afterward', () => {
  it('each row of bob is stored once, and so are those of an unlogged table', async () => {
    const numbers = await sql('bob', 'SELECT count(DISTINCT n) AS n, max(n) AS last FROM kept');
    expect(numbers.body.rows).toEqual([{ n: stored, last: stored - 1 }]);
    expect((await sql('bob', 'SELECT count(*) AS n FROM unlogged')).body.rows).toEqual([{ n: 1000 }]);
  });

  it('alice can work as before', async () => {
    const columns = [{ name: 'n', type: 'INTEGER' }];
    expect((await request('alice', 'POST', '/api/cdp/schema/table', { table_name: 'fresh', columns })).status).toBe(
      201,
    );
    expect((await request('alice', 'POST', '/api/cdp/data/fresh', [{ n: 1 }])).status).toBe(201);
    expect((await request('alice', 'GET', '/api/cdp/schema')).status).toBe(200);
  });

  it('no log has grown without bound, and the service log contains no statement text', async () => {
    expect(service.output()).not.toContain('my-secret');
    let bytes = 0;
    for (const name of await readdir(dataDir, { recursive: true })) {
      if (name.endsWith('.log')) bytes += (await stat(join(dataDir, name))).size;
    }
    expect(bytes).toBeLessThan(LOG_BYTES);
  });
});
