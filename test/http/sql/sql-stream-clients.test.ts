/**
 * Clients of free SQL that read slowly, stop reading or leave (contract C13.15, C14.10): backpressure, cancellation,
 * memory.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, type MockInstance, vi } from 'vitest';
import { BackendRequest } from '../../../src/db/backend-request.js';
import { endEverything, startServe } from '../../support/program.js';
import {
  isIdle,
  runningRequests,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';
import { CSV, NDJSON, openStream, statementsWith, until } from '../../support/stream.js';

const STALL_MS = 3_000;

/** A client that is not given up after this time would wait forever. */
const GIVEN_UP_MS = 30_000;

/**
 * Long before the statements would end. That it is a second, test/faults/vanish.test.ts has for itself on the machine.
 */
const SOON_MS = 5_000;

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService({ 'stream-stall-ms': String(STALL_MS), 'shutdown-ms': '500' });
  project = await service.project();
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const open = (sql: string, accept: string, rest: object = {}) => openStream(service, project, accept, { sql, ...rest });

const isFree = () => runningRequests(service) === 0;

describe('a client', () => {
  const WIDE = (mark: string) =>
    `SELECT g, repeat('x', 10000) AS s, '${mark}' AS mark FROM generate_series(1, 1000000) g`;

  /** Requests that are over, for the metrics and so for the log. */
  async function overForTheService(): Promise<number> {
    const { text } = await service.call('GET', '/metrics');
    const rows = text.matchAll(/^cdp_http_requests_total\{route="\/api\/cdp\/sql".*\} (\d+)$/gm);
    return [...rows].reduce((sum, [, count]) => sum + Number(count), 0);
  }

  it('that stops reading pauses Postgres, and is dropped after the time limit for that', async () => {
    const before = await overForTheService();
    const stream = await open(WIDE('mark_stalled'), NDJSON);
    await sleep(STALL_MS / 2);
    const [held] = await statementsWith(service, 'mark_stalled');
    expect(held).toBe('ClientWrite');
    await until(async () => (await statementsWith(service, 'mark_stalled')).length === 0, GIVEN_UP_MS);
    await until(isFree, SOON_MS);
    // Its request is over for the service as well, although it has not taken a byte more.
    await until(async () => (await overForTheService()) === before + 1, GIVEN_UP_MS);
    const { whole } = await stream.rest();
    expect(whole).toBe(false);
  });

  it('that reads nothing of a finished response is dropped too', async () => {
    for (const [accept, bytes] of [
      ['application/json', 15_000_000],
      [CSV, 15_000_000],
    ] as const) {
      const before = await overForTheService();
      const stream = await open(`SELECT repeat('x', ${bytes / 10}) FROM generate_series(1, 10)`, accept);
      await until(async () => (await overForTheService()) === before + 1, GIVEN_UP_MS);
      expect((await stream.rest()).whole).toBe(false);
    }
  });

  it('that reads slowly but steadily gets everything, and the time limit does not run meanwhile', async () => {
    const rows = 3_000;
    const TIMEOUT_MS = 4_000;
    const stream = await open(`SELECT g, repeat('x', 10000) AS s FROM generate_series(1, ${rows}) g`, CSV, {
      timeout_ms: TIMEOUT_MS,
    });
    let bytes = 0;
    const started = performance.now();
    for await (const chunk of stream.response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      // Longer in all than a reader may stall, and than the statement may run.
      await sleep(chunk.length / 4_096);
    }
    expect(stream.response.complete).toBe(true);
    expect(bytes).toBeGreaterThan(rows * 10_000);
    expect(performance.now() - started).toBeGreaterThan(Math.max(STALL_MS, TIMEOUT_MS));
  });

  it('that leaves has its statement canceled within a second, and its slot released', async () => {
    for (const accept of [NDJSON, CSV]) {
      const stream = await open(WIDE('mark_left'), accept);
      // Who reads nothing is given up, and a look at Postgres may take as long as that where the machine is busy.
      stream.response.resume();
      expect((await statementsWith(service, 'mark_left')).length).toBe(1);
      stream.sent.destroy();
      await until(async () => (await statementsWith(service, 'mark_left')).length === 0, SOON_MS);
      await until(isFree, SOON_MS);
    }
  });

  it('that leaves while it reads nothing no longer holds Postgres back, so that the cancel can take effect', async () => {
    const stream = await open(WIDE('mark_paused'), NDJSON);
    await until(async () => (await statementsWith(service, 'mark_paused'))[0] === 'ClientWrite', SOON_MS);
    const [resumed, ended] = (['resume', 'end'] as const).map((step) => vi.spyOn(BackendRequest.prototype, step));
    stream.sent.destroy();
    await until(async () => (await statementsWith(service, 'mark_paused')).length === 0, SOON_MS);
    await until(isFree, SOON_MS);
    const first = (spy?: MockInstance) => Math.min(...(spy?.mock.invocationCallOrder ?? []));
    expect(first(resumed)).toBeLessThan(first(ended));
    vi.restoreAllMocks();
  });

  it('that leaves before any response has the same, whatever it accepts', async () => {
    for (const accept of [NDJSON, 'application/json']) {
      const gone = new AbortController();
      const call = project.call('POST', '/api/cdp/sql', {
        body: { sql: `SELECT pg_sleep(20), 'mark_waiting'` },
        headers: { accept },
        signal: gone.signal,
      });
      await until(async () => (await statementsWith(service, 'mark_waiting')).length === 1, 5_000);
      gone.abort();
      await expect(call).rejects.toThrow();
      await until(async () => (await statementsWith(service, 'mark_waiting')).length === 0, SOON_MS);
      await until(isFree, SOON_MS);
    }
  });

  it('that leaves while its statement catches the cancellation has its backend ended', async () => {
    const gone = new AbortController();
    const call = project.call('POST', '/api/cdp/sql', {
      body: {
        sql: `DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(20), 'mark_stubborn';
          EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$`,
      },
      signal: gone.signal,
    });
    await until(async () => (await statementsWith(service, 'mark_stubborn')).length === 1, 5_000);
    gone.abort();
    await expect(call).rejects.toThrow();
    await until(async () => (await statementsWith(service, 'mark_stubborn')).length === 0, SOON_MS);
    await until(isFree, SOON_MS);
  });

  it('that leaves does not affect others: the next request is served', async () => {
    expect(await project.rows('SELECT 1 AS n')).toEqual([{ n: 1 }]);
    expect(isIdle(service)).toBe(true);
  });
});

