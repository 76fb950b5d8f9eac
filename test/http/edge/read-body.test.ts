/** A body reserves the memory that it announces, and takes that of its bytes, in however many chunks it arrives. */
import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { FastifyRequest } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LIMITS } from '../../../src/contract/limits.js';
import { announcedBytes, readBody } from '../../../src/http/body.js';
import { asEngineError } from '../../../src/http/response/error-exit.js';
import { responsesIn, connect, received } from '../../support/raw.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

const MIB = 1024 * 1024;

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('notes', { v: 'TEXT' });
});
afterAll(() => service.close());

describe('a connection that was reset', () => {
  const reset = () => Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });

  it("is the client's fault if it is the client's", async () => {
    const payload = Object.assign(new PassThrough(), { headers: {} });
    const error = await new Promise((resolve) => {
      readBody(
        { context: { route: null, askForBody: () => {} } } as FastifyRequest,
        payload as unknown as IncomingMessage,
        resolve,
      );
      payload.destroy(reset());
    });
    expect(error).toMatchObject({ code: 'invalid_request', message: 'The request was aborted by the client' });
  });

  it('is a bug if it is any other', () => {
    expect(asEngineError(reset()).code).toBe('internal');
  });
});

/** Bytes of living objects, and of memory outside the heap. */
function used(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

describe('reserves for a body', () => {
  const MAX_BYTES = LIMITS.bodyBytes;
  it.each<[string, Record<string, string>, number]>([
    ['what it says', { 'content-length': '1000' }, 1000],
    ['nothing where there is none', {}, 0],
    ['the longest there may be, where it says more', { 'content-length': String(2 * MAX_BYTES) }, MAX_BYTES],
    ['the longest where it comes in chunks', { 'transfer-encoding': 'chunked' }, MAX_BYTES],
    ['the longest where it is packed', { 'content-length': '1000', 'content-encoding': 'gzip' }, MAX_BYTES],
  ])('%s', (_, headers, bytes) => {
    expect(announcedBytes(headers)).toBe(bytes);
  });
});

it('uses no more memory than the bytes of a body that arrives one byte at a time', async () => {
  const socket = await connect(service.url);
  const write = (bytes: string) => new Promise((resolve) => socket.write(bytes, resolve));
  const before = used();
  await write(
    `POST /api/cdp/data/notes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${project.token}\r\n` +
      'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n',
  );
  for (let i = 0; i < 400; i++) await write('1\r\n \r\n'.repeat(1_000));
  // A turn of the event loop reads some of it, and each request takes one at least.
  for (let i = 0; i < 200; i++) expect((await service.call('GET', '/healthz')).status).toBe(200);
  expect(used() - before).toBeLessThan(30 * MIB);
  const text = received(socket, 10_000);
  await write([...'[{"v":"é"}]'].map((character) => chunk(character)).join('') + '0\r\n\r\n');
  expect(responsesIn(await text).map(({ status }) => status)).toEqual([201]);
  expect(await project.rows('SELECT v FROM notes')).toEqual([{ v: 'é' }]);
});

const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
