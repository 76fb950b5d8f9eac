/**
 * HTTP that no well-behaved client would send, byte by byte: it gets a clear response, and the service continues
 * (contract C1.14 to C1.18, C15.8).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { responsesIn, connect, exchange, type RawResponse, rawResponse, received } from '../../support/raw.js';
import { snapshot, tableNames } from '../../support/schema.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

const REQUEST_TIMEOUT_MS = 800;
/** Node looks for connections that are too slow once a second. */
const PATIENCE_MS = REQUEST_TIMEOUT_MS + 3_000;
const CRLF = '\r\n';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService({ 'request-timeout-ms': String(REQUEST_TIMEOUT_MS) });
  project = await service.project();
  await project.table('kept', { a: 'TEXT' });
});
afterAll(() => service.close());

afterEach(async () => {
  expect((await project.call('GET', '/api/cdp/schema/table/kept')).status).toBe(200);
  expect(await tableNames(project)).toEqual(['kept']);
});

const message = (line: string, fields: Record<string, string | number>, body = '') =>
  [
    line,
    ...Object.entries({ Host: 'localhost', ...fields }).map(([name, value]) => `${name}: ${value}`),
    '',
    body,
  ].join(CRLF);

const authorized = () => ({ Authorization: `Bearer ${project.token}` });
const json = () => ({ ...authorized(), 'Content-Type': 'application/json' });

