/** Responses on the wire: every byte unchanged, in the order of the requests. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { responsesIn, connect, received } from '../../support/raw.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
});
afterAll(() => service.close());

const request = (sql: string): string => {
  const body = JSON.stringify({ sql });
  const lines = [
    'POST /api/cdp/sql HTTP/1.1',
    'Host: x',
    `Authorization: Bearer ${project.token}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
};

it.each([1, 1_000, 10_000, 500_000])('contain non-ASCII characters as UTF-8, %i times', async (times) => {
  const rows = await project.rows(`SELECT repeat('aßλ漢😀\u0080ÿ', ${times}) AS text`);
  expect(rows).toEqual([{ text: 'aßλ漢😀\u0080ÿ'.repeat(times) }]);
});

it('contain them in refusals too', async () => {
  const { body, headers, text } = await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT "spält😀"' } });
  expect(body.message).toContain('spält😀');
  expect(headers.get('content-length')).toBe(String(Buffer.byteLength(text)));
});

it('are sent in the order of the requests if these arrive at once', async () => {
  const socket = await connect(service.url);
  const text = received(socket, 2_000);
  socket.write(request('SELECT pg_sleep(0.3)::text AS n') + request(`SELECT 'ü' AS n`) + request('SELECT 3 AS n'));
  const rows = responsesIn(await text).map(({ body }) => (body.rows as { n: unknown }[])[0]?.n);
  expect(rows).toEqual(['', Buffer.from('ü').toString('latin1'), 3]);
});

it('have the same headers for GET and HEAD', async () => {
  const headersOf = async (method: string) => {
    const authorization = `Bearer ${project.token}`;
    const { headers } = await fetch(`${service.url}/api/cdp/token`, { method, headers: { authorization } });
    const own = new Headers(headers);
    const ofEach = ['date', 'x-request-id', 'server-timing'];
    // A client that asks by HEAD may want no more of the connection.
    for (const name of ['connection', 'keep-alive']) own.delete(name);
    return [...own].map(([name, value]) => [name, ofEach.includes(name) ? 'its own' : value]);
  };
  expect(await headersOf('GET')).toEqual(await headersOf('HEAD'));
});
