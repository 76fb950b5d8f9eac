/** Node's messages with their short ways (http/connection/whole-request.ts, http/connection/whole-response.ts): nobody can tell them from the long ones. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SECURITY_HEADERS } from '../../src/http/connection/security-headers.js';
import { WholeRequest } from '../../src/http/connection/whole-request.js';
import { JSON_TYPE, KEPT_MS, WholeResponse } from '../../src/http/connection/whole-response.js';
import { connect, exchange } from '../support/raw.js';
import { until } from '../support/stream.js';

const BODY = '{"success":true}';

type Handler = (request: WholeRequest, response: WholeResponse<IncomingMessage>) => void;

/** By path; each test adds its own. */
const handlers = new Map<string, Handler>();
let server: Server<typeof WholeRequest, typeof WholeResponse>;
let url: string;
beforeAll(async () => {
  const options = { IncomingMessage: WholeRequest, ServerResponse: WholeResponse, keepAliveTimeout: KEPT_MS };
  server = createServer(options, (request, response) => handlers.get(request.url ?? '')?.(request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

/** Until the server closes the connection, as it does behind the last answer. */
const talk = (bytes: string) => exchange(url, bytes, 10_000);
const get = (path: string, head = '', method = 'GET', version = '1.1') =>
  `${method} ${path} HTTP/${version}\r\nHost: x\r\n${head}\r\n`;
const CLOSE = get('/short', 'Connection: close\r\n');

handlers.set('/short', (_request, response) => {
  if (!response.beginOrdinary(201, `x-mine: 1\r\ncontent-length: ${BODY.length}\r\n`)) {
    response.writeHead(200, { 'x-long': '1', 'content-length': BODY.length });
  }
  response.endText(BODY);
});
handlers.set('/long', (_request, response) => {
  const headers = { ...SECURITY_HEADERS, 'content-type': JSON_TYPE, 'x-mine': '1', 'content-length': BODY.length };
  response.writeHead(201, headers).end(BODY);
});

describe('an answer by the short way', () => {
  it('is what Node would have written', async () => {
    const text = await talk(get('/short') + get('/long') + CLOSE);
    const [short, long] = text.split(BODY).map((head) => {
      const [status, ...lines] = head.trim().split('\r\n');
      const withoutSeconds = lines.map((line) => line.replace(/^date: .*GMT$/i, 'date: now').replace(/^[^:]+/, lower));
      return [status, ...withoutSeconds.sort()];
    });
    expect(short).toEqual(long);
  });

  it('is not taken where the connection ends, or there is no body', async () => {
    for (const bytes of [CLOSE, get('/short', '', 'GET', '1.0'), get('/short', 'Connection: close\r\n', 'HEAD')]) {
      const text = await talk(bytes);
      expect(text).toContain('x-long: 1');
      expect(text.toLowerCase()).toContain('connection: close');
      expect(text.endsWith(bytes.startsWith('HEAD') ? '\r\n\r\n' : BODY)).toBe(true);
    }
  });

  it('waits for the answers to earlier requests of its connection', async () => {
    let goOn = (): void => {};
    handlers.set('/slow', (_request, response) => {
      goOn = () => response.writeHead(200, { 'content-length': 4 }).endText('slow');
    });
    handlers.set('/last', (request, response) => {
      handlers.get('/short')?.(request, response);
      goOn();
    });
    const text = await talk(get('/slow') + get('/last') + CLOSE);
    expect(text.indexOf('slow')).toBeGreaterThan(0);
    expect(text.indexOf('slow')).toBeLessThan(text.indexOf(BODY));
    expect(text.split(BODY)).toHaveLength(3);
  });
});

describe('a body by the short way', () => {
  /** What a sink was told, until its end. */
  function told(request: WholeRequest): { pieces: string[]; end: Promise<string> } {
    const pieces: string[] = [];
    const end = new Promise<string>((resolve) => {
      request.pour({
        piece: (bytes) => pieces.push(bytes.toString()),
        end: () => resolve('end'),
        fail: (error) => resolve((error as NodeJS.ErrnoException).code ?? ''),
      });
    });
    return { pieces, end };
  }
  const answer = (response: WholeResponse<IncomingMessage>, text: string) =>
    response.writeHead(200, { 'content-length': text.length }).endText(text);
  const post = (path: string, body: string) => get(path, `Content-Length: ${body.length}\r\n`, 'POST') + body;

  it('comes whole, in however many pieces it was sent', async () => {
    handlers.set('/echo', (request, response) => {
      const { pieces, end } = told(request);
      void end.then(() => answer(response, pieces.join('')));
    });
    const chunks = get('/echo', 'Transfer-Encoding: chunked\r\n', 'POST') + '3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n';
    const text = await talk(post('/echo', 'one') + post('/echo', '') + chunks + CLOSE);
    expect(answersOf(text)).toEqual(['one', '', 'abcde', BODY]);
  });

  it('comes whole where somebody asks for it late', async () => {
    handlers.set('/late', (request, response) => {
      void (async () => {
        await until(() => request.complete, 5_000);
        const { pieces, end } = told(request);
        answer(response, (await end) + pieces.join(''));
      })();
    });
    const large = 'x'.repeat(10_000);
    const text = await talk(post('/late', large) + post('/late', '') + CLOSE);
    expect(answersOf(text)).toEqual([`end${large}`, 'end', BODY]);
  });

  it('is known to have been read', async () => {
    const seen: WholeRequest[] = [];
    handlers.set('/read', (request, response) => {
      seen.push(request);
      void told(request).end.then(() => answer(response, 'read'));
    });
    await talk(post('/read', 'one') + CLOSE);
    expect(seen[0]?.readableEnded).toBe(true);
    expect(seen[0]?.destroyed).toBe(false);
    expect(seen[0]?.listenerCount('end')).toBe(0);
  });

  it('fails where the connection breaks', async () => {
    const ends: Promise<string>[] = [];
    handlers.set('/broken', (request) => {
      ends.push(told(request).end);
    });
    const socket = await connect(url);
    socket.write(get('/broken', 'Content-Length: 10\r\n', 'POST') + 'some');
    await until(() => ends.length > 0, 5_000);
    socket.destroy();
    expect(await ends[0]).toBe('ECONNRESET');
  });

  it('is thrown away from where its sink takes no more, and the connection goes on', async () => {
    handlers.set('/enough', (request, response) => {
      request.pour({
        piece: () => {
          request.stopPouring();
          answer(response, 'enough');
        },
        end: () => answer(response, 'too late'),
        fail: () => {},
      });
    });
    const text = await talk(post('/enough', 'x'.repeat(300_000)) + CLOSE);
    expect(answersOf(text)).toEqual(['enough', BODY]);
  });
});

const lower = (text: string) => text.toLowerCase();
const answersOf = (text: string) => text.split(/HTTP\/1\.1 [^]*?\r\n\r\n/).slice(1);