/** A refusal in the usual shape (contract C2.1), with the headers of every response. */
function refusal(response: RawResponse, status: number, code: string): void {
  expectFailure(response, status, code);
  expect(response.headers.get('content-type')).toMatch(/^application\/json/);
  expect(response.headers.get('server-timing')).toMatch(/total;dur=/);
  expect(response.text).not.toMatch(/HPE_|llhttp|node_modules|\bat \S+ \(/);
}

const CREATE = '{"table_name":"smuggled","columns":[{"name":"a","type":"TEXT"}]}';

describe('a request that does not arrive in full', () => {
  it.each<[string, () => string]>([
    ['nothing at all', () => ''],
    ['half a request line', () => 'GET /api/cdp/sch'],
    ['headers without an end', () => `GET /api/cdp/schema HTTP/1.1${CRLF}Host: localhost${CRLF}`],
    [
      'a body that never comes',
      () => message('POST /api/cdp/schema/table HTTP/1.1', { ...json(), 'Content-Length': 70 }),
    ],
    [
      'half a body',
      () =>
        message(
          'POST /api/cdp/schema/table HTTP/1.1',
          { ...json(), 'Content-Length': CREATE.length },
          CREATE.slice(0, 20),
        ),
    ],
    [
      'chunks without an end',
      () =>
        message('POST /api/cdp/data/kept HTTP/1.1', { ...json(), 'Transfer-Encoding': 'chunked' }, `1${CRLF}[${CRLF}`),
    ],
  ])('is answered with 408: %s', async (_what, bytes) => {
    const started = performance.now();
    const response = await rawResponse(service.url, bytes(), PATIENCE_MS);
    refusal(response, 408, 'request_timeout');
    expect(response.headers.get('connection')).toBe('close');
    expect(performance.now() - started).toBeLessThan(PATIENCE_MS);
  });

  it('is answered with 408 if it arrives byte by byte', async () => {
    const socket = await connect(service.url);
    const response = received(socket, PATIENCE_MS);
    const bytes = message(
      'POST /api/cdp/schema/table HTTP/1.1',
      { ...json(), 'Content-Length': CREATE.length },
      CREATE,
    );
    for (const byte of bytes) {
      if (socket.destroyed) break;
      socket.write(byte);
      await sleep(20);
    }
    const [first] = responsesIn(await response);
    refusal(first as RawResponse, 408, 'request_timeout');
  });

  it('changes nothing if the client leaves halfway', async () => {
    for (const length of [10, 40, CREATE.length - 1]) {
      const socket = await connect(service.url);
      const head = message('POST /api/cdp/schema/table HTTP/1.1', { ...json(), 'Content-Length': CREATE.length });
      socket.write(head + CREATE.slice(0, length));
      await sleep(20);
      socket.destroy();
    }
    await sleep(100);
  });
});

describe('invalid HTTP', () => {
  it.each<[string, string]>([
    ['noise', `\u0000\u0001\u0002${CRLF}${CRLF}`],
    ['words', `hello there${CRLF}${CRLF}`],
    ['a TLS greeting', '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003'],
    ['HTTP/2', `PRI * HTTP/2.0${CRLF}${CRLF}SM${CRLF}${CRLF}`],
    ['an unknown version', `GET / HTTP/9.9${CRLF}Host: x${CRLF}${CRLF}`],
    ['an unknown method', `FETCH / HTTP/1.1${CRLF}Host: x${CRLF}${CRLF}`],
    ['a space in a header name', `GET / HTTP/1.1${CRLF}Host: x${CRLF}A b: c${CRLF}${CRLF}`],
    ['a header without a colon', `GET / HTTP/1.1${CRLF}Host: x${CRLF}nonsense${CRLF}${CRLF}`],
    ['a folded header', `GET / HTTP/1.1${CRLF}Host: x${CRLF}A: b${CRLF} c${CRLF}${CRLF}`],
    ['a control character in a header', `GET / HTTP/1.1${CRLF}Host: x${CRLF}A: b\u0000c${CRLF}${CRLF}`],
    [
      'two different lengths',
      message('POST /api/cdp/sql HTTP/1.1', { 'Content-Length': '1\r\nContent-Length: 2' }, 'ab'),
    ],
    ['a negative length', message('POST /api/cdp/sql HTTP/1.1', { 'Content-Length': -1 })],
    ['a length in letters', message('POST /api/cdp/sql HTTP/1.1', { 'Content-Length': 'ten' })],
    ['an endless length', message('POST /api/cdp/sql HTTP/1.1', { 'Content-Length': '9'.repeat(30) })],
    ['no host', `GET /api/cdp/schema HTTP/1.1${CRLF}${CRLF}`],
  ])('is answered with 400: %s', async (_what, bytes) => {
    refusal(await rawResponse(service.url, Buffer.from(bytes, 'latin1')), 400, 'invalid_request');
  });

  it('is answered with 400 in the middle of a chunked body', async () => {
    const head = { ...json(), 'Transfer-Encoding': 'chunked' };
    const bytes = message('POST /api/cdp/schema/table HTTP/1.1', head, `zz${CRLF}${CREATE}${CRLF}`);
    refusal(await rawResponse(service.url, bytes), 400, 'invalid_request');
  });

  it('is answered with 413 if its headers are too large', async () => {
    const long = message('GET /api/cdp/schema HTTP/1.1', { ...authorized(), 'X-Long': 'a'.repeat(100_000) });
    refusal(await rawResponse(service.url, long), 413, 'payload_too_large');
    const path = message(`GET /api/cdp/schema/table/${'a'.repeat(100_000)} HTTP/1.1`, authorized());
    refusal(await rawResponse(service.url, path), 413, 'payload_too_large');
    const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`X-${i}`, i]));
    refusal(await rawResponse(service.url, message('GET /api/cdp/schema HTTP/1.1', many)), 413, 'payload_too_large');
  });

  it.each(['%', '%zz', '%F', '%C3%28', '%FF', 'a%', '%E0%A4%A'])('includes a path with %s in it', async (text) => {
    for (const path of [`/api/cdp/schema/table/${text}`, `/api/cdp/data/${text}`, `/nowhere/${text}`]) {
      const response = await rawResponse(
        service.url,
        message(`GET ${path} HTTP/1.1`, { ...authorized(), Connection: 'close' }),
      );
      expect([400, 404, 405]).toContain(response.status);
      expect(response.headers.get('x-request-id')).toBeTruthy();
      expect(response.headers.get('server-timing')).toMatch(/total;dur=/);
      expectFailure(response, response.status, response.body.error as string);
    }
  });
});

