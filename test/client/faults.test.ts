/** The client on a bad network: repeated inserts are stored once, and nothing is repeated that could do harm. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { CdpClient, CdpError } from '../../src/client/index.js';
import { type Fault, type FaultyProxy, startFaultyProxy } from '../support/faulty-proxy.js';
import { onServer, startTestService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let proxy: FaultyProxy;
let counter = 0;

beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  proxy = await startFaultyProxy(service.url);
});
afterEach(() => {
  proxy.plan = () => undefined;
  proxy.seen.length = 0;
});
afterAll(async () => {
  await proxy.close();
  await service.close();
});

const LONG = { timeout: 10_000 };

const client = (options: { maxRetries?: number; timeoutMs?: number } = {}) =>
  new CdpClient({ url: proxy.url, token: project.token, ...options });

async function table(): Promise<string> {
  const name = `items_${++counter}`;
  await project.table(name, { n: 'INTEGER' });
  return name;
}

const items = (count: number) => Array.from({ length: count }, (_, n) => ({ n }));

const counted = async (name: string): Promise<unknown> =>
  (await project.rows(`SELECT count(*) AS rows, count(DISTINCT n) AS different FROM ${name}`))[0];

/** Does the faults to the first requests, one each. */
function first(...faults: Fault[]): void {
  const left = [...faults];
  proxy.plan = () => left.shift();
}

async function caught(work: Promise<unknown>): Promise<CdpError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof CdpError)) throw new Error(`Expected a CdpError, got ${String(error)}`, { cause: error });
  return error;
}

