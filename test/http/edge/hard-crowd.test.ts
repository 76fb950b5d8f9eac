/**
 * Ten thousand connections that send nothing, and clients that leave halfway: other clients are served, and memory is
 * freed.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { LIMITS } from '../../../src/contract/limits.js';
import { connect } from '../../support/raw.js';
import { isIdle, onServer, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { until } from '../../support/stream.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService({ 'request-timeout-ms': '4000' });
  project = await service.project();
  await project.table('kept', { a: 'TEXT' });
  await project.call('POST', '/api/cdp/data/kept', { body: [{ a: 'x' }] });
});
afterAll(() => service.close());

/** A process of its own, since each end of a connection takes a descriptor. It says when all are open, and gone. */
const IDLERS = `
  const { createConnection } = require('node:net');
  const [port, count] = process.argv.slice(1).map(Number);
  let open = 0, gone = 0;
  const more = () => {
    const socket = createConnection(port, '127.0.0.1', () => {
      if (++open === count) console.log('open');
      else if (open + 99 < count) more();
    });
    socket.on('error', () => {}).resume().once('close', () => { if (++gone === count) console.log('gone'); });
  };
  // Not all at once: what the queue of the operating system cannot hold would never reach the service.
  for (let i = 0; i < Math.min(100, count); i++) more();
`;

/** Ten thousand, or what this process may open. */
function crowd(): number {
  const limits = process.platform === 'linux' ? readFileSync('/proc/self/limits', 'utf8') : '';
  const most = Number(/^Max open files +\d+ +(\d+)/m.exec(limits)?.[1] ?? 4_096);
  return Math.min(10_000, most - 500);
}

/** Bytes in use after a collection. */
function memory(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

it('10,000 idle connections keep nobody out, are closed in time, and their memory is freed', async () => {
  const count = crowd();
  const before = memory();
  const { port } = new URL(service.url);
  const idlers = spawn(process.execPath, ['-e', IDLERS, port, String(count)], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const lines = createInterface({ input: idlers.stdout })[Symbol.asyncIterator]();
    expect(await lines.next()).toMatchObject({ value: 'open' });
    const started = performance.now();
    for (let i = 0; i < 10; i++) {
      expect((await project.call('POST', '/api/cdp/data/kept', { body: [{ a: 'x' }] })).status).toBe(201);
    }
    // A bound on being kept out, not a measurement.
    expect(performance.now() - started).toBeLessThan(10_000);
    expect(await lines.next()).toMatchObject({ value: 'gone' });
  } finally {
    idlers.kill();
    await once(idlers, 'exit');
  }
  await until(() => memory() - before < 32 * 1024 * 1024, 10_000);
  expect((await project.call('GET', '/api/cdp/schema')).status).toBe(200);
});

it('clients that leave in the middle of a body or a response free their slots', async () => {
  const head = (path: string, length: number) =>
    `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${project.token}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
  const slow = JSON.stringify({ sql: 'SELECT pg_sleep(20)' });
  const stream = JSON.stringify({ sql: 'SELECT generate_series(1, 10000000)' });
  const parts = [
    head('/api/cdp/data/kept', 1_000) + '[{"a":"',
    head('/api/cdp/sql', slow.length) + slow,
    head('/api/cdp/sql', stream.length).replace('Host', 'Accept: application/x-ndjson\r\nHost') + stream,
    head('/api/cdp/sql', slow.length),
  ];
  const sockets = await Promise.all(
    Array.from({ length: 60 }, async (_, i) => {
      const socket = await connect(service.url);
      socket.write(parts[i % parts.length] ?? '');
      return socket;
    }),
  );
  await sleep(300);
  // Half of them politely, half with a reset.
  sockets.forEach((socket, i) => (i % 8 < 4 ? socket.destroy() : socket.resetAndDestroy()));
  await until(() => isIdle(service), 10_000);
  const responses = await Promise.all(
    Array.from({ length: 20 }, () => project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT 1' } })),
  );
  expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
});

it('clients that leave during the lookup of their token free the memory reserved for their bodies', async () => {
  const token = await project.tokenWith('data:write');
  const head = `POST /api/cdp/data/kept HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: ${LIMITS.bodyBytes}\r\n\r\n`;
  /** Whatever was sent before it has been read by then. */
  const answered = async () => {
    for (let i = 0; i < 5; i++) await (await fetch(`${service.url}/healthz`)).text();
  };
  await onServer(
    service.server,
    async (client) => {
      await client.query('BEGIN; LOCK TABLE cdp.tokens IN ACCESS EXCLUSIVE MODE');
      const sockets = await Promise.all(Array.from({ length: 6 }, () => connect(service.url)));
      await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.write(head, resolve))));
      await answered();
      for (const socket of sockets) socket.destroy();
      await answered();
    },
    service.database,
  );
  const records = Array.from({ length: 250 }, () => ({ a: 'x'.repeat(24_000) }));
  const response = await project.call('POST', '/api/cdp/data/kept', { token, body: records });
  expect(response.body).toMatchObject({ success: true, inserted_rows: 250 });
});