describe('memory', () => {
  it('of the process does not grow with the result', async () => {
    const { databaseUrl, secret } = service.config;
    const child = await startServe(['--log-level', 'info'], {
      env: { DATABASE_URL: databaseUrl ?? '', CDP_SECRET: secret ?? '' },
    });
    const residentMiB = async (): Promise<number> => {
      const metrics = await (await fetch(`${child.url}/metrics`)).text();
      return Number(/^process_resident_memory_bytes (\S+)$/m.exec(metrics)?.[1]) / 1024 / 1024;
    };
    const read = async (rows: number, accept: string, pauseMs: number): Promise<number> => {
      const response = await fetch(`${child.url}/api/cdp/sql`, {
        method: 'POST',
        headers: { authorization: `Bearer ${project.token}`, 'content-type': 'application/json', accept },
        body: JSON.stringify({ sql: `SELECT g, repeat('x', 1000) AS s FROM generate_series(1, ${rows}) g` }),
      });
      let bytes = 0;
      let most = 0;
      let chunks = 0;
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
        bytes += chunk.length;
        if (++chunks % 500 === 0) most = Math.max(most, await residentMiB());
        if (pauseMs > 0 && chunks % 100 === 0) await sleep(pauseMs);
      }
      expect(bytes).toBeGreaterThan(rows * 1_000);
      return most;
    };
    for (const accept of [NDJSON, CSV]) await read(20_000, accept, 0);
    const before = await residentMiB();
    // 120 MB each way, once as fast as it goes and once with a reader that dawdles.
    for (const accept of [NDJSON, CSV]) {
      expect((await read(120_000, accept, accept === CSV ? 5 : 0)) - before).toBeLessThan(64);
    }
    await child.end();
  });
});