/** A server that answers each request in the same way, for as long as the work takes. */
async function answeredBy(
  respond: (response: ServerResponse) => void,
  work: (url: string) => Promise<unknown>,
): Promise<void> {
  const server = createServer((_request, response) => respond(response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

describe('an insert', () => {
  it.each<Fault>(['drop-before', 'drop-after', 'cut', 'bad-gateway', 'rate-limit'])(
    'stores each record once after: %s',
    async (fault) => {
      const name = await table();
      first(fault);
      const result = await client().insert(name, items(10));
      expect(result).toEqual({ inserted: 10, batches: 1, retries: 1, refused: 0 });
      expect(await counted(name)).toEqual({ rows: 10, different: 10 });
      const [one, two] = proxy.seen;
      expect(one?.key).toMatch(/^[0-9a-f]{32}$/);
      expect(two?.key).toBe(one?.key);
    },
  );

  it('asks for additional headers before each attempt', async () => {
    const seen: [unknown, unknown][] = [];
    proxy.plan = ({ headers: { traceparent, authorization } }) => {
      seen.push([traceparent, authorization]);
      return seen.length === 1 ? 'drop-before' : undefined;
    };
    let tries = 0;
    const traced = new CdpClient({
      url: proxy.url,
      token: project.token,
      headers: () => ({ traceparent: `try ${++tries}` }),
    });
    await traced.insert(await table(), items(1));
    const authorization = `Bearer ${project.token}`;
    expect(seen).toEqual([
      ['try 1', authorization],
      ['try 2', authorization],
    ]);
  });

  it('stores each of 10,000 records once although every second request fails', async () => {
    const name = await table();
    const faults: Fault[] = ['drop-before', 'drop-after', 'cut', 'bad-gateway', 'drop-after'];
    let request = 0;
    proxy.plan = () => (request++ % 2 === 0 ? faults[(request >> 1) % faults.length] : undefined);
    const result = await client({ maxRetries: 20 }).insert(name, items(10_000));
    expect(result).toMatchObject({ inserted: 10_000, batches: 40 });
    expect(result.retries).toBeGreaterThan(20);
    expect(await counted(name)).toEqual({ rows: 10_000, different: 10_000 });
    expect(new Set(proxy.seen.map(({ key }) => key)).size).toBe(40);
  });

  it('waits as long as Retry-After asks', async () => {
    const name = await table();
    first('rate-limit');
    await client().insert(name, items(1));
    const [one, two] = proxy.seen;
    expect((two?.at ?? 0) - (one?.at ?? 0)).toBeGreaterThanOrEqual(1_000);
  });

  it('retries if there is no response in time', async () => {
    const name = await table();
    first('hang');
    const result = await client({ timeoutMs: 1_000 }).insert(name, items(10));
    expect(result).toMatchObject({ inserted: 10, retries: 1 });
  });

  it('gives up after the maximum number of retries, and says what was stored', async () => {
    const name = await table();
    let request = 0;
    proxy.plan = () => (request++ < 2 ? undefined : 'drop-before');
    const error = await caught(client({ maxRetries: 2 }).insert(name, items(1_000), { concurrency: 1 }));
    expect(error).toMatchObject({ code: 'network_error', status: 0, inserted: 500 });
    expect(proxy.seen).toHaveLength(5);
    expect(await counted(name)).toEqual({ rows: 500, different: 500 });
  });

  it('is not sent again after a refusal', async () => {
    const name = await table();
    const error = await caught(client().insert(name, [{ m: 1 }]));
    expect(error.code).toBe('unknown_column');
    expect(proxy.seen).toHaveLength(1);
  });

  it('waits for an earlier request with its key that is still running', async () => {
    const name = await table();
    // The table is held, so that the first try is given up and the repeat finds it still running.
    const held = project.rows(`LOCK ${name} IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(4.013)`);
    // Locks of other tests' tables are on the same server.
    const locks = `SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%(4.013)%'`;
    const { server } = service;
    await expect.poll(async () => (await onServer(server, (pg) => pg.query(locks))).rowCount, LONG).toBeGreaterThan(0);
    const result = await client({ timeoutMs: 500 }).insert(name, items(5));
    await held;
    expect(result.inserted).toBe(5);
    expect(result.retries).toBeGreaterThan(0);
    expect(await counted(name)).toEqual({ rows: 5, different: 5 });
  });

  it('ends at once if it is aborted while it waits', async () => {
    const name = await table();
    proxy.plan = () => 'rate-limit';
    const abort = new AbortController();
    const work = caught(client().insert(name, items(1), { signal: abort.signal }));
    await expect.poll(() => proxy.seen.length).toBeGreaterThan(0);
    abort.abort();
    expect(await work).toMatchObject({ code: 'aborted', inserted: 0 });
  });
});

describe('other calls', () => {
  it('that only read are retried', async () => {
    first('drop-after', 'cut', 'bad-gateway');
    expect(await client().tables()).toBeInstanceOf(Array);
    first('drop-after');
    const { rows } = await client().query('SELECT 1 AS one', [], { read_only: true });
    expect(rows).toEqual([{ one: 1 }]);
  });

  it('that write are not retried if they may have taken effect', async () => {
    const name = await table();
    for (const fault of ['drop-before', 'drop-after', 'cut'] as const) {
      proxy.seen.length = 0;
      first(fault);
      const error = await caught(client().query(`INSERT INTO ${name} (n) VALUES (1)`));
      expect(error.code).toBe('network_error');
      expect(proxy.seen).toHaveLength(1);
    }
  });

  it.each<Fault>(['drop-before', 'drop-after', 'cut', 'bad-gateway', 'unavailable', 'rate-limit'])(
    'that write under a key take effect once after: %s',
    async (fault) => {
      const name = await table();
      first(fault);
      const sql = `INSERT INTO ${name} (n) VALUES (1)`;
      const inserted = await client().query(sql, [], { idempotencyKey: `key-${name}` });
      expect(inserted.affected_rows).toBe(1);
      expect(await counted(name)).toEqual({ rows: 1, different: 1 });
      expect(proxy.seen.map(({ key }) => key)).toEqual([`key-${name}`, `key-${name}`]);
    },
  );

  it.each<Fault>(['drop-before', 'drop-after', 'cut', 'bad-gateway', 'unavailable', 'rate-limit'])(
    'that change the schema take effect once after: %s',
    async (fault) => {
      const name = await table();
      first(fault);
      const { column } = await client().addColumn(name, { name: 'm', type: 'TEXT' });
      expect(column).toEqual({ name: 'm', type: 'TEXT', comment: null });
      first(fault);
      await client().dropTable(name);
      expect(await counted(name).catch(String)).toContain('does not exist');
      const [one, two, three, four] = proxy.seen.map(({ key }) => key);
      expect(one).toMatch(/^[0-9a-f]{32}$/);
      expect([two, four]).toEqual([one, three]);
      expect(three).not.toBe(one);
    },
  );

  it('that are dry runs are retried without a key', async () => {
    const name = await table();
    first('drop-after');
    await client().dropTable(name, { dryRun: true });
    expect(proxy.seen.map(({ key }) => key)).toEqual([undefined, undefined]);
    expect(await counted(name)).toEqual({ rows: 0, different: 0 });
  });

  it('that write are retried if the service says that nothing was done', async () => {
    const name = await table();
    first('rate-limit');
    await client().query(`INSERT INTO ${name} (n) VALUES (1)`);
    expect(await counted(name)).toEqual({ rows: 1, different: 1 });
  });

  it.each([
    ['rate_limited', '0', 2],
    ['overloaded', '0', 2],
    ['table_busy', '0', 2],
    ['database_unavailable', '0', 2],
    ['overloaded', new Date().toUTCString(), 2],
    ['overloaded', '61', 1],
    ['overloaded', new Date(2 ** 42).toUTCString(), 1],
    ['outcome_unknown', '0', 1],
    ['request_in_flight', '0', 1],
    ['internal', '0', 1],
  ])('that write, refused with %s and Retry-After: %s, are sent %i times', async (code, retryAfter, times) => {
    let requests = 0;
    const status = 503;
    const refusal = { success: false, error: code, message: code, status, request_id: 'none' };
    await answeredBy(
      (response) => {
        if (++requests > 1) response.end(JSON.stringify({ success: true, rows: [], columns: [] }));
        else response.writeHead(status, { 'retry-after': retryAfter }).end(JSON.stringify(refusal));
      },
      (url) => new CdpClient({ url, token: 'any' }).query('DELETE FROM t').catch(() => {}),
    );
    expect(requests).toBe(times);
  });
});

describe('in a page of another origin', () => {
  afterEach(() => void vi.unstubAllGlobals());

  it('an error without a response names the setting that allows the origin', async () => {
    vi.stubGlobal('location', { origin: 'https://app.example' });
    first('drop-before');
    const error = await caught(client({ maxRetries: 0 }).tables());
    expect(error.message).toContain(
      'No response (if the service is running, its setting cors-origins must allow https://app.example)',
    );
    vi.stubGlobal('location', { origin: proxy.url });
    first('drop-before');
    expect((await caught(client({ maxRetries: 0 }).tables())).message).not.toContain('cors-origins');
  });
});

describe('a stream', () => {
  it('that breaks off ends with an error', async () => {
    first('cut');
    const rows: unknown[] = [];
    const error = await caught(
      (async () => {
        for await (const row of client().sqlStream('SELECT n FROM generate_series(1, 1000) AS n')) rows.push(row);
      })(),
    );
    expect(error.code).toBe('network_error');
    expect(rows.length).toBeLessThan(1_000);
  });

  it.each([
    ['without its last line', '{"n":1}\n{"n":2}\n'],
    ['within a line', '{"n":1}\n{"n":'],
    ['behind a row that looks like its last line', '{"n":1}\n{"done":true,"row_count":7}\n'],
    ['with nothing', ''],
  ])('that ends cleanly %s ends with an error too', async (_, body) => {
    await answeredBy(
      (response) => void response.end(body),
      async (url) => {
        const stream = new CdpClient({ url, token: 'any' }).sqlStream('SELECT 1');
        expect((await caught(collect(stream))).code).toBe('network_error');
      },
    );
  });
});

async function collect<Row>(rows: AsyncIterable<Row>): Promise<Row[]> {
  const all: Row[] = [];
  for await (const row of rows) all.push(row);
  return all;
}
