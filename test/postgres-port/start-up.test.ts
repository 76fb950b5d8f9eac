/**
 * The startup packet: any bytes in any chunks yield a packet or an error, and no setting grants more than the token
 * does.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { SessionError } from '../../src/engine/sessions/session-error.js';
import { readStartUp, startUpSize } from '../../src/pg/protocol.js';
import { BufferedSocket, negotiate } from '../../src/postgres-port/client-login.js';
import { ProjectDatabaseSetup } from '../../src/tenancy/project-database-setup.js';
import { startUpSettings } from '../../src/postgres-port/start-up-settings.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { parameters } from '../properties/run.js';
import { errorOf, errorsIn, login, message, query, RawClient, startUp, untyped, withClient } from './connect.js';

/** Bytes that look like packets more often than random ones do. */
const packet = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc.uint8Array({ maxLength: 200 }).map((bytes) => untyped(3 << 16, Buffer.from(bytes))),
  fc
    .array(fc.string({ unit: 'binary', maxLength: 12 }), { maxLength: 12 })
    .map((words) => untyped(3 << 16, `${words.join('\0')}\0\0`)),
  fc
    .dictionary(
      fc.constantFrom('user', 'database', 'options', 'replication', '_pq_.x', 'role'),
      fc.string({ maxLength: 40 }),
    )
    .map((given) => startUp(given)),
  fc.string({ maxLength: 60 }).map((options) => startUp({ user: 'reader', options: options.replaceAll('\0', '') })),
);

it('random bytes are a packet or an error, and settings never change the role of the session', () => {
  fc.assert(
    fc.property(packet, (bytes) => {
      try {
        const size = startUpSize(bytes);
        if (size === null || size > bytes.length) return;
        const read = readStartUp(bytes.subarray(0, size));
        if (read.kind !== 'start-up') return;
        const { settings } = startUpSettings(read.parameters);
        for (const name of Object.keys(settings)) {
          expect(name).toMatch(/^[a-z_][a-z0-9_.]*$/);
          expect(['role', 'session_authorization', 'replication', 'user', 'database']).not.toContain(name);
        }
      } catch (error) {
        if (error instanceof SessionError) return;
        expect((error as Error).message).toMatch(/startup packet/);
      }
    }),
    parameters(5_000),
  );
});

/** Both ends of a connection. */
async function pair(): Promise<[client: Socket, server: Socket]> {
  const listener = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const client = connect((listener.address() as AddressInfo).port, '127.0.0.1');
  const [server] = (await once(listener, 'connection')) as [Socket];
  listener.close();
  for (const socket of [client, server]) socket.on('error', () => {});
  return [client, server];
}

it('a packet in random chunks is read like one in a single chunk, and the bytes after it are left', async () => {
  const given = { user: 'writer', database: 'p', options: '-c a.b=1', application_name: 'ü'.repeat(50) };
  const whole = Buffer.concat([startUp(given), Buffer.from('behind')]);
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.nat(whole.length), { maxLength: 8 }), async (cuts) => {
      const [client, server] = await pair();
      const buffered = new BufferedSocket(server);
      const read = buffered.take(startUpSize);
      const ends = [...cuts, whole.length].sort((a, b) => a - b);
      for (const [i, end] of ends.entries()) {
        client.write(whole.subarray(ends[i - 1] ?? 0, end));
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(readStartUp(await read)).toEqual({
        kind: 'start-up',
        minor: 0,
        parameters: new Map(Object.entries(given)),
      });
      client.destroy();
      server.destroy();
    }),
    parameters(50),
  );
});

describe('a client at another address', () => {
  const SECURE = { tls: null, requiresTls: true };
  it.each([
    ['192.0.2.1', 'tls_required'],
    ['::ffff:192.0.2.1', 'tls_required'],
    ['2001:db8::1', 'tls_required'],
    ['127.0.0.1', 'start-up'],
    ['127.8.8.8', 'start-up'],
    ['::1', 'start-up'],
  ])('with the address %s', async (address, outcome) => {
    const [client, server] = await pair();
    Object.defineProperty(server, 'remoteAddress', { value: address });
    client.write(startUp({ user: 'writer' }));
    const negotiated = await negotiate(new BufferedSocket(server), SECURE, () => {}).then(
      ({ kind }) => kind,
      (error: SessionError) => error.code,
    );
    expect(negotiated).toBe(outcome);
    client.destroy();
    server.destroy();
  });
});

