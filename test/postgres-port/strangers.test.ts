/** What unknown clients send to the Postgres port: invalid packets, TLS, floods. Other clients are served meanwhile. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { loadConfig } from '../../src/cli/load-config.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import {
  errorsIn,
  GSS_REQUEST,
  login,
  message,
  query,
  RawClient,
  refusedLogin,
  SSL_REQUEST,
  startUp,
  untyped,
  withClient,
} from './connect.js';

const int32 = (...values: number[]) =>
  Buffer.from(values.flatMap((n) => [n >>> 24, (n >> 16) & 255, (n >> 8) & 255, n & 255]));

let service: TestService;
let project: TestProject;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cdp-tls-'));
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
      ...['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-keyout', key, '-out', cert],
    ],
    { stdio: 'ignore' },
  );
  service = await startTestService({ 'pg-port': '0', 'tls-cert': cert, 'tls-key': key, 'wrong-tokens': '5' });
  project = await service.project();
});

afterAll(async () => {
  await service?.close();
  rmSync(folder, { recursive: true, force: true });
});

const open = () => RawClient.open(service.postgresPort ?? 0);
const refused = (reason: string) => service.engine.sessions?.refused.get(reason as 'malformed') ?? 0;
const works = () =>
  withClient(login(service, project), async (client) =>
    expect((await client.query('SELECT 1 AS n')).rows).toEqual([{ n: 1 }]),
  );

it('does not start with a key that does not match the certificate, and says so', async () => {
  const key = join(folder, 'other.pem');
  execFileSync('openssl', ['genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-out', key]);
  const settings = { 'pg-port': '0', 'tls-cert': join(folder, 'cert.pem'), 'tls-key': key };
  await expect(startTestService(settings)).rejects.toThrow(
    /^The tls-key .*other\.pem does not belong to the tls-cert .*cert\.pem$/,
  );
});

describe('refuses', () => {
  const good = () => startUp({ user: 'writer', database: project.name });
  const PACKETS: Record<string, () => Buffer> = {
    'a length of 0': () => int32(0, 196608),
    'a negative length': () => int32(-1, 196608),
    'a length above the maximum': () => int32(10_001, 196608),
    'a gigabyte announced': () => int32(1 << 30, 196608),
    'no terminator': () => untyped(3 << 16, 'user\0writer\0database'),
    'a name without a value': () => untyped(3 << 16, 'user\0writer\0database\0\0'),
    'a parameter that is given twice': () => untyped(3 << 16, 'user\0writer\0user\0reader\0\0'),
    'bytes behind the terminator': () => untyped(3 << 16, 'user\0writer\0\0x'),
    HTTP: () => Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'),
    zeros: () => Buffer.alloc(100),
    'SSLRequest with more in it': () => untyped(80877103, 'more'),
    'a short cancel request': () => untyped(80877102, 'key'),
    'two SSLRequests at once': () => Buffer.concat([SSL_REQUEST, SSL_REQUEST]),
    'a start-up packet before the response about TLS': () => Buffer.concat([SSL_REQUEST, good()]),
    'GSS twice': () => Buffer.concat([GSS_REQUEST, GSS_REQUEST]),
  };

  it.each(Object.keys(PACKETS))(
    '%s: the connection ends, without revealing anything about the service',
    async (name) => {
      const before = refused('malformed');
      const client = await open();
      client.send(PACKETS[name]?.() ?? Buffer.alloc(0));
      expect((await client.rest()).toString('latin1')).toMatch(/^[NS]?$/);
      // It was counted before, or counts now.
      await vi.waitFor(() => expect(refused('malformed')).toBeGreaterThan(before));
    },
  );

  it('another protocol, and a message in place of the password', async () => {
    const old = await open();
    old.send(startUp({ user: 'writer' }, 2 << 16));
    expect(errorsIn(await old.until('none'))).toEqual(['0A000']);
    for (const wrong of [
      query('SELECT 1'),
      message('p', 'no end'),
      message('p', 'x'.repeat(20_000)),
      message('p', 'a\0b\0'),
    ]) {
      const client = await open();
      client.send(startUp({ user: 'writer', database: project.name }));
      await client.until('R');
      client.send(wrong);
      expect(errorsIn(await client.until('none'))).toEqual(['08P01']);
    }
  });

  it('wrong tokens from one address beyond the limit of HTTP, but not valid ones', async () => {
    const wrong = { ...login(service, project), password: 'wrong' };
    const responses = [];
    for (let i = 0; i < 8; i++) responses.push(await refusedLogin(wrong));
    expect(responses).toContain('53400');
    await works();
  });

  it('to start without TLS on a host that other machines can reach', () => {
    expect(() => loadConfig({ 'pg-port': '0', host: '0.0.0.0' }, {}, null)).toThrow(/tls-cert/);
  });
});

describe('accepts', () => {
  it('TLS, requested or immediate, and plain connections on loopback', async () => {
    const ca = readFileSync(join(folder, 'cert.pem'));
    await withClient({ ...login(service, project), ssl: { ca, servername: 'localhost' } }, async (client) => {
      expect((await client.query("SELECT repeat('x', 300000) AS x")).rows).toEqual([{ x: 'x'.repeat(300_000) }]);
    });
    const direct = connectTls({
      port: service.postgresPort ?? 0,
      ca,
      servername: 'localhost',
      ALPNProtocols: ['postgresql'],
    });
    const answered = new Promise<Buffer>((resolve) => direct.once('data', resolve));
    direct.once('secureConnect', () => direct.write(startUp({ user: 'writer', database: project.name })));
    expect((await answered).toString('latin1', 0, 1)).toBe('R');
    expect(direct.alpnProtocol).toBe('postgresql');
    direct.destroy();
    await works();
  });

  it('nothing inside TLS that belongs before it, and no TLS that may be meant for another port', async () => {
    const ca = readFileSync(join(folder, 'cert.pem'));
    const options = { port: service.postgresPort ?? 0, ca, servername: 'localhost' };
    const ended = async (alpn: object, bytes?: Buffer): Promise<string> => {
      const before = refused('malformed');
      const socket = connectTls({ ...options, ...alpn });
      let received = '';
      socket.on('error', () => {}).on('data', (chunk: Buffer) => (received += chunk.toString('latin1')));
      if (bytes !== undefined) socket.once('secureConnect', () => socket.write(bytes));
      await new Promise((resolve) => socket.once('close', resolve));
      await vi.waitFor(() => expect(refused('malformed')).toBeGreaterThan(before));
      return received;
    };
    for (const request of [SSL_REQUEST, GSS_REQUEST]) {
      expect(await ended({ ALPNProtocols: ['postgresql'] }, request)).toBe('');
    }
    const good = startUp({ user: 'writer', database: project.name });
    expect(await ended({}, good)).toBe('');
    expect(await ended({ ALPNProtocols: ['h2', 'http/1.1'] }, good)).toBe('');
    for (const bytes of [Buffer.from([0x16]), Buffer.concat([Buffer.from([0x16]), Buffer.alloc(200, 7)])]) {
      const before = refused('malformed');
      const client = await open();
      client.send(bytes);
      client.socket.end();
      await client.rest();
      await vi.waitFor(() => expect(refused('malformed')).toBeGreaterThan(before));
    }
    await works();
  });

  it('a client that requests GSS, then TLS, or a later version of the protocol', async () => {
    const client = await open();
    client.send(GSS_REQUEST);
    expect(await client.byte()).toBe('N');
    client.send(startUp({ user: 'writer', database: project.name, '_pq_.new': '1' }, (3 << 16) + 2));
    const [negotiated, password] = await client.until('R');
    expect([negotiated?.type, negotiated?.body.includes('_pq_.new'), password?.type]).toEqual(['v', true, 'R']);
    client.close();
  });

  it('a packet that arrives byte by byte', async () => {
    const client = await open();
    for (const byte of startUp({ user: 'writer', database: project.name })) {
      client.send(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await client.until('R');
    client.send(message('p', `${project.token}\0`));
    expect((await client.until('Z')).at(-1)?.type).toBe('Z');
    client.close();
  });
});

it('a flood of half-open logins locks nobody out, and holds a bounded number of connections', async () => {
  const flood = await Promise.all(Array.from({ length: 400 }, () => open()));
  for (const client of flood.slice(0, 100)) client.send(int32(8));
  await works();
  await vi.waitFor(() => expect(flood.filter(({ isClosed }) => !isClosed).length).toBeLessThanOrEqual(200));
  for (const client of flood) client.close();
  expect(refused('login_timeout')).toBeGreaterThan(0);
});

it('an unfinished login is ended', async () => {
  const client = await open();
  client.send(startUp({ user: 'writer', database: project.name }));
  expect((await client.until('none')).map(({ type }) => type)).toEqual(['R']);
});