describe('smuggling', () => {
  const inner = () =>
    message('POST /api/cdp/schema/table HTTP/1.1', { ...json(), 'Content-Length': CREATE.length }, CREATE);

  it.each<[string, () => string]>([
    [
      'a length and chunks',
      () =>
        message(
          'POST /api/cdp/sql HTTP/1.1',
          { ...json(), 'Content-Length': 4, 'Transfer-Encoding': 'chunked' },
          `0${CRLF}${CRLF}${inner()}`,
        ),
    ],
    [
      'chunks that are not the last coding',
      () => message('POST /api/cdp/sql HTTP/1.1', { ...json(), 'Transfer-Encoding': 'chunked, identity' }, inner()),
    ],
    [
      'a coding with a strange name',
      () => message('POST /api/cdp/sql HTTP/1.1', { ...json(), 'Transfer-Encoding': 'xchunked' }, inner()),
    ],
    [
      'a length with a plus sign',
      () => message('POST /api/cdp/sql HTTP/1.1', { ...json(), 'Content-Length': '+0' }, inner()),
    ],
    [
      'a space before the colon',
      () => `POST /api/cdp/sql HTTP/1.1${CRLF}Host: x${CRLF}Content-Length : 0${CRLF}${CRLF}${inner()}`,
    ],
    ['a bare line feed', () => `GET /healthz HTTP/1.1\nHost: x${CRLF}Content-Length: 0\n\n${inner()}`],
  ])('by %s does not reach a second request', async (_what, bytes) => {
    const before = await snapshot(project);
    const responses = responsesIn(await exchange(service.url, bytes()));
    expect(responses).toHaveLength(1);
    refusal(responses[0] as RawResponse, 400, 'invalid_request');
    expect(await snapshot(project)).toEqual(before);
  });
});

describe('unusual but valid HTTP', () => {
  it('answers pipelined requests in order', async () => {
    const paths = ['/api/cdp/schema/table/kept', '/healthz', '/api/cdp/schema/table/none', '/api/cdp/schema', '/nope'];
    const bytes = paths.map((path) => message(`GET ${path} HTTP/1.1`, authorized())).join('');
    const responses = responsesIn(await exchange(service.url, bytes, 1_500));
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 404, 200, 404]);
    expect(responses[0]?.body.table).toMatchObject({ name: 'kept' });
  });

  it('keeps the connection usable after a refused request', async () => {
    const wrong = message(
      'POST /api/cdp/schema/table HTTP/1.1',
      { ...json(), Authorization: 'x', 'Content-Length': CREATE.length },
      CREATE,
    );
    const invalid = message('POST /api/cdp/schema/table HTTP/1.1', { ...json(), 'Content-Length': 2 }, '{"');
    const get = message('GET /api/cdp/schema/table/kept HTTP/1.1', authorized());
    const responses = responsesIn(await exchange(service.url, wrong + get + invalid + get, 1_500));
    expect(responses.map(({ status }) => status)).toEqual([401, 200, 400, 200]);
  });

  it('accepts HTTP/1.0 without a host', async () => {
    const response = await rawResponse(service.url, `GET /healthz HTTP/1.0${CRLF}${CRLF}`);
    expect(response.status).toBe(200);
  });

  it('accepts a GET with a body', async () => {
    const get = message('GET /api/cdp/schema/table/kept HTTP/1.1', { ...json(), 'Content-Length': 2 }, '{}');
    const responses = responsesIn(await exchange(service.url, get + get, 1_500));
    expect(responses.map(({ status }) => status)).toEqual([200, 200]);
  });

  it('accepts an absolute URL in the request line', async () => {
    const line = `GET ${service.url}/api/cdp/schema/table/kept HTTP/1.1`;
    expect((await rawResponse(service.url, message(line, authorized()))).status).toBe(200);
  });

  it('accepts a chunked body', async () => {
    const body = '[{"a":"x"}]';
    const chunks = [...body].map((character) => `1${CRLF}${character}${CRLF}`).join('');
    const head = { ...json(), 'Transfer-Encoding': 'chunked' };
    const bytes = message('POST /api/cdp/data/kept HTTP/1.1', head, `${chunks}0${CRLF}${CRLF}`);
    expect((await rawResponse(service.url, bytes)).status).toBe(201);
  });

  it('accepts Expect: 100-continue, and refuses any other expectation in the usual shape', async () => {
    const head = { ...json(), 'Content-Length': CREATE.length };
    const text = await exchange(
      service.url,
      message('POST /api/cdp/schema/table HTTP/1.1', { ...head, Authorization: 'x', Expect: '100-continue' }, CREATE),
    );
    expect(text).toMatch(/^HTTP\/1\.1 (?:100 Continue\r\n\r\nHTTP\/1\.1 )?401 /);
    const strange = message('GET /healthz HTTP/1.1', { Expect: 'a-miracle' });
    const response = await rawResponse(service.url, strange);
    if (response.status !== 200) expectFailure(response, response.status, 'invalid_request');
  });

  it('refuses methods that HTTP defines and no route has', async () => {
    for (const method of ['TRACE', 'PROPFIND', 'PURGE', 'LINK', 'MKCOL', 'SEARCH']) {
      const fields = { ...authorized(), Connection: 'close' };
      const response = await rawResponse(service.url, message(`${method} /api/cdp/schema HTTP/1.1`, fields));
      refusal(response, 405, 'method_not_allowed');
      expect(response.headers.get('allow')).toBe('GET, HEAD');
      refusal(await rawResponse(service.url, message(`${method} /nowhere HTTP/1.1`, fields)), 404, 'not_found');
    }
    expect((await rawResponse(service.url, message('OPTIONS * HTTP/1.1', {}))).status).toBe(404);
  });

  it.each(['example.org:443', '127.0.0.1:5432', '/api/cdp/sql'])('refuses CONNECT to %s', async (target) => {
    const response = await rawResponse(service.url, message(`CONNECT ${target} HTTP/1.1`, authorized()) + CREATE);
    refusal(response, 405, 'method_not_allowed');
    expect(response.headers.get('allow')).toBe('DELETE, GET, HEAD, POST, PUT');
    expect(response.headers.get('x-request-id')).toBeTruthy();
  });

  it('refuses an upgrade to another protocol, with a token and without', async () => {
    const messages = ['websocket', 'WebSocket', 'TLS/1.0', 'example/1, h2c'].flatMap((upgrade) =>
      [authorized(), {}].flatMap((more) => {
        const fields = { ...more, Connection: 'keep-alive, Upgrade', Upgrade: upgrade, 'Sec-WebSocket-Version': 13 };
        return ['/api/cdp/schema', '/healthz', '/nowhere'].map((path) => message(`GET ${path} HTTP/1.1`, fields));
      }),
    );
    // The connection is kept, so that each is listened to for a second.
    for (const response of await Promise.all(messages.map((bytes) => rawResponse(service.url, bytes, PATIENCE_MS)))) {
      refusal(response, 400, 'invalid_request');
    }
  });

  it('ignores an offer of HTTP/2, which some clients make with any request', async () => {
    const fields = {
      Connection: 'Upgrade, HTTP2-Settings',
      Upgrade: 'h2c',
      'HTTP2-Settings': 'AAEAAEAAAAIAAAABAAMAAABk',
    };
    const get = message('GET /api/cdp/schema HTTP/1.1', { ...authorized(), ...fields });
    expect((await rawResponse(service.url, get)).status).toBe(200);
    const post = message(
      'POST /api/cdp/sql HTTP/1.1',
      { ...json(), ...fields, 'Content-Length': 18 },
      '{"sql":"SELECT 1"}',
    );
    expect((await rawResponse(service.url, post)).body).toMatchObject({ success: true });
  });

  it('ignores an Upgrade header that Connection does not name', async () => {
    const fields = { ...authorized(), Upgrade: 'websocket' };
    expect((await rawResponse(service.url, message('GET /api/cdp/schema HTTP/1.1', fields))).status).toBe(200);
  });
});