describe('the port', () => {
  let service: TestService;
  let project: TestProject;

  beforeAll(async () => {
    service = await startTestService({ 'pg-port': '0' });
    project = await service.project();
  });

  afterAll(() => service?.close());

  const reader = (options: string) => ({ ...login(service, project, 'reader'), options });

  it('does not let the reader begin READ WRITE', async () => {
    for (const options of [
      '-c default_transaction_read_only=off',
      '-cdefault_transaction_read_only=off',
      '--default-transaction-read-only=off',
      '-c DEFAULT_TRANSACTION_READ_ONLY=off',
      '-c default_transaction_read_only=on -c default_transaction_read_only=off',
    ]) {
      const shown = await withClient(reader(options), async (client) => {
        const { rows } = await client.query('SHOW default_transaction_read_only');
        return (rows as { default_transaction_read_only: string }[])[0]?.default_transaction_read_only;
      }).catch((error: { code?: string }) => error.code);
      expect(shown, options).toMatch(/^(?:on|[0-9A-Z]{5})$/);
    }
  });

  it('refuses a login that would make a backend sleep, or load a library', async () => {
    for (const options of ['-c post_auth_delay=2000', '--Post-Auth-Delay=2000', '-c local_preload_libraries=x']) {
      const { code, message } = await errorOf(withClient(reader(options), () => Promise.resolve()));
      expect([code, message], options).toEqual(['0A000', expect.stringMatching(/^(?:post_auth|local_preload)/)]);
    }
  });

  it("reports an unsettable parameter in Postgres's words, and does not repair the project for it", async () => {
    const repair = vi.spyOn(ProjectDatabaseSetup.prototype, 'restoreRights');
    for (const [options, code] of [
      ['-c session_preload_libraries=x', '42501'],
      ['-c is_superuser=on', '55P02'],
      ['-c max_connections=1', '55P02'],
      ['-c search_path', '42601'],
      ['-c work_mem=x', '22023'],
      ['-c no_such=1', '42704'],
    ]) {
      expect((await errorOf(withClient(reader(options ?? ''), () => Promise.resolve()))).code, options).toBe(code);
    }
    const client = await RawClient.open(service.postgresPort ?? 0);
    client.send(startUp({ user: 'writer', database: project.name, client_encoding: 'MULE_INTERNAL' }));
    await client.until('R');
    client.send(message('p', `${project.token}\0`));
    expect(errorsIn(await client.until('none'))).toEqual(['0A000']);
    expect(repair).not.toHaveBeenCalled();
    repair.mockRestore();
  });

  it('refuses replication in every spelling', async () => {
    for (const options of ['-c replication=on', '-c REPLICATION=database', '--replication=1']) {
      expect((await errorOf(withClient(reader(options), () => Promise.resolve()))).code).toBe('0A000');
    }
    for (const name of ['replication', 'REPLICATION', 'Replication']) {
      const client = await RawClient.open(service.postgresPort ?? 0);
      client.send(startUp({ user: 'writer', database: project.name, [name]: 'true' }));
      expect(errorsIn(await client.until('none'))).toEqual(['0A000']);
    }
  });

  it('accepts a packet of 10,000 bytes full of options of an unknown protocol version', async () => {
    const client = await RawClient.open(service.postgresPort ?? 0);
    const given: Record<string, string> = { user: 'writer', database: project.name };
    const size = () => startUp(given).length;
    for (let i = 0; size() <= 9_960; i++) given[`_pq_.option${i}`] = '';
    given['_pq_.last'] = 'x'.repeat(10_000 - size() - '_pq_.last'.length - 2);
    expect(size()).toBe(10_000);
    client.send(startUp(given));
    const [negotiated] = await client.until('R');
    expect([negotiated?.type, negotiated?.body.includes('_pq_.last')]).toEqual(['v', true]);
    client.send(message('p', `${project.token}\0`));
    expect((await client.until('Z')).at(-1)?.type).toBe('Z');
    client.send(query('SELECT 1'));
    expect(errorsIn(await client.until('Z'))).toEqual([]);
    client.close();
  });

  it('refuses invalid UTF-8', async () => {
    const client = await RawClient.open(service.postgresPort ?? 0);
    client.send(untyped(3 << 16, Buffer.from('user\0wr\xffiter\0database\0\xfe\0\0', 'latin1')));
    await client.until('R');
    client.send(message('p', `${project.token}\0`));
    expect(errorsIn(await client.until('none'))).toEqual(['28000']);
  });
});
