/** The files of the web console: how they are served, and that nothing else is. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import type { FastifyInstance } from 'fastify';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { consolePage } from '../../../src/http/api/console-files.js';
import { createListener } from '../../../src/http/listener.js';
import { ErrorExit } from '../../../src/http/response/error-exit.js';
import { rawResponse } from '../../support/raw.js';
import { call, expectFailure, startTestService } from '../../support/service.js';

const SCRIPT = `console.log(${JSON.stringify('x'.repeat(5_000))})`;
const PAGE = '<!doctype html><title>Console</title>';

let folder: string;
let app: FastifyInstance;
let url: string;

/** A file of a build, in the codings that a build makes of it. */
async function write(name: string, text: string): Promise<void> {
  const path = join(folder, 'console', name);
  await writeFile(path, text);
  await writeFile(`${path}.br`, brotliCompressSync(text));
  await writeFile(`${path}.gz`, gzipSync(text));
}

async function serve(): Promise<void> {
  const settings = { requestTimeoutMs: 30_000, streamStallMs: 30_000, trustProxy: null };
  app = createListener(settings, new ErrorExit(pino({ level: 'silent' })));
  app.get('/console/*', consolePage('/console/', join(folder, 'console')));
  url = await app.listen({ port: 0, host: '127.0.0.1' });
}

const get = (path: string, headers: Record<string, string> = {}) => call(url, 'GET', path, { headers });

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdp-console-'));
  await mkdir(join(folder, 'console', 'assets'), { recursive: true });
  await write('index.html', PAGE);
  await write('assets/index-Bx3_a-9Q.js', SCRIPT);
  await writeFile(join(folder, 'console', 'assets', 'notes.txt'), 'of no type that is served');
  await writeFile(join(folder, 'secret.js'), 'outside');
  await serve();
});
afterAll(async () => {
  await app.close();
  await rm(folder, { recursive: true });
});

describe('works', () => {
  it('revalidates the page, and caches files with a hash in their name permanently', async () => {
    const page = await get('/console/');
    expect([page.status, page.text]).toEqual([200, PAGE]);
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page.headers.get('cache-control')).toBe('no-cache');
    expect((await get('/console/index.html?a=b')).text).toBe(PAGE);
    const script = await get('/console/assets/index-Bx3_a-9Q.js');
    expect([script.status, script.text]).toEqual([200, SCRIPT]);
    expect(script.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect(script.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
  });

  it.each([
    ['gzip, deflate, br, zstd', 'br', brotliCompressSync(SCRIPT).length],
    ['gzip', 'gzip', gzipSync(SCRIPT).length],
    ['gzip;q=0', null, SCRIPT.length],
    ['identity', null, SCRIPT.length],
    ['nonsense;;q=,', null, SCRIPT.length],
  ])('serves a browser that accepts %s with the encoding %s', async (accepted, coding, length) => {
    const { headers, text } = await get('/console/assets/index-Bx3_a-9Q.js', { 'accept-encoding': accepted });
    expect(headers.get('content-encoding')).toBe(coding);
    expect(Number(headers.get('content-length'))).toBe(length);
    expect(headers.get('vary')).toBe('accept-encoding');
    expect(text).toBe(SCRIPT);
  });

  it('answers 304 only to a client with the same content in the same encoding', async () => {
    const etag = (await get('/console/', { 'accept-encoding': 'br' })).headers.get('etag') ?? '';
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`]) {
      const response = await get('/console/', { 'accept-encoding': 'br', 'if-none-match': known });
      expect([response.status, response.text]).toEqual([304, '']);
      expect(response.headers.get('cache-control')).toBe('no-cache');
    }
    expect((await get('/console/', { 'accept-encoding': 'gzip', 'if-none-match': etag })).status).toBe(200);
    expect((await get('/console/', { 'accept-encoding': 'br', 'if-none-match': '"other"' })).status).toBe(200);
    // A later version of the same length and date, as two npm packages have them.
    await write('index.html', PAGE.replace('Console', 'console'));
    await app.close();
    await serve();
    expect((await get('/console/', { 'accept-encoding': 'br', 'if-none-match': etag })).status).toBe(200);
    await write('index.html', PAGE);
  });

  it('redirects a browser from the root to the console', async () => {
    const service = await startTestService();
    const headers = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
    for (const path of ['/', '/console']) {
      const response = await fetch(`${service.url}${path}`, { headers, redirect: 'manual' });
      expect([response.status, response.headers.get('location')]).toEqual([302, '/console/']);
    }
    expectFailure(await service.call('GET', '/'), 404, 'not_found');
    expectFailure(await service.call('POST', '/', { headers }), 404, 'not_found');
    await service.close();
  });

  it('answers HEAD with the headers alone', async () => {
    const response = await call(url, 'HEAD', '/console/', { headers: { 'accept-encoding': 'identity' } });
    expect([response.status, response.text, response.headers.get('content-length')]).toEqual([
      200,
      '',
      `${PAGE.length}`,
    ]);
  });
});

describe('refuses', () => {
  it.each([
    '/console/../secret.js',
    '/console/%2e%2e/secret.js',
    '/console/..%2fsecret.js',
    '/console/..%5csecret.js',
    '/console/assets/../../secret.js',
    '/console//etc/passwd',
    '/console/%2fetc%2fpasswd',
    '/console/assets',
    '/console/assets/',
    '/console/assets/notes.txt',
    '/console/assets/index-Bx3_a-9Q.js.br',
    '/console/assets/index-Bx3_a-9Q.js%00.html',
    '/console/assets/index-Bx3_a-9Q.js/',
    '/console/__proto__',
    '/console/constructor',
    '/console/./index.html',
    '/console/Index.html',
    `/console/${'a'.repeat(5_000)}`,
  ])('%s with 404', async (path) => {
    // As it is written: fetch would resolve it before it sends it.
    const response = await rawResponse(url, `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    expect(response.status).toBe(404);
    expect(response.text).not.toContain('outside');
  });

  it('everything if the console is not built', async () => {
    const other = createListener(
      { requestTimeoutMs: 30_000, streamStallMs: 30_000, trustProxy: null },
      new ErrorExit(pino({ level: 'silent' })),
    );
    other.get('/console/*', consolePage('/console/', join(folder, 'nowhere')));
    const address = await other.listen({ port: 0, host: '127.0.0.1' });
    expectFailure(await call(address, 'GET', '/console/'), 404, 'not_found');
    await other.close();
  });
});

describe('protects', () => {
  it('every file with a policy that runs only its own code', async () => {
    for (const path of ['/console/', '/console/assets/index-Bx3_a-9Q.js']) {
      const policy = (await get(path)).headers.get('content-security-policy')?.split('; ');
      expect(policy).toEqual([
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
      ]);
    }
  });

  it('installations without a console: it is off without the setting, and a browser is redirected to the API', async () => {
    const service = await startTestService({ console: 'false' });
    try {
      for (const path of ['/console', '/console/', '/console/index.html']) {
        expectFailure(await service.call('GET', path), 404, 'not_found');
      }
      const home = await fetch(service.url, { headers: { accept: 'text/html' }, redirect: 'manual' });
      expect([home.status, home.headers.get('location')]).toEqual([302, '/docs']);
    } finally {
      await service.close();
    }
  });
});
