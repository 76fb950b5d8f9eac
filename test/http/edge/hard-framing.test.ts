/**
 * Where one request ends and the next begins if a client lies about it: a response to each request that was read, in
 * order, a refusal for the rest, and nothing left over in the service (contract C1.14 to C1.18).
 */
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { OPERATIONS } from '../../../src/http/api/operations.js';
import { responsesIn, connect, exchange, type RawResponse, received } from '../../support/raw.js';
import { until } from '../../support/stream.js';
import { expectFailure, isIdle, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { pathOf } from '../../support/routes.js';

const CRLF = '\r\n';
const REQUEST_TIMEOUT_MS = 1_000;
const BATCH = '[{"a":"x"}]';

let service: TestService;
let project: TestProject;
let stored = 0;
beforeAll(async () => {
  service = await startTestService({ 'request-timeout-ms': String(REQUEST_TIMEOUT_MS) });
  project = await service.project();
  await project.table('kept', { a: 'TEXT' });
});
afterAll(() => service.close());

const count = async (): Promise<number> => Number((await project.rows('SELECT count(*) AS n FROM kept'))[0]?.n);
beforeEach(async () => {
  stored = await count();
});

/** Whatever was sent, the service goes on: no place is taken for good, and only what was answered 201 is stored. */
afterEach(async () => {
  await until(() => isIdle(service), 5_000);
  expect(await count()).toBe(stored);
});

const fields = () => `Host: x${CRLF}Authorization: Bearer ${project.token}${CRLF}Content-Type: application/json${CRLF}`;
/** The head of a batch insert with these further header lines. */
const insert = (...lines: string[]) =>
  [`POST /api/cdp/data/kept HTTP/1.1${CRLF}${fields()}${lines.join(CRLF)}`, '', ''].join(CRLF);
/** Behind everything: is it read as a request of its own? */
const LAST = `GET /healthz HTTP/1.1${CRLF}Host: x${CRLF}Connection: close${CRLF}${CRLF}`;
const whole = (body = BATCH) => `${insert(`Content-Length: ${body.length}`)}${body}`;
const chunked = (body = `b${CRLF}${BATCH}${CRLF}0${CRLF}${CRLF}`, ...lines: string[]) =>
  `${insert('Transfer-Encoding: chunked', ...lines)}${body}`;

async function responses(bytes: string | Uint8Array): Promise<RawResponse[]> {
  const given = responsesIn(
    await exchange(service.url, typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes, 4_000),
  );
  for (const response of given) {
    expect(response.status).not.toBe(500);
    if (response.status >= 400) expectFailure(response, response.status, String(response.body.error));
    if (response.status === 201) stored += Number(response.body.inserted_rows);
  }
  return given;
}
const statuses = async (bytes: string | Uint8Array) => (await responses(bytes)).map(({ status }) => status);

describe('refuses once, and reads nothing after it, for', () => {
  it.each<[string, () => string]>([
    ...['0xb', '11;', '', '1_1', '11, 11', '11,12', '+11', '-0', '1e1', '11.0', '18446744073709551627', '11\v'].map(
      (length): [string, () => string] => [
        `the length ${JSON.stringify(length)}`,
        () => insert(`Content-Length: ${length}`) + BATCH,
      ],
    ),
    ['the same length twice', () => insert('Content-Length: 11', 'Content-Length: 11') + BATCH],
    ...[
      'identity',
      'xchunked',
      'chunked, chunked',
      'gzip, chunked',
      'identity, chunked',
      ',chunked',
      'chunked,',
      'chunked;q=1',
      '"chunked"',
      'chunked\v',
      'chunked\t\v',
      `chunked${CRLF}Transfer-Encoding: identity`,
      `identity${CRLF}Transfer-Encoding: chunked`,
      `chunked${CRLF}Content-Length: 5`,
      `${CRLF} chunked`,
    ].map((coding): [string, () => string] => [
      `the coding ${JSON.stringify(coding)}`,
      () => `${insert(`Transfer-Encoding: ${coding}`)}b${CRLF}${BATCH}${CRLF}0${CRLF}${CRLF}`,
    ]),
    ['a coding in HTTP/1.0', () => chunked().replace('HTTP/1.1', 'HTTP/1.0')],
    ...[
      'Transfer-Encoding : chunked',
      'Transfer-Encoding\t: chunked',
      ' Transfer-Encoding: chunked',
      `X: y${CRLF}\tTransfer-Encoding: chunked`,
      'X: y\nTransfer-Encoding: chunked',
      'X: y\rTransfer-Encoding: chunked',
      'X: \0',
      'X\0: y',
      'X\xe9: y',
      ': y',
      'X',
      'X[]: y',
      'Host: y',
      'Authorization: Bearer x',
      'content-type: text/plain',
    ].map((line): [string, () => string] => [
      `the line ${JSON.stringify(line)}`,
      () => insert('Content-Length: 11', line) + BATCH,
    ]),
    ...Object.entries({
      'a size beyond 64 bits': `FFFFFFFFFFFFFFFFF${CRLF}${BATCH}`,
      'a negative size': `-b${CRLF}${BATCH}${CRLF}0${CRLF}${CRLF}`,
      'a size with 0x': `0xb${CRLF}${BATCH}${CRLF}0${CRLF}${CRLF}`,
      'a size after a space': ` b${CRLF}${BATCH}${CRLF}0${CRLF}${CRLF}`,
      'no size': `${CRLF}${BATCH}${CRLF}0${CRLF}${CRLF}`,
      'a size that is too small': `5${CRLF}${BATCH}${CRLF}0${CRLF}${CRLF}`,
      'line feeds alone': `b\n${BATCH}\n0\n\n`,
      'a line feed alone behind the data': `b${CRLF}${BATCH}\n0${CRLF}${CRLF}`,
      'an endless extension': `b;${'a'.repeat(100_000)}${CRLF}${BATCH}${CRLF}0${CRLF}${CRLF}`,
      'a length in the trailer': `b${CRLF}${BATCH}${CRLF}0${CRLF}Content-Length: 5${CRLF}${CRLF}`,
    }).map(([what, body]): [string, () => string] => [`a chunk with ${what}`, () => chunked(body)]),
  ])('%s', async (_what, bytes) => {
    expect(await statuses(bytes() + LAST)).toEqual([400]);
  });

  it('an endless trailer', async () => {
    const trailer = `b${CRLF}${BATCH}${CRLF}0${CRLF}X: ${'y'.repeat(100_000)}${CRLF}${CRLF}`;
    expect(await statuses(chunked(trailer) + LAST)).toEqual([413]);
  });
});

describe('answers each request and keeps the connection open for', () => {
  it.each<[string, () => string | Uint8Array, number[]]>([
    [
      'chunks with extensions and a trailer',
      () => chunked(`b;a=b${CRLF}${BATCH}${CRLF}0${CRLF}X: y${CRLF}${CRLF}`),
      [201],
    ],
    ['a coding in capitals', () => chunked().replace('chunked', 'CHUNKED'), [201]],
    ['header names of JavaScript', () => insert('Content-Length: 11', '__proto__: x', 'constructor: y') + BATCH, [201]],
    ['a header in Latin-1', () => insert('Content-Length: 11', 'X: \x80\xff') + BATCH, [201]],
    ['a key in Latin-1', () => insert('Content-Length: 11', 'Idempotency-Key: \xff') + BATCH, [400]],
    ['an expectation nobody knows', () => insert('Content-Length: 11', 'Expect: 200-ok') + BATCH, [201]],
    ['no length at all', () => insert(), [400]],
    ['empty lines in front', () => CRLF.repeat(3) + whole(), [201]],
    ['an error between two batches', () => whole() + whole('[{"b":"x"}]') + whole(), [201, 400, 201]],
    ['broken JSON between two batches', () => whole() + whole('[{"a":"x"}') + whole(), [201, 400, 201]],
    ['40 batches at once', () => whole().repeat(40), Array.from({ length: 40 }, () => 201)],
    [
      'gzip, whole and not',
      () => {
        const packed = gzipSync(BATCH);
        const parts = [
          packed,
          packed.subarray(0, -4),
          packed.subarray(0, 10),
          Buffer.concat([packed.subarray(0, -8), Buffer.alloc(8)]),
          Buffer.concat([packed, Buffer.from('garbage')]),
          Buffer.concat([packed, packed.subarray(0, 12)]),
          Buffer.concat([gzipSync('[{"a":'), gzipSync('"x"}]')]),
          gzipSync(packed),
          gzipSync(''),
          Buffer.alloc(0),
          Buffer.from(BATCH),
        ];
        return Buffer.concat(
          parts.flatMap((part) => [
            Buffer.from(insert('Content-Encoding: gzip', `Content-Length: ${part.length}`)),
            part,
          ]),
        );
      },
      [201, 400, 400, 400, 400, 400, 201, 400, 400, 400, 400],
    ],
  ])('%s', async (_what, bytes, expected) => {
    const sent = bytes();
    const all = Buffer.concat([typeof sent === 'string' ? Buffer.from(sent, 'latin1') : sent, Buffer.from(LAST)]);
    expect(await statuses(all)).toEqual([...expected, 200]);
  });

  it('4,000 headers without dropping one', async () => {
    const text = `GET /api/cdp/schema HTTP/1.1${CRLF}${`A:${CRLF}`.repeat(3_000)}${fields()}Connection: close${CRLF}${CRLF}`;
    expect(await statuses(text)).toEqual([200]);
  });
});

describe('what follows a request', () => {
  it.each<[string, string]>([
    ['garbage', `garbage${CRLF}${CRLF}`],
    ['a request without a host', `GET /healthz HTTP/1.1${CRLF}${CRLF}`],
    ['bytes beyond the length', `{"a":"y"}]${CRLF}${CRLF}`],
    ['a TLS greeting', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ])('never replaces its response: %s', async (_what, garbage) => {
    expect(await statuses(whole() + whole() + garbage)).toEqual([201, 201, 400]);
  });

  it('too slowly does not break into a response in progress', async () => {
    const slow = JSON.stringify({ sql: `SELECT pg_sleep(${(REQUEST_TIMEOUT_MS + 2_000) / 1_000})::text` });
    const head = `POST /api/cdp/sql HTTP/1.1${CRLF}${fields()}Content-Length: ${slow.length}${CRLF}${CRLF}`;
    expect(await statuses(`${head}${slow}GET /healthz HTT`)).toEqual([200, 408]);
  });

  it('is not read after a refusal without the body: there is one response', async () => {
    const head = `POST /api/cdp/data/kept HTTP/1.1${CRLF}Host: x${CRLF}Transfer-Encoding: chunked${CRLF}${CRLF}`;
    const socket = await connect(service.url);
    const text = received(socket, 3_000);
    socket.write(head);
    setTimeout(() => socket.write(`zz${CRLF}`), 200);
    expect(responsesIn(await text).map(({ status }) => status)).toEqual([401]);
  });
});

describe('a path', () => {
  it.each([
    '%2e%2e%2fschema',
    '..%2fschema',
    '%252e%252e%252f',
    '%00',
    'kept%00',
    'kept%2f',
    'kept%2fcolumn%2fa',
    'kept%20',
    '%6bept%0a',
    '%c0%ae%c0%ae',
    '%c0%af',
    '%e0%80%af',
    '%ed%a0%80',
    '%f4%90%80%80',
    '%ff%fe',
    '%u006b',
    'kept;a=b',
    '__proto__',
    'constructor',
    '%5f%5fproto%5f%5f',
    'KEPT',
    'k\xc3\xa9pt',
    '\xff',
  ])('that names nothing is clearly refused on every route: %s', async (name) => {
    for (const route of OPERATIONS.filter(({ url }) => url.includes(':table_name'))) {
      const path = pathOf(route).replace('customers', name);
      const body = route.body === undefined ? '' : JSON.stringify(route.example);
      const text = `${route.method} ${path} HTTP/1.1${CRLF}${fields()}Connection: close${CRLF}Content-Length: ${body.length}${CRLF}${CRLF}${body}`;
      const [status, ...more] = await statuses(text);
      expect([400, 404, 405]).toContain(status);
      expect(more).toEqual([]);
    }
  });

  it('in another spelling of the same name is the same table', async () => {
    const text = `GET /api/cdp/schema/table/%6b%65pt HTTP/1.1${CRLF}${fields()}Connection: close${CRLF}${CRLF}`;
    expect(await statuses(text)).toEqual([200]);
  });

  it('in another form is refused, or is the path within the URL', async () => {
    const ask = async (target: string, version = 'HTTP/1.1') =>
      statuses(`GET ${target} ${version}${CRLF}${fields()}Connection: close${CRLF}${CRLF}`);
    expect(await ask('ftp://x/api/cdp/schema')).toEqual([404]);
    expect(await ask('x:80')).toEqual([400]);
    expect(await ask('api/cdp/schema')).toEqual([400]);
    expect(await ask('//api/cdp/schema')).toEqual([404]);
    expect(await ask('/api/cdp/data/../schema')).toEqual([404]);
    expect(await ask('/api/cdp/\tschema')).toEqual([400]);
    expect(await ask('/api/cdp/schema', 'http/1.1')).toEqual([400]);
    expect(await ask('/api/cdp/schema', 'HTTP/1.2')).toEqual([400]);
  });
});

describe('a method', () => {
  it('that a route does not have gets 405 with Allow, on every route', async () => {
    for (const url of new Set(OPERATIONS.map((route) => pathOf(route)))) {
      for (const method of ['OPTIONS', 'TRACE', 'PROPFIND', 'LOCK', 'QUERY']) {
        const [response] = await responses(
          `${method} ${url} HTTP/1.1${CRLF}${fields()}Connection: close${CRLF}${CRLF}`,
        );
        // QUERY is new: a Node that does not know it refuses the request line.
        if (method === 'QUERY' && response?.status === 400) continue;
        expect([method, url, response?.status]).toEqual([method, url, 405]);
        expect(response?.headers.get('allow')).toBeTruthy();
      }
    }
  });

  it.each(['get', 'GETT', 'G\0T', ''])('that is not valid gets 400: %j', async (method) => {
    expect(await statuses(`${method} /healthz HTTP/1.1${CRLF}Host: x${CRLF}${CRLF}`)).toEqual([400]);
  });
});

describe('a client that never closes its side of the connection', () => {
  it.each([
    ['CONNECT', `CONNECT example.com:443 HTTP/1.1${CRLF}Host: x${CRLF}${CRLF}`],
    ['bytes that are no HTTP', `\u0016\u0003\u0001 no HTTP${CRLF}${CRLF}`],
  ])('loses its connection after the refusal of %s', async (_what, bytes) => {
    const { hostname, port } = new URL(service.url);
    const socket = createConnection({ host: hostname, port: Number(port), allowHalfOpen: true });
    let text = '';
    let isClosed = false;
    socket.on('data', (chunk: Buffer) => void (text += chunk.toString('latin1')));
    // The service has closed, and what still comes is answered with a reset.
    socket.on('error', () => (isClosed = true));
    socket.write(bytes);
    const pushing = setInterval(() => socket.write('x'), 100);
    await until(() => isClosed, 8_000);
    clearInterval(pushing);
    socket.destroy();
    expect(text).toMatch(/^HTTP\/1\.1 40[05] /);
  });
});

describe('a client that still sends the body of a refused request', () => {
  const SIZE = 16 * 1024 * 1024;
  const head = (...lines: string[]) =>
    [
      `POST /api/cdp/data/kept HTTP/1.1${CRLF}Host: x`,
      `Content-Length: ${SIZE}`,
      'Connection: close',
      ...lines,
      '',
      '',
    ].join(CRLF);

  it.each([
    [401, []],
    [413, [() => `Authorization: Bearer ${project.token}`, () => 'Content-Type: application/json']],
  ])('gets its %i, and its connection is not reset before everything is sent', async (status, lines) => {
    const { hostname, port } = new URL(service.url);
    const socket = createConnection({ host: hostname, port: Number(port), allowHalfOpen: true });
    const [response, failed] = [once(socket, 'data'), vi.fn()];
    socket.on('error', failed);
    socket.write(head(...lines.map((line) => line())));
    expect(String((await response)[0])).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    // Read as a request it would be the next.
    const rest = Buffer.alloc(SIZE, insert('Content-Length: 2') + '{}');
    await new Promise((sent) => socket.write(rest, sent));
    socket.end();
    await once(socket, 'close');
    expect(failed).not.toHaveBeenCalled();
  });

  it('does not delay the end of the service', async () => {
    const other = await startTestService();
    const socket = await connect(other.url);
    const closed = once(socket, 'close');
    socket.write(head());
    await once(socket, 'data');
    await other.close();
    await closed;
  });
});
