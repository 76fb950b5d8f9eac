/** The memory of a request, from the admission of its body to the last byte of its response. */
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { connect } from '../../support/raw.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { type OpenStream, openStream } from '../../support/stream.js';

const MB = 1_000_000;
/** Long beside what sending a body takes on a busy machine. */
const WAIT_MS = 9_000;

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService({ 'wait-ms': String(WAIT_MS) });
  project = await service.project();
  // Only memory is waited for below, not the first connection and the parser.
  await project.rows('SELECT 1');
});
afterAll(() => service.close());

it('is taken by the body as well until the response has been read', async () => {
  const sql = `SELECT $1::text IS NULL, repeat('x', ${8 * MB})`;
  const body = { sql, params: ['x'.repeat(9 * MB)] };
  const unread: OpenStream[] = [];
  onTestFinished(() => unread.forEach(({ sent }) => sent.destroy()));
  for (let i = 0; i < 4; i++) unread.push(await openStream(service, project, 'application/json', body));
  expect(unread.map(({ response }) => response.statusCode)).toEqual([200, 200, 200, 200]);
  expectFailure(await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT 1' } }), 503, 'overloaded');
  for (const stream of unread) expect((await stream.rest()).whole).toBe(true);
  expect(await project.rows('SELECT 1 AS one')).toEqual([{ one: 1 }]);
});

it('is not waited for by the authentication, as Server-Timing shows', async () => {
  const head = `POST /api/cdp/sql HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${project.token}\r\n`;
  const sockets = await Promise.all(Array.from({ length: 6 }, () => connect(service.url)));
  // Each may become a body of the greatest size; a seventh large one does not fit.
  for (const socket of sockets) {
    socket.write(`${head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`);
  }
  const body = { sql: 'SELECT $1::text IS NULL', params: ['x'.repeat(5 * MB)] };
  const send = () => project.call('POST', '/api/cdp/sql', { body });
  await expect.poll(async () => (await send()).status).toBe(503);
  setTimeout(() => sockets.forEach((socket) => socket.destroy()), WAIT_MS / 2);
  const { status, headers } = await send();
  expect(status).toBe(200);
  const [, auth, total] = /^auth;dur=([\d.]+), .*total;dur=([\d.]+)$/.exec(headers.get('server-timing') ?? '') ?? [];
  expect(Number(total)).toBeGreaterThan(WAIT_MS / 6);
  expect(Number(auth)).toBeLessThan(2_000 / 3);
});
