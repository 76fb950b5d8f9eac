/**
 * Pipelined requests: answered in turn, and ended if their client leaves before that (contract C1.18, C13.15,
 * docs/decisions/0017-audit-log.md).
 */
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { LIMITS } from '../../../src/contract/limits.js';
import { entriesOf } from '../../support/audit.js';
import { responsesIn, connect, exchange } from '../../support/raw.js';
import {
  isIdle,
  runningRequests,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';
import { until } from '../../support/stream.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.close());
beforeEach(async () => {
  project = await service.project();
  await project.table('notes', { n: 'INTEGER' });
});

const head = (path: string, length: number, id: string) =>
  [
    `POST ${path} HTTP/1.1`,
    'Host: x',
    `Authorization: Bearer ${project.token}`,
    'Content-Type: application/json',
    `X-Request-Id: ${id}`,
    `Content-Length: ${length}`,
    '\r\n',
  ].join('\r\n');
const post = (path: string, body: unknown, id: string = randomUUID()) => {
  const text = JSON.stringify(body);
  return head(path, text.length, id) + text;
};
const sleeping = (seconds: number, id?: string) => post('/api/cdp/sql', { sql: `SELECT pg_sleep(${seconds})` }, id);

/** Sends them in one piece; the response to the first keeps those to the others waiting. */
async function send(...requests: string[]): Promise<Socket> {
  const socket = await connect(service.url);
  socket.write(requests.join(''));
  return socket;
}

it('a pipelined CONNECT is refused after the response to the request before it', async () => {
  const text = await exchange(service.url, sleeping(0.2) + 'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n', 10_000);
  expect(responsesIn(text).map(({ status }) => status)).toEqual([200, 405]);
});

it('they end however the client leaves, and release the memory reserved for their bodies', async () => {
  // More than have room together, by either way to leave.
  for (let i = 0; i < 16; i++) {
    const socket = await send(sleeping(20), head('/api/cdp/data/notes', LIMITS.bodyBytes, randomUUID()));
    await until(() => runningRequests(service) === 1, 10_000);
    if (i % 2 === 0) socket.resetAndDestroy();
    else socket.destroy();
    await until(() => isIdle(service), 10_000);
  }
  const response = await project.call('POST', '/api/cdp/data/notes', { body: [{ n: 1 }] });
  expect([response.status, response.text]).toEqual([201, response.text]);
});

it('their statements are canceled', async () => {
  const socket = await send(sleeping(20), sleeping(100));
  await until(() => runningRequests(service) === 2, 10_000);
  socket.destroy();
  await until(() => isIdle(service), 10_000);
});

it('they are recorded in the audit log', async () => {
  const ids = Array.from({ length: 3 }, () => randomUUID());
  const socket = await send(
    sleeping(20, ids[0]),
    post('/api/cdp/data/notes', [{ n: 2 }], ids[1]),
    sleeping(100, ids[2]),
  );
  const stored = async () => (await project.rows('SELECT count(*) AS n FROM notes'))[0]?.n === 1;
  await until(stored, 10_000);
  socket.destroy();
  const outcomes = await Promise.all(
    ids.map(async (id) => (await entriesOf(service, id)).map(({ operation, outcome }) => [operation, outcome])),
  );
  expect(outcomes).toEqual([[['sql', 'client_gone']], [['insert', 'ok']], [['sql', 'client_gone']]]);
});
