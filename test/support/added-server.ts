/**
 * A second Postgres server, as an operator adds it to an installation: with a role that is not a superuser, and its own
 * database.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { chmod, chown, rm } from 'node:fs/promises';
import { createServer, connect, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from 'vitest';
import { accountFor } from '../../src/embedded/accounts.js';
import { PORT } from '../../src/embedded/postgres-config.js';
import { processes, readProc } from '../../src/embedded/proc.js';
import { hasCode } from '../../src/files.js';
import { makeFolder } from './folder.js';
import { eventually, freePort } from './program.js';
import { connected } from './postgres.js';
import type { TestService } from './service.js';
import { type Connection, debianMajors, PASSWORD, startThrowaway } from './throwaway-postgres.js';

export interface AddedServer {
  readonly major: number;
  /** Of the role `cdp`, which may create databases and roles. */
  readonly url: string;
  /** Its superuser. */
  readonly connection: Connection;
  /** The same server with what passes changed: each text on the way there, or back, into another of the same length. */
  disguised(changes: Disguise): Promise<{ readonly url: string; close(): void }>;
  /** SIGSTOP or SIGCONT to the postmaster, or to all of its processes. */
  signal(signal: 'SIGSTOP' | 'SIGCONT', to: 'postmaster' | 'everybody'): Promise<void>;
  /** kill -9 of all its processes. */
  kill(): Promise<void>;
  /** After {@link kill}. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export interface Disguise {
  readonly there?: readonly [string, string];
  readonly back?: readonly [string, string];
}

/**
 * @param major default: a Postgres 15 where there is one, else the embedded 18
 * @param settings `name=value`
 * @param overTls by TCP, and only with TLS: `url` has the file of its authority
 */
export async function startAddedServer(
  major = debianMajors()[0] ?? 18,
  settings: readonly string[] = [],
  overTls = false,
): Promise<AddedServer> {
  const folder = makeFolder('cdp-added-');
  await chmod(folder, 0o711);
  const options = {
    ...{ major, settings },
    ...(overTls ? await withTls(folder, settings) : {}),
  };
  const start = () => startThrowaway(join(folder, 'server'), options);
  let server = await start();
  const { connection } = server;
  await connected(connection, async (client) => {
    await client.query(`CREATE ROLE cdp LOGIN CREATEDB CREATEROLE PASSWORD '${PASSWORD}'`);
    await client.query('CREATE DATABASE cdp OWNER cdp');
  });
  const urlAt = (host: string, port: number, user = 'cdp') =>
    `postgres://${user}:${PASSWORD}@/cdp?host=${encodeURIComponent(host)}&port=${port}`;
  const disguised = async ({ there, back }: Disguise) => {
    const proxy = createServer((client) => {
      const behind = connect(`${connection.host}/.s.PGSQL.${connection.port}`);
      for (const [from, to, change] of [
        [client, behind, there],
        [behind, client, back],
      ] as const) {
        from.on('data', (bytes) => to.write(change === undefined ? bytes : replaced(bytes, change)));
        from.on('error', () => {}).on('close', () => to.destroy());
      }
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const url = urlAt('127.0.0.1', (proxy.address() as AddressInfo).port);
    return { url, close: () => void proxy.close() };
  };
  const signal = async (name: NodeJS.Signals, to: 'postmaster' | 'everybody') => {
    if (name !== 'SIGCONT') {
      // Else a child that it makes meanwhile would be left.
      process.kill(server.pid, 'SIGSTOP');
      const isStopped = async () => /^State:\s+T/m.test(await readProc(`${server.pid}/status`));
      await eventually('the postmaster stands still', isStopped);
    }
    const children = (await processes()).filter(({ parent }) => to === 'everybody' && parent === server.pid);
    for (const pid of [server.pid, ...children.map((child) => child.pid)]) {
      try {
        process.kill(pid, name);
      } catch (error) {
        // A child may have ended.
        if (!hasCode(error, 'ESRCH')) throw error;
      }
    }
  };
  return {
    major,
    signal,
    kill: () => signal('SIGKILL', 'everybody'),
    restart: () =>
      // A process that was killed holds the folder until the system has cleared it away.
      eventually('it starts again', async () => {
        const started = await start().catch(() => null);
        server = started ?? server;
        return started;
      }).then(() => {}),
    url: overTls
      ? `postgres://cdp:${PASSWORD}@127.0.0.1:${connection.port}/cdp?sslmode=verify-full&sslrootcert=${certificateIn(folder)}`
      : urlAt(connection.host, PORT),
    connection,
    disguised,
    close: async () => {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const certificateIn = (folder: string): string => join(folder, 'cert.pem');

/** A certificate that is its own authority, and settings with which nobody comes in over TCP without TLS. */
async function withTls(folder: string, settings: readonly string[]) {
  const [certificate, key] = [certificateIn(folder), join(folder, 'key.pem')];
  const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const names = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  execFileSync('openssl', [...made, ...names, '-keyout', key, '-out', certificate], { stdio: 'ignore' });
  const { uid, gid } = await accountFor(folder);
  await chown(key, uid, gid);
  return {
    port: await freePort(),
    hba: 'hostnossl all all all reject\n',
    settings: [...settings, 'ssl=on', `ssl_cert_file=${certificate}`, `ssl_key_file=${key}`],
  };
}

function replaced(bytes: Buffer, [text, other]: readonly [string, string]): Buffer {
  if (text.length !== other.length) throw new Error(`"${other}" is not as long as "${text}"`);
  return Buffer.from(bytes.toString('latin1').replaceAll(text, other), 'latin1');
}

/** A variable of this process, and so of the service in it, that is not used twice. */
export function variableWith(value: string): string {
  const name = `CDP_TEST_URL_${randomBytes(4).toString('hex').toUpperCase()}`;
  process.env[name] = value;
  return name;
}

/** A project on the added server `away`, whose URL this process does not have. @returns its id */
export async function projectOutOfReach({ engine: { control, servers } }: TestService, name: string): Promise<string> {
  const added = { urlReference: 'env:CDP_TEST_NOT_SET', addedAt: 0, engine: 'postgres', maxConnections: null } as const;
  const bounds = { tenancy: 'shared', labels: {}, weight: 1, maxProjects: null, maxBytes: null } as const;
  await control.servers.add({ name: 'away', ...added, ...bounds }, null);
  const placement = { ...(await servers.defaultTenancy.newPlacement()), server: 'away', added };
  const id = randomUUID();
  expect(await control.projects.insert({ id, name, status: 'active', placement, schemaVersion: 1 })).toBeNull();
  return id;
}