describe('a crowd', () => {
  it('of bodies that decompress to gigabytes is refused, and memory does not grow with them', async () => {
    // To unpack them takes a busy machine longer than the others here have for arriving.
    const patient = await startTestService();
    const of = await patient.project();
    await of.table('kept', { a: 'TEXT' });
    // Each level of gzip packs runs of one byte about a thousand to one.
    const bomb = gzipSync(Buffer.alloc(256 * 1024 * 1024));
    const memory = process.memoryUsage().rss;
    const call = { body: new Uint8Array(bomb), headers: { 'content-encoding': 'gzip' } };
    const responses = await Promise.all(Array.from({ length: 16 }, () => of.call('POST', '/api/cdp/data/kept', call)));
    for (const response of responses) expectFailure(response, 413, 'payload_too_large');
    expect(process.memoryUsage().rss - memory).toBeLessThan(1024 * 1024 * 1024);
    expect(await of.rows('SELECT count(*) AS n FROM kept')).toEqual([{ n: 0 }]);
    await patient.close();
  });

  it('of 200 broken requests leaves nothing behind', async () => {
    const bytes = ['nonsense\r\n\r\n', message('POST /api/cdp/sql HTTP/1.1', { ...json(), 'Content-Length': 3 }, '{"')];
    const texts = await Promise.all(
      Array.from({ length: 200 }, (_, i) => exchange(service.url, bytes[i % 2] ?? '', PATIENCE_MS)),
    );
    const statuses = texts.map((text) => responsesIn(text)[0]?.status);
    expect(new Set(statuses)).toEqual(new Set([400, 408]));
  });
});
